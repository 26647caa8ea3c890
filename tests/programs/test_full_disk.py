"""Results on a disk that is too small: one reason, no trace, and nothing half-written."""

import json
import sys

import pytest
import shell
from bench import ROOT, mounted

from assay.store import running

pytestmark = pytest.mark.slow

#: Four cases. The stage of each takes 100 kB while it runs.
STEPS = """\
@rfm.simple_test
class Step(Own):
    number = parameter(range(4))
    executable = "head -c 100000 /dev/zero >left; true"
"""

#: What the run keeps free for its end [KiB].
KEPT = running.ROOM * 8 >> 10

#: Sizes of disks [KiB]: the run does not begin, ends early or goes as far as it gets, ends whole.
SIZES = (4, 16, 40, 120, KEPT - 4, KEPT + 60, KEPT + 120, KEPT + 180, KEPT + 260, 8192)


@pytest.mark.parametrize(
    "size", [s if s in (40, KEPT + 120) else pytest.param(s, marks=pytest.mark.long) for s in SIZES]
)
def test_a_full_disk_is_one_reason_and_leaves_no_torn_file(bench, tmp_path, size):
    bench.ready()
    with mounted("tmpfs", tmp_path / "small", "-o", f"size={size}k") as small:
        bench.results = small / "results"
        run = bench.own(STEPS)
        done = shell.run(
            *(sys.executable, "-m", "assay", "report"), cwd=ROOT, ASSAY_RESULTS=bench.results
        )
        for path in small.rglob("*.json"):
            json.loads(path.read_text())
    assert "Traceback" not in run.output + done.stdout
    assert (run.returncode != 0) == (size < 8192)
    reasons = [line for line in run.output.splitlines() if line.startswith("ERROR")]
    told = [line.split() for line in run.output.splitlines() if " @bench:" in line]
    # ReFrame may find that the outputs of a case that was sound do not fit any more.
    ended = {words[2]: words[0] for words in told}
    sound = [*ended.values()].count("RECORDED")
    if size < KEPT:
        (reason,) = reasons
        assert "no room for the results of 4 cases (No space left on device)" in reason
        assert (done.returncode, ended) == (2, {})
        assert "did not start" in done.stdout
    elif size < 8192:
        (reason,) = reasons
        assert "takes no more files (No space left on device): the run ends" in reason
        assert f" {sound} RECORDED (measured, not judged)" in done.stdout, run.output
    else:
        assert (reasons, sound) == ([], 4)
