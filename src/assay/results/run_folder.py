"""What a run leaves of itself beside its outputs, for whom comes after it.

``output/<time>`` below the results is the folder of one session. :mod:`assay.results.running`
writes it; it is read without ReFrame.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Held by the run that writes to the results, by flock; the system lets go of it at any death.
LOCK = ".lock"

#: ReFrame's log, in the folder of a session.
LOG = "reframe.log"

#: The cases of a session, in its folder, written before the first of them starts.
PLAN = "session.json"

#: Layout of :data:`PLAN`.
SCHEMA = 1

#: The link to the folder of the last session, in the results.
LATEST = "latest"


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
