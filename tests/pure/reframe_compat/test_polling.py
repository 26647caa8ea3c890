"""The pause between two looks at all cases ends when there is something to do."""

import logging
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from reframe.core.exceptions import ForceExitError
from reframe.frontend import executors
from reframe.frontend.executors import policies

from assay import reframe_compat
from assay.reframe_compat import polling

#: A pause that no test waits for [s].
LONG = 60

#: A program that ends with its input.
WAITS = [sys.executable, "-c", "import sys; sys.stdin.read()"]


def open_files():
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def took(seconds):
    before = time.monotonic()
    polling.pause(seconds)
    return time.monotonic() - before


@pytest.fixture
def controller(monkeypatch):
    """ReFrame's controller of pauses, whose sleeps are only noted."""
    reframe_compat.install()
    options = {"rate_max": 10, "rate_min": 0.1, "rate_decay": 0.1, "randomize_ms": None}
    values = {f"general/0/poll_{name}": value for name, value in options.items()}
    runtime = SimpleNamespace(get_option=values.__getitem__)
    monkeypatch.setattr(policies.rt, "runtime", lambda: runtime)
    slept = []
    monkeypatch.setattr(policies.time, "sleep", slept.append)
    made = policies._PollController()
    made.reset_poll_rate()
    made.slept = slept
    return made


def test_the_end_of_a_child_ends_the_pause(monkeypatch):
    """The child ends after the pause has begun, and before it would wait for the first time."""
    found = []
    with polling.woken_by_children(), subprocess.Popen(WAITS, stdin=subprocess.PIPE) as child:

        def end_the_child(readers, writers, others, seconds):
            child.stdin.close()
            child.wait()
            found.append((select.select(readers, writers, others, 0)[0] == readers, seconds))

        monkeypatch.setattr(polling, "select", SimpleNamespace(select=end_the_child))
        polling.pause(LONG)
    assert found == [(True, LONG)]


def test_a_child_that_ended_before_does_not_shorten_the_pause():
    """A command that asks a scheduler is a child, too: it must not make ReFrame ask at once."""
    with polling.woken_by_children():
        subprocess.run([sys.executable, "-c", ""], check=True)
        assert took(0.2) >= 0.2


def test_a_pause_outside_of_a_run_is_a_pause():
    assert took(0.05) >= 0.05


def test_the_handler_and_the_descriptors_are_given_back():
    before = signal.getsignal(signal.SIGCHLD)
    open_before = open_files()
    with polling.woken_by_children():
        assert signal.getsignal(signal.SIGCHLD) is not before
    assert signal.getsignal(signal.SIGCHLD) is before
    assert signal.set_wakeup_fd(-1) == -1
    assert open_files() == open_before


def test_no_pause_follows_a_look_that_moved_a_case(controller):
    task = SimpleNamespace(state="ready_run")
    policy = SimpleNamespace(
        _advance_ready_run=lambda task: setattr(task, "state", "running") or 1,
        _advance_running=lambda task: 0,
        _pipeline_statistics=False,
    )
    advance = policies.AsynchronousExecutionPolicy._advance_all
    advance.__get__(policy)([task])
    controller.snooze()
    assert controller.slept == []
    controller.snooze()
    assert len(controller.slept) == 1
    advance.__get__(policy)([task])
    controller.snooze()
    assert len(controller.slept) == 2


def test_a_signal_that_comes_while_a_line_is_logged_ends_the_run(monkeypatch):
    """Python's logging drops what is raised in it, and the run would go on for hours."""
    reframe_compat.install()
    monkeypatch.setattr(polling, "_ended_by", [])
    monkeypatch.setattr(logging, "raiseExceptions", False)

    class Interrupted(logging.StreamHandler):
        def format(self, record):
            executors._force_exit(signal.SIGTERM, None)

    before = {
        number: signal.getsignal(number)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)
    }
    try:
        Interrupted().handle(logging.makeLogRecord({"msg": "a line"}))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    policy = policies.AsynchronousExecutionPolicy.__new__(policies.AsynchronousExecutionPolicy)
    with pytest.raises(ForceExitError, match="received signal 15"):
        policy._advance_all([])
