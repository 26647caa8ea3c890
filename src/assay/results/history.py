"""``assay history``: collects the results of many runs in one ReFrame store and shows them.

A run that is split into jobs leaves a ``results.db`` for each job. ``assay history add`` puts their
sessions into one store. It stores each session once, even if the session is added several times. It
never changes a session that is in the store. The store is written whole or not at all.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import fcntl
import html
import json
import math
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay import files
from assay.reframe_compat import store

DATABASE, PERFLOG = "results.db", "perflog.jsonl"


class HistoryError(Exception):
    """A store cannot be read or written; the message is one line with its name and the remedy."""


def add(into: Path, sources: Sequence[Path]) -> tuple[int, list[str]]:
    """Add the sessions of several results directories to the directory `into`.

    A second call waits until the first has ended.

    :returns: how many sessions are new, and one line for each source that was left out, with the
        reason.
    :raises HistoryError: the store in `into` is damaged. Nothing is changed then.
    :raises OSError: a file cannot be written. The store is unchanged then.
    """
    into.mkdir(parents=True, exist_ok=True)
    left_out = []
    lock = (into / ".history.lock").open("w")
    with lock, tempfile.TemporaryDirectory() as scratch:
        fcntl.flock(lock, fcntl.LOCK_EX)
        merged = Path(scratch) / DATABASE
        if (into / DATABASE).exists():
            _check(into / DATABASE)
            merged.write_bytes((into / DATABASE).read_bytes())
        lines = dict.fromkeys(_lines(into / PERFLOG))
        before = _create(merged)
        for source in sources:
            try:
                _check(source / DATABASE)
            except HistoryError as error:
                left_out.append(str(error))
                continue
            _copy(source / DATABASE, merged)
            lines.update(dict.fromkeys(_lines(source / PERFLOG)))
        new = _create(merged) - before
        # The store comes last. If this write fails, the next call writes the same lines again.
        files.write(into / PERFLOG, "".join(lines))
        files.write(into / DATABASE, merged.read_bytes())
    return new, left_out


def _lines(path: Path) -> list[str]:
    """The lines that are valid JSON; a job that was killed may have left half a line."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    found = []
    for line in text.splitlines(keepends=True):
        with contextlib.suppress(ValueError):
            json.loads(line)
            found.append(line if line.endswith("\n") else line + "\n")
    return found


def _open(path: Path, mode: str = "rwc") -> contextlib.closing[sqlite3.Connection]:
    return contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True))


def refuse_damaged(path: Path) -> None:
    """Refuses a store that exists and is damaged: ReFrame would only warn, and store nothing.

    :raises HistoryError: the store is damaged.
    """
    if not path.exists():
        return
    try:
        with _open(path, "ro") as connection:
            (state,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        state = str(error)
    if state != "ok":
        raise HistoryError(
            f"{path}: damaged ({state}); restore it from a copy, or move it away: this run could "
            f"not be stored. {PERFLOG} beside it has the numbers of earlier runs"
        )


def _create(path: Path) -> int:
    """Create the tables that are missing; returns the number of sessions."""
    with _open(path) as connection, connection:
        connection.executescript(store.TABLES)
        if not connection.execute("SELECT 1 FROM metadata").fetchone():
            connection.execute("INSERT INTO metadata VALUES (?)", (store.SCHEMA,))
        return int(connection.execute("SELECT count(*) FROM sessions").fetchone()[0])


def _check(path: Path) -> None:
    """Refuse a store that is not whole.

    :raises HistoryError: the store is missing, is damaged, has another schema, or holds a session
        that is incomplete.
    """
    if not path.is_file():
        raise HistoryError(f"{path}: there is no store of results")
    try:
        with _open(path, "ro") as connection:
            (state,) = connection.execute("PRAGMA integrity_check").fetchone()
            versions = connection.execute("SELECT schema_version FROM metadata").fetchall()
            if state != "ok":
                raise HistoryError(f"{path}: damaged ({state}); restore it from a copy")
            if versions != [(store.SCHEMA,)]:
                raise HistoryError(
                    f"{path}: schema {versions!r}, not {store.SCHEMA}: of another ReFrame; "
                    "start a new history"
                )
            for uuid, blob in connection.execute("SELECT uuid, json_blob FROM sessions"):
                if json.loads(blob)["session_info"]["uuid"] != uuid:
                    raise ValueError
    except sqlite3.Error as error:
        raise HistoryError(
            f"{path}: no store of ReFrame's ({error}); restore it from a copy"
        ) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise HistoryError(f"{path}: a session in it is torn; restore it from a copy") from None


def _copy(source: Path, into: Path) -> None:
    with _open(into) as connection:
        connection.execute("ATTACH ? AS more", (f"{source.resolve().as_uri()}?mode=ro",))
        with connection:
            connection.execute(
                "INSERT INTO testcases SELECT * FROM more.testcases WHERE session_uuid IN "
                "(SELECT uuid FROM more.sessions) AND session_uuid NOT IN "
                "(SELECT uuid FROM main.sessions)"
            )
            connection.execute(
                "INSERT INTO sessions SELECT * FROM more.sessions WHERE uuid NOT IN "
                "(SELECT uuid FROM main.sessions)"
            )


@dataclass(frozen=True)
class Run:
    """All sessions of one pipeline, or a session that belongs to none.

    :ivar values: the values by (case, metric with its unit), in the order of the store. A value is
        None if the case failed before it had a number.
    """

    name: str
    start: float
    values: dict[tuple[str, str], float | None]


def runs(store: Path) -> list[Run]:
    """The runs in the store, in order of time.

    :raises HistoryError: the store is missing or damaged.
    """
    _check(store)
    found: dict[str, Run] = {}
    with _open(store, "ro") as connection:
        for (blob,) in connection.execute(
            "SELECT json_blob FROM sessions ORDER BY session_start_unix"
        ):
            session = json.loads(blob)
            info = session["session_info"]
            start = float(info["time_start_unix"])
            name = str(info.get("pipeline") or info["uuid"][:8])
            run = found.setdefault(name, Run(name, start, {}))
            for entry in (entry for part in session["runs"] for entry in part["testcases"]):
                run.values.update(_values(entry))
    return list(found.values())


def _values(entry: dict[str, Any]) -> Iterator[tuple[tuple[str, str], float | None]]:
    where = f"{entry['system']}:{entry['partition']}+{entry['environ']}"
    case = f"{entry['display_name']} @{where}"
    measured = entry.get("perfvalues") or {}
    for key, (value, *_, unit, _) in measured.items():
        yield (case, f"{key.rsplit(':', 1)[-1]} [{unit}]"), float(value)
    if entry["result"] != "skip" and not measured:
        yield (case, "result"), 1.0 if entry["result"] == "pass" else None


def rows(found: Sequence[Run]) -> list[list[str]]:
    """The runs as a table: a header, then one line for each metric of each case."""
    keys = sorted({key for run in found for key in run.values})
    head = ["case", "metric"] + [f"{_date(run.start)} {run.name}" for run in found]
    return [head] + [[*key, *(_cell(run, key) for run in found)] for key in keys]


def _date(start: float) -> str:
    return f"{datetime.datetime.fromtimestamp(start).astimezone():%Y-%m-%d %H:%M}"


def _cell(run: Run, key: tuple[str, str]) -> str:
    if key in run.values:
        value = run.values[key]
        return "failed" if value is None else "passed" if key[1] == "result" else f"{value:.6g}"
    return ""


#: Width and height of the picture of a trend, and its margin, which leaves room for the last point.
_WIDE, _HIGH, _ROOM = 120, 24, 3


def trend(values: Sequence[float | None]) -> str:
    """The values of a metric, run by run, as a small picture (SVG); "" for less than two values.

    The range from the smallest to the largest value fills the height. A run without a value is left
    out.
    """
    points = [(n, v) for n, v in enumerate(values) if v is not None and math.isfinite(v)]
    if len(points) < 2:
        return ""
    least, most = (edge(value for _, value in points) for edge in (min, max))
    across = (_WIDE - 2 * _ROOM) / (len(values) - 1)
    up = (_HIGH - 2 * _ROOM) / (most - least) if most > least else 0.0
    at = [(_ROOM + n * across, _HIGH - _ROOM - (value - least) * up) for n, value in points]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
    return (
        f'<svg width="{_WIDE}" height="{_HIGH}" role="img" aria-label="{least:.6g} to {most:.6g}">'
        f'<polyline points="{line}" fill="none" stroke="#0072b2" stroke-width="1.5"/>'
        f'<circle cx="{at[-1][0]:.1f}" cy="{at[-1][1]:.1f}" r="2.5" fill="#d55e00"/></svg>'
    )


def _row(line: Sequence[str], found: Sequence[Run]) -> str:
    case, metric = line[:2]
    cells = [f"<td>{html.escape(cell)}</td>" for cell in line]
    drawn = trend([run.values.get((case, metric)) for run in found])
    return f"<tr>{''.join(cells[:2])}<td>{drawn}</td>{''.join(cells[2:])}</tr>"


def page(found: Sequence[Run], title: str) -> str:
    """The table as a self-contained HTML page, with the trend of each metric."""
    first, *rest = rows(found)
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in [*first[:2], "trend", *first[2:]])
    lines = "\n".join(_row(line, found) for line in rest)
    return (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8">'
        f"<title>{html.escape(title)}</title>\n"
        "<style>body{font:14px sans-serif}td,th{border:1px solid #999;padding:2px 6px;"
        "text-align:right}td:nth-child(-n+2){text-align:left}table{border-collapse:collapse}</style>"
        f"\n<h1>{html.escape(title)}</h1>\n<table>\n<tr>{head}</tr>\n{lines}\n</table></html>\n"
    )


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command ``history`` to the command ``assay``."""
    parser = commands.add_parser("history", help="keep the results of many runs, and show them")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    adds = actions.add_parser(
        "add",
        help="add what runs measured",
        description="Each session is added once. A source that is not whole is named and left out. "
        "Exit code 2 when the history itself is damaged or cannot be written: it stays as it is.",
    )
    adds.add_argument("into", type=Path, metavar="DIR", help="the history")
    adds.add_argument(
        "sources", type=Path, nargs="+", metavar="RESULTS", help="results directories"
    )
    adds.set_defaults(run=_add)
    shows = actions.add_parser("show", help="each metric of each case, run by run")
    shows.add_argument("store", type=Path, metavar="DIR", help="the history")
    shows.add_argument("--last", type=int, default=10, metavar="N", help="runs (default: 10)")
    shows.add_argument("--page", type=Path, metavar="FILE", help="write HTML, too")
    shows.set_defaults(run=_show)


def _add(args: argparse.Namespace) -> int:
    try:
        new, left_out = add(args.into, args.sources)
    except (HistoryError, OSError) as error:
        print(f"assay history: {error}", file=sys.stderr)
        return 2
    for line in left_out:
        print(f"assay history: left out: {line}", file=sys.stderr)
    print(f"assay history: {new} new sessions in {args.into / DATABASE}")
    return 0


def _show(args: argparse.Namespace) -> int:
    try:
        found = runs(args.store / DATABASE)[-max(args.last, 1) :]
        if args.page:
            files.write(args.page, page(found, "History"))
    except (HistoryError, OSError) as error:
        print(f"assay history: {error}", file=sys.stderr)
        return 2
    for line in rows(found):
        print(*line, sep=" | ")
    return 0
