"""The latest runs of a history, side by side."""

from __future__ import annotations

import datetime
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from assay.quantities import number


@dataclass(frozen=True)
class Run:
    """All sessions of one pipeline, or a session that belongs to none.

    :ivar start: seconds since 1970.
    :ivar values: the values by (case, metric with its unit), in the order of the sessions. A value
        is None if the case failed before it had a number.
    """

    name: str
    start: float
    values: dict[tuple[str, str], float | None]


#: The metric of a case that measured nothing: 1 if it passed, None if it failed.
RESULT = "result"

_WHERE = "t.name || ' @' || t.system || ':' || t.partition || '+' || t.environ"


def runs(connection: sqlite3.Connection, last: int) -> list[Run]:
    """The latest runs, in order of time.

    :param last: how many.
    :raises sqlite3.Error: the index is damaged.
    """
    names = connection.execute(
        "SELECT run, min(start) AS began FROM sessions WHERE problem IS NULL "
        "GROUP BY run ORDER BY began DESC LIMIT ?",
        (last,),
    ).fetchall()
    found = {name: Run(name, start, {}) for name, start in reversed(names)}
    for name, run in found.items():
        for session in connection.execute(
            "SELECT id FROM sessions WHERE run = ? AND problem IS NULL ORDER BY start", (name,)
        ).fetchall():
            run.values.update(_values(connection, session))
    return list(found.values())


def _values(
    connection: sqlite3.Connection, session: tuple[int]
) -> dict[tuple[str, str], float | None]:
    measured = connection.execute(
        f"SELECT {_WHERE}, m.name || ' [' || m.unit || ']', d.value "  # noqa: S608 - own text
        "FROM measured d INDEXED BY measured_by_session "
        "CROSS JOIN metrics m ON m.id = d.metric CROSS JOIN tests t ON t.id = m.test "
        "WHERE d.session = ? ORDER BY d.number",
        session,
    )
    values: dict[tuple[str, str], float | None] = {
        (case, metric): value for case, metric, value in measured
    }
    plain = connection.execute(
        f"SELECT {_WHERE}, c.result FROM cases c CROSS JOIN tests t ON t.id = c.test "  # noqa: S608
        "WHERE c.session = ? AND c.measured = 0 AND c.result != 'skip' ORDER BY c.number",
        session,
    )
    values.update(((case, RESULT), 1.0 if result == "pass" else None) for case, result in plain)
    return values


def rows(found: Sequence[Run]) -> list[list[str]]:
    """The runs as a table: a header, then one line for each metric of each case."""
    keys = sorted({key for run in found for key in run.values})
    head = ["case", "metric"] + [f"{date(run.start)} {run.name}" for run in found]
    return [head] + [[*key, *(_cell(run, key) for run in found)] for key in keys]


def date(start: float) -> str:
    """A time in seconds since 1970, in words, in the time zone of this machine."""
    return f"{datetime.datetime.fromtimestamp(start).astimezone():%Y-%m-%d %H:%M}"


def _cell(run: Run, key: tuple[str, str]) -> str:
    if key in run.values:
        value = run.values[key]
        return "failed" if value is None else "passed" if key[1] == RESULT else number(value, 6)
    return ""
