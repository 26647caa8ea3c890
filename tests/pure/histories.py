"""Histories of made sessions."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from assay.archive.history import store
from assay.judge import Verdict
from assay.store.cases import Case, Session
from assay.store.record import Metric

DAY = 86400.0


def case(
    value: float | None = 10.0,
    node: str = "node01",
    name: str = "Made",
    unit: str = "GB/s",
    **other: Any,
) -> Case:
    """A made case with one metric: a bandwidth of `value`."""
    known: dict[str, Any] = {
        "verdict": Verdict.PASS,
        "metrics": (Metric("bandwidth", value, unit, Verdict.PASS),),
        "recorded": True,
        "nodes": (node,),
        "scheduler": "slurm",
        "proves": {"rate": ("bandwidth",)},
    }
    return Case(name, name, f"{name}_{node}", "made", "net", "mpi", **{**known, **other})


def session(day: int, *cases: Case, **extras: str) -> Session:
    """A made session with these cases."""
    start = datetime.datetime.fromtimestamp(day * DAY, datetime.timezone.utc)
    return Session(
        Path("made"), f"{day:08d}-made", "vm", start, 0.0, "reframe", "4.10", cases, extras=extras
    )


def write(folder: Path, sessions: Iterable[Session]) -> Path:
    """Add sessions to the history of a folder, which is made if it does not exist."""
    with store.open_history(folder, create=True) as connection:
        for each in sessions:
            assert store.insert(connection, each)
    return folder
