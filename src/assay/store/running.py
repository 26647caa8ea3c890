"""Begins a run of ReFrame: creates its folder, locks its results and prints its progress.

The folder (:mod:`assay.store.run_folder`) lists the cases that the session is to run. Whatever way
the session ends, the unfinished cases are therefore known.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain, count
from pathlib import Path
from typing import Any

from reframe.core import runtime
from reframe.core.exceptions import ConfigError
from reframe.core.logging import getlogger

from assay import declared, files
from assay.reframe_compat import runner, testcase
from assay.store import promise as promises
from assay.store import run_folder, session
from assay.store.cases import Case
from assay.store.run_folder import ANSWERS, LATEST, LOCK, PLAN, SCHEMA
from assay.store.sanitize import line

#: Shortest time between two lines [s].
EVERY = 20.0

#: Share of the cases from which on they tell how long the others take.
BEGUN = 0.1

#: Files that stay open for the life of this process. Closing a file would release its lock.
_held: list[Any] = []

#: Compares cases and their profile with the promise (:func:`assay.store.promise.state`).
Compare = Callable[[Sequence[Case], str], dict[str, Any]]

#: The one comparison of this process; empty if the site has none.
_promised: list[Compare] = []


@cache
def begin(results: Path) -> Path:
    """Lock the results for this process, make its run the current one, and create its folder.

    From now on, no command takes an older run for the last one, whatever becomes of this one.
    ``ASSAY_SESSION`` gives the name of the folder, for a caller that must know it. Otherwise the
    time gives the name.

    :raises ConfigError: another run writes to the results, a session of that name exists, or the
        results cannot be written.
    """
    output, now = results / "output", time.strftime("%Y%m%dT%H%M%S")
    names = chain([now], (f"{now}-{number}" for number in count(2)))
    free = (name for name in names if not (output / name).exists())
    folder = output / (os.environ.get("ASSAY_SESSION") or next(free))
    _hold(results, folder.name)
    why = f"A run began at {time.strftime('%Y-%m-%d %H:%M')}. When it has ended, type: assay report"
    answers = (results / name for name in ANSWERS)
    run_folder.no_answer(why, *(path if path.exists() else None for path in answers))
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise ConfigError(f"{folder}: no new folder for this session ({error.strerror})") from None
    _point(results / LATEST, folder)
    runner.around(partial(_watched, folder))
    return folder


def promise(compare: Compare) -> None:
    """Set what the cases of this process are compared with."""
    _promised[:] = [compare]


def _hold(results: Path, session: str) -> None:
    (results / LOCK).touch()
    stream = (results / LOCK).open("r+")
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigError(
            f"{results}: {run_folder.holder(results)} runs here; wait for its end, or "
            "name another directory by ASSAY_RESULTS="
        ) from None
    except OSError as error:
        getlogger().warning(f"{results}: cannot be locked ({error.strerror}): start no other run")
    since = time.strftime("%Y-%m-%d %H:%M")
    who = f"process {os.getpid()} of {socket.gethostname()}, since {since}"
    try:
        run_folder.mark(stream, f"{who}, session {session}")
    except OSError as error:
        raise ConfigError(f"{results}: cannot be written ({error.strerror})") from None
    _held.append(stream)


@contextlib.contextmanager
def _watched(folder: Path, tests: Any, cases: Sequence[Any]) -> Iterator[None]:
    """Writes the plan before the first case starts, and prints the progress of all cases.

    :raises NotAccepted: after the last case, if the site's promise is not kept.
    """
    planned = [_planned(*case) for case in cases]
    kept = _compared(cases, planned)
    if not cases:
        with contextlib.suppress(runner.NotAccepted):  # here is said more
            yield
        # ReFrame itself would end with PASSED and exit code 0.
        why = kept.get("faults") or ["no case is selected", *promises.narrowing(kept)]
        raise runner.NotAccepted("; ".join([*why, *kept.get("lacking", ())]))
    plan = {
        "schema": SCHEMA,
        "started": time.strftime("%Y%m%dT%H%M%S%z"),
        "host": socket.gethostname(),
        "command": sys.argv,
        "promise": kept,
        "cases": planned,
    }
    # An option may put the outputs elsewhere, where the report then looks for the plan.
    for where in {folder, Path(runtime.runtime().output_prefix)}:
        where.mkdir(parents=True, exist_ok=True)
        files.write(where / PLAN, json.dumps(plan, indent=1) + "\n")
    told = Progress(planned)
    tests.policy.task_listeners += [told, testcase.KeepsOutputs()]
    with told:
        yield
    _accept(tests, kept)


def _compared(cases: Sequence[Any], planned: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    profiles = {getattr(check, "profile", "full") for check, *_ in cases}
    profile = "smoke" if profiles == {"smoke"} else "full"
    ours = (entry for entry in planned if not (entry["fixture"] or "foreign" in entry))
    named = [session.named(entry) for entry in ours]
    kept = _promised[0](named, profile) if _promised else {}
    for fault in kept.get("faults", ()):
        getlogger().warning(f"promise: {fault}")
    purposes = {getattr(check, "purpose", "") for check, *_ in cases}
    if "calibration" in purposes:
        kept.setdefault("faults", []).append("the run calibrates: it measures and judges nothing")
    return kept


def _accept(tests: Any, kept: Mapping[str, Any]) -> None:
    out, expected = runner.left_out(tests)
    skipped = [
        replace(session.named(_planned(*case)), why=line(why))
        for case, why in out
        if testcase.of_assay(case[0])
    ]
    refused, partial = session.unlisted(kept, skipped)
    faults = [*kept.get("faults", ()), *refused]
    faults += [f"{name} is expected to fail, which proves nothing" for name in expected]
    if faults:
        raise runner.NotAccepted("; ".join(faults))
    records = runner.records(tests)
    of_cases = (doubt for record in records for doubt in record.get("doubts", ()))
    doubts = dict.fromkeys((*promises.changes(kept), *of_cases))
    left = session.beside_others(r["busy"] for r in records if r.get("not_judged"))
    if why := [*promises.narrowing(kept), *partial, *promises.few(list(doubts)), *left]:
        getlogger().info(f"PARTIAL: {'; '.join(why)}")


def _planned(check: Any, partition: Any, environ: Any) -> dict[str, Any]:
    """A case as a mapping, with the keys that run reports and records use."""
    return {
        "display_name": check.display_name,
        "unique_name": check.unique_name,
        "hashcode": check.hashcode,
        "system": partition.fullname.partition(":")[0],
        "partition": partition.name,
        "environ": environ.name,
        "fixture": bool(check.is_fixture()),
        "figures": declared.as_json(getattr(check, "figures", ())),
        **({} if testcase.of_assay(check) else {"foreign": True}),
    }


def _point(link: Path, folder: Path) -> None:
    new = link.with_name(f".{link.name}.{os.getpid()}")
    # On a file system without links there is no link. Nothing else depends on it.
    with contextlib.suppress(OSError):
        new.symlink_to(os.path.relpath(folder, link.parent))
        new.replace(link)


class Progress(testcase.Listener):
    """Listens to ReFrame's runner; `planned` has the cases in the form of :data:`PLAN`."""

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
