"""Contexts around all cases of a run; ReFrame itself has listeners only for single cases."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from reframe.core import runtime
from reframe.core.exceptions import ForceExitError, ReframeError
from reframe.frontend.executors import Runner

from assay import deadline
from assay.reframe_compat import polling, testcase

#: Called with the runner and its cases.
Around = Callable[[Any, Sequence[Any]], AbstractContextManager[Any]]

_around: list[Around] = []

#: How often the run that is in progress may repeat a failed case, as its call says.
_running: list[int] = []


class NotAccepted(ReframeError):  # type: ignore[misc]
    """The run is not accepted, whatever its cases are. ReFrame prints the message and ends with 1.

    A context that :func:`around` registers may raise it after the last case.
    """


def left_out(runner: Any) -> tuple[list[tuple[tuple[Any, Any, Any], str]], list[str]]:
    """The skipped cases of the first run with their reasons, and our expected failures.

    :param runner: as a context gets it.
    :returns: a case is ReFrame's (test, partition, environment).
    """
    skipped = [
        ((task.check, task.testcase.partition, task.testcase.environ), str(task.exc_info[1]))
        for task in runner.stats.skipped(0)
        if not task.failed_deps
    ]
    expected = [*runner.stats.xfailed(None), *runner.stats.xpassed(None)]
    ours = (task.check for task in expected if testcase.of_assay(task.check))
    return skipped, [check.display_name for check in ours]


def records(runner: Any) -> list[Any]:
    """The records of all cases of Assay."""
    checks = (task.check for task in runner.stats.tasks(None))
    return [check.record for check in checks if testcase.of_assay(check)]


def retries() -> int:
    """How often the run in progress may repeat a failed case (``--max-retries``); 0 without one."""
    return _running[-1] if _running else 0


def rounds(runner: Any) -> int:
    """How often a run launches each of its cases: once, and once more for each ``--reruns``."""
    return 1 + int(runner._num_reruns)


def _needs_more(task: Any) -> bool:
    return bool(getattr(getattr(task.check, "record", None), "again", False))


def again(task: Any) -> bool:
    """Whether the runner will launch a case again.

    It does so for a case that failed, or whose dependency failed, and for one that passed in
    ReFrame and needs another launch to pass.
    """
    few = task.result == "pass" and _needs_more(task)
    most = retries() or int(few)
    if not most or runtime.runtime().current_run >= most:
        return False
    if few:
        return True
    if task.result == "skip":
        return str(task.exc_info[1]) == "dependencies failed"
    # Ours fails at once in a further attempt if it is settled: see assay.run.attempts.
    ours = getattr(task.check, "_attempts", None)
    return task.result == "fail" and (ours is None or bool(ours.relaunched))


def around(context: Around) -> None:
    """Register a context that is entered before the first case of a run and left after the last."""
    _around.append(context)


def _run_all(self: Any, of_reframe: Any, cases: Sequence[Any], *more: Any) -> Any:
    with contextlib.ExitStack() as stack:
        _running.append(int(self._max_retries or 0))
        self._max_retries = self._max_retries or 1  # for _retry alone
        stack.callback(_running.pop)
        for context in _around:
            stack.enter_context(context(self, cases))
        stack.enter_context(polling.woken_by_children())
        done = of_reframe(self, cases, *more)
        if why := deadline.struck():
            # Cases that were not begun count as skipped, and ReFrame's exit code does not show it.
            raise ForceExitError(why)
    return done


def _retry(self: Any, of_reframe: Any, cases: Sequence[Any]) -> None:
    """Retries the failed cases, and launches those again that need more launches to pass.

    Without ``--max-retries`` nothing is retried if a test that is not of Assay failed.
    """
    stats, failed = self._stats, self._stats.failed

    def again(run: int = -1) -> list[Any]:
        return [task for task in stats.tasks(run) if task.succeeded and _needs_more(task)]

    few = len(again())
    if not retries() and not (few and all(testcase.of_assay(task.check) for task in failed())):
        return
    if few:
        self._printer.info(f"cases that passed, and are launched again: {few}\n")
    stats.failed = lambda run=-1: [*failed(run), *again(run)]
    try:
        of_reframe(self, cases)
    finally:
        del stats.failed


def install() -> None:
    Runner.runall = functools.partialmethod(_run_all, Runner.runall)
    Runner._retry_failed = functools.partialmethod(_retry, Runner._retry_failed)
