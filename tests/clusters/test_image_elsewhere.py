"""The image on another distribution: a bare Debian 13, on which only Apptainer is installed.

Needs root (to change the root directory), mmdebstrap, an archive of Debian, Apptainer and the
image. Skips without them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import images
import pytest
from images import ROOT, run

pytestmark = [pytest.mark.slow, pytest.mark.image]


@pytest.fixture(scope="module")
def elsewhere():
    """A directory that holds a Debian 13 with the image and Apptainer."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to make another root directory")
    if not shutil.which("mmdebstrap"):
        pytest.skip("needs mmdebstrap")
    image = images.image()
    program = run("ci/apptainer.sh", "--no-build")
    made = ROOT / ".cache/apptainer"
    if program.returncode or not Path(program.stdout.strip()).is_relative_to(made):
        pytest.skip("needs an Apptainer that can be moved: ci/apptainer.sh with none on PATH")
    work = Path(run("mktemp", "-d", "/var/tmp/assay-test.XXXXXX").stdout.strip())
    try:
        tar, root = work / "tar", work / "root"
        for words in (("make", "trixie", tar, "passwd"), ("unpack", tar, root)):
            done = run("ci/bare-root.sh", *words)
            if done.returncode:
                pytest.skip(f"no Debian 13 to be had: {done.stdout.strip().splitlines()[-1]}")
        shutil.copytree(Path(program.stdout.strip()).parents[1], root / "opt/apptainer")
        shutil.copy(image, root / "opt/assay.sif")
        yield root
    finally:
        shutil.rmtree(work)


def inside(root: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    settings = [f"{name}={value}" for name, value in variables.items()]
    return run("ci/bare-root.sh", "run", root, "env", *settings, *words)


def test_the_suite_runs_where_nothing_of_it_is_installed(elsewhere: Path) -> None:
    assert inside(elsewhere, "cat", "/etc/debian_version").stdout.startswith("13")
    none_of = "for p in mpirun python3 ucx_info; do ! command -v $p || exit 1; done; echo none"
    assert inside(elsewhere, "sh", "-c", none_of).stdout == "none\n"
    script = """
        bounding=$(sed -n 's/^CapBnd:[[:space:]]*//p' /proc/self/status)
        if [ $((0x$bounding >> 24 & 1)) = 0 ]; then
            export APPTAINER_DROP_CAPS=CAP_SYS_RESOURCE
        fi
        mkdir -p /root/visit && cd /root/visit
        exec /opt/apptainer/bin/apptainer run /opt/assay.sif acceptance \
            -n '^NodeHealth|^NetPipe.*=(posix|tcp)|^Hpcc$' -S purpose=calibration
    """
    done = inside(elsewhere, "sh", "-c", script, PROFILE="smoke")
    # All evidence is demanded. A rate of this machine is recorded and not judged, so nothing is
    # accepted.
    ended = re.findall(r"^(\w[A-Za-z ]+?) {2,}\w+ .*@\S+.* \[\d+/\d+.*\]$", done.stdout, re.M)
    assert {*ended} <= {"RECORDED", "not run"}, done.stdout
    assert "the run calibrates: it measures and judges nothing" in done.stdout
    assert "RECORDED" in ended
    results = elsewhere / "root/visit/results"
    assert (results / "report.html").stat().st_size > 0
    ran = {path.name.split("_")[0] for path in results.glob("output/*/*/*/*/*")}
    assert {"NodeHealth", "NetPipe", "Hpcc"} <= ran
