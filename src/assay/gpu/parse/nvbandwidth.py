"""nvbandwidth of NVIDIA, 0.1 to 0.8: matrices of copies between host and GPUs, as text.

output.cpp prints the text. The program compares what it copied. Before 0.6, text has no last line:
one that was cut between two tests looks whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from assay.parse import Parsed, ParseError, Row
from assay.parse.reading import read_as, recogniser, split, without_warnings
from assay.parse.tables import Column, Line, capped, cells, quote, units

KNOWN = ("0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8")
PROGRAM = "nvbandwidth"

_VERSION = re.compile(r"nvbandwidth Version: v?(\S+)")
_RUNNING = re.compile(r"Running (\w+)\.")
_WAIVED = re.compile(r"Waiving \w+\.|Waived: ?")
_MATRIX = re.compile(r"((?:memcpy|memory|multicast|Device to|Bisect) .*?)(?: \((GB/s|ns)\))?")
_SUM = re.compile(r"(?:SUM|&&&& PERF) (\w+) (\S+)(?: \S+)?")
_ERROR = re.compile(r"(?:ERROR|Error|NVML_ERROR|ASSERT)\b.*| ?Invalid value .*|\[CUDA_ERROR.*")
_LAST = "Performance can vary with software drivers, hardware clocks, and system topology."
_COLUMNS = {"GB/s": Column("bandwidth", "GB/s"), "ns": Column("latency", "ns")}

recognise = recogniser(_VERSION, _RUNNING, re.compile(r"memcpy .* bandwidth \(GB/s\)"))


def parse_nvbandwidth(text: str) -> Parsed:
    """One row for each copy that was measured.

    Columns: ``test``, ``what`` (the heading of the matrix, without the unit), ``row`` and
    ``peer`` (numbers of GPUs or processes, as text), ``bandwidth`` [GB/s].

    Facts: ``waived``, how many tests could not run here; ``latencies``, the rows of the matrices in
    ns, with ``latency`` for the bandwidth.

    :raises ParseError: no test.
    """
    problems: list[str] = []
    lines = list(without_warnings(split(text)))
    version, test, what, unit, note, waived = "", "", "", "", False, 0
    columns: list[str] | None = None
    pending = ""
    rows: dict[str, list[Row]] = {"GB/s": [], "ns": []}
    its: list[Row] = []
    for number, said in lines:
        if named := _VERSION.fullmatch(said):
            problems += [f"line {number}: a second run"] if version else []
            version = named[1]
        elif running := _RUNNING.fullmatch(said):
            problems += [f"line {number}: {pending} has no end"] if pending else []
            test = pending = running[1]
            columns = None
        elif test and (head := _MATRIX.fullmatch(said)):
            what, unit, pending, columns, its = head[1], head[2] or "GB/s", test, [], []
        elif columns and (total := _SUM.fullmatch(said)):
            problems += _other_sum((number, total[2]), its, _COLUMNS[unit])
            rows[unit] += its
            columns, pending = None, ""
        elif columns == []:
            columns = said.split()
        elif columns and len(values := said.split()) == len(columns) + 1 and values[0][0].isdigit():
            for peer, value in zip(columns, values[1:]):
                # A GPU copies nothing to itself; old versions print 0.00 there.
                itself = value == "0.00" and values[0] == peer and "GPU(row)" in what
                if value != "N/A" and not itself:
                    place = {"test": test, "what": what, "row": values[0], "peer": peer}
                    found = cells((number, value), (_COLUMNS[unit],), problems)
                    its += [place | dict(cell) for cell in found]
        elif _ERROR.fullmatch(said) or (columns and said):
            problems.append(f"line {number}: {quote(said)} stands where a row would")
        waived += bool(_WAIVED.fullmatch(said))
        note |= said == _LAST
    if not version and not test:
        raise ParseError("no test of nvbandwidth")
    problems += [f"{pending} has no end"] if pending else []
    ended = note or version < "0.6"
    problems += [] if ended else ["the note at the end is missing: the output was cut"]
    return Parsed(
        PROGRAM, PROGRAM, version or None, bool(ended and not pending and rows["GB/s"]),
        tuple(rows["GB/s"]), units([_COLUMNS["GB/s"]]), capped(problems, lines),
        {"waived": waived, "latencies": rows["ns"], **(read_as(version, KNOWN) if version else {})},
    )  # fmt: skip


def _other_sum(stated: Line, rows: Sequence[Row], column: Column) -> list[str]:
    """A problem if the sum that the program states is not that of the values, of two digits."""
    problems: list[str] = []
    its = sum(float(row[column.name]) for row in rows)
    for total in cells(stated, (column,), problems) if rows else ():
        if abs(its - float(total[column.name])) > 0.006 * (len(rows) + 1) + 1e-5 * its:
            problems.append(f"line {stated[0]}: the sum is {stated[1]}, that of the rows {its:.2f}")
    return problems
