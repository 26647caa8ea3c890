"""The progress of a run: its words, and the estimate of the remaining time."""

import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("reframe")

from assay.store.running import EVERY, Progress


def case(number, **more):
    return {
        "hashcode": f"c{number}",
        "system": "here",
        "partition": "node",
        "environ": "system",
        "fixture": False,
        **more,
    }


def task(number):
    part, stack = SimpleNamespace(fullname="here:node"), SimpleNamespace(name="system")
    return SimpleNamespace(testcase=(SimpleNamespace(hashcode=f"c{number}"), part, stack))


class Watch:
    """A run with a clock that the test controls."""

    def __init__(self, numbers):
        self.now = 0.0
        self.said = []
        planned = [*(case(number) for number in numbers), case("f", fixture=True)]
        self.progress = Progress(planned, self.said.append, lambda: self.now)

    def after(self, seconds, number, how="success"):
        self.now += seconds
        getattr(self.progress, f"on_task_{how}")(task(number))


def test_the_other_cases_are_taken_to_last_as_long_as_those_so_far():
    watch = Watch(range(4))
    watch.after(30, 0)
    watch.after(30, 1, "failure")
    assert watch.said == [
        "elapsed 0:30, 1 of 4 cases, about 1:30 left",
        "elapsed 1:00, 2 of 4 cases, about 1:00 left",
    ]


def test_no_time_is_said_before_a_tenth_of_its_cases_has_ended():
    watch = Watch(range(30))
    watch.after(20, 0)
    assert watch.said == ["elapsed 0:20, 1 of 30 cases"]


def test_a_skipped_case_is_not_counted_and_takes_no_time():
    watch = Watch(range(4))
    watch.after(0, 2, "skip")
    watch.after(40, 0)
    assert watch.said == ["elapsed 0:40, 1 of 3 cases, about 1:20 left"]


def test_lines_come_now_and_then_only_and_a_case_that_runs_again_counts_once():
    watch = Watch(range(3))
    watch.after(EVERY - 1, 0, "failure")
    assert watch.said == []
    watch.after(1, 0)
    watch.after(1, 1)
    watch.after(3600, 2)
    assert watch.said == [
        "elapsed 0:20, 1 of 3 cases, about 0:40 left",
        "elapsed 1:00:21, 3 of 3 cases",
    ]


def test_a_long_case_is_told_of_while_it_runs():
    watch = Watch(range(3))
    said = threading.Event()
    watch.progress._say = lambda line: (watch.said.append(line), said.set())
    watch.after(10, 0)
    with watch.progress:
        watch.now = 80.0
        assert said.wait(30)
    assert watch.said[0] == "elapsed 1:20, 1 of 3 cases, about 2:40 left"


@pytest.mark.parametrize("name", ["setup", "run", "compile", "compile_exit", "exit", "abort"])
def test_reframe_may_call_it_for_any_event(name):
    Watch(range(2)).after(1, 0, name)


def test_it_listens_to_all_that_reframe_tells():
    from reframe.frontend.executors import TaskEventListener

    told = {name for name in vars(TaskEventListener) if name.startswith("on_")}
    assert len(told) > 9
    assert not [name for name in told if not callable(getattr(Progress([]), name, None))]
