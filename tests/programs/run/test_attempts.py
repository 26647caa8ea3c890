"""A verdict over several launches: the retries of ReFrame, judged together and within a budget."""

import json
import re
import shutil

import pytest
from bench import HPL, Recorded
from replays import HEALTHY, judged_hpl, scaled

from assay.show import summary
from assay.show.view import View
from assay.store import session

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("words", [("--mode", "smoke"), ("-S", "profile=smoke")])
def test_a_healthy_case_that_is_judged_is_launched_twice(bench, words):
    turns, run, case, report = judged_hpl(bench, [HPL], *words)
    assert (run.returncode, case.verdict.value, turns.started) == (0, "PASS", 2), run.output
    assert case.launches == 2
    first, second = report.attempts
    assert (first.verdict.value, second.verdict.value) == ("INCONCLUSIVE", "PASS")
    assert first.why == "INCONCLUSIVE: 1 of at least 2 launches"
    assert "FAIL" not in run.output
    (again,) = (line for line in run.output.splitlines() if line.startswith("launched again"))
    assert "1 of at least 2 launches" in again


def test_a_case_that_nobody_judges_is_launched_once(bench):
    bench.record_all()
    run = bench.replayed_hpl(HPL)
    assert run.says("Hpl").record["attempts"] == 1


def test_both_launches_of_one_case_are_apart_in_time(bench):
    """All cases are launched once before one is launched again, so a disturbance ends between."""
    bench.ready()
    bench.expect("*", RATE)
    run = bench.own(TWO.format(here=str(bench.folder)), "--mode", "full")
    assert run.returncode == 0, run.output
    order = (bench.folder / "order").read_text().split()
    assert sorted(order[:2]) == sorted(order[2:]) == ["One", "Other"]


@pytest.mark.parametrize("words", [("--mode", "smoke"), ("-S", "profile=smoke")])
@pytest.mark.parametrize("first", [0, 1])
def test_every_second_launch_at_half_speed_is_never_a_pass(bench, words, first):
    turns, run, case, _ = judged_hpl(
        bench, [HPL, scaled(0.5)][first:] + [HPL, scaled(0.5)] * 5, *words
    )
    assert run.returncode == 1
    assert case.verdict.value == ("FAIL" if first and words[0] == "-S" else "INCONCLUSIVE")
    assert turns.started == (9 if words[0] == "--mode" else 2 - first)


def test_fewer_launches_than_two_cannot_be_asked_for(bench):
    turns, _, case, _ = judged_hpl(bench, [HPL], "--mode", "smoke", "-S", "least_launches=1")
    assert (case.verdict.value, turns.started) == ("PASS", 2)


def test_a_failed_test_of_somebody_else_is_not_launched_again_for_ours(bench):
    """It might pass then, and ReFrame would end with 0. Ours stays undecided."""
    bench.ready()
    bench.expect("*", RATE)
    run = bench.own(FOREIGN, "-S", "profile=smoke")
    assert run.returncode == 1
    ended = [line.split() for line in run.output.splitlines() if " @bench:" in line]
    assert [words[1] for words in ended if words[0] == "FAIL"] == ["Theirs"], run.output
    assert run.case("Ours").record["verdict"] == "INCONCLUSIVE"


def test_a_case_that_fails_alone_is_not_launched_again_for_another_case(bench):
    bench.ready()
    bench.expect("*", RATE)
    run = bench.own(TWO.format(here=str(bench.folder)) + BAD)
    assert run.returncode == 1
    assert run.says("Bad", "settled in launch 1").record["attempts"] == 1
    assert run.case("One").record["verdict"] == "PASS"


def test_two_speeds_do_not_pass_with_one_good_launch(bench):
    least = ("--mode", "smoke", "-S", "least_launches=6")
    two_speeds = [HPL, scaled(0.8)] * 5
    turns, run, case, _ = judged_hpl(bench, two_speeds, *least)
    assert (run.returncode, case.verdict.value, turns.started) == (1, "INCONCLUSIVE", 9)
    assert "straddles" in case.why


def test_a_healthy_run_passes_after_the_launches_that_were_asked_for(bench):
    turns, run, case, _ = judged_hpl(bench, [HPL], "--mode", "smoke", "-S", "least_launches=6")
    assert (run.returncode, case.verdict.value, turns.started) == (0, "PASS", 6)


def test_without_retries_one_launch_decides(bench):
    """The judgement of ReFrame and ours agree, and the record has the bounds."""
    turns, run, case, _ = judged_hpl(bench, [scaled(0.9), HPL], "-S", "profile=smoke")
    assert (run.returncode, case.verdict.value, turns.started) == (1, "FAIL", 1)
    assert "below the lower bound" in case.why
    judged = run.says("Hpl", "performance").record["metrics"]["performance"]
    assert judged["verdict"] == "FAIL"
    bounds = (judged["lower"], judged["upper"])
    assert bounds == pytest.approx((0.95 * HEALTHY, 1.5 * HEALTHY))


@pytest.mark.parametrize(
    ("options", "result"), [([], "pass"), (["--max-retries=1"], "fail")], ids=["alone", "again"]
)
def test_without_retries_a_curve_that_is_bent_like_noise_passes(bench, options, result):
    """One launch decides nothing about a curve; with retries the case is launched again."""
    run = Recorded.load("osu-latency-posix")
    run = run.but(stdout=run.stdout.replace("16384                   0.65", "16384 3.25"))
    bench.partition(launcher="replay")
    extras = {"osu_version": "5.7", "ucx_version": "1.13.1"}
    bench.replays("osu_latency", ["osu"], {"bent": run}, **extras)
    words = ("-n", "Osu.*=posix.*=latency$", "-S", "profile=full", *options)
    outcome = bench.run(*words, path="reframe/network/osu.py").case("Osu")
    assert outcome.result == result, outcome.reason
    assert ("message of 16384 B" in outcome.reason) is (result == "fail")


def test_one_outlier_among_nine_launches_is_forgiven(bench):
    """With fewer than nine launches, one outlier can stretch the interval past the bound."""
    turns, run, case, report = judged_hpl(bench, [scaled(0.9), HPL], "--mode", "smoke")
    assert run.returncode == 0, run.output
    assert (case.verdict.value, turns.started, case.launches) == ("PASS", 9, 9)
    (metric,) = case.metrics
    assert len(metric.samples) == 9
    assert min(metric.samples) == pytest.approx(0.9 * HEALTHY, rel=1e-3)
    assert metric.value == pytest.approx(HEALTHY)
    assert "n=9" in metric.why
    assert any("PASS after 9 launches" in line for line in summary.closing_lines(View.of(report)))


def test_three_launches_outside_are_a_fail_and_nothing_is_launched_again(bench):
    runs = [scaled(0.9), scaled(0.92), scaled(0.91)]
    turns, run, case, _ = judged_hpl(bench, runs, "--mode", "smoke")
    assert (run.returncode, case.verdict.value, turns.started) == (1, "FAIL", 3)
    assert "below the lower bound" in case.why
    assert case.launches == 3
    assert case.outputs, "the report shows the output of the last launch"
    reason = run.case("Hpl").reason
    assert reason.startswith("performance error: performance: FAIL: ")
    assert reason.endswith("; settled in launch 3, not launched again")
    # The record of each attempt is kept.
    (report,) = bench.results.glob("reports/run-report-*.json")
    entries = [run["testcases"][0] for run in json.loads(report.read_text())["runs"]]
    assert [entry["fail_phase"] for entry in entries] == ["performance"] * 3 + ["setup"] * 6
    assert {entry["stagedir"] for entry in entries[2:]} == {entries[2]["stagedir"]}


@pytest.mark.parametrize("options", [(), ("-v",)], ids=["plain", "-v"])
def test_a_launch_that_is_followed_by_another_is_no_fail_on_the_terminal(bench, options):
    """One line tells how the case ended. The log has the nine failures of ReFrame whole."""
    runs = [scaled(0.9), scaled(0.92), scaled(0.91)]
    _, run, _, _ = judged_hpl(bench, runs, "--mode", "smoke", *options)
    ours = [line for line in run.output.splitlines() if re.search(r" \[\d+/\d+.*\]$", line)]
    assert [re.match(r"(?:launched )?\w+", line)[0] for line in ours] == [
        *["launched again"] * 2, "FAIL"
    ]  # fmt: skip
    assert "below the lower bound" in ours[-1]
    (log,) = bench.results.glob("output/*/reframe.log")
    of_reframe = ("[     FAIL ]", "P: performance", "FAILURE INFO", "[ReFrame Setup]")
    assert [word for word in of_reframe if word not in log.read_text()] == []
    assert log.read_text().count("[     FAIL ]") == 9
    shown = [word for word in of_reframe if word in run.output]
    assert shown == ([*of_reframe] if options else [])
    assert f"; ReFrame's own lines: {log}\n" in run.output


@pytest.mark.parametrize("failing", [HPL.but(rc=139), scaled(0.9)], ids=["crash", "slow"])
def test_the_outputs_of_a_case_that_failed_lie_beside_those_of_the_others(bench, failing):
    _, _, case, report = judged_hpl(bench, [failing], "--mode", "smoke")
    assert case.verdict.value == "FAIL"
    names = {path.name for path in case.outputs}
    assert names >= {"rfm_job.out", "rfm_job.err", "assay.json"}
    # The stage may be on a disk that is emptied, and a CI job keeps the outputs only.
    shutil.rmtree(bench.results / "stage")
    (without,) = session.load_session(report.file).cases
    scripts = {
        "witness.sh",
        "recorded.txt",
        "node-health.sh",
    }  # only the stage has what the job was given
    assert {path.name for path in without.outputs} == names - scripts
    assert (without.verdict, without.why) == (case.verdict, case.why)
    assert all((bench.results / "output") in path.parents for path in without.outputs)


def test_a_mixture_is_inconclusive_and_red(bench):
    runs = [scaled(0.9), HPL, scaled(0.9), HPL]
    turns, run, case, report = judged_hpl(bench, runs, "--mode", "smoke")
    assert (run.returncode, case.verdict.value, turns.started) == (1, "INCONCLUSIVE", 9)
    assert "straddles" in case.why
    assert summary.outcome(report).faults == ("1 case could not be decided",)
    assert "performance: INCONCLUSIVE" in run.case("Hpl").reason


@pytest.mark.parametrize("before", [[], [scaled(0.9)]], ids=["at first", "after one outside"])
def test_a_crash_is_not_retried_into_a_pass(bench, before):
    runs = [*before, HPL.but(rc=139), HPL]
    turns, run, case, _ = judged_hpl(bench, runs, "--mode", "smoke")
    launches = len(before) + 1
    assert (run.returncode, case.verdict.value, turns.started) == (1, "FAIL", launches)
    assert case.why.startswith("xhpl ended with exit code 139")
    assert f"settled in launch {launches}" in run.case("Hpl").reason


DEPENDENT = """\
HERE = Path({here!r})


class Counted(Own):
    declares = {{"rate": "MB/s"}}

    def turn(self):
        counter = HERE / type(self).__name__
        launch = len(counter.read_text()) if counter.exists() else 0
        counter.write_text("x" * (launch + 1))
        return launch


@rfm.simple_test
class Base(Counted):
    def measure(self, parsed):
        return {{"rate": 100.0}}


@rfm.simple_test
class Slow(Counted):
    measures_anew = {anew}

    @run_after("init")
    def after_base(self):
        self.depends_on("Base", udeps.by_case)

    def measure(self, parsed):
        self.turn()
        return {{"rate": self.getdep("Base").value("rate") / 2}}


@rfm.simple_test
class Unsteady(Counted):
    def measure(self, parsed):
        return {{"rate": 50.0 if self.turn() == 0 else 100.0}}
"""


RATE = {"rate": {"value": 100, "unit": "MB/s", "lower": -0.1, "upper": 0.1}}

TWO = """\
@rfm.simple_test
class One(Own):
    declares = {{"rate": "MB/s"}}

    def measure(self, parsed):
        with Path({here!r}, "order").open("a") as order:
            print(type(self).__name__, file=order)
        return {{"rate": 100.0}}


@rfm.simple_test
class Other(One):
    pass
"""

BAD = """

@rfm.simple_test
class Bad(Own):
    declares = {"rate": "MB/s"}

    def measure(self, parsed):
        return {"rate": 1.0}
"""

FOREIGN = """\
@rfm.simple_test
class Theirs(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "false"

    @run_after("run")
    def no(self):
        raise ValueError("no")


@rfm.simple_test
class Ours(Own):
    declares = {"rate": "MB/s"}

    def measure(self, parsed):
        return {"rate": 100.0}
"""


@pytest.mark.parametrize(("anew", "launches"), [(True, (3, 3)), (False, (2, 1))])
def test_a_test_that_depends_on_another_is_not_lost_over_the_retries(bench, anew, launches):
    """ReFrame alone leaves the test out of the second retry. Its last run then shows no failure.

    Each retry also launches the case again that the test compares.
    """
    bench.ready()
    bench.expect("*", RATE)
    run = bench.own(DEPENDENT.format(here=str(bench.folder), anew=anew), "--mode", "full")
    report = session.load_session(session.newest(bench.results))
    said = {case.test: (case.verdict.value, case.launches) for case in report.cases}
    assert said == {
        "Base": ("PASS", launches[0]), "Slow": ("FAIL", launches[1]), "Unsteady": ("PASS", 9)
    }  # fmt: skip
    assert run.returncode == 1
    assert len((bench.folder / "Slow").read_text()) == launches[1]
    assert "could not resolve dependency" not in run.output


COMPARED = DEPENDENT.replace(
    'return {{"rate": 100.0}}', 'return {{"rate": 100.0 if self.turn() else 30.0}}'
).replace('.value("rate") / 2', '.value("rate")')


@pytest.mark.parametrize(("anew", "said"), [(True, ("PASS", 9)), (False, ("FAIL", 1))])
def test_a_disturbed_launch_of_what_a_test_compares_does_not_decide(bench, anew, said):
    """The first launch of the compared case is slow. All other launches are normal."""
    bench.ready()
    bench.expect("Slow", RATE)
    source = COMPARED.format(here=str(bench.folder), anew=anew)
    run = bench.own(source, "--mode", "full", "-n", "Base|Slow")
    cases = {case.test: case for case in session.load_session(session.newest(bench.results)).cases}
    assert (cases["Slow"].verdict.value, cases["Slow"].launches) == said, run.output[-2000:]
    assert cases["Base"].launches == said[1]
    (metric,) = cases["Slow"].metrics
    assert metric.samples == (30.0, *[100.0] * (said[1] - 1))


def test_every_rerun_of_a_session_is_judged_by_itself(bench):
    """A rerun is apart in time from the launches on which the case passed before."""
    turns, run, case, report = judged_hpl(bench, [HPL], "--mode", "smoke", "--reruns=2")
    assert (run.returncode, turns.started, case.launches) == (0, 4, 1)
    assert [one.verdict.value for one in report.attempts] == ["INCONCLUSIVE", *["PASS"] * 3]
    assert case.verdict.value == "PASS"


SETTLED = """\
@rfm.simple_test
class Settled(Own):
    measures_anew = False
    declares = {"ratio": "1"}

    def measure(self, parsed):
        return {"ratio": 1.5}

    @run_after("performance")
    def a_verdict_of_its_own(self):
        failure = PerformanceError("DIFFERENT")
        self._attempts.failure = failure
        raise failure
"""


def test_what_a_test_says_against_itself_is_not_asked_again(bench):
    """Its metric is recorded and passes. Launching until its own verdict passes proves little."""
    bench.ready()
    run = bench.own(SETTLED, "--max-retries=2")
    outcome = run.says("Settled", "DIFFERENT; settled in launch 1, not launched again")
    assert outcome.record["attempts"] == 1
