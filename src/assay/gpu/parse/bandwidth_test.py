"""bandwidthTest of NVIDIA's CUDA samples and demo suite: copies between host and GPU.

bandwidthTest.cu, checked from CUDA 10.1 to 12.5, prints GB/s of 10^9 B/s. Before, and in the demo
suite, it prints MB/s of 2^20 B/s. It prints no version. A copy within a GPU counts twice: each byte
is read and written. The program does not look at the copied bytes: ``Result = PASS`` only says that
it came to its end. The times of ``--csv`` follow from the rates, so they prove nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from assay.parse import Parsed, ParseError, Row
from assay.parse.reading import MIB_PER_S, recogniser, split, without_warnings
from assay.parse.tables import SIZE, Column, Line, capped, cells, quote, units

_TITLE = re.compile(r"\[CUDA Bandwidth Test\] - Starting\.\.\.")
_DEVICE = re.compile(r" Device \d{1,4}: (.*)")
_WAY = re.compile(r" *(Host|Device) to (Host|Device) Bandwidth, (\d{1,4}) Device\(s\)")
_MEMORY = re.compile(r" *(PINNED|PAGEABLE) Memory Transfers")
_HEAD = re.compile(
    r"\s*(?:(Write-Combined Memory Writes are Enabled)\s*)?"
    r"Transfer Size \(Bytes\)\s+Bandwidth\(([GM]B)/s\)"
)
_ROW = re.compile(r"\s*[-+]?(?:\d|nan|inf).*")
_CSV = re.compile(
    r"bandwidthTest-(H2D|D2H|D2D)(?:-(Paged|Pinned))?(-WriteCombined)?, "
    r"Bandwidth = (\S+) ([GM]B)/s, Time = \S+ s, Size = (\S+) bytes, NumDevsUsed = (\d{1,4})"
)
#: One dot for each size and GPU, in the mode that measures many sizes.
_DOTS = re.compile(r"\.+")
_RESULT = re.compile(r"Result = (PASS|FAIL)")
_ERROR = re.compile(
    r"CUDA error at .*|cudaGetDevice\w+ returned \d+|!!!!!(?!Cumulative).*|Error: .*"
    r"|Not enough memory .*|Invalid m(?:emory m)?ode .*|Illegal argument .*|Must specify .*"
)
_COLUMNS = {
    "GB": (SIZE, Column("bandwidth", "MB/s", rounds=True, factor=1e3)),
    "MB": (SIZE, Column("bandwidth", "MB/s", rounds=True, factor=MIB_PER_S)),
}
_MEMORIES = {"Paged": "pageable", "Pinned": "pinned", None: ""}

recognise = recogniser(_TITLE, _WAY, _CSV)


def parse_bandwidth_test(text: str) -> Parsed:
    """Read the output of one run of bandwidthTest, as tables or with ``--csv``.

    There is one row for each copy: ``way`` (``H2D``, ``D2H``, ``D2D``: host, device), ``memory``
    (``pinned``, ``pageable``, with `` write-combined``; empty for D2D), ``size`` [B] and
    ``bandwidth`` [MB/s, 10^6 B/s], the sum over the GPUs.

    Facts: ``devices``, the names of the GPUs; ``gpus``, how many were used at once.

    :raises ParseError: no rate.
    """
    lines = list(without_warnings(split(text)))
    problems = [f"line {number}: {quote(said)}" for number, said in lines if _ERROR.fullmatch(said)]
    rounded: list[str] = []
    rows, gpus = _copies(lines, problems, rounded)
    if not rows:
        raise ParseError(f"no rate of bandwidthTest{': ' + problems[0] if problems else ''}")
    if len({(row["way"], row["memory"], row["size"]) for row in rows}) != len(rows):
        problems.append("a size has more than one rate (appended outputs?)")
    dots = sum(len(said) for _, said in lines if _DOTS.fullmatch(said))
    if lacking := bool(dots) and dots != len(rows) * gpus:
        problems.append(f"{len(rows)} rates of {gpus} GPUs, {dots} were measured")
    results = [ended[1] for _, said in lines if (ended := _RESULT.fullmatch(said))]
    if results != ["PASS"]:
        problems.append(f"the result is {' and '.join(results) or 'missing: the output was cut'}")
    devices = [device[1] for _, said in lines if (device := _DEVICE.fullmatch(said))]
    return Parsed(
        "bandwidth-test", "bandwidthTest", None, bool(results) and not lacking, tuple(rows),
        units(_COLUMNS["GB"]), capped(problems, lines), {"devices": devices, "gpus": gpus},
        tuple(rounded),
    )  # fmt: skip


def _copies(
    lines: Sequence[Line], problems: list[str], rounded: list[str]
) -> tuple[list[Row], int]:
    """The rows, and how many GPUs were used at once."""
    rows: list[Row] = []
    gpus, way, memory, unit, empty = 0, "", "", "", 0
    for number, said in lines:
        values = ""
        if csv := _CSV.fullmatch(said):
            way, memory, unit = csv[1], _MEMORIES[csv[2]] + _combined(csv[3]), csv[5]
            values, gpus = f"{csv[6]} {csv[4]}", max(gpus, int(csv[7]))
        elif head := _WAY.fullmatch(said):
            problems += _without_rows(empty)
            way, unit, empty = f"{head[1][0]}2{head[2][0]}", "", number
            gpus = max(gpus, int(head[3]))
        elif kind := _MEMORY.fullmatch(said):
            memory = kind[1].lower() if way != "D2D" else ""
        elif title := _HEAD.fullmatch(said):
            memory, unit = memory + _combined(title[1] and memory), title[2]
        elif unit and _ROW.fullmatch(said):
            values, empty = said, 0
        elif said.startswith("bandwidthTest-"):
            problems.append(f"line {number}: not a row of bandwidthTest: {quote(said)}")
        if values:
            found = cells((number, values), _COLUMNS[unit], problems, rounded)
            rows += [{"way": way, "memory": memory, **cell} for cell in found]
    problems += _without_rows(empty)
    return rows, gpus


def _without_rows(heading: int) -> list[str]:
    return [f"line {heading}: a heading without a rate below it"] if heading else []


def _combined(said: str | None) -> str:
    return " write-combined" if said else ""
