"""IOR: ranks that write and read files in parallel, version 4.0 (ior-output.c, ior.c).

IOR's exit code is its number of errors, of which the shell keeps the last eight bits. It counts
each wrong place twice, so 128 wrong places end with exit code 0. IOR also goes on after a write
that was cut short. The parser therefore reports each warning, except those that follow from the
time limit of a phase (`stonewalling`): a rank then moves fewer bytes than its block has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from assay.parse import Parsed, ParseError, Value
from assay.parse.reading import (
    CRASH,
    first,
    integer,
    only,
    real,
    recogniser,
    split,
    without_warnings,
)
from assay.parse.tables import Identity, capped, contradictions

KNOWN = ("4.0",)
MIB = 2**20
#: A line by which IOR or mdtest reports that something is wrong.
FAILURE = re.compile(r"(?:WARNING|ERROR): .*|.*\bAssertion `.*' failed\.")

#: Header of the summary -> column of a row.
_COLUMNS = {
    "Operation": "operation",
    "Mean(MiB)": "bandwidth",
    "Mean(OPs)": "operations",
    "Mean(s)": "time",
    "Stonewall(s)": "limited_after",
    "Test#": "phase",
    "#Tasks": "ranks",
    "tPN": "ranks_per_node",
    "reps": "repetitions",
    "fPP": "file_per_rank",
    "reord": "shifted",
    "reordoff": "shift",
    "segcnt": "segments",
    "blksiz": "block",
    "xsize": "transfer",
    "API": "api",
}
_UNITS = {
    **{"bandwidth": "MiB/s", "operations": "op/s"},
    **dict.fromkeys(("time", "limited_after"), "s"),
    **dict.fromkeys(("moved", "block", "transfer"), "B"),
}
_WORDS = ("operation", "api")
_UNITS |= {name: "1" for name in _COLUMNS.values() if name not in (*_UNITS, *_WORDS)}
_PRINTED = {"bandwidth": "0.00", "time": "0.00000"}
_CONTRADICTS = "{operation}: {bandwidth:.2f} MiB/s for {time:.5f} s are not {moved} B"
_IDENTITIES = (
    Identity("0.01 <= bandwidth", _CONTRADICTS),
    Identity(f"bandwidth * time = moved / {MIB}", _CONTRADICTS, share=0.01),
)

_TITLE = re.compile(r"IOR-(\S+): MPI Coordinated Test of Parallel I/O")
_COMMAND = re.compile(r"Command line +: (.*)")
_PHASE = re.compile(r"TestID +: \d+")
_NODES = re.compile(r"nodes +: (\d{1,9})", re.ASCII)
_EXPECTED = re.compile(r"WARNING: Expected aggregate file size += (\d{1,19})", re.ASCII)
_FOUND = re.compile(r"WARNING: Stat\(\) of aggregate file size += (-?\d{1,19})", re.ASCII)
_MOVED = re.compile(r"WARNING: Using actual aggregate bytes moved = (\d{1,19})", re.ASCII)
_HARMLESS = re.compile(
    r"WARNING: (?:the StoneWallingStatusFile only preserves the last experiment, .*"
    r"|Maybe caused by deadlineForStonewalling)"
)
_SUMMARY = "Summary of all tests:"
_END = re.compile(r"Finished +: .*")

recognise = recogniser(_TITLE)


def parse(text: str) -> Parsed:
    """Read the output of one run of ``ior`` in its default format.

    There is one row for each phase that the summary lists: ``operation`` (``write`` or ``read``),
    ``bandwidth`` [MiB/s], ``operations`` [op/s], ``time`` [s], ``limited_after`` [s], the time
    after which the ranks stopped and then made up for the slower ones (0 without such a limit),
    ``moved`` [B], the bytes of all ranks, ``phase``, ``ranks``, ``ranks_per_node``,
    ``repetitions``, ``file_per_rank`` (0 or 1), ``shifted`` (0 or 1) and ``shift`` (whether and by
    how many nodes a rank reads beside what it wrote), ``segments``, ``block`` [B], ``transfer``
    [B], ``api``.

    ``facts``: ``command_line``; ``ranks`` and ``nodes``, as IOR counted them.

    :raises ParseError: no title, or several (ranks that ran alone), an unknown version, or a row
        that does not fit its header.
    """
    lines = split(text)
    title = titled(lines, _TITLE, "title of IOR")
    phases, problems = _phases(lines)
    rows = _rows(lines, problems)
    ended = any(map(_END.fullmatch, lines[:-1]))  # the last line has its end
    if not ended:
        problems.insert(0, "IOR did not come to its end")
    complete = ended and len(rows) == len(phases) > 0
    if ended and len(rows) != len(phases):
        problems.append(f"{len(phases)} phases began, the summary has {len(rows)}")
    # IOR states the bytes of a phase only if they are not those of all blocks.
    for row, stated in zip(rows, [*phases, *[None] * len(rows)]):
        planned = int(row["ranks"]) * int(row["segments"]) * int(row["block"])
        row["moved"] = planned if stated is None else stated
        problems += contradictions(_IDENTITIES, row, _PRINTED)
    nodes = {int(said[1]) for line in lines if (said := _NODES.fullmatch(line))}
    ranks = {row["ranks"] for row in rows}
    return Parsed(
        family="ior",
        program="ior",
        version=title[1],
        complete=complete,
        rows=tuple(rows),
        units=_UNITS,
        problems=capped(problems),
        facts={
            "command_line": first(lines, _COMMAND),
            "nodes": max(nodes, default=None),
            "ranks": ranks.pop() if len(ranks) == 1 else None,
        },
    )


def titled(lines: Sequence[str], pattern: re.Pattern[str], what: str) -> re.Match[str]:
    """The only title; its first group is the version.

    :raises ParseError: no title, several of them, or an unknown version.
    """
    number, title = only(lines, pattern, what)
    if ".".join(title[1].split(".")[:2]) not in KNOWN:
        raise ParseError(f"unknown version {title[1]}; known is {KNOWN[0]}", number, title[0])
    return title


def _phases(lines: Sequence[str]) -> tuple[list[int | None], list[str]]:
    """For each phase its bytes moved, where IOR states them; and the problems."""
    phases: list[int | None] = []
    problems: list[str] = []
    found: int | None = None
    for number, line in without_warnings(lines, framed=True):
        if _PHASE.fullmatch(line):
            phases.append(None)
        elif said := _FOUND.fullmatch(line):
            found = int(said[1])
        elif said := _MOVED.fullmatch(line):
            moved = int(said[1])
            if phases:
                phases[-1] = moved
            if found != moved:
                problems.append(f"line {number}: the files have {found} B, {moved} B were moved")
        elif _EXPECTED.fullmatch(line) or _HARMLESS.fullmatch(line):
            continue
        elif FAILURE.fullmatch(line) or CRASH.search(line):
            problems.append(f"line {number}: {line[:200]}")
    return phases, problems


def _rows(lines: Sequence[str], problems: list[str]) -> list[dict[str, Value]]:
    """The rows of the summary, without the bytes moved."""
    if _SUMMARY not in lines:
        return []
    at = lines.index(_SUMMARY) + 1
    head = lines[at].split() if at < len(lines) else []
    if not set(_COLUMNS) <= set(head):
        missing = next((name for name in _COLUMNS if name not in head), "")
        raise ParseError(f"the summary has no column {missing}", at + 1, " ".join(head))
    # "StdDev" stands twice; the names that are read stand once.
    places = {name: head.index(said) for said, name in _COLUMNS.items()}
    rows = []
    for number, line in enumerate(lines[at + 1 :], at + 2):
        if not line.startswith(("write", "read")):
            break
        cells = line.split()
        if len(cells) != len(head):
            problems.append(f"line {number}: cut short: {line.strip()[:120]}")
            break
        rows.append(
            {name: _cell(name, cells[place], number, line) for name, place in places.items()}
        )
    return rows


def _cell(name: str, said: str, number: int, line: str) -> Value:
    if name in _WORDS:
        return said
    if name == "limited_after" and said == "NA":
        return 0.0
    if name in ("bandwidth", "operations", "time", "limited_after"):
        return real(said, number, line)
    return integer(said, number, line)
