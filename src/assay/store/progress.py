"""Prints from time to time how far a run is, and about how long it still takes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from reframe.core.logging import getlogger

from assay.reframe_compat.testcase import Listener

#: Shortest time between two lines [s].
EVERY = 20.0

#: Share of the cases from which on they tell how long the others take.
BEGUN = 0.1


class Progress(Listener):
    """Listens to ReFrame's runner.

    :param planned: the cases, in the form of :data:`assay.store.running.PLAN`.
    :param say: prints a line.
    """

    def __init__(
        self,
        planned: Iterable[Mapping[str, Any]],
        say: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # A case: ReFrame's hash, and ``system:partition+environ``.
        self._left = {
            (case["hashcode"], f"{case['system']}:{case['partition']}+{case['environ']}")
            for case in planned
            if not case["fixture"]
        }
        self._done: set[tuple[str, str]] = set()
        self._say = say or getlogger().info
        self._clock = clock
        self._start = self._last = clock()
        self._over = threading.Event()

    def __enter__(self) -> None:
        """Print the progress also during a long case, while ReFrame prints nothing."""
        threading.Thread(target=self._tick, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _tick(self) -> None:
        while not self._over.wait(1.0):
            self._tell()

    def line(self) -> str:
        """A line such as ``elapsed 1:35, 23 of 67 cases, about 2:50 left``.

        Skipped cases do not count.
        """
        elapsed = self._clock() - self._start
        done, left = len(self._done), len(self._left)
        text = f"elapsed {_minutes(elapsed)}, {done} of {done + left} cases"
        # The first cases may take milliseconds, and say nothing about the others.
        if left and done > BEGUN * (done + left):
            text += f", about {_minutes(elapsed * left / done)} left"
        return text

    def _ended(self, task: Any) -> None:
        if (case := _key_of(task)) in self._left:
            self._left.remove(case)
            self._done.add(case)
        self._tell()

    def on_task_skip(self, task: Any) -> None:
        self._left.discard(_key_of(task))

    def _tell(self, task: Any = None) -> None:
        if self._clock() - self._last >= EVERY:
            self._last = self._clock()
            self._say(self.line())

    on_task_success = on_task_failure = on_task_xfailure = on_task_xsuccess = _ended
    on_task_run = _tell


def _key_of(task: Any) -> tuple[str, str]:
    check, partition, environ = task.testcase
    return check.hashcode, f"{partition.fullname}+{environ.name}"


def _minutes(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"
