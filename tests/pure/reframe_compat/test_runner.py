"""What a run says while it runs: a line for each case that has ended, and the time left."""

import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("reframe")

from msgspec.structs import replace
from reframe.core.exceptions import PerformanceError, SkipTestError

from assay.judge import Verdict
from assay.reframe_compat import runner
from assay.store import running
from assay.store.record import NONE, Metric
from assay.store.running import EVERY, Progress


def case(number, **more):
    return {
        "display_name": f"Test %n={number}",
        "hashcode": f"c{number}",
        "system": "here",
        "partition": "node",
        "environ": "system",
        "fixture": False,
        **more,
    }


ENDED = {"success": "pass", "failure": "fail", "skip": "skip", "xfailure": "xfail"}


def task(number, how="success", verdict="PASS", why=None, settled=True, **more):
    """How a case of Assay ended; without `settled`, a retry would launch it again."""
    part, stack = SimpleNamespace(fullname="here:node"), SimpleNamespace(name="system")
    metric = Metric("rate", 12345.678, "MB/s", Verdict(verdict), "too slow")
    problems = (why,) if why else ()
    check = SimpleNamespace(
        hashcode=f"c{number}",
        record=replace(NONE, verdict=Verdict(verdict), metrics=(metric,), problems=problems),
        _attempts=SimpleNamespace(relaunched=not settled),
    )
    error = SkipTestError(why) if how == "skip" else PerformanceError(why) if why else None
    return SimpleNamespace(
        testcase=(check, part, stack),
        check=check,
        result=ENDED.get(how, "startup"),
        failed_stage="performance" if how == "failure" else None,
        exc_info=(type(error), error, None) if error else (None, None, None),
        **more,
    )


class Watch:
    """A run with a clock that the test controls."""

    def __init__(self, numbers, *more, rounds=1):
        self.now = 0.0
        self.said = []
        planned = [*(case(number) for number in numbers), case("f", fixture=True), *more]
        self.progress = Progress(planned, "a.log", self.said.append, lambda: self.now, rounds)

    def after(self, seconds, number, how="success", **its):
        self.now += seconds
        ended = task(number, how, **its)
        if "foreign" in self.progress._planned[f"c{number}", "here:node+system"]:
            vars(ended.check).clear()
            ended.check.hashcode = f"c{number}"
        getattr(self.progress, f"on_task_{how}")(ended)

    @property
    def newest(self):
        return " ".join(self.said[-1].split())


@pytest.fixture
def retries(monkeypatch):
    """The run in progress may repeat failed cases once; `retries.current_run` counts."""
    now = SimpleNamespace(current_run=0)
    monkeypatch.setattr(runner, "_running", [1])
    monkeypatch.setattr(runner.runtime, "runtime", lambda: now)
    return now


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        ({}, "PASS Test %n=1 @here:node+system: rate 12350 MB/s"),
        ({"verdict": "RECORDED"}, "RECORDED Test %n=1 @here:node+system: rate 12350 MB/s"),
        (
            {"how": "failure", "verdict": "FAIL", "why": "\x1b[31mno\npath\x1b[0m"},
            "FAIL Test %n=1 @here:node+system: no path (and 1 more)",
        ),
        (
            {"how": "failure", "verdict": "INCONCLUSIVE"},
            "INCONCLUSIVE Test %n=1 @here:node+system: rate: too slow",
        ),
        # Its record says nothing against it, and it failed all the same.
        (
            {"how": "failure", "verdict": "RECORDED", "why": "lost", "settled": False},
            "FAIL Test %n=1 @here:node+system: performance error: lost",
        ),
        ({"how": "skip", "why": "lacks: hpl"}, "not run Test %n=1 @here:node+system: lacks: hpl"),
    ],
)
def test_each_case_has_one_line_with_its_place_and_the_reason_or_a_number(ended, said):
    watch = Watch(range(3))
    watch.after(0, 1, **ended)
    (line,) = watch.said
    assert " ".join(line.split()) == f"{said} [1/3]"


def test_skips_of_one_test_and_cause_are_one_line():
    """`StackHas` has a case for each word that a stack may lack; they buried the others."""
    watch = Watch(range(6))
    for number in (0, 1, 2):
        watch.after(0, number, "skip", why=f"lacks: this stack has no {number} (word {number})")
    assert len(watch.said) == 1
    # Another cause of the same test is said.
    watch.after(0, 5, "skip", why="lacks: this stack has no ucx: nothing shows 5")
    assert len(watch.said) == 2
    # What a site can mend is said for each.
    watch.after(0, 3, "skip", why="undescribed: extras: needs 'directory'")
    watch.after(0, 4, "skip", why="undescribed: extras: needs 'nodes'")
    assert [line.split()[-1] for line in watch.said] == ["[1/6]", "[4/6]", "[5/6]", "[6/6]"]
    watch.progress.__exit__()
    assert watch.newest.startswith("6 not run after ")


def test_a_reason_is_cut_to_what_a_line_can_show():
    watch = Watch(range(1))
    watch.after(1, 0, "failure", verdict="FAIL", why="much " * 100)
    assert watch.newest.endswith("much ... [1/1]")
    assert len(watch.said[0]) < 250


def test_the_other_cases_are_taken_to_last_as_long_as_those_so_far():
    watch = Watch(range(4))
    watch.after(30, 0)
    assert watch.newest.endswith("[1/4, about 1:30 left]")
    watch.after(30, 1, "failure", verdict="FAIL")
    assert watch.newest.endswith("[2/4, about 1:00 left]")


def test_the_time_left_only_falls_while_no_case_ends():
    watch = Watch(range(4))
    watch.after(30, 0)
    said = []
    for _ in range(10):
        watch.now += 10
        said.append(watch.progress.line().partition(" cases")[2])
    left = ["1:20", "1:10", "1:00", "0:50", "0:40", "0:30", "0:20", "0:10"]
    assert said == [*(f", about {time} left" for time in left), "", ""]


def test_no_time_is_said_before_a_tenth_of_its_cases_has_ended():
    watch = Watch(range(30))
    watch.after(20, 0)
    assert watch.newest.endswith("[1/30]")


def test_a_skipped_case_takes_no_time():
    watch = Watch(range(4))
    watch.after(0, 2, "skip", why="lacks: hpl")
    watch.after(40, 0)
    assert watch.newest.endswith("[2/4, about 1:20 left]")


def test_a_case_that_is_launched_again_is_no_fail_and_has_not_ended(retries):
    watch = Watch(range(2))
    watch.after(10, 0, "failure", verdict="INCONCLUSIVE", settled=False)
    assert watch.newest == (
        "launched again Test %n=0 @here:node+system: rate: too slow [0/2, about 0:20 left]"
    )
    watch.after(10, 1)
    retries.current_run = 1
    watch.after(10, 0, "failure", verdict="INCONCLUSIVE", settled=False)
    assert watch.newest.startswith("INCONCLUSIVE Test %n=0 ")
    assert watch.newest.endswith(" [2/2]")


def test_a_settled_case_is_told_once_however_often_reframe_tries_it_again(retries):
    watch = Watch(range(2))
    watch.after(10, 0, "failure", verdict="INCONCLUSIVE")
    retries.current_run = 1
    watch.after(10, 0, "failure", verdict="FAIL", why="settled in launch 1, not launched again")
    watch.after(10, 1)
    watch.after(10, 1)
    assert [line.split()[0] for line in watch.said] == ["INCONCLUSIVE", "PASS"]
    watch.progress.__exit__()
    assert watch.newest.startswith("1 INCONCLUSIVE, 1 PASS after ")


def test_a_case_waits_while_a_case_that_it_depends_on_is_launched_again(retries):
    watch = Watch(range(2))
    watch.after(10, 0, "skip", why="dependencies failed")
    assert watch.said == []
    assert watch.progress.line() == "elapsed 0:10, 0 of 2 cases"
    retries.current_run = 1
    watch.after(10, 0, "skip", why="dependencies failed")
    assert watch.newest.startswith("not run Test %n=0 @here:node+system: dependencies failed [1/2")


def test_each_round_of_a_calibration_counts_and_only_a_change_has_a_line():
    watch = Watch([1, 2], rounds=3)
    for _ in range(2):
        for number in (1, 2):
            watch.after(10, number)
    assert len(watch.said) == 2
    assert watch.progress.line() == "elapsed 0:40, 4 of 6 launches, about 0:20 left"
    watch.after(10, 1, "failure", verdict="FAIL", why="slow")
    assert watch.newest.endswith("system: slow (and 1 more) [5/6, about 0:10 left]")


def test_a_fixture_is_told_of_only_if_it_did_not_pass():
    watch = Watch(range(2))
    watch.after(1, "f")
    assert watch.said == []
    watch.after(1, "f", "failure", verdict="FAIL", why="no compiler")
    assert watch.newest.startswith(
        "FAIL Test %n=f @here:node+system: no compiler (and 1 more) [0/2"
    )


@pytest.mark.parametrize("level", [20, 30], ids=["of others", "ours"])
def test_a_test_of_others_has_one_line_on_the_terminal(level, monkeypatch):
    """A site of others shows the lines of ReFrame; a site of ours does not."""
    said = []
    screen = SimpleNamespace(level=level)
    logger = SimpleNamespace(std_stream_handlers=[screen], log=lambda _, text: said.append(text))
    monkeypatch.setattr(running, "getlogger", lambda: logger)
    watch = Watch(range(1), case("t", foreign=True))
    watch.after(1, "t", "failure", why="theirs")
    assert len(watch.said) == (level == 30)
    assert all("FAIL" in line and "performance error: theirs" in line for line in watch.said)


def test_the_end_counts_the_words_and_names_the_log():
    watch = Watch(range(4))
    with watch.progress:
        watch.after(5, 0)
        watch.after(5, 1, verdict="RECORDED")
        watch.after(5, 2)
    assert watch.newest == (
        "2 PASS, 1 RECORDED, 1 not ended after 0:15; ReFrame's own lines: a.log"
    )


def test_a_long_case_is_told_of_while_it_runs():
    watch = Watch(range(3))
    watch.after(30, 0)
    said = threading.Event()
    watch.progress._say = lambda line: (watch.said.append(line), said.set())
    with watch.progress:
        watch.now += EVERY
        assert said.wait(30)
    assert watch.said[1] == "elapsed 0:50, 1 of 3 cases, about 0:40 left"


@pytest.mark.parametrize("name", ["setup", "run", "compile", "compile_exit", "exit", "abort"])
def test_reframe_may_call_it_for_any_event(name):
    watch = Watch(range(2))
    watch.after(1, 0, name)
    assert watch.said == []


def test_it_listens_to_all_that_reframe_tells():
    from reframe.frontend.executors import TaskEventListener

    told = {name for name in vars(TaskEventListener) if name.startswith("on_")}
    assert len(told) > 9
    assert not [name for name in told if not callable(getattr(Progress([]), name, None))]
