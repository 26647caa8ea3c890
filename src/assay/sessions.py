"""What a run leaves of itself beside its outputs, for whom comes after it.

``output/<time>`` below the results is the folder of one session. Written by :mod:`assay.running`;
read without ReFrame.
"""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Held by the run that writes to the results, by flock; the system lets go of it at any death.
LOCK = ".lock"

#: ReFrame's log, in the folder of a session: its only word on why a case was skipped.
LOG = "reframe.log"

#: The cases of a session, in its folder, written before the first of them starts.
PLAN = "session.json"

#: Layout of :data:`PLAN`.
SCHEMA = 1

#: The link to the folder of the last session, in the results.
LATEST = "latest"

_STATUS = re.compile(
    r"\[ *(?P<word>SKIP|FAIL|OK) *\] \(\s*\d+/\d+\) .*/(?P<hash>[0-9a-f]+) @(?P<where>\S+)"
    r"(?: \[(?P<why>.*)\])?\s*$"
)
#: What a terminal is told to colour text.
COLOUR = re.compile(r"\x1b\[[0-9;]*m")

#: A case in ReFrame's log: (hash, ``system:partition+environ``).
Key = tuple[str, str]


@dataclass(frozen=True)
class Plan:
    """What a session was to run.

    :ivar cases: by the names that run reports have for a case, without fixtures.
    """

    started: str = ""
    host: str = ""
    command: tuple[str, ...] = ()
    cases: tuple[Mapping[str, Any], ...] = ()


def read_plan(folder: Path) -> Plan | None:
    """The plan in the folder of a session; None where none can be read."""
    try:
        raw = json.loads((folder / PLAN).read_text(encoding="utf-8"))
        if raw["schema"] != SCHEMA:
            return None
        return Plan(
            str(raw["started"]),
            str(raw["host"]),
            tuple(map(str, raw["command"])),
            tuple(dict(case) for case in raw["cases"] if not case["fixture"]),
        )
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


@dataclass(frozen=True)
class Log:
    """How cases ended, as ReFrame's log has it.

    :ivar skipped: the reason of each that was skipped; the run report leaves them out.
    :ivar failed: those that failed at least once.
    :ivar passed: those that passed at least once, so the last launch of them.
    """

    skipped: Mapping[Key, str] = field(default_factory=dict)
    failed: frozenset[Key] = frozenset()
    passed: frozenset[Key] = frozenset()


def read_log(path: Path) -> Log | None:
    """A log of ReFrame's; None where it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return None
    skipped: dict[Key, str] = {}
    ended: dict[str, set[Key]] = {"FAIL": set(), "OK": set()}
    for match in filter(None, map(_STATUS.search, COLOUR.sub("", text).splitlines())):
        key = match["hash"], match["where"]
        if match["word"] in ended:
            ended[match["word"]].add(key)
        elif match["why"] is not None:
            skipped[key] = match["why"]
    return Log(skipped, frozenset(ended["FAIL"]), frozenset(ended["OK"]))


def run_report(folder: Path) -> Path | None:
    """The run report of the session of a folder; None where it has none that can be read."""
    for path in (folder.parent.parent / "reports").glob("run-report-*.json"):
        try:
            written = json.loads(path.read_text(encoding="utf-8"))["session_info"]["prefix_output"]
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            continue
        # The results may have been moved as a whole: the last part of the path stays.
        if isinstance(written, str) and Path(written).name == folder.name:
            return path
    return None


def holder(results: Path) -> str:
    """Who runs in the results now, in words; empty where nobody does."""
    try:
        with (results / LOCK).open() as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return (results / LOCK).read_text().strip() or "another run"
    except OSError:
        pass  # no such file, or no locks on this file system
    return ""
