"""What a session of ReFrame's store says of each case, whatever is missing in it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """One case of a session.

    :ivar test: displayed name, system, partition, environment.
    :ivar node: the node that it ran on, or how many there were, as ``4 nodes``; "" if unknown.
    :ivar single: whether it ran on exactly one node.
    :ivar result: ``pass``, ``fail``, ``skip`` or ``abort``, as ReFrame writes it; "" if missing.
    :ivar measured: (metric, unit) -> value; None if the value is missing or not finite.
    """

    test: tuple[str, str, str, str]
    node: str
    single: bool
    result: str
    measured: dict[tuple[str, str], float | None]


@dataclass(frozen=True)
class Session:
    """One session.

    :ivar start: seconds since 1970.
    :ivar run: name of the pipeline, or the first characters of the session's own name.
    """

    start: float
    run: str
    cases: list[Case]


def read(document: Any, start: float) -> Session:
    """A session from its JSON.

    ReFrame leaves no values for a case that failed before it had a number, and no list of cases for
    a session in which none ran.

    :param start: its start if the JSON does not have it.
    :raises ValueError: this is no session.
    """
    info = document.get("session_info") if isinstance(document, dict) else None
    if not isinstance(info, dict) or not isinstance(info.get("uuid"), str):
        raise ValueError("session_info is missing")
    began = _number(info.get("time_start_unix"))
    run = info.get("pipeline")
    return Session(
        start if began is None else began,
        info["uuid"][:8] if run in (None, "") else str(run),
        [_case(entry) for entry in _entries(document)],
    )


def _entries(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for run in document.get("runs") or ():
        for entry in (run.get("testcases") if isinstance(run, dict) else None) or ():
            if isinstance(entry, dict):
                yield entry


def _case(entry: dict[str, Any]) -> Case:
    nodes = [str(node) for node in entry.get("job_nodelist") or ()]
    name = _text(entry.get("display_name") or entry.get("name"))
    place = (_text(entry.get(key)) for key in ("system", "partition", "environ"))
    values = entry.get("perfvalues")
    measured = {}
    for key, found in values.items() if isinstance(values, dict) else ():
        # [value, reference, lower, upper, unit, result]
        parts = found if isinstance(found, (list, tuple)) else [found]
        unit = _text(parts[4]) if len(parts) > 4 else ""
        measured[key.rsplit(":", 1)[-1], unit] = _number(parts[0] if parts else None)
    system, partition, environ = place
    return Case(
        (name, system, partition, environ),
        nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes" if nodes else "",
        len(nodes) == 1,
        _text(entry.get("result")),
        measured,
    )


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # a whole number that is larger than every float
        return None
