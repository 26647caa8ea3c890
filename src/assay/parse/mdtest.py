"""mdtest: ranks that create, stat, read and remove files, version 4.0 of IOR (mdtest.c).

mdtest ends with exit code 0 if the data that it read were wrong; only a line says so. It also goes
on after a file that it could not stat.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from assay.parse import Parsed, ParseError, Row
from assay.parse.ior import FAILURE, titled
from assay.parse.reading import CRASH, first, real, recogniser, split, without_warnings
from assay.parse.tables import Identity, capped, contradictions

#: Operation in the tables -> operation of a row. Operations on trees are not read.
_OPERATIONS = {
    "File creation": "create",
    "File stat": "stat",
    "File read": "read",
    "File removal": "remove",
}
_TITLE = re.compile(
    r"mdtest-(\S+) was launched with (\d{1,9}) total task\(s\) on (\d{1,9}) node\(s\)", re.ASCII
)
_COMMAND = re.compile(r"Command line used: (.*)")
_ITEMS = re.compile(r"(\d{1,9}) tasks, (\d{1,15}) files(?:/directories)?", re.ASCII)
_LIMITED = re.compile(r"Continue stonewall hit min: (\d{1,15}) max: (\d{1,15}) avg: .*", re.ASCII)
_TABLE = re.compile(r"SUMMARY (rate|time): \(of (\d{1,6}) iterations\)", re.ASCII)
_ROW = re.compile(r"   (File \w+) +(\S+) +(\S+) +(\S+) +(\S+)")
_PRINTED = {"rate": "0.000", "time": "0.000"}
_IDENTITIES = (
    Identity("0.001 <= rate", "{operation}: {rate} is not a rate"),
    Identity(
        "rate * time = files",
        "{operation}: {rate:.0f} op/s for {time:.3f} s are not {files} files",
        share=0.01,
    ),
)
_END = re.compile(r"-- finished at .* --")

recognise = recogniser(_TITLE)


def parse(text: str) -> Parsed:
    """Read the output of one run of ``mdtest`` that prints rates and times (``-P``).

    There is one row for each operation that ran: ``operation`` (``create``, ``stat``, ``read``,
    ``remove``), ``rate`` [op/s] and ``time`` [s], the means over the iterations.

    ``facts``: ``command_line``; ``ranks`` and ``nodes``; ``files``, the number of files of all
    ranks; ``limited``, whether the ranks stopped at the time limit (``-W``).

    :raises ParseError: no title, or several (ranks that ran alone), an unknown version, or a table
        with another number of iterations than one.
    """
    lines = split(text)
    title = titled(lines, _TITLE, "title of mdtest")
    ranks = int(title[2])
    problems = [
        f"line {at}: {line[:200]}"
        for at, line in without_warnings(lines, framed=True)
        if FAILURE.fullmatch(line) or CRASH.search(line)
    ]
    tables = _tables(lines)
    rates, times = tables.get("rate", {}), tables.get("time", {})
    rows: tuple[Row, ...] = tuple(
        {"operation": name, "rate": rate, "time": times[name]}
        for name, rate in rates.items()
        if name in times and (rate or times[name])
    )
    ended = any(map(_END.fullmatch, lines[:-1]))  # the last line has its end
    if not ended:
        problems.insert(0, "mdtest did not come to its end")
    files, limited = _files(lines, ranks)
    total = {} if files is None else {"files": files}
    for row in rows:
        problems += contradictions(_IDENTITIES, {**row, **total}, _PRINTED)
    return Parsed(
        family="mdtest",
        program="mdtest",
        version=title[1],
        complete=ended and bool(rows) and list(rates) == list(times) == list(_OPERATIONS.values()),
        rows=rows,
        units={"rate": "op/s", "time": "s"},
        problems=capped(problems),
        facts={
            "command_line": first(lines, _COMMAND),
            "ranks": ranks,
            "nodes": int(title[3]),
            "files": files,
            "limited": limited,
        },
    )


def _files(lines: Sequence[str], ranks: int) -> tuple[int | None, bool]:
    """The number of files of all ranks, and whether the time limit set it."""
    planned = None
    for line in lines:
        if said := _LIMITED.fullmatch(line):
            return ranks * int(said[2]), True
        if said := _ITEMS.fullmatch(line):
            planned = int(said[2])
    return planned, False


def _tables(lines: Sequence[str]) -> dict[str, dict[str, float]]:
    """Name of a table -> operation -> mean."""
    tables: dict[str, dict[str, float]] = {}
    table: dict[str, float] | None = None
    for number, line in enumerate(lines, 1):
        if head := _TABLE.fullmatch(line):
            if head[2] != "1" or head[1] in tables:
                raise ParseError("only one table of one iteration is read", number, line)
            table = tables[head[1]] = {}
        elif table is not None and (said := _ROW.fullmatch(line)) and said[1] in _OPERATIONS:
            table[_OPERATIONS[said[1]]] = real(said[4], number, line)
    return tables
