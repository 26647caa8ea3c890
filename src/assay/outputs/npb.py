"""NPB, the NAS Parallel Benchmarks: eight programs, and BT-IO in its four ways of writing.

The programs are BT, CG, EP, FT, IS, LU, MG and SP. The parser was checked against NPB 3.4.3 (MPI).
Each program prints its own header and its own check; the results come from
``common/print_results.f90``, those of IS from ``common/c_print_results.c``, and the BTIO statistics
from ``BT/bt.f90``. ``common/get_active_nprocs.f90`` and ``IS/is.c`` refuse a number of ranks that
does not suit the program. BT exits with 0 even if its own check fails, if the file system is full,
or if the problem does not fit the compiled arrays.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from assay.outputs._base import Parsed, ParseError, Value
from assay.outputs._npb_problems import CUBES, KERNELS, operations, problem
from assay.outputs._scan import integer, only, real, split, without_warnings

__all__ = ["CUBES", "KERNELS", "POINT", "operations", "parse", "problem", "recognise"]

VERSIONS = ("3.4",)

#: BT-IO's name of each way of writing -> suffix of the program built for it (BT/Makefile).
_SUFFIXES = {
    "FULL MPI-IO": ".mpi_io_full",
    "SIMPLE MPI-IO": ".mpi_io_simple",
    "EPIO": ".ep_io",
    "FORTRAN IO": ".fortran_io",
}
UNITS = {
    "iterations": "1",
    "processes": "1",
    "time": "s",
    "mops_total": "Mop/s",
    "mops_per_process": "Mop/s",
}
IO_UNITS = {
    "io_time": "s",
    "io_share": "%",
    "io_verify_time": "s",
    "io_written": "MB",
    "io_rate": "MB/s",
}
_RESULTS = {
    "Time in seconds": "time",
    "Mop/s total": "mops_total",
    "Mop/s/process": "mops_per_process",
}
_STATISTICS = {
    "I/O timing in seconds": "io_time",
    "I/O timing percentage": "io_share",
    "I/O timing in verify": "io_verify_time",
    "Total data written (MB)": "io_written",
    "I/O data rate  (MB/sec)": "io_rate",
}
# Times are rounded to 0.01 s and may be 0; these values may not be 0.
_POSITIVE = ("mops_total", "mops_per_process", "io_written", "io_rate")

_HEADER = re.compile(r" NAS Parallel Benchmarks\b(.*) Benchmark$")
_KNOWN = re.compile(rf" (\S+) -- ({'|'.join(KERNELS).upper()})$")
# IS has words of its own for a number of ranks that does not suit it.
_REFUSAL = (
    r" (?:\*\*\* (?=ERROR determining processor topology for )"
    r"|(?=ERROR: Number of processes \(\d+\) is not a power of two"
    r"|ERROR: number of processes \d+ not within range ))(.*)$"
)
_TOPOLOGY = re.compile(_REFUSAL)
_OURS = re.compile(rf"^(?: NAS Parallel Benchmarks\b.* Benchmark|{_REFUSAL})", re.MULTILINE)
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
_COMPLETED = re.compile(rf" ({'|'.join(KERNELS).upper()}) Benchmark Completed\.?$")
_WRITES, _READS = " Writing data set", " Reading data set"
_LAST = (
    re.compile(r" Please send feedbacks and/or the results of this run to:$"),
    re.compile(r" NPB Development Team$"),
    re.compile(r" (?:Internet: )?npb@nas\.nasa\.gov$"),
)
# What the programs, the Fortran runtime and Open MPI's file layer print when something goes wrong.
_FAILURE = re.compile(
    r" +[Ee]rror[ :](?!is )|Fortran runtime error: |mca_\w+: error |.*No space left on device"
    r"| +Problem size too big| (?:Result )?[Vv]erification failed| VERIFICATION FAILED"
    r"| N(?:o verification performed|O VERIFICATION PERFORMED)"
    r"|Failed partial verification|Processor \d+: +Full_verify: "
    r"| WARNING: Number of processes"
)

#: Bytes of each point in a write: five doubles (BT/full_mpiio.f90).
POINT = 40

# Half of the last printed digit, and a little for the conversion.
_HALF = 0.0051

_Found = Mapping[str, tuple[str, int]]


def recognise(text: str) -> bool:
    """Whether `text` holds the header of an NPB program, or its refusal to start."""
    return bool(_OURS.search(text))


def parse(text: str) -> Parsed:
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
    results = _results(lines, kernel)
    statistics = _statistics(lines)
    mode = header.get("mode", ("", 0))[0]
    row, problems = _row(kernel, results, statistics if mode else {}, header)
    writes = [n for n, line in enumerate(lines, 1) if line.startswith(_WRITES)]
    reads = [n for n, line in enumerate(lines, 1) if line.startswith(_READS)]
    if row and mode and "write_interval" in header and len(writes) != _planned(row, header):
        problems.append(f"{len(writes)} data sets were written, not {_planned(row, header)}")
    return Parsed(
        family="npb",
        program=f"{kernel}.{header.get('class', ('?', 0))[0]}.x{_SUFFIXES.get(mode, '')}",
        version=results.get("Version", (version, 0))[0],
        complete=(
            bool(row)
            and {"size", "processes"} <= set(header)
            and bool(mode) == bool(statistics) == bool(writes)
            and _ended(lines, kernel)
        ),
        rows=(row,) if row else (),
        units={**UNITS, **IO_UNITS} if mode else UNITS,
        problems=(*_failures(lines), *problems),
        facts={
            name: int(value) if name in ("processes", "write_interval") else value
            for name, (value, _) in header.items()
        }
        | {
            "input_file": next((match[1] for line in lines if (match := _INPUT.match(line))), None),
            "reads_between_writes": bool(reads and writes and reads[0] < writes[-1]),
        },
    )


def _planned(row: Mapping[str, Value], header: _Found) -> int:
    """The number of data sets that the steps of a run and its interval give."""
    return int(row["iterations"]) // max(int(header["write_interval"][0]), 1)


def _version(lines: Sequence[str]) -> tuple[str, str]:
    """The version that the header names, and the program."""
    for number, line in enumerate(lines, 1):
        if match := _TOPOLOGY.match(line):
            advice = lines[number].strip() if number < len(lines) else ""
            raise ParseError(f"NPB refuses to run: {match[1]}: {advice}", number)
    number, banner = only(lines, _HEADER, "header of NPB")
    match = _KNOWN.match(banner[1])
    if not match or match[1] not in VERSIONS:
        raise ParseError(
            f"only {', '.join(KERNELS).upper()} of NPB {', '.join(VERSIONS)} are known",
            number,
            lines[number - 1],
        )
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
            if match[1] not in _SUFFIXES:
                raise ParseError("an unknown way of writing", number, line)
            header["mode"] = (match[1], number)
            header["write_interval"] = (match[2], number)
    return header


def _completed(lines: Sequence[str], kernel: str) -> int | None:
    """Item of the line with which the results of `kernel` begin, None if it is missing."""
    begin = (
        at
        for at, line in enumerate(lines)
        if (m := _COMPLETED.match(line)) and m[1].lower() == kernel
    )
    return next(begin, None)


def _results(lines: Sequence[str], kernel: str) -> dict[str, tuple[str, int]]:
    """Value and line of each ``name = value`` that a program prints when it has finished."""
    results: dict[str, tuple[str, int]] = {}
    begin = _completed(lines, kernel)
    start = len(lines) if begin is None else begin + 1
    for number, line in without_warnings(lines, start):
        match = _RESULT.match(line)
        if not match:
            break
        results[match[1].rstrip()] = (match[2], number)
    return results


def _statistics(lines: Sequence[str]) -> dict[str, tuple[str, int]]:
    title = " BTIO -- statistics:"
    statistics: dict[str, tuple[str, int]] = {}
    start = lines.index(title) + 1 if title in lines else len(lines)
    for number, line in without_warnings(lines, start):
        match = _STATISTIC.match(line)
        if not match:
            break
        statistics[match[1].rstrip()] = (match[2], number)
    return statistics


def _row(
    kernel: str, results: _Found, statistics: _Found, header: _Found
) -> tuple[dict[str, Value], list[str]]:
    """The row and its problems; the row is empty unless all its values are there."""
    named = {**_RESULTS, **(_STATISTICS if "mode" in header else {})}
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
    for name, column in named.items():
        text, number = found[name]
        value = real(text, number, f"{name} = {text}")
        row[column] = value
        if not (value > 0 if column in _POSITIVE else value >= 0):
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
    """Numbers that do not follow from each other; the programs print them with two decimals."""
    at = {name: float(value) for name, value in row.items() if not isinstance(value, str)}
    steps, time, mops = at["iterations"], at["time"], at["mops_total"]
    size = tuple(map(int, str(row["size"]).split("x")))
    points, counted = math.prod(size), operations(kernel, size, int(steps), str(row["class"]))
    seconds = (counted or 0.0) / 1e6 / mops
    said = {
        f"time {time:g} s for {steps:g} steps at {mops:g} Mop/s": counted is None
        or _near(time, seconds, seconds * _HALF / mops),
        f"{mops:g} Mop/s of {at['processes']:g} processes with {at['mops_per_process']:g} each":
            abs(mops - at["processes"] * at["mops_per_process"]) <= 0.01 * at["processes"] + 0.01,
    }  # fmt: skip
    usual, wanted = problem(kernel, str(row["class"])) or (size, steps)
    if wanted != steps:
        said[f"{steps:g} steps, but class {row['class']} has {wanted}"] = False
    if usual != size:
        said[f"size {row['size']}, but class {row['class']} has {'x'.join(map(str, usual))}"] = (
            False
        )
    if "io_time" in at:
        io_time, written, share = at["io_time"], at["io_written"], at["io_share"]
        every = int(header["write_interval"][0]) if "write_interval" in header else 0
        said |= {
            f"I/O of {io_time:g} s in {time:g} s": io_time <= 1.05 * time + _HALF,
            f"{share:g} % of {time:g} s for I/O of {io_time:g} s": _near(
                io_time, share / 100 * time, 0.0001 * time + share / 100 * _HALF
            ),
            f"{written:g} MB in {io_time:g} s at {at['io_rate']:g} MB/s": _near(
                io_time,
                written / at["io_rate"],
                _HALF * (1 + written / at["io_rate"]) / at["io_rate"],
            ),
            f"{written:g} MB written every {every} steps": not every
            or abs(written + -steps // every * points * POINT / 1e6) <= _HALF,
        }
    return [
        f"the results contradict each other: {what}" for what, right in said.items() if not right
    ]


def _near(printed: float, exact: float, error: float = 0.0) -> bool:
    """Whether a number with two decimals is the rounded exact one, which is known to `error`."""
    return abs(printed - exact) <= _HALF + error + 0.001 * exact


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


def _ended(lines: Sequence[str], kernel: str) -> bool:
    """Whether the closing lines follow the results, in their order."""
    at = _completed(lines, kernel)
    for last in _LAST:
        at = next((n for n, line in enumerate(lines) if n >= (at or 0) and last.match(line)), None)
        if at is None:
            return False
    return True
