"""ci/gitlab/case.sh and end.sh: a cancelled job leaves a part, and nothing that runs on."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from shell import program, run

#: Job 7 of pipeline 3 on the site `here`.
# `end.sh` looks at all processes of the machine, also at those of tests that run beside this one.
PROJECT = str(os.getpid())
JOB = {"SITE": "here", "CI_PROJECT_ID": PROJECT, "CI_PIPELINE_ID": "3", "CI_JOB_ID": "7"}
MARK = f"assay.{PROJECT}.here.3.7"

#: Jobs that Slurm lists, one file each, named by the number, with the name of the job.
SQUEUE = 'cd "$JOBS" && for f in *; do [ ! -e "$f" ] || echo "$f $(cat "$f")"; done'
SCANCEL = """\
echo "$*" >>"$JOBS.cancelled"
for f in "$JOBS"/*; do case "$*" in *--name="$(cat "$f")") rm "$f" ;; esac; done"""

#: A benchmark in a session of its own, as ReFrame starts it, and ReFrame waiting for it.
MEASURES = """\
mkdir -p "$ASSAY_RESULTS/reports"; touch "$ASSAY_RESULTS/reports/run-report-0.json"
echo "$*" >"$ASSAY_RESULTS/arguments"
setsid sleep 600 & echo $! >"$PIDS"
trap 'echo told >"$ASSAY_RESULTS/told"; exit 1' TERM
echo STARTED
wait"""


@pytest.fixture
def environment(checkout: Path) -> dict[str, str]:
    programs = checkout.parent / "programs"
    program(programs, "make")
    program(programs, "squeue", SQUEUE)
    program(programs, "scancel", SCANCEL)
    program(checkout / ".venv/bin", "reframe", MEASURES)
    (checkout.parent / "jobs").mkdir()
    return {
        **JOB,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "JOBS": str(checkout.parent / "jobs"),
        "PIDS": str(checkout.parent / "pids"),
        "ASSAY_PATIENCE": "2",
    }


def kept(checkout: Path) -> Path:
    """The folder in which the job leaves its evidence."""
    return checkout.parent / "run/jobs/Hpl-1"


def job_of(checkout: Path) -> tuple[object, ...]:
    """The command line of the job."""
    run_folder = checkout.parent / "run"
    return checkout / "ci/gitlab/case.sh", run_folder, "Hpl-1", "3", "smoke", "here", "/1"


def running(pid: int) -> bool:
    """Whether a process is there and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def measuring(
    checkout: Path, environment: dict[str, str]
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts case.sh, and returns once its benchmark runs; `says` are the lines before that."""

    def start(*says: str) -> subprocess.Popen[str]:
        job = subprocess.Popen(
            ["bash", *map(str, job_of(checkout))], env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        started.append(job)
        assert job.stdout is not None
        for line in (*says, "STARTED\n"):
            assert job.stdout.readline() == line
        return job

    started: list[subprocess.Popen[str]] = []
    # With nohup or in a background job, the tests ignore signals. The child would inherit this.
    before = {n: signal.signal(n, signal.SIG_DFL) for n in (signal.SIGTERM, signal.SIGINT)}
    yield start
    for number, handler in before.items():
        signal.signal(number, handler)
    for job in started:
        job.kill()
    run("bash", checkout / "ci/gitlab/end.sh", **environment)  # their sessions are their own
    for job in started:
        job.wait(timeout=60)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_cancelled_job_leaves_a_part_and_no_process(
    measuring: Callable[..., subprocess.Popen[str]],
    environment: dict[str, str],
    checkout: Path,
    number: signal.Signals,
) -> None:
    job = measuring()
    os.killpg(job.pid, number)  # as the runner does
    said, _ = job.communicate(timeout=60)
    assert job.returncode != 0
    (part,) = kept(checkout).iterdir()
    assert part.name == "7.part"
    assert (part / "cancelled").read_text().startswith(f"{number.name} at ")
    # ReFrame was told once, and had the time to report.
    assert (part / "told").exists()
    assert (part / "reports/run-report-0.json").exists()
    assert not running(int(Path(environment["PIDS"]).read_text()))
    assert f"(sleep) is left of {MARK}" in said


def test_a_runner_that_is_gone_and_reads_nothing_leaves_no_process(
    measuring: Callable[..., subprocess.Popen[str]], environment: dict[str, str]
) -> None:
    """The first line about what was left ended end.sh by SIGPIPE, and a benchmark ran on."""
    job = measuring()
    assert job.stdout is not None
    job.stdout.close()
    os.killpg(job.pid, signal.SIGTERM)
    job.wait(timeout=60)
    assert not running(int(Path(environment["PIDS"]).read_text()))


def test_jobs_of_slurm_have_the_name_of_the_pipelines_job(
    measuring: Callable[..., subprocess.Popen[str]], environment: dict[str, str], checkout: Path
) -> None:
    job = measuring()
    jobs = Path(environment["JOBS"])
    (jobs / "100").write_text(MARK)
    (jobs / "101").write_text(f"assay.{PROJECT}.here.3.8")
    (jobs / "102").write_text("of somebody else")
    os.killpg(job.pid, signal.SIGTERM)
    said, _ = job.communicate(timeout=60)
    part = kept(checkout) / "7.part"
    assert f" -J job-name={MARK} " in (part / "arguments").read_text()
    assert sorted(path.name for path in jobs.iterdir()) == ["101", "102"]
    assert f"end: job 100 of Slurm is left of {MARK}" in said


def test_what_a_killed_job_left_is_ended_by_the_next_one(
    measuring: Callable[..., subprocess.Popen[str]], environment: dict[str, str], checkout: Path
) -> None:
    job = measuring()
    benchmark = int(Path(environment["PIDS"]).read_text())
    os.killpg(job.pid, signal.SIGKILL)
    job.wait()
    assert running(benchmark)
    (Path(environment["JOBS"]) / "100").write_text(MARK)
    (Path(environment["JOBS"]) / "101").write_text("assay.12.here.3.7")  # of another project
    next_one = {**environment, "CI_JOB_ID": "8"}
    end = checkout / "ci/gitlab/end.sh"
    # Without --others, only what job 8 itself left: nothing.
    done = run("bash", end, **next_one)
    assert (done.returncode, done.stdout) == (0, "")
    assert running(benchmark)
    done = run("bash", end, "--others", **next_one)
    assert done.returncode == 0, done.stdout
    assert not running(benchmark)
    assert [path.name for path in Path(environment["JOBS"]).iterdir()] == ["101"]


def test_what_does_not_end_is_named(environment: dict[str, str], checkout: Path) -> None:
    program(checkout.parent / "programs", "scancel")
    (Path(environment["JOBS"]) / "100").write_text(MARK)
    done = run("bash", checkout / "ci/gitlab/end.sh", **environment)
    assert done.returncode == 1
    assert f"end: still there after 2 s: 100 {MARK}" in done.stdout.splitlines()[-1]


def test_a_slurm_that_does_not_answer_is_named_once(
    environment: dict[str, str], checkout: Path
) -> None:
    said = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
    program(checkout.parent / "programs", "squeue", f"echo '{said}' >&2; exit 1")
    done = run("bash", checkout / "ci/gitlab/end.sh", **environment)
    assert done.returncode == 1, "nobody knows whether a job is left"
    assert done.stdout == f"end: squeue: {said}: jobs of Slurm are not looked for\n"


def test_a_job_on_gitlab_first_ends_what_others_left(
    measuring: Callable[..., subprocess.Popen[str]], environment: dict[str, str]
) -> None:
    (Path(environment["JOBS"]) / "100").write_text(f"assay.{PROJECT}.here.2.5")
    environment["GITLAB_CI"] = "true"
    measuring(f"end: job 100 of Slurm is left of assay.{PROJECT}.here.2.5\n")
    assert not list(Path(environment["JOBS"]).iterdir())
