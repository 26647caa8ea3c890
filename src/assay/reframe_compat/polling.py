"""When a case begins, and the pause between two looks at all cases, cut short if it can be.

ReFrame pauses after each look, also when a case has just moved to its next stage, and it sleeps on
when the only job has ended. With one short job after the other, these pauses take more time than
all other work of the suite. It limits the jobs of a partition; but partitions share their nodes.
"""

from __future__ import annotations

import contextlib
import functools
import os
import select
import signal
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from reframe.core.exceptions import ForceExitError
from reframe.frontend import executors
from reframe.frontend.executors import policies

from assay.reframe_compat import testcase

#: The pipe that becomes readable when a child of this process ends; empty outside of a run.
_child_ended: list[int] = []

#: The signals that are to end the run.
_ended_by: list[int] = []

#: Whether a case moved in the last look.
_moved = [False]

#: Whether a case of ours begins only when no other job is left, on whatever partition.
one_at_a_time = True


@contextlib.contextmanager
def woken_by_children() -> Iterator[None]:
    """Within this context, a pause ends as soon as a local job ends."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    # Python writes to the pipe only for a signal that has a handler.
    handler = signal.signal(signal.SIGCHLD, lambda *_: None) or signal.SIG_DFL
    descriptor = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    _child_ended.append(reader)
    try:
        yield
    finally:
        _child_ended.pop()
        signal.set_wakeup_fd(descriptor)
        signal.signal(signal.SIGCHLD, handler)
        os.close(reader)
        os.close(writer)


def pause(seconds: float) -> None:
    """Waits, but not beyond the end of a child of this process.

    A child that ended before does not count: a command that asks a scheduler is one, too. A job
    that ends during a look therefore waits for the next look.
    """
    if not _child_ended:
        time.sleep(seconds)
        return
    reader = _child_ended[-1]
    with contextlib.suppress(BlockingIOError):
        os.read(reader, 4096)
    select.select([reader], [], [], seconds)


def _snooze(self: Any, of_reframe: Any) -> None:
    if _moved[0]:
        _moved[0] = False
    else:
        of_reframe(self)


def _force_exit(of_reframe: Any, number: int, frame: Any) -> None:
    """Keeps the signal: logging drops the exception of ReFrame if a line is just being written."""
    _ended_by.append(number)
    of_reframe(number, frame)


def _advance_all(self: Any, of_reframe: Any, tasks: Any, *more: Any) -> None:
    if _ended_by:
        raise ForceExitError(f"received signal {_ended_by[-1]}")
    before = [(task, task.state) for task in tasks]
    of_reframe(self, tasks, *more)
    _moved[0] = any(task.state != state for task, state in before)


def _advance_ready_run(self: Any, of_reframe: Any, task: Any) -> Any:
    ours = one_at_a_time and testcase.of_assay(task.check)
    # A task that failed while ReFrame waited for its job stays in the set of its partition.
    known = (other for tasks in self._partition_tasks.values() for other in tasks)
    return 0 if ours and any(it.state == "running" for it in known) else of_reframe(self, task)


def install() -> None:
    executors._force_exit = functools.partial(_force_exit, executors._force_exit)
    policies.time = SimpleNamespace(**{**vars(time), "sleep": pause})
    controller, policy = policies._PollController, policies.AsynchronousExecutionPolicy
    controller.snooze = functools.partialmethod(_snooze, controller.snooze)
    for mine in (_advance_all, _advance_ready_run):
        name = mine.__name__
        setattr(policy, name, functools.partialmethod(mine, getattr(policy, name)))
