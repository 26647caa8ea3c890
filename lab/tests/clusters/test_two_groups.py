"""The network of two groups of emulated nodes: one link that all traffic between them shares.

Only bounds that hold on any host: no bytes are faster than the link, no packet earlier than held.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import pytest
from shell import ROOT

SCRIPT = ROOT / "lab/tests/clusters/two_groups.py"

#: Namespaces of its own; what runs in them ends with the script.
APART = ("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")

#: Of the link between the groups [MB/s, us], and the delay of the link of each node [us].
RATE, DELAY, LINK_DELAY = 2.5, 3000, 100

#: What each pair sends [B].
SIZE = 3 << 19


@pytest.fixture(scope="module")
def found():
    """What was measured in namespaces of its own [MB/s, us]."""
    if os.geteuid() != 0:
        pytest.skip("needs root: it makes namespaces, mounts and control groups")
    for program in ("iptables-restore", "gcc"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}: ci/system-stack.sh, lab/vcluster/packages.sh")
    if subprocess.run([*APART, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs namespaces, which this machine refuses")
    with tempfile.TemporaryDirectory(prefix="two") as folder:
        done = subprocess.run(
            [*APART, sys.executable, "-B", SCRIPT, f"delay={DELAY}us,rate=20mbit", str(SIZE)],
            env={**os.environ, "ASSAY_VCLUSTER": f"{folder}/two"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_pairs_across_share_the_rate_of_the_link(found):
    assert re.search(r"tbf .* rate (\S+)", found["shaped"])[1] == "20Mbit"
    for pairs, name in enumerate(("one_across", "two_across"), 1):
        assert found["crossed"][name] >= pairs * SIZE
        # The bucket of the link lets a few bytes through at once.
        assert found[name] < 1.1 * RATE, found
    # All switches see who asks for an address. What a pair within a group sends, only its own sees.
    assert found["crossed"]["within"] < SIZE / 100


def test_packets_across_are_held_longer(found):
    assert found["held"] == [LINK_DELAY, LINK_DELAY + DELAY]
    assert found["latency_within"] >= LINK_DELAY, found
    assert found["latency_across"] >= LINK_DELAY + DELAY, found
