"""The files about itself that a run leaves beside its outputs, for later readers.

``output/<time>`` below the results is the folder of one session. :mod:`assay.store.running`
writes it. This module reads it without ReFrame.
"""

from __future__ import annotations

import fcntl
import json
import re
from pathlib import Path
from typing import Any, Literal

import msgspec

#: The lock file of the results. The run that writes to the results holds it by flock. The system
#: releases it however the run ends.
LOCK = ".lock"

#: ReFrame's log, in the folder of a session.
LOG = "reframe.log"

#: The list of cases of a session, in its folder, written before the first case starts.
PLAN = "session.json"

#: Version of the layout of :data:`PLAN`.
SCHEMA: Literal[1] = 1

#: The link to the folder of the last session, in the results.
LATEST = "latest"


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
        plan = msgspec.json.decode((folder / PLAN).read_bytes(), type=Plan)
        cases = tuple(case for case in plan.cases if not case["fixture"])
    except (OSError, ValueError, msgspec.DecodeError, LookupError, RecursionError):
        return None
    return msgspec.structs.replace(plan, cases=cases)


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
            written = json.loads(path.read_text(encoding="utf-8"))["session_info"]["prefix_output"]
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
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
        return (results / LOCK).read_text().strip() or "another run"
    except OSError:
        pass  # no such file, or no locks on this file system
    return ""
