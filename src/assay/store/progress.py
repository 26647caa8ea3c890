"""Prints from time to time how far a run is, and about how long it still takes."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reframe.core.logging import getlogger

from assay.reframe_compat.testcase import Listener
from assay.store.run_folder import run_reports

#: Shortest time between two lines [s].
EVERY = 20.0

#: Share of the expected time from which on the speed of this run is known.
BEGUN = 0.1

#: How many run reports the durations are taken from. The last reports are used.
REPORTS = 3

#: A case: (ReFrame's hash, ``system:partition+environ``).
Key = tuple[str, str]


def key(case: Mapping[str, Any]) -> Key:
    """The key of a case, from its entry in a run report or in a plan."""
    where = f"{case['system']}:{case['partition']}+{case['environ']}"
    return str(case["hashcode"]), where


def durations(reports: Path, command: Sequence[str]) -> dict[Key, float]:
    """Seconds that each case took in the last runs of the same profile; the newest run counts.

    :param command: the command line of the present run. Its options contain the profile.
    """
    found: dict[Key, float] = {}
    for path in run_reports(reports)[-REPORTS:]:
        try:
            report = json.loads(path.read_text(encoding="utf-8"))
            if _profile(report["session_info"]["cmdline"]) != _profile(" ".join(command)):
                continue
            for entry in report["runs"][0]["testcases"]:
                if entry["result"] in ("pass", "fail") and entry["time_run"]:
                    found[key(entry)] = float(entry["time_run"])
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            continue  # an incomplete report has no durations
    return found


def _profile(command: str) -> list[str]:
    return re.findall(r"(?:--mode[= ]|\bprofile=)([\w-]+)", command)


class Progress(Listener):
    """Listens to ReFrame's runner.

    :param planned: the cases, in the form of :data:`assay.store.running.PLAN`.
    :param known: seconds that cases took in earlier runs.
    :param say: prints a line.
    """

    def __init__(
        self,
        planned: Iterable[Mapping[str, Any]],
        known: Mapping[Key, float],
        say: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        keys = [key(case) for case in planned if not case["fixture"]]
        here = [known[k] for k in keys if k in known]
        # A case without a known duration is expected to take as long as the others do on average.
        mean = sum(here) / len(here) if here else 1.0
        self._left = {k: known.get(k, mean) for k in keys}
        self._done: dict[Key, float] = {}
        self._known = bool(here)
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
        text = (
            f"elapsed {_minutes(elapsed)}, "
            f"{len(self._done)} of {len(self._done) + len(self._left)} cases"
        )
        done, left = sum(self._done.values()), sum(self._left.values())
        # Scale by the elapsed time: the machine may be slower today, and the harness takes time,
        # too. The first cases may take milliseconds, and say nothing about the others.
        begun = done > BEGUN * (done + left)
        if self._left and (begun or self._known):
            text += f", about {_minutes(elapsed * left / done if begun else left)} left"
        return text

    def _ended(self, task: Any) -> None:
        case = _key_of(task)
        if case in self._left:
            self._done[case] = self._left.pop(case)
        self._tell()

    def on_task_skip(self, task: Any) -> None:
        self._left.pop(_key_of(task), None)

    def _tell(self, task: Any = None) -> None:
        if self._clock() - self._last >= EVERY:
            self._last = self._clock()
            self._say(self.line())

    on_task_success = on_task_failure = on_task_xfailure = on_task_xsuccess = _ended
    on_task_run = _tell


def _key_of(task: Any) -> Key:
    check, partition, environ = task.testcase
    return check.hashcode, f"{partition.fullname}+{environ.name}"


def _minutes(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"
