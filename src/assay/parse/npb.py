"""NPB, the NAS Parallel Benchmarks: eight programs, and BT-IO in its four ways of writing.

The programs are BT, CG, EP, FT, IS, LU, MG and SP. The parser was checked against NPB 3.4.3 (MPI).
Each program prints its own header and its own check; the results come from
``common/print_results.f90``, those of IS from ``common/c_print_results.c``, and the BTIO statistics
from ``BT/bt.f90``. ``common/get_active_nprocs.f90`` and ``IS/is.c`` refuse a number of ranks that
does not suit the program. BT exits with 0 even if its own check fails, if the file system is full,
or if the problem does not fit the compiled arrays.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay import files
from assay.parse import Parsed, ParseError, Value
from assay.parse.reading import first, integer, only, real, recogniser, split, without_warnings
from assay.parse.tables import Identity, contradictions

VERSIONS = ("3.4",)

#: Program -> class -> size, number of iterations (EP prints 0). The size is that of a grid of
#: points, the order of the matrix of CG, the numbers of EP, or the keys of IS. Beside them are the
#: nonzeros of a row of CG. From NPB 3.4.3: sys/setparams.c and IS/is.c of NPB3.4-MPI.
CLASSES: dict[str, dict[str, tuple[tuple[int, ...], int]]] = {}
_NONZEROS: dict[str, int] = {}
with Path(__file__).with_name("npb_classes.csv").open(encoding="utf-8") as _file:
    for _line in csv.DictReader(_file):
        _points = tuple(map(int, _line["size"].split("x")))
        CLASSES.setdefault(_line["program"], {})[_line["class"]] = _points, int(_line["iterations"])
        if _line["nonzeros"]:
            _NONZEROS[_line["class"]] = int(_line["nonzeros"])

#: The programs, by the beginning of their names.
KERNELS = tuple(sorted(CLASSES))

#: Program -> operations, from number of points, points in one direction, number of iterations. The
#: main file of each program counts them, for example CG/cg.f90.
_OPERATIONS: Mapping[str, Callable[[float, float, int], float]] = {
    "bt": lambda n, edge, steps: steps * (3478.8 * n - 17655.7 * edge**2 + 28023.7 * edge),
    "sp": lambda n, edge, steps: (
        steps * (881.174 * n - 4683.91 * edge**2 + 11484.5 * edge - 19272.4)
    ),
    "lu": lambda n, edge, steps: (
        steps * (1984.77 * n - 10923.3 * edge**2 + 27770.9 * edge - 144010.0)
    ),
    "mg": lambda n, _, steps: 58.0 * steps * n,
    "ft": lambda n, _, steps: (
        n * (14.8157 + 7.19641 * math.log(n) + (5.23518 + 7.21113 * math.log(n)) * steps)
    ),
    "ep": lambda n, *_: n,
    "is": lambda n, _, steps: steps * n,
}


def npb_operations(
    kernel: str, size: Sequence[int], iterations: int, npb_class: str
) -> float | None:
    """The operations that a program counts; None if they do not follow from these numbers.

    :param size: as the program prints it, one number or three.
    """
    points, edge = float(math.prod(size)), sum(size) / len(size)
    if kernel == "cg" and npb_class in _NONZEROS:
        nonzeros = _NONZEROS[npb_class]
        filled = nonzeros * (nonzeros + 1)
        return 2.0 * iterations * points * (3 + filled + 25 * (5 + filled) + 3)
    if kernel not in _OPERATIONS or points <= 0:
        return None
    return _OPERATIONS[kernel](points, edge, iterations)


_FORMAT = files.own(__file__, dict[str, Any])
UNITS = {"iterations": "1", "processes": "1", **dict(_FORMAT["results"].values())}
IO_UNITS = dict(_FORMAT["statistics"].values())

_HEADER = re.compile(r" NAS Parallel Benchmarks\b(.*) Benchmark$")
_KNOWN = re.compile(rf" (\S+) -- ({'|'.join(KERNELS).upper()})$")
# IS has words of its own for a number of ranks that does not suit it.
_REFUSAL = re.compile(
    r" (?:\*\*\* (?=ERROR determining processor topology for )"
    r"|(?=ERROR: Number of processes \(\d+\) is not a power of two"
    r"|ERROR: number of processes \d+ not within range ))(.*)$"
)
_SIZE = re.compile(
    r" (?:Size *|Number of random numbers generated): *(\d{1,15}(?:x *\d{1,9}x *\d{1,9})?)"
    r" +\(class (\w)\)$"
)
_RANKS = re.compile(r" (?:Total number|Number) of processes *: +(\d{1,9})$")
_EXTENT = re.compile(r"\d{1,15}(?:x\d{1,9}x\d{1,9})?", re.ASCII)
_BTIO = re.compile(r" BTIO -- (\S.*\S) write interval: +(\d{1,9})$")
_STATISTIC = re.compile(r" {3}([^\s:][^:]*): +(\S+)$")
_RESULT = re.compile(r" ([A-Z][\w/ ]*)= +(\S.*)$")
_INPUT = re.compile(r" Reading from input file (\S+)")
_TITLE = " BTIO -- statistics:"
_WRITES, _READS = " Writing data set", " Reading data set"
#: The closing lines, which follow the results in this order.
_LAST = (
    re.compile(r" Please send feedbacks and/or the results of this run to:$"),
    re.compile(r" NPB Development Team$"),
    re.compile(r" (?:Internet: )?npb@nas\.nasa\.gov$"),
)
_FAILURE = re.compile("|".join(_FORMAT["failures"]))

#: Bytes of each point in a write: five doubles (BT/full_mpiio.f90).
POINT = 40

#: What the programs print with two decimals.
_TWO_DECIMALS = dict.fromkeys((*dict(_FORMAT["results"].values()), *IO_UNITS), "0.00")
_IDENTITIES = [Identity(**said) for said in _FORMAT["identities"]]

_Found = Mapping[str, tuple[str, int]]

recognise = recogniser(_HEADER, _REFUSAL)


def parse_npb(text: str) -> Parsed:
    """Read the output of one run of a program of NPB.

    There is one row: ``class``, ``size`` (``12x12x12``, or the number of rows of CG, of keys of IS,
    of random numbers of EP), ``iterations`` (0 for EP), ``processes``, ``time`` [s], ``mops_total``
    and ``mops_per_process`` [Mop/s]; for BT-IO also ``io_time`` [s], ``io_share`` [% of the time],
    ``io_verify_time`` [s], ``io_written`` [MB] and ``io_rate`` [MB/s], where MB is 10^6 bytes. BT
    computes the number of written bytes and does not measure it; only the verification shows
    whether the bytes arrived. There is no row if one of these values is missing.

    :raises ParseError: no header, another version or program, more than one run, or a number of
        ranks that the program refuses.
    """
    lines = split(text)
    version, kernel = _version(lines)
    header = _header(lines)
    completed = re.compile(rf" {kernel.upper()} Benchmark Completed\.?$")
    begin = next((at for at, line in enumerate(lines) if completed.match(line)), len(lines))
    results = _named(lines, begin + 1, _RESULT)
    rest = iter(lines[begin:])  # each search goes on where one ended
    ended = all(any(map(last.match, rest)) for last in _LAST)
    titled = lines.index(_TITLE) + 1 if _TITLE in lines else len(lines)
    statistics = _named(lines, titled, _STATISTIC)
    mode = header.get("mode", ("", 0))[0]
    row, problems = _row(kernel, results, statistics if mode else {}, header)
    writes = [n for n, line in enumerate(lines, 1) if line.startswith(_WRITES)]
    reads = [n for n, line in enumerate(lines, 1) if line.startswith(_READS)]
    if row and mode:
        planned = int(row["iterations"]) // max(int(header["write_interval"][0]), 1)
        if len(writes) != planned:
            problems.append(f"{len(writes)} data sets were written, not {planned}")
    return Parsed(
        family="npb",
        program=f"{kernel}.{header.get('class', ('?', 0))[0]}.x{_FORMAT['suffixes'].get(mode, '')}",
        version=results.get("Version", (version, 0))[0],
        complete=(
            bool(row)
            and {"size", "processes"} <= set(header)
            and bool(mode) == bool(statistics) == bool(writes)
            and ended
        ),
        rows=(row,) if row else (),
        units={**UNITS, **IO_UNITS} if mode else UNITS,
        problems=(*_failures(lines), *problems),
        facts={
            name: int(value) if name in ("processes", "write_interval") else value
            for name, (value, _) in header.items()
        }
        | {
            "input_file": first(lines, _INPUT),
            "reads_between_writes": bool(reads and writes and reads[0] < writes[-1]),
        },
    )


def _version(lines: Sequence[str]) -> tuple[str, str]:
    """The version that the header names, and the program."""
    for number, (line, advice) in enumerate(zip(lines, [*lines[1:], ""]), 1):
        if match := _REFUSAL.match(line):
            raise ParseError(f"NPB refuses to run: {match[1]}: {advice.strip()}", number)
    number, banner = only(lines, _HEADER, "header of NPB")
    match = _KNOWN.match(banner[1])
    if not match or match[1] not in VERSIONS:
        why = f"only {', '.join(KERNELS).upper()} of NPB {', '.join(VERSIONS)} are known"
        raise ParseError(why, number, lines[number - 1])
    return match[1], match[2].lower()


def _header(lines: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Value and line of class, size, processes, mode and write_interval, if they are stated."""
    header: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(lines, 1):
        if match := _SIZE.match(line):
            header["class"] = (match[2], number)
            header["size"] = (match[1].replace(" ", ""), number)
        elif match := _RANKS.match(line):
            header["processes"] = (match[1], number)
        elif match := _BTIO.match(line):
            if match[1] not in _FORMAT["suffixes"]:
                raise ParseError("an unknown way of writing", number, line)
            header["mode"] = (match[1], number)
            header["write_interval"] = (match[2], number)
    return header


def _named(lines: Sequence[str], start: int, pattern: re.Pattern[str]) -> _Found:
    """Value and line of each ``name = value`` from item `start` on, to the first other line."""
    named: dict[str, tuple[str, int]] = {}
    for number, line in without_warnings(lines, start):
        match = pattern.match(line)
        if not match:
            break
        named[match[1].rstrip()] = (match[2], number)
    return named


def _row(
    kernel: str, results: _Found, statistics: _Found, header: _Found
) -> tuple[dict[str, Value], list[str]]:
    """The row and its problems; the row is empty unless all its values are there."""
    named = {**_FORMAT["results"], **(_FORMAT["statistics"] if "mode" in header else {})}
    found = {**results, **statistics}
    texts = ("Class", "Size", "Iterations", "Total processes", "Verification", "Version")
    if not {*texts, *named} <= set(found):
        return {}, []
    text, number = found["Size"]
    size = re.sub(r"\s", "", text)
    if not _EXTENT.fullmatch(size):
        raise ParseError(f"{size[:40]!r} is not a size", number)
    row: dict[str, Value] = {
        "class": found["Class"][0],
        "size": size,
        "iterations": integer(*found["Iterations"], "Iterations"),
        "processes": integer(*found["Total processes"], "Total processes"),
    }
    problems = []
    for name, (column, _) in named.items():
        text, number = found[name]
        value = real(text, number, f"{name} = {text}")
        row[column] = value
        if not (value > 0 if column in _FORMAT["positive"] else value >= 0):
            problems.append(f"line {number}: {name} = {text}: not a measurement")
    verification, number = found["Verification"]
    if verification != "SUCCESSFUL":
        problems.append(f"line {number}: Verification = {verification}")
    for column in ("class", "size", "processes"):
        stated, number = header.get(column, (str(row[column]), 0))
        if stated != str(row[column]):
            problems.append(f"line {number}: {column} {stated}, but {row[column]} in the results")
    return row, problems if problems else _contradictions(kernel, row, header)


def _contradictions(kernel: str, row: Mapping[str, Value], header: _Found) -> list[str]:
    """Numbers that do not follow from each other."""
    at: dict[str, Any] = dict(row)
    steps, size = at["iterations"], tuple(map(int, at["size"].split("x")))
    if counted := npb_operations(kernel, size, steps, at["class"]):
        at["counted"] = counted
    if every := int(header["write_interval"][0]) if "write_interval" in header else 0:
        at["planned"] = -(-steps // every) * math.prod(size) * POINT / 1e6
    said = contradictions(_IDENTITIES, at, _TWO_DECIMALS)
    usual, wanted = CLASSES[kernel].get(at["class"], (size, steps))
    if wanted != steps:
        said.append(f"{steps} steps, but class {at['class']} has {wanted}")
    if usual != size:
        said.append(f"size {at['size']}, but class {at['class']} has {'x'.join(map(str, usual))}")
    return said


def _failures(lines: Sequence[str]) -> list[str]:
    """Error messages, each one once: a full file system repeats its message a thousand times."""
    seen: dict[str, list[int]] = {}
    for number, line in enumerate(lines, 1):
        if _FAILURE.match(line):
            seen.setdefault(line.strip(), []).append(number)
    return [
        f"line {at[0]}: {what}" + (f" ({len(at)} times)" if len(at) > 1 else "")
        for what, at in seen.items()
    ]
