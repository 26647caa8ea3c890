"""The network of two groups of emulated nodes: one link that all traffic between them shares."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

import pytest
from shell import ROOT

SCRIPT = ROOT / "tests/clusters/two_groups.py"

#: Namespaces of its own; what runs in them ends with the script.
APART = ("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")

RATE, DELAY = 2.5, 3000


@pytest.fixture(scope="module")
def found():
    """What was measured in namespaces of its own [MB/s, us]."""
    if os.geteuid() != 0:
        pytest.skip("needs root: it makes namespaces, mounts and control groups")
    for program in ("iptables-restore", "gcc"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}: ci/system-stack.sh, vcluster/packages.sh")
    if subprocess.run([*APART, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs namespaces, which this machine refuses")
    with tempfile.TemporaryDirectory(prefix="two") as folder:
        done = subprocess.run(
            [*APART, sys.executable, "-B", SCRIPT, f"delay={DELAY}us,rate=20mbit"],
            env={**os.environ, "ASSAY_VCLUSTER": f"{folder}/two"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.alone
def test_pairs_across_share_the_rate_of_the_link(found):
    for one in ("one_across", "two_across"):
        assert 0.75 * RATE < found[one] < 1.1 * RATE, found
    assert found["within"] > 2 * RATE


@pytest.mark.alone
def test_packets_across_are_held_longer(found):
    more = found["latency_across"] - found["latency_within"]
    # The latency within a group has noise, too.
    assert 0.95 * DELAY <= more < 1.5 * DELAY, found
