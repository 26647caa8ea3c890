"""A run that is ended at any moment keeps what was finished, and leaves nothing that runs on."""

import json
import re
import signal
import sys
import time
from pathlib import Path

import pytest
import shell
from bench import ROOT
from hanging import Hanging

pytestmark = pytest.mark.slow

#: Lines that the run has printed when it is ended; the last ones it does not reach.
MOMENTS = (1, 10, 16, 20, 24, 28, 32, 36, 44, 60)

#: What runs on for so long was not ended [s].
MOST = 120


class Ended(Hanging):
    """Nothing hangs: the moment is a number of printed lines, or the end of the run."""

    hang = "exit 0"
    moment = 0

    def hangs(self):
        return self.said().count("\n") >= self.moment or self.process.poll() is not None


def left(results):
    """The processes that belong to a run: they inherited where its results are."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            state = (process / "stat").read_text().rpartition(")")[2].split()[0]
            words = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"ASSAY_RESULTS={results}".encode() in words and state != "Z":
            found.append(int(process.name))
    return found


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.long)]
)
@pytest.mark.parametrize(
    "moment", [m if m == 24 else pytest.param(m, marks=pytest.mark.long) for m in MOMENTS]
)
def test_what_was_finished_is_kept_and_nothing_runs_on(bench, number, moment):
    run = Ended(bench)
    run.moment = moment
    with run:
        whole = run.process.poll() is not None
        run.end(number)
        said = run.said()
    end = time.monotonic() + MOST
    while running := left(bench.results):
        assert time.monotonic() < end, [Path(f"/proc/{p}/cmdline").read_bytes() for p in running]
        time.sleep(0.05)
    assert "Traceback" not in said
    for path in bench.results.rglob("*.json"):
        if path.parent.name != "reports":  # ReFrame writes its report in place
            json.loads(path.read_text())
    done = shell.run(
        *(sys.executable, "-m", "assay", "report"), cwd=ROOT, ASSAY_RESULTS=bench.results
    )
    assert "Traceback" not in done.stdout
    kept = len({path.parent.name for path in bench.results.glob("output/*/bench/*/*/*/assay.json")})
    if ran := re.search(r"(\d+) of \d+ cases ran", done.stdout):
        assert int(ran[1]) >= kept
        assert done.returncode in ((1,) if whole else (1, 3)), done.stdout
    else:
        assert (done.returncode, kept) == (2, 0), done.stdout
    added = shell.run(
        *(sys.executable, "-m", "assay", "history", "add", bench.folder / "history"),
        bench.results, cwd=ROOT,
    )  # fmt: skip
    assert "Traceback" not in added.stdout
    if kept:
        assert "1 new session" in added.stdout, added.stdout
