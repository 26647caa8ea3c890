"""NetPIPE over MPI (NPmpi; NPopenmpi of Debian), checked against 3.7.2.

Pass stdout, which has host names and options, and then stderr, which has the rows, or the two
merged. No line marks the end, and the program stops early once a message takes longer than a
second: only a caller that knows the ``-u`` of the run can tell whether the output is complete.

The unit "Mbps" is 2^20 bit/s (``bits / (t * 1024 * 1024)``, netpipe.c).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from assay.parse import Parsed
from assay.parse.reading import MIB_PER_S, recogniser
from assay.parse.tables import Column, Identity, Line, Table, begun, body, capped, units

PROGRAM = "NPmpi"

_START = re.compile("Now starting the main loop")
_HOST = re.compile(r"(\d{1,9}): (\S+)", re.ASCII)
_ROW = re.compile(
    r" *(\d{1,9}): +(\d+) bytes +(\d+) times --> +(\S+) Mbps in +(\S+) usec", re.ASCII
)
_PERTURBATION = re.compile(r"Using (?:a perturbation value of (\d{1,9})|no perturbations)")
_MODES = {
    "Passing data in both directions simultaneously.": "bidirectional",
    "Streaming in one direction only.": "streaming",
    "Using synchronous sends": "synchronous",
    "Preposting asynchronous receives": "asynchronous",
    "Performance measured without cache effects": "no cache",
    "Doing an integrity check instead of measuring performance": "integrity check",
}
_REFUSAL = re.compile(
    r"Need at least two processes \(only given \d+\)|Start MUST be LESS than end| NETPIPE USAGE"
)
_COLUMNS = (
    Column("size", "B", whole=True),
    Column("repeats", "1", whole=True),
    # The bandwidth of one byte in 12 ms is printed as 0.00.
    Column("bandwidth", "MB/s", positive=False, factor=MIB_PER_S / 8),
    Column("latency", "us"),
)

recognise = recogniser(_START, _REFUSAL)


def parse_netpipe(text: str, *, last_size: int | None = None) -> Parsed:
    """The rows: ``size`` [B], ``repeats``, ``bandwidth`` [MB/s], ``latency`` [us, one way].

    Facts: ``hosts`` (by rank) and ``ranks`` if stdout is in the text; ``modes``, such as
    ``bidirectional``; ``first_size``. The bandwidth of ``bidirectional`` is that of both directions
    together.

    :param last_size: the ``-u`` of the run [B]; without it no output is complete.
    :raises ParseError: no main loop, or the program refused to run.
    """
    lines, problems = body(text)
    start, _ = begun(lines, _START, [_REFUSAL], "no main loop of NetPIPE")
    facts, perturbations = _said(lines, problems)
    ways = 2 if "bidirectional" in facts["modes"] else 1  # whose bytes the rate counts
    moved = Identity(f"bandwidth * {MIB_PER_S / 8} * latency = {ways} * size")
    table = Table("NetPIPE", _COLUMNS, last_size, problems, identities=[moved])
    due = 0
    for number, line in lines[start + 1 :]:
        # A launcher may deliver lines of stdout between two rows of stderr.
        if not line or line in _MODES or _HOST.fullmatch(line) or _PERTURBATION.fullmatch(line):
            continue
        printed = _ROW.fullmatch(line)
        if printed is None:
            table.loose.append((number, line))
            continue
        table.read((number, " ".join(printed.groups()[1:])))
        if (index := int(printed[1])) != due:
            why = "rows are missing" if index > due else "of N singletons?"
            problems.append(f"line {number}: row {index} where {due} was to come ({why})")
        due = index + 1
    sizes = [int(row["size"]) for row in table.rows]
    facts["first_size"] = sizes[0] if sizes else None
    plan = _plan(sizes, perturbations, last_size) if sizes else []
    for size, planned in zip(sizes, plan):
        if size != planned:
            problems.append(f"size {size} where {planned} was to come: rows are missing")
            break
    complete = not table.is_cut(text) and last_size is not None and bool(sizes) and sizes == plan
    if not complete and last_size is not None:
        table.report([line for line in table.loose if re.search(r"\w", line[1])][:3])
        ends = f"the rows end at size {sizes[-1]}" if sizes else "no row"
        problems.append(f"{ends}, not {plan[-1] if plan else last_size}")
    rows, said = tuple(table.rows), capped(problems, table.loose if complete else ())
    return Parsed("netpipe", PROGRAM, None, complete, rows, units(_COLUMNS), said, facts)


def _said(lines: Sequence[Line], problems: list[str]) -> tuple[dict[str, Any], Sequence[int]]:
    """Facts, and the perturbations that the sizes may have."""
    facts: dict[str, Any] = {"modes": sorted({_MODES[t] for _, t in lines if t in _MODES})}
    hosts: dict[int, str] = {}
    perturbations: Sequence[int] = (3, 0)
    for number, line in lines:
        if host := _HOST.fullmatch(line):
            if int(host[1]) in hosts:
                problems.append(f"line {number}: rank {host[1]} again (of N singletons?)")
            hosts[int(host[1])] = host[2]
        elif stated := _PERTURBATION.fullmatch(line):
            perturbations = (int(stated[1] or 0),)
    if hosts:
        facts["hosts"] = [hosts[rank] for rank in sorted(hosts)]
        facts["ranks"] = len(hosts)
        if sorted(hosts) != [0, 1]:
            problems.append(f"{len(hosts)} ranks, NetPIPE is for two")
    return facts, perturbations


def _plan(sizes: Sequence[int], perturbations: Sequence[int], last_size: int | None) -> list[int]:
    """The sizes of a run that starts like this one and continues to `last_size`."""
    end = max(sizes) if last_size is None else last_size
    plans = [
        list(_sizes(start, end, perturbation))
        for perturbation in perturbations
        # The first row may have the lower bound (-l), or the lower bound minus the perturbation.
        for start in (sizes[0], sizes[0] + perturbation)
    ]
    return next((plan for plan in plans if plan[: len(sizes)] == list(sizes)), plans[0])


def _sizes(start: int, end: int, perturbation: int) -> Iterator[int]:
    """The sizes that ``-l start -u end -p perturbation`` runs through: main() of netpipe.c."""
    step, count, size = (start // 2, 1, start) if start > 1 else (1, 0, start)
    while size <= end:
        if count > 2 and count % 2:
            step *= 2
        if 0 < perturbation < step - 1:
            yield from (size - perturbation, size, size + perturbation)
        else:
            yield size
        size += step
        count += 1
