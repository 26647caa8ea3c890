"""A run ends whatever Slurm does. Each stuck job is bounded and named, and stops no other job."""

import os

import pytest
from bench import OWN
from slurm_fake import FakeSlurm

from assay.reframe_compat import schedulers
from assay.show import remedies, summary
from assay.store import session

pytestmark = pytest.mark.slow

#: How long Slurm may take, by the clock of :data:`CLOCK` [s].
PATIENCE = 3

#: A clock of the schedulers that does not depend on the load of the machine, and their commands,
#: which may take as long as they need. What never ends is ended by the real limit. A job that hangs
#: takes 1000 s, and a command that hangs 1000 s each time, so a run that ended did not wait for it.
CLOCK = """\
import os
import time

from reframe.core.builtins import run_before
from reframe.utility import osext

from assay import deadline
from assay.reframe_compat import schedulers


class Clock:
    # Between two looks at it, one second passes.
    time, sleep = staticmethod(time.time), staticmethod(time.sleep)
    seconds = 0

    def monotonic(self):
        self.seconds += 1
        if self.seconds > 40:  # it waits for ever; no handler of ReFrame may wait on
            os._exit(1)
        return self.seconds


class Unhurried:
    def run_command_async(self, cmd, **more):
        process = osext.run_command_async(cmd, **more)
        if schedulers._program(cmd) not in {hangs}:
            to_its_end = process.communicate
            process.communicate = lambda timeout: to_its_end()
        return process

    def __getattr__(self, name):
        return getattr(osext, name)


schedulers.time, schedulers.osext = Clock(), Unhurried()


def reach_the_deadline():
    deadline.current.begin -= deadline.current.seconds


"""

TESTS = """\
class _Echo(Own):
    kind = "node"
    executable = "echo"
    executable_opts = ["done"]
    time_limit = "1d"

    def read(self):
        return Parsed("echo", "1", None, self.stdout_text() == "done\\n", (), {})

"""

#: The beginning of a test that would not end by itself. The time is over when its job is submitted.
SLEEP = """\
class APending(_Echo):
    prerun_cmds = ["sleep 1000"]

    @run_before("run")
    def no_time_is_left(self):
        submit = self.job.scheduler.submit

        def and_then(job):
            submit(job)
            reach_the_deadline()

        self.job.scheduler.submit = and_then

    executable = """

#: The beginning of a test after which the time is over. No job runs at that moment.
LAST = """\
class ASound(_Echo):
    def read(self):
        reach_the_deadline()
        return super().read()

    executable = """


def checks(*names, executable="echo"):
    bodies = (
        f'@rfm.simple_test\nclass {name}(_Echo):\n    executable = "{executable}"\n\n'
        for name in names
    )
    return TESTS + "\n".join(bodies)


@pytest.fixture
def slurm(tmp_path):
    return FakeSlurm(tmp_path / "slurm")


def run(bench, fake, source, *arguments, scheduler="squeue", extras=None, **variables):
    """Runs the tests. They have a clock of their own, and end although a job or a command hangs."""
    bench.partition(
        launcher="replay",
        scheduler=scheduler,
        sched_options={"slurm_job_cancel_reasons": []},
        extras={"memory_bytes": 2**33, **(extras or {})},
    )
    bench.stack("echo", ["mpi"])
    return bench.run(
        *arguments,
        path=bench.check("echo", OWN + CLOCK.format(hangs=fake.hangs) + source),
        PATH=f"{fake.path}:{os.environ['PATH']}",
        **{"ASSAY_PATIENCE": str(PATIENCE), **variables},
    )


@pytest.mark.parametrize("policy", ["serial", pytest.param("async", marks=pytest.mark.long)])
def test_a_job_that_completes_for_ever_is_given_up_and_named(bench, slurm, policy):
    source = checks("StuckCompleting", "Sound")
    done = run(bench, slurm, source, f"--exec-policy={policy}")
    stuck = done.case("StuckCompleting")
    assert (done.returncode, stuck.result) == (1, "fail")
    assert "[jobid=1] the job is COMPLETING on node07 for" in stuck.reason, stuck.reason
    assert "given up" in stuck.reason
    assert done.case("Sound").result == "pass", "other results are kept"


def test_a_job_that_pends_for_ever_is_cancelled_once(bench, slurm):
    source = checks("StuckPending", "Sound")
    done = run(bench, slurm, source, "--exec-policy=serial", extras={"max_pending": "2s"})
    assert done.case("StuckPending").reason.startswith("sanity error: its job never began")
    assert done.case("Sound").result == "pass"
    assert slurm.cancelled == ["1"]


def test_a_job_that_cannot_be_cancelled_is_given_up_and_named(bench, slurm):
    slurm.broken("scancel-fails")
    source = checks("StuckPending", "Sound")
    done = run(bench, slurm, source, "--exec-policy=serial", extras={"max_pending": "1s"})
    reason = done.case("StuckPending").reason
    assert "[jobid=1] the job is PENDING on node07 3 s after scancel" in reason, reason
    assert "Access/permission denied" in reason
    assert done.case("Sound").result == "pass"
    assert slurm.cancelled == ["1"], "and not with each poll"


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("squeue-fails", "squeue: slurm_load_jobs error: Unable to contact slurm controller"),
        ("squeue-hangs", "squeue did not end within 1 s"),
        ("sbatch-fails", "sbatch: error: Batch job submission failed: Unable to contact slurm"),
        ("sbatch-hangs", "sbatch did not end within 1 s"),
    ],
)
@pytest.mark.parametrize("policy", ["serial", "async"])
def test_a_silent_slurm_ends_the_run_once_and_is_named(bench, slurm, how, says, policy):
    slurm.broken(how)
    done = run(bench, slurm, checks("A", "B", "C"), f"--exec-policy={policy}")
    assert done.returncode == 1
    (line,) = [line for line in done.output.splitlines() if "run session stopped" in line]
    assert "Slurm did not answer for " in line and says in line, line
    if how.startswith("squeue"):
        assert "; when it does again: scancel 1" in line, "these jobs may still run"
    assert slurm.cancelled == [], "each would wait for the controller again"
    report = session.load_session(min((bench.results / "reports").glob("run-report-*.json")))
    assert {case.verdict for case in report.cases} == {None}, report.cases
    assert len(report.cases) == 3
    for case in report.cases:
        assert case.aborted and case.why.startswith("Slurm did not answer for "), case.why
    assert not any("FAIL" in line for line in done.output.splitlines() if line.startswith("["))


@pytest.mark.parametrize("how", ["squeue-fails-once", "sbatch-fails-once"])
def test_a_slurm_that_answers_again_in_time_changes_nothing(bench, slurm, how):
    slurm.broken(how)
    done = run(bench, slurm, checks("A"), "--exec-policy=serial", ASSAY_PATIENCE="30")
    assert done.case("A").result == "pass", done.output


def test_slurm_has_less_than_a_minute_to_answer(monkeypatch):
    """The run ends at the end of the command by which it has not answered for a third."""
    monkeypatch.delenv(schedulers.PATIENCE, raising=False)
    third, sixth = schedulers.patience() / 3, schedulers.patience() / 6
    assert third + sixth <= 60


@pytest.mark.parametrize("alone", [True, pytest.param(False, marks=pytest.mark.long)])
def test_one_case_at_a_time_is_measured_unless_the_site_says_otherwise(bench, slurm, alone):
    """Also without a mode, and over all partitions, which may have their nodes in common."""
    bench.partition("there", launcher="replay", scheduler="squeue")
    if not alone:
        bench.code = "from assay.reframe_compat import polling\npolling.one_at_a_time = False\n"
    done = run(bench, slurm, checks("Lingering"), ASSAY_PATIENCE="60")
    assert [case.result for case in done.cases.values()] == ["pass"] * 2, done.output
    assert (max(slurm.beside) == 0) is alone, slurm.beside


def test_a_refusal_of_sbatch_fails_its_case_only(bench, slurm):
    slurm.broken("sbatch-refuses")
    done = run(bench, slurm, checks("A", "B"), "--exec-policy=serial")
    assert {outcome.result for outcome in done.cases.values()} == {"fail"}
    assert "run session stopped" not in done.output


#: Name of a test, which says how Slurm ends its job; and what the message says of it.
ENDED = {
    "OutOfMemoryEarly": "did not reach its end: Slurm says OUT_OF_MEMORY with exit code 0:125 "
    "(OutOfMemory) on node07",
    "NodeFailEarly": "Slurm says NODE_FAIL with exit code 1:0 (NodeDown) on node07",
    "TimeoutEarly": "Slurm says TIMEOUT with exit code 0:15 (TimeLimit) on node07",
    "DeadlineEarly": "Slurm says DEADLINE",
    "PreemptedEarly": "Slurm says PREEMPTED",
    "CancelledEarly": "Slurm says CANCELLED",
    # Its own record says that all was well.
    "LateOutOfMemory": "the job script says exit code 0, Slurm says OUT_OF_MEMORY",
    "Failed": "the job script says exit code 0, Slurm says FAILED with exit code 1:0 "
    "(NonZeroExitCode)",
    "SqueueForgetsNodeFailEarly": "Slurm says NODE_FAIL with exit code 1:0 (NodeDown) on node07",
    "AllForgetEarly": "Slurm has forgotten it, and nobody knows how it ended",
}


@pytest.mark.parametrize("accounting", [False, pytest.param(True, marks=pytest.mark.long)])
def test_how_slurm_ended_a_job_is_compared_with_what_the_job_says(bench, slurm, accounting):
    names = [name for name in ENDED if not (accounting and "Forget" in name)]
    if accounting:
        slurm.broken("accounting")
    scheduler = "slurm" if accounting else "squeue"
    done = run(bench, slurm, checks(*names, "Sound"), scheduler=scheduler)
    assert done.case("Sound").result == "pass", done.output
    for name in names:
        case = done.case(name)
        assert (case.result, case.record["verdict"]) == ("fail", "FAIL"), name
        assert ENDED[name] in case.reason, case.reason
        assert remedies.remedy_for(case.reason), case.reason
    assert slurm.cancelled == []


def test_a_job_that_slurm_has_forgotten_is_judged_by_its_own_record(bench, slurm):
    done = run(bench, slurm, checks("AllForget", "SqueueForgets"))
    assert {name: done.case(name).result for name in ("AllForget", "SqueueForgets")} == {
        "AllForget": "pass", "SqueueForgets": "pass",
    }  # fmt: skip
    assert done.case("AllForget").record["jobs"] == [{"id": "1"}]


def test_accounting_knows_a_job_that_slurm_has_forgotten(bench, slurm):
    slurm.broken("accounting")
    done = run(bench, slurm, checks("AllForgetTimeoutEarly"))
    assert (
        "Slurm says TIMEOUT with exit code 0:15 on node07"
        in done.case("AllForgetTimeoutEarly").reason
    )


def test_the_job_and_the_nodes_of_each_launch_are_in_the_record(bench, slurm):
    source = checks("Unlucky") + (
        "    def missed(self):\n        return 'no luck' if self._attempts.launches == 1 else ''\n"
    )
    done = run(bench, slurm, source, "--max-retries=2")
    (case,) = done.cases.values()
    assert case.result == "pass", done.output
    said = {"state": "COMPLETED", "code": "0:0", "nodes": "node07"}
    assert case.record["jobs"] == [{"id": "1", **said}, {"id": "2", **said}]


def test_a_scontrol_that_hangs_keeps_no_result_back(bench, slurm):
    slurm.broken("scontrol-hangs")
    done = run(bench, slurm, checks("Sound", "Broken", executable="false"), "--exec-policy=serial")
    assert done.returncode == 1
    assert "scontrol did not end within 1 s" in done.case("Broken").reason
    assert "false ended with exit code 1" in done.case("Broken").reason


@pytest.mark.parametrize("policy", ["async", pytest.param("serial", marks=pytest.mark.long)])
@pytest.mark.parametrize("scheduler", ["local", "squeue"])
def test_a_deadline_ends_what_runs_and_names_what_was_not_begun(bench, slurm, scheduler, policy):
    # The first case stays in the queue, or asleep, for ever. None of the others is started.
    source = checks("APending", "BSound", "CSound")
    source = source.replace("class APending(_Echo):\n    executable = ", SLEEP)
    done = run(
        bench,
        slurm,
        source,
        f"--exec-policy={policy}",
        "--max-retries=2",
        scheduler=scheduler,
        ASSAY_DEADLINE="365d",
    )
    assert done.returncode == 1
    report = session.load_session(min((bench.results / "reports").glob("run-report-*.json")))
    by_name = {case.display_name: case for case in report.cases}
    assert "cancelled: deadline of the run (365d) was reached" in by_name["APending"].why
    late = {by_name[name].why for name in ("BSound", "CSound")}
    assert late == {"deadline of the run (365d) was reached before it was begun"}
    assert any("2 cases not begun" in fault for fault in summary.outcome(report).faults)


def test_a_run_that_is_only_late_is_red(bench, slurm):
    """No job runs at the time of the deadline, so no job fails."""
    source = checks("ASound", "BSound")
    source = source.replace("class ASound(_Echo):\n    executable = ", LAST)
    done = run(bench, slurm, source, "--exec-policy=serial", ASSAY_DEADLINE="30d")
    assert done.case("ASound").result == "pass", done.output
    assert done.case("BSound").result == "skip"
    assert done.returncode == 1
    assert "deadline of the run (30d) was reached" in done.output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("2 hours", "'2 hours' is not a duration"),
        ("0s", "leaves no time"),
        ("-1h", "is not a duration"),
    ],
)
def test_a_deadline_that_is_no_time_is_refused(bench, slurm, words, says):
    done = run(bench, slurm, checks("Sound"), ASSAY_DEADLINE=words)
    assert done.returncode == 1 and not done.cases
    assert f"ASSAY_DEADLINE: {words!r}"[:10] in done.output and says in done.output


def test_the_name_that_a_pipeline_gives_to_its_jobs_is_the_last_in_the_script(bench, slurm):
    """ci/gitlab/case.sh cancels jobs by this name. ReFrame keeps SBATCH_JOB_NAME from sbatch."""
    run(bench, slurm, checks("A"), "-J", "job-name=assay.1.here.2.3")
    (script,) = bench.results.rglob("rfm_job.sh")
    names = [line for line in script.read_text().splitlines() if "--job-name" in line]
    assert names == ['#SBATCH --job-name="rfm_A"', "#SBATCH --job-name=assay.1.here.2.3"]
