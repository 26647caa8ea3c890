"""mdtest: ranks that create, stat, read and remove files or directories (mdtest.c).

The form is that of mdtest 1.8 and 1.9, and of IOR 3.1 to 4.1, whose version mdtest has since 3.3.
mdtest ends with exit code 0 if the data that it read were wrong; only a line says so. It also goes
on after a file that it could not stat. Since 4.1 it titles times "in ms/op"; they are seconds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from assay.opinions.parse.ior import KNOWN, is_wrong
from assay.parse import Parsed, ParseError, Row
from assay.parse.reading import first, only, read_as, real, recogniser, split, without_warnings
from assay.parse.tables import Identity, capped, contradictions

#: Words of the tables that are always there -> operation of a row. Those on trees are not read.
_VERBS = {"creation": "create", "stat": "stat", "read": "read", "removal": "remove"}
_FILES = {f"File {noun}": verb for noun, verb in _VERBS.items()}
_DIRECTORIES = {
    f"Directory {noun}": f"{verb}_directory" for noun, verb in _VERBS.items() if noun != "read"
}
_RENAMED = {"File rename": "rename", "Directory rename": "rename_directory"}
_OPERATIONS = {**_FILES, **_DIRECTORIES, **_RENAMED}
_TREES = ("Tree creation", "Tree removal")
_TITLE = re.compile(
    r"mdtest-(\S+) was launched with (\d{1,9}) total task\(s\) on (\d{1,9}) ?node(?:\(s\)|s)",
    re.ASCII,
)
_COMMAND = re.compile(r"Command line used: (.*)")
_ITEMS = re.compile(r"(\d{1,9}) tasks, (\d{1,15}) (?:file|director)\S*", re.ASCII)
_LIMITED = re.compile(r"Continue stonewall hit min: (\d{1,15}) max: (\d{1,15}) avg: .*", re.ASCII)
_TABLE = re.compile(r"SUMMARY(?: (rate|time))?(?: \(in [\w/]+\))?: \(of (\d{1,6}) iterations\)")
_ROW = re.compile(r"   ((?:File|Directory|Tree) \w+) *(:?) +([^\s(].*)")
_PRINTED = dict.fromkeys(("rate", "least", "most", "time"), "0.000")
_WORDS = "{operation}: {rate:.0f} op/s for {time:.3f} s are not {files} files"
_ONE = Identity("rate * time = files", _WORDS, share=0.01)
_IDENTITIES = (
    Identity("0.001 <= rate", "{operation}: {rate} is not a rate"),
    # Sums of many iterations round.
    Identity("least <= rate <= most", share=1e-6),
)
_END = re.compile(r"-- finished at .* --")

recognise = recogniser(_TITLE)


def parse_mdtest(text: str) -> Parsed:
    """Read the output of one run of ``mdtest`` that prints rates, times (``-Z``) or both (``-P``).

    There is one row for each operation that ran: ``operation`` (``create``, ``stat``, ``read``,
    ``rename``, ``remove``; ``create_directory``...), ``rate`` [op/s] with ``least`` and ``most``,
    and ``time`` [s]: the means over the iterations.

    ``facts``: ``command_line``; ``ranks`` and ``nodes``; ``iterations``; ``files``, the number of
    files of all ranks, None if it was in a file (``-x``); ``limited``, whether the ranks stopped
    at the time limit (``-W``).

    :raises ParseError: no title, or several (ranks that ran alone), or several tables of one kind,
        for several numbers of ranks.
    """
    lines = split(text)
    _, title = only(lines, _TITLE, "title of mdtest")
    ranks = int(title[2])
    command = first(lines, _COMMAND) or ""
    problems = [
        f"line {at}: {line[:200]}"
        for at, line in without_warnings(lines, framed=True)
        if is_wrong(line)
    ]
    iterations, by_rank, tables = _tables(lines, problems)
    asked = ["rate", "time"] if _has(command, "P") else ["time" if _has(command, "Z") else "rate"]
    done = {name: _columns(said, tables) for said, name in _OPERATIONS.items()}
    rows: list[Row] = [{"operation": n, **said} for n, said in done.items() if any(said.values())]
    ended = any(map(_END.fullmatch, lines[:-1]))  # the last line has its end
    if not ended:
        problems.insert(0, "mdtest did not come to its end")
    files, limited = _files(lines, ranks)
    if _has(command, "x") and not limited:
        files = None  # a file says how many were created
    for row in rows:
        problems += contradictions(_IDENTITIES, row, _PRINTED)
        if files is not None and iterations == 1 and not by_rank:
            problems += contradictions([_ONE], {**row, "files": files}, _PRINTED)
    return Parsed(
        family="mdtest",
        program="mdtest",
        version=title[1],
        complete=ended and bool(rows) and sorted(tables) == asked and _whole(tables),
        rows=tuple(rows),
        units={"rate": "op/s", "least": "op/s", "most": "op/s", "time": "s"},
        problems=capped(problems),
        facts={
            "command_line": command or None,
            "ranks": ranks,
            "nodes": int(title[3]),
            "iterations": iterations,
            "files": files,
            "limited": limited,
            **read_as(title[1], ("1.8", "1.9", *KNOWN)),
        },
    )


def _has(command: str, letter: str) -> bool:
    """Whether an option is in the command line, which quotes its words since 1.9."""
    return re.search(rf"[\s'\"]-{letter}(?=[\s'\"=]|$)", command) is not None


def _files(lines: Sequence[str], ranks: int) -> tuple[int | None, bool]:
    """The number of files of all ranks, and whether the time limit set it."""
    planned = None
    for line in lines:
        if said := _LIMITED.fullmatch(line):
            return ranks * int(said[2]), True
        if said := _ITEMS.fullmatch(line):
            planned = int(said[2])
    return planned, False


#: Kind of a table -> name of an operation -> the greatest, the least and the mean of its numbers.
Tables = dict[str, dict[str, list[float]]]


def _tables(lines: Sequence[str], problems: list[str]) -> tuple[int, bool, Tables]:
    """The number of iterations, whether each rank has its own rate (until 3.3), and the tables."""
    iterations, by_rank = 0, False
    tables: Tables = {}
    table: dict[str, list[float]] | None = None
    for number, line in enumerate(lines[:-1], 1):
        if head := _TABLE.fullmatch(line):
            kind, iterations = head[1] or "rate", int(head[2])
            if kind in tables:
                raise ParseError("a second table: several numbers of ranks?", number, line)
            table = tables[kind] = {}
        elif table is not None and (said := _ROW.fullmatch(line)):
            words, by_rank = said[3].split(), by_rank or said[2] == ":"
            if len(words) not in (4, 7):  # with those of each rank before
                problems.append(f"line {number}: cut short: {line.strip()[:120]}")
                continue
            table[said[1]] = [real(word, number, line) for word in words[-4:-1]]
    return iterations, by_rank, tables


def _columns(said: str, tables: Tables) -> dict[str, float]:
    """The columns of an operation; none if one of the tables does not have it."""
    columns: dict[str, float] = {}
    for kind, table in tables.items():
        if said not in table:
            return {}
        columns |= dict(zip(("most", "least"), table[said])) if kind == "rate" else {}
        columns[kind] = table[said][2]
    return columns


def _whole(tables: Tables) -> bool:
    """Whether each table has all rows that mdtest prints."""
    whole = all({*_TREES} <= {*table} for table in tables.values())
    for kind in (_FILES, _DIRECTORIES):
        there = [[name for name in kind if name in table] for table in tables.values()]
        whole = whole and all(names in ([], [*kind]) and names == there[0] for names in there)
    return whole
