"""Begins a run of ReFrame: creates its folder, locks its results and prints how it goes.

The folder (:mod:`assay.store.run_folder`) lists the cases that the session is to run. Whatever way
the session ends, the unfinished cases are therefore known.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain, count
from pathlib import Path
from textwrap import shorten
from typing import Any

from msgspec.structs import replace
from reframe.core import runtime
from reframe.core.exceptions import ConfigError, ForceExitError, what
from reframe.core.logging import INFO, WARNING, getlogger

from assay import declared, files
from assay.judge import RED, Verdict
from assay.node import answers
from assay.node.recorded import without_user
from assay.quantities import number
from assay.reframe_compat import leash, runner, testcase, warnings
from assay.store import promise as promises
from assay.store import run_folder, session, unmeasured
from assay.store.cases import Case, cause
from assay.store.run_folder import ANSWERS, LATEST, LOCK, LOG, PLAN, SCHEMA
from assay.store.sanitize import line

#: Shortest time between two lines [s].
EVERY = 20.0

#: Share of the cases from which on they tell how long the others take.
BEGUN = 0.1

#: Longest reason in a line [characters]. The report has it whole.
LONGEST = 160

#: Level of our lines. A run prints it; ReFrame's own lines, of level info, go to its log only.
SAID = WARNING + 1
logging.addLevelName(SAID, "assay")

#: Words for cases that no verdict ends.
AGAIN, NOT_RUN = "launched again", "not run"

#: What a run keeps free for its report and log, for each case and four times more [B]. Of 67 cases,
#: the report had 10 kB for each.
ROOM = 1 << 15

#: Files that stay open for the life of this process. Closing a file would release its lock.
_held: list[Any] = []

#: Compares cases and their profile with the promise (:func:`assay.store.promise.state`).
Compare = Callable[[Sequence[Case], str], dict[str, Any]]

#: The one comparison of this process; empty if the site has none.
_promised: list[Compare] = []


@cache
def begin_session(results: Path) -> Path:
    """Lock the results for this process, make its run the current one, and create its folder.

    From now on, no command takes an older run for the last one, whatever becomes of this one.
    ``ASSAY_SESSION`` gives the name of the folder, for a caller that must know it. Otherwise the
    time gives the name.

    :raises ConfigError: another run writes to the results, a session of that name exists, or the
        results cannot be written.
    """
    # On a full disk, each line of the log would else print a trace.
    logging.raiseExceptions = False
    atexit.register(_close_logs)
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
    since = f"{socket.gethostname()}, since {time.strftime('%Y-%m-%d %H:%M')}"
    try:
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
            said = f"{results}: cannot be locked ({error.strerror}): start no other run"
            getlogger().warning(said)
        run_folder.mark(stream, f"process {os.getpid()} of {since}, session {session}")
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
        raise runner.NotAccepted(files.clean("; ".join([*why, *kept.get("lacking", ())])))
    plan = {
        "schema": SCHEMA,
        "started": time.strftime("%Y%m%dT%H%M%S%z"),
        "host": socket.gethostname(),
        "command": [without_user(word) for word in sys.argv],
        "promise": kept,
        "cases": planned,
    }
    stack = contextlib.ExitStack()
    try:
        stack.enter_context(_room(folder.parents[1], len(planned)))
        # An option may put the outputs elsewhere, where the report then looks for the plan.
        for where in {folder, Path(runtime.runtime().output_prefix)}:
            where.mkdir(parents=True, exist_ok=True)
            files.write_file(where / PLAN, json.dumps(plan, indent=1) + "\n")
        stage = Path(runtime.runtime().stage_prefix)
        if folder.parents[1] not in stage.parents:  # a site that has ReFrame keeps its own place
            stage.mkdir(0o750, parents=True, exist_ok=True)
    except OSError as error:
        stack.close()
        raise runner.NotAccepted(
            f"{folder}: no room for the results of {len(planned)} cases ({error.strerror}): make "
            "room, or name another directory by ASSAY_RESULTS="
        ) from None
    told = Progress(planned, folder / LOG, rounds=runner.rounds(tests))
    # In front: the last failure that --max-failures allows ends the run in ReFrame's own listener.
    tests.policy.task_listeners.insert(0, told)
    tests.policy.task_listeners.append(KeepsOutputs())
    over = threading.Event()
    threading.Thread(target=_watch_files, args=(folder, over), daemon=True).start()
    try:
        with stack, leash.held(folder / LOG), told:
            yield
    finally:
        over.set()
    _accept(tests, kept)


def _close_logs() -> None:
    for handler in getattr(getlogger().logger, "handlers", ()):
        with contextlib.suppress(OSError):
            handler.close()


@contextlib.contextmanager
def _room(results: Path, cases: int) -> Iterator[None]:
    """Keeps room for what is written after the last case, whatever fills the disk until then.

    :raises OSError: there is no such room.
    """
    reserve = results / ".reserve"
    try:
        with reserve.open("wb") as stream:
            os.posix_fallocate(stream.fileno(), 0, ROOM * (cases + 4))
        yield
    finally:
        reserve.unlink(missing_ok=True)


def _full(folder: Path) -> str:
    """Why a folder takes no more files; empty if it does."""
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as stream:
            stream.write(bytes(ROOM))
    except OSError as error:
        return error.strerror or "error"
    return ""


def _watch_files(folder: Path, over: threading.Event) -> None:
    """Ends the run if the file system of its folder hangs; names it once, on standard error.

    It must be silent for two looks: a benchmark may keep it busy for one. Another program looks,
    because a process with threads that forks may leave a child that hangs by itself.
    """
    silent, null = 0, subprocess.DEVNULL
    while not over.wait(0 if silent else EVERY):
        look = subprocess.Popen(["stat", "-f", folder], stdin=null, stdout=null, stderr=null)
        try:
            look.wait(answers.LIMIT)
            silent = 0
        except subprocess.TimeoutExpired:
            look.kill()  # it may never end, so nobody waits for it
            silent += 1
        if silent == 2:
            said = f"its file system did not answer within {2 * answers.LIMIT:g} s"
            # No log: its file may be on that file system.
            print(f"assay: {folder}: {said}: the run ends", file=sys.stderr)
            os.kill(os.getpid(), signal.SIGTERM)
            return


def _compared(cases: Sequence[Any], planned: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    profiles = {getattr(check, "profile", "full") for check, *_ in cases}
    profile = "smoke" if profiles == {"smoke"} else "full"
    ours = (entry for entry in planned if not (entry["fixture"] or "foreign" in entry))
    named = [session.case_named(entry) for entry in ours]
    kept = _promised[0](named, profile) if _promised else {}
    kept["refused"] = [f"not loaded: {_broken(*e) or line(what(*e))}" for e in warnings.refused]
    for fault in kept.get("faults", ()):
        getlogger().warning(f"promise: {fault}")
    if any(getattr(check, "purpose", "") == "calibration" for check, *_ in cases):
        kept.setdefault("faults", []).append("the run calibrates: it measures and judges nothing")
    return kept


def _accept(tests: Any, kept: Mapping[str, Any]) -> None:
    out, expected = runner.left_out(tests)
    ours = (each for each in out if testcase.of_assay(each[0][0]))
    skipped = [replace(session.case_named(_planned(*case)), why=line(why)) for case, why in ours]
    refused, partial = session.unlisted(kept, skipped)
    records = runner.records(tests)
    unused, parts, _ = unmeasured.links(kept, records)
    faults = [*kept.get("faults", ()), *refused, *unused]
    faults += [f"{name} is expected to fail, which proves nothing" for name in expected]
    if faults:
        raise runner.NotAccepted(files.clean("; ".join(faults)))
    doubts = dict.fromkeys(chain(promises.changes(kept), *(its.doubts for its in records)))
    left = session.beside_others(it.busy for it in records if it.not_judged)
    if why := [*promises.narrowing(kept), *partial, *parts, *promises.few(list(doubts)), *left]:
        getlogger().log(SAID, files.clean(f"PARTIAL: {'; '.join(why)}"))


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


class Listener:
    """A listener of ReFrame's runner (``TaskEventListener``); most events are nothing to it."""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("on_task_"):
            raise AttributeError(name)
        return lambda task: None


class KeepsOutputs(Listener):
    """Copies the outputs of a case that failed, as ReFrame does for a case that passes.

    What the case did not write, or cannot be copied, is left out.
    """

    def on_task_failure(self, task: Any) -> None:
        test = task.check
        if not test.outputdir or not test.stagedir:
            return  # it failed before it had a directory
        testcase.hide_values(test)
        for path in testcase.outputs_of(test):
            place = Path(test.outputdir) / path.relative_to(test.stagedir)
            with contextlib.suppress(OSError):
                place.parent.mkdir(parents=True, exist_ok=True)
                if path.is_dir():
                    shutil.copytree(path, place, dirs_exist_ok=True)
                else:
                    shutil.copy2(path, place)


class Progress(Listener):
    """Says how each case ended, and during a long case how far the run is.

    It listens to ReFrame's runner. A case that ReFrame launches again has not ended.
    """

    def __init__(
        self,
        planned: Iterable[Mapping[str, Any]],
        log: Path | str = LOG,
        say: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        rounds: int = 1,
    ) -> None:
        """`planned` has the cases in the form of :data:`PLAN`, `log` the lines of ReFrame.

        :param rounds: how often ReFrame launches each case (``--reruns``). After the first round a
            case has a line only if it ended in another way.
        """
        # A case: ReFrame's hash, and ``system:partition+environ``.
        self._planned = {
            (case["hashcode"], f"{case['system']}:{case['partition']}+{case['environ']}"): case
            for case in planned
        }
        ours = (key for key, case in self._planned.items() if not case["fixture"])
        self._left = Counter(dict.fromkeys(ours, rounds))
        self._cases, self._unit = self._open(), "cases" if rounds == 1 else "launches"
        self._told: dict[tuple[str, str], str] = {}
        self._log = log
        self._say = say or partial(getlogger().log, SAID)
        # Where a site of others shows the lines of ReFrame, their tests need no other ones.
        self._alone = all(handler.level > INFO for handler in getlogger().std_stream_handlers)
        self._clock = clock
        self._start = self._last = self._newest = clock()
        self._launches, self._mean, self._alike = 0, 0.0, dict[tuple[str, ...], Any]()
        self._over = threading.Event()

    def __enter__(self) -> None:
        """Print the progress also while no case ends."""
        threading.Thread(target=self._tick, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        counts = [f"{number} {word}" for word, number in Counter(self._told.values()).items()]
        counts += [f"{left} not ended"] if (left := self._open()) else []
        after = _minutes(self._clock() - self._start)
        self._say(f"{', '.join(counts)} after {after}; ReFrame's own lines: {self._log}")

    def _tick(self) -> None:
        while not self._over.wait(1.0):
            if self._clock() - self._last >= EVERY:
                self._tell(self.line())

    def _open(self) -> int:
        """The launches that have not ended. `tuple`: the thread of the progress reads it, too."""
        return sum(tuple(self._left.values()))

    def _tell(self, text: str) -> None:
        self._last = self._clock()
        self._say(text)

    def line(self) -> str:
        """A line such as ``elapsed 1:35, 23 of 67 cases, about 2:50 left``."""
        elapsed, done = self._clock() - self._start, self._cases - self._open()
        return f"elapsed {_minutes(elapsed)}, {done} of {self._cases} {self._unit}{self._rest()}"

    def _rest(self) -> str:
        """The time left, if the launches so far tell it. It only falls until the next one ends."""
        more = self._open()
        left = self._mean * more - (self._clock() - self._newest)
        # The first cases may take milliseconds, and say nothing about the others.
        begun = self._launches > BEGUN * (self._launches + more)
        return f", about {_minutes(left)} left" if begun and left > 0 else ""

    def _ended(self, task: Any) -> None:
        check, partition, environ = task.testcase
        key = check.hashcode, f"{partition.fullname}+{environ.name}"
        case = self._planned[key]
        word, why = _outcome(case, task)
        if word != NOT_RUN and task.failed_stage != "setup":
            self._launches += 1
            self._newest = self._clock()
            self._mean = (self._newest - self._start) / self._launches
        told = self._told.pop(key, "")
        if not runner.again(task):
            self._left -= Counter([key])
            if case["fixture"] and task.result == "pass":
                return
            known = told == word or (told in RED and word in RED)
            self._told[key] = told if known else word
            if known:
                return  # a settled case fails at once in each further attempt
        else:
            if not case["fixture"]:
                self._left[key] = max(1, self._left[key])
            if word == NOT_RUN:
                return  # it waits for another case
            word = AGAIN
        if self._alone or "foreign" not in case:
            name = session.case_named(case)
            if word == NOT_RUN:
                own = name.display_name.rpartition("=")[2] if "lacks: " in why else why
                alike = name.display_name.split()[0], key[1], why.split(f" {own}")[0]
                if self._alike.setdefault(alike, key) != key:
                    return  # what is lacking differs by word; the report has each
            why = f": {shorten(why, LONGEST, placeholder=' ...')}" if why else ""
            done = f"{self._cases - self._open()}/{self._cases}{self._rest()}"
            self._tell(f"{word:<15} {name.display_name} @{name.where}{why} [{done}]")
        folder = Path(self._log).parent
        if task.result == "fail" and (full := _full(folder)):
            raise ForceExitError(f"{folder} takes no more files ({full}): the run ends; make room")

    on_task_success = on_task_failure = on_task_xfailure = on_task_xsuccess = _ended
    on_task_skip = _ended


def _outcome(planned: Mapping[str, Any], task: Any) -> tuple[str, str]:
    """The word for how a case ended, and the reason; if there is none, its first metric."""
    if task.result == "skip":
        return NOT_RUN, line(task.exc_info[1])
    why = line(what(*task.exc_info))
    if "foreign" in planned:
        return task.result.upper(), why
    record = task.check.record
    verdict = record.verdict or Verdict.FAIL
    against = line(cause(record, verdict))
    if not against and task.result == "fail" and (wrong := _broken(*task.exc_info)):
        return Verdict.INCONCLUSIVE.value, wrong
    measured = (f"{m.name} {number(m.value)} {m.unit}" for m in record.metrics)
    verdict = verdict if task.result == "pass" or verdict in RED else Verdict.FAIL
    return verdict.value, against or why or next(measured, "")


def _broken(kind: type, error: object, frames: Any) -> str:
    return session.broken(kind.__name__, error, traceback.format_tb(frames))


def _minutes(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"
