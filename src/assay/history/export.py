"""Writes a history as one table that every analytics engine reads: CSV, or JSON lines."""

from __future__ import annotations

import codecs
import csv
import datetime
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from assay import files

COLUMNS = (
    "session", "run", "start", "case", "system", "partition", "environ", "node", "result", "metric",
    "unit", "value",
)  # fmt: skip

_QUERY = """
SELECT s.uuid, s.run, s.start, t.name, t.system, t.partition, t.environ, n.name, c.result, m.name,
    m.unit, d.value
FROM sessions s CROSS JOIN cases c ON c.session = s.id
CROSS JOIN tests t ON t.id = c.test CROSS JOIN nodes n ON n.id = c.node
LEFT JOIN measured d INDEXED BY measured_by_session ON d.session = s.id AND d.number = c.number
LEFT JOIN metrics m ON m.id = d.metric
WHERE s.problem IS NULL ORDER BY s.start, s.id, c.number
"""


def write(connection: sqlite3.Connection, path: Path) -> int:
    """Write each value on a line of its own; a case without a value has one line.

    A missing value is an empty field in CSV and null in JSON lines. `start` is in UTC (ISO 8601).

    :param path: JSON lines if its name ends in ``.jsonl``, else CSV.
    :returns: the number of lines, without the header of CSV.
    :raises OSError: the file cannot be written. What was there before is unchanged then.
    :raises sqlite3.Error: the index is damaged.
    """
    with files.replacing(path) as raw:
        stream = codecs.getwriter("utf-8")(raw)
        if path.suffix == ".jsonl":
            return _json_lines(stream, rows(connection))
        table = csv.writer(stream, lineterminator="\n")
        table.writerow(COLUMNS)
        count = 0
        for row in rows(connection):
            table.writerow(row)
            count += 1
        return count


def _json_lines(stream: codecs.StreamWriter, found: Iterator[tuple[object, ...]]) -> int:
    count = 0
    for row in found:
        stream.write(json.dumps(dict(zip(COLUMNS, row)), allow_nan=False) + "\n")
        count += 1
    return count


def rows(connection: sqlite3.Connection) -> Iterator[tuple[object, ...]]:
    """The rows of the table, in order of time; the columns are :data:`COLUMNS`."""
    for session, run, start, *others in connection.execute(_QUERY):
        at = datetime.datetime.fromtimestamp(start, datetime.timezone.utc)
        yield (session, run, at.isoformat(timespec="seconds"), *others)
