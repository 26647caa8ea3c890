"""The progress of a run: its words, and the estimate of the remaining time."""

import json
import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("reframe")

from assay.store.progress import EVERY, Progress, durations, key


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

    def __init__(self, numbers, known):
        self.now = 0.0
        self.said = []
        keyed = {key(case(number)): seconds for number, seconds in known.items()}
        planned = [*(case(number) for number in numbers), case("f", fixture=True)]
        self.progress = Progress(planned, keyed, self.said.append, lambda: self.now)

    def after(self, seconds, number, how="success"):
        self.now += seconds
        getattr(self.progress, f"on_task_{how}")(task(number))


def test_without_a_run_before_the_mean_so_far_is_taken():
    watch = Watch(range(4), {})
    watch.after(30, 0)
    watch.after(30, 1, "failure")
    assert watch.said == [
        "elapsed 0:30, 1 of 4 cases, about 1:30 left",
        "elapsed 1:00, 2 of 4 cases, about 1:00 left",
    ]


def test_the_same_cases_of_the_last_run_say_what_is_left():
    watch = Watch(range(3), {0: 100.0, 1: 100.0, 2: 200.0})
    watch.after(200, 0)
    assert watch.said == ["elapsed 3:20, 1 of 3 cases, about 10:00 left"]


def test_first_cases_that_take_no_time_say_nothing_about_the_others():
    """Fifteen of them once made it "about 2:21:28 left" for a run of three minutes."""
    watch = Watch(range(3), {0: 0.1, 1: 0.1, 2: 200.0})
    watch.after(20, 0)
    watch.after(20, 1)
    assert watch.said == [
        "elapsed 0:20, 1 of 3 cases, about 3:20 left",
        "elapsed 0:40, 2 of 3 cases, about 3:20 left",
    ]


def test_a_first_run_says_no_time_before_a_tenth_of_its_cases_has_ended():
    watch = Watch(range(30), {})
    watch.after(20, 0)
    assert watch.said == ["elapsed 0:20, 1 of 30 cases"]


def test_a_skipped_case_is_not_counted_and_takes_no_time():
    watch = Watch(range(4), {})
    watch.after(0, 2, "skip")
    watch.after(40, 0)
    assert watch.said == ["elapsed 0:40, 1 of 3 cases, about 1:20 left"]


def test_lines_come_now_and_then_only_and_a_case_that_runs_again_counts_once():
    watch = Watch(range(3), {})
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
    watch = Watch(range(3), {})
    said = threading.Event()
    watch.progress._say = lambda line: (watch.said.append(line), said.set())
    watch.after(10, 0)
    with watch.progress:
        watch.now = 80.0
        assert said.wait(30)
    assert watch.said[0] == "elapsed 1:20, 1 of 3 cases, about 2:40 left"


def write(reports, number, command, *entries):
    run = {
        "testcases": [{"result": "pass", **case(n), "time_run": seconds} for n, seconds in entries]
    }
    text = json.dumps({"session_info": {"cmdline": command}, "runs": [run]})
    (reports / f"run-report-{number}.json").write_text(text)


def test_durations_are_of_the_last_runs_of_the_same_profile(tmp_path):
    write(tmp_path, 9, "reframe --mode smoke -r", (1, 5.0), (2, 6.0))
    write(tmp_path, 10, "reframe --mode=smoke -r", (1, 7.0), (3, None))
    write(tmp_path, 11, "reframe --mode full -r", (1, 900.0))
    (tmp_path / "run-report-12.json").write_text("{")
    command = ["reframe", "--mode", "smoke", "-r"]
    assert durations(tmp_path, command) == {key(case(1)): 7.0}
    (tmp_path / "run-report-12.json").unlink()
    assert durations(tmp_path, command) == {key(case(1)): 7.0, key(case(2)): 6.0}


@pytest.mark.parametrize("name", ["setup", "run", "compile", "compile_exit", "exit", "abort"])
def test_reframe_may_call_it_for_any_event(name):
    Watch(range(2), {}).after(1, 0, name)


def test_it_listens_to_all_that_reframe_tells():
    from reframe.frontend.executors import TaskEventListener

    told = {name for name in vars(TaskEventListener) if name.startswith("on_")}
    assert len(told) > 9
    assert not [name for name in told if not callable(getattr(Progress([], {}), name, None))]
