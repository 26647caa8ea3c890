"""The files about itself that a run leaves beside its outputs, for later readers.

``output/<time>`` below the results is the folder of one session. :mod:`assay.store.running`
writes it. This module reads it without ReFrame.
"""

from __future__ import annotations

import contextlib
import fcntl
import html
import re
from pathlib import Path
from typing import Any, Literal

import msgspec

from assay import files

#: The lock file of the results. The run that writes to the results holds it by flock. The system
#: releases it however the run ends. Its first line says which run began last: see :func:`current`.
LOCK = ".lock"

#: Page, JUnit and metrics of the last run, in the results.
ANSWERS = ("report.html", "junit.xml", "metrics.prom")

#: ReFrame's log, in the folder of a session.
LOG = "reframe.log"

#: The list of cases of a session, in its folder, written before the first case starts.
PLAN = "session.json"

#: Version of the layout of :data:`PLAN`.
SCHEMA: Literal[1] = 1

#: The link to the folder of the last session, in the results.
LATEST = "latest"


#: The most cases, with all their attempts, that one session has.
MOST_CASES = 50_000


class Plan(msgspec.Struct, frozen=True):
    """The cases that a session was to run.

    :ivar cases: the cases without fixtures. Their keys are the names that run reports use.
    :ivar promise: how the cases compare with the promise of the site, as
        :func:`assay.store.promise.state` states it.
    """

    schema: Literal[1]
    started: str
    host: str
    command: tuple[str, ...]
    cases: tuple[dict[str, Any], ...]
    promise: dict[str, Any] = {}


#: That of a session without a plan.
NO_PLAN = Plan(SCHEMA, "", "", (), ())


def read_plan(folder: Path) -> Plan | None:
    """The plan in the folder of a session; None if it cannot be read."""
    try:
        plan = msgspec.convert(files.read_json(folder / PLAN), Plan)
        cases = tuple(case for case in plan.cases if not case["fixture"])
    except (OSError, ValueError, msgspec.ValidationError, LookupError):
        return None
    return None if len(cases) > MOST_CASES else msgspec.structs.replace(plan, cases=cases)


def run_reports(folder: Path) -> list[Path]:
    """ReFrame's run reports in a folder, in the order of their numbers."""
    numbered = {
        int(match[1]): path
        for path in folder.glob("run-report-*.json")
        if (match := re.fullmatch(r"run-report-(\d+)\.json", path.name))
    }
    return [numbered[number] for number in sorted(numbered)]


def run_report(folder: Path) -> Path | None:
    """The run report of the session of a folder; None if there is no readable report."""
    for path in (folder.parent.parent / "reports").glob("run-report-*.json"):
        try:
            written = files.read_json(path)["session_info"]["prefix_output"]
        except (OSError, ValueError, LookupError, TypeError):
            continue
        # The results may have been moved as a whole. The last part of the path is then still valid.
        if isinstance(written, str) and Path(written).name == folder.name:
            return path
    return None


def holder(results: Path) -> str:
    """The run that writes to the results now, in words; empty if there is no such run."""
    try:
        with (results / LOCK).open() as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _started(results) or "another run"
    except OSError:
        pass  # no such file, or no locks on this file system
    return ""


def _started(results: Path) -> str:
    """The last start, in words."""
    try:
        return (results / LOCK).read_text(errors="replace").partition("\n")[0].strip()
    except OSError:
        return ""


def mark(lock: Any, words: str) -> None:
    """Writes the last start into the open lock file.

    The bytes are written over the old ones, because a full disk would not take new ones.

    :raises OSError: the file cannot be written.
    """
    lock.seek(0)
    lock.write(f"{words:<119}\n")
    lock.flush()
    lock.truncate()


def current(results: Path) -> tuple[str, Path | None] | None:
    """The last start in words, and the folder of its session; None if nothing tells the last start.

    The folder is None if the run got none: its site or its call was refused, or the disk is full.
    """
    words = _started(results)
    match = re.search(r"\b(?:no session|session (\S+))$", words)
    if match is None:
        return None
    return words[: match.start()].rstrip(" ,"), results / "output" / match[1] if match[1] else None


def no_answer(
    why: str, page: Path | None = None, junit: Path | None = None, metrics: Path | None = None
) -> None:
    """Writes into the files of an answer that there is none.

    A file that cannot be written is removed, so that it does not give the answer of an older run.
    """
    said = html.escape(why)
    for path, ending in ((page, "html"), (junit, "xml"), (metrics, "prom")):
        if path is None:
            continue
        text = Path(__file__).with_name(f"no-answer.{ending}").read_text(encoding="utf-8")
        try:
            path.write_text(text.replace("WHY", said), encoding="utf-8")
        except OSError:
            with contextlib.suppress(OSError):
                path.unlink()
