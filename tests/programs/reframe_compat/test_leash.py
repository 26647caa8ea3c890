"""Nothing that a run started is there after the run, also if it was killed."""

import os
import select
import signal
import time

import pytest
from bench import REFRAME
from hanging import Hanging
from slurm_fake import FakeSlurm

pytestmark = pytest.mark.slow

#: What runs on for so long was not ended [s]: the leash gives 2 s.
MOST = 120


class Stubborn(Hanging):
    """Its program and another one, in a session of its own, ignore SIGTERM. A third one forgot."""

    hang = (
        "trap '' TERM; setsid sh -c 'echo $$ >away; exec sleep infinity' &"
        " env -u ASSAY_LEASH sh -c 'echo $$ >forgot; exec sleep infinity'"
    )

    def processes(self):
        """The other processes, as far as they have begun."""
        stage = self.bench.results / "stage"
        texts = [path.read_text() for n in ("away", "forgot") for path in stage.rglob(n)]
        return [int(text) for text in texts if text.endswith("\n")]

    def hangs(self):
        return super().hangs() and len(self.processes()) == 2


class Calibration(Stubborn):
    """The run of `assay calibrate`."""

    def words(self):
        folder = ("--site", "bench", "--folder", str(self.bench.site.parent))
        cases = ("-c", str(self.checks), "-n", self.name, "--exec-policy=serial")
        assay = str(REFRAME.with_name("assay"))
        return [assay, "calibrate", *folder, "--launches", "7", "--", *cases]


class Pending(Hanging):
    """Each of its jobs waits in the queue of Slurm for ever."""

    name = "StepPending"

    def hangs(self):
        return (self.bench.folder / "slurm" / "asked").exists()


def ended(process):
    """Waits until a process of others has ended."""
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        return
    gone = select.select([handle], [], [], MOST)[0]
    os.close(handle)
    assert gone, f"process {process} runs on"


def told(run):
    """What the leash of a run wrote, once it has."""
    (log,) = run.bench.results.glob("output/*/reframe.log")
    end = time.monotonic() + MOST
    while "leash: " not in (text := log.read_text()) and time.monotonic() < end:
        time.sleep(0.1)
    return text.partition("leash: ")[2]


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        (Stubborn, signal.SIGKILL),
        pytest.param(Stubborn, signal.SIGINT, marks=pytest.mark.long),
        (Calibration, signal.SIGKILL),
        pytest.param(Calibration, signal.SIGTERM, marks=pytest.mark.long),
    ],
)
def test_whatever_a_run_started_ends_with_it(bench, kind, number):
    with kind(bench) as run:
        started = [*run.processes(), int(run.pids.read_text())]
        run.end(number)
        for process in started:
            ended(process)
        assert told(run).startswith("the run was killed: ")


def test_a_killed_run_cancels_its_jobs_of_slurm(bench, monkeypatch):
    slurm = FakeSlurm(bench.folder / "slurm")
    monkeypatch.setenv("PATH", f"{slurm.path}:{os.environ['PATH']}")
    queue = {"scheduler": "squeue", "sched_options": {"slurm_job_cancel_reasons": []}}
    with Pending(bench, "--exec-policy=serial", **queue) as run:
        run.end(signal.SIGKILL)
        assert "cancelled the jobs 1" in told(run)
        assert slurm.cancelled == ["1"]
