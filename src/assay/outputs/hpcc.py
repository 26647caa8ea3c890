"""HPCC, the HPC Challenge benchmark: the file ``hpccoutf.txt`` that ``hpcc`` writes.

The parser was checked against HPCC 1.5.0. Banner, sections and summary come from ``src/io.c``
(``HPCC_Init``, ``HPCC_Finalize``) and ``src/hpcc.c``. The check of RandomAccess comes from
``RandomAccess/MPIRandomAccess.c`` lines 879-884, that of PTRANS from ``PTRANS/pdtransdriver.c``
lines 519-541, and that of STREAM from ``STREAM/stream.c`` lines 258-308. The HPL section is an
output of HPL 2.0 and is read as such.

HPCC appends to its output file and never overwrites it. If its input file is missing or does not
fit the number of ranks, HPCC runs with parameters of its own and still exits with 0. So compare
``HPL_N``, ``HPL_NB`` and the grid in ``facts`` with the values that were asked for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.outputs import hpl
from assay.outputs._base import Parsed, ParseError, Row
from assay.outputs._scan import integer, only, real, split

VERSIONS = ("1.5",)

#: The metrics of the summary and their units; k, M and G are powers of ten.
METRICS: Mapping[str, str] = {
    "HPL_Tflops": "TFLOP/s",
    "StarDGEMM_Gflops": "GFLOP/s",
    "SingleDGEMM_Gflops": "GFLOP/s",
    "PTRANS_GBs": "GB/s",
    "MPIRandomAccess_LCG_GUPs": "GUP/s",
    "MPIRandomAccess_GUPs": "GUP/s",
    "StarRandomAccess_LCG_GUPs": "GUP/s",
    "SingleRandomAccess_LCG_GUPs": "GUP/s",
    "StarRandomAccess_GUPs": "GUP/s",
    "SingleRandomAccess_GUPs": "GUP/s",
    "StarSTREAM_Copy": "GB/s",
    "StarSTREAM_Scale": "GB/s",
    "StarSTREAM_Add": "GB/s",
    "StarSTREAM_Triad": "GB/s",
    "SingleSTREAM_Copy": "GB/s",
    "SingleSTREAM_Scale": "GB/s",
    "SingleSTREAM_Add": "GB/s",
    "SingleSTREAM_Triad": "GB/s",
    "StarFFT_Gflops": "GFLOP/s",
    "SingleFFT_Gflops": "GFLOP/s",
    "MPIFFT_Gflops": "GFLOP/s",
    "MaxPingPongLatency_usec": "us",
    "RandomlyOrderedRingLatency_usec": "us",
    "MinPingPongBandwidth_GBytes": "GB/s",
    "NaturallyOrderedRingBandwidth_GBytes": "GB/s",
    "RandomlyOrderedRingBandwidth_GBytes": "GB/s",
    "MinPingPongLatency_usec": "us",
    "AvgPingPongLatency_usec": "us",
    "MaxPingPongBandwidth_GBytes": "GB/s",
    "AvgPingPongBandwidth_GBytes": "GB/s",
    "NaturallyOrderedRingLatency_usec": "us",
}
_COUNTS = (
    *("CommWorldProcs", "HPL_N", "HPL_NB", "HPL_nprow", "HPL_npcol", "DGEMM_N", "PTRANS_n"),
    *("MPIRandomAccess_N", "MPIRandomAccess_Errors", "MPIRandomAccess_LCG_Errors"),
    *("STREAM_VectorSize", "STREAM_Threads", "FFT_N", "MPIFFT_N", "MPIFFT_Procs"),
)
_SECTIONS = (
    *("MPIRandomAccess", "StarRandomAccess", "SingleRandomAccess"),
    *("MPIRandomAccess_LCG", "StarRandomAccess_LCG", "SingleRandomAccess_LCG"),
    *("PTRANS", "StarDGEMM", "SingleDGEMM", "StarSTREAM", "SingleSTREAM"),
    *("MPIFFT", "StarFFT", "SingleFFT", "LatencyBandwidth", "HPL", "Summary"),
)

#: Most elements of a vector of STREAM (HPCC_LocalVectorSize in src/hpcc.c of HPCC 1.5.0).
LONGEST_VECTOR = 2**30

#: Keys of the summary that are compared with each other.
_COMPARED = (
    *("HPL_N", "HPL_Tflops", "HPL_time", "HPL_nprow", "HPL_npcol", "STREAM_VectorSize", "DGEMM_N"),
    *("PTRANS_n", "RandomAccess_N", "MPIRandomAccess_N"),
)

#: An FFT and its inverse return their input but for rounding; 10^-15 is usual.
WORST_FFT = 1e-8


#: Largest residual of PTRANS / its order; one that passes is below 16 times 2.2 * 10^-16.
WORST_PTRANS = 1e-13

#: Above the rate of any memory of one rank [GB/s]; less than any message takes [us].
FASTEST, SHORTEST = 1e4, 0.005

_OF_A_RANK = re.compile("STREAM|Ring|PingPong")

#: Keys of the summary -> sizes [B] of types in C, the same on all machines that HPCC supports.
_C_SIZES = {
    **{"sizeof_char": 1, "sizeof_int": 4, "sizeof_float": 4, "sizeof_double": 8},
    **{"sizeof_s64Int": 8, "sizeof_u64Int": 8, "sizeof_struct_double_double": 16},
}
_LIMITED = (
    *("CommWorldProcs", "MPIFFT_Procs", "PTRANS_GBs", "PTRANS_time", "PTRANS_n"),
    *("PTRANS_nprow", "PTRANS_npcol", "PTRANS_residual", *_C_SIZES),
)


@dataclass(frozen=True)
class _Line:
    """A line of a section that repeats a metric of the summary.

    :ivar pattern: its last group is the number.
    :ivar key: the key in the summary; ``{section}`` and the named groups are filled in.
    :ivar factor: from the unit of the section to that of the summary.
    """

    pattern: re.Pattern[str]
    key: str
    factor: float = 1.0


_UPDATES = _Line(re.compile(r"(?:Average|Single) GUP/s (\S+)$"), "{section}_GUPs")
_ALL_UPDATES = (
    _Line(re.compile(r"(\S+) Billion\(10\^9\) Updates +per second \[GUP/s\]$"), "{section}_GUPs"),
    _Line(re.compile(r"Found (\d{1,18}) errors in \d+ locations"), "{section}_Errors"),
)
_FLOPS = _Line(re.compile(r"(?:Average|Single)(?: DGEMM| FFT)? Gflop/s (\S+)$"), "{section}_Gflops")
_STREAM = _Line(
    re.compile(r"(?:Average|Single STREAM) (?P<part>Copy|Scale|Add|Triad) GB/s (\S+)$"),
    "{section}_{part}",
)

#: Section -> the lines that repeat metrics of the summary.
_REPEATED: Mapping[str, Sequence[_Line]] = {
    "StarRandomAccess": [_UPDATES],
    "SingleRandomAccess": [_UPDATES],
    "StarRandomAccess_LCG": [_UPDATES],
    "SingleRandomAccess_LCG": [_UPDATES],
    "MPIRandomAccess": _ALL_UPDATES,
    "MPIRandomAccess_LCG": _ALL_UPDATES,
    "StarDGEMM": [_FLOPS],
    "SingleDGEMM": [_FLOPS],
    "StarFFT": [_FLOPS],
    "SingleFFT": [_FLOPS],
    "MPIFFT": [_Line(re.compile(r"Gflop/s: +(\S+)$"), "MPIFFT_Gflops")],
    "StarSTREAM": [_STREAM],
    "SingleSTREAM": [_STREAM],
    "LatencyBandwidth": [
        _Line(re.compile(rf"{words}: +(\S+) {unit}$"), key, factor)
        for words, unit, key, factor in (
            ("Max Ping Pong Latency", "msecs", "MaxPingPongLatency_usec", 1e3),
            ("Randomly Ordered Ring Latency", "msecs", "RandomlyOrderedRingLatency_usec", 1e3),
            ("Min Ping Pong Bandwidth", "MB/s", "MinPingPongBandwidth_GBytes", 1e-3),
            (
                "Naturally Ordered Ring Bandwidth", "MB/s",
                "NaturallyOrderedRingBandwidth_GBytes", 1e-3,
            ),
            (
                "Randomly +Ordered Ring Bandwidth", "MB/s",
                "RandomlyOrderedRingBandwidth_GBytes", 1e-3,
            ),
        )
    ],
}  # fmt: skip

#: A row of PTRANS by the clock on the wall. Each size has several; the summary repeats one of them.
_PTRANS = re.compile(r"WALL +\d.* (?:PASSED|FAILED|BYPASS) +(\S+) +\S+$")
_FFT_ERROR = re.compile(r"max\(\|x-x0\|\): +(\S+)$")

_BANNER = re.compile(
    r"This is the DARPA/DOE HPC Challenge Benchmark version ((\d{1,4}\.\d{1,4})[\w.]*)"
)
_OURS = re.compile(r"^This is the DARPA/DOE HPC Challenge Benchmark version ", re.MULTILINE)
_EDGE = re.compile(r"(Begin|End) of (\w+) section\.$")
_PAIR = re.compile(r"(\w+)=(.*)$")
_HOST = re.compile(r"Hostname: '(.*)'$")
_END = "End of HPC Challenge tests."
_RULE = "#" * 72

# The line in which a section reports its own check; without this line nothing was checked.
_LOCATIONS = re.compile(r"Found \d+ errors in \d+ locations \((?:passed|failed)\)\.$")
_PROOFS: Mapping[str, re.Pattern[str]] = {
    "MPIRandomAccess": _LOCATIONS,
    "StarRandomAccess": _LOCATIONS,
    "MPIRandomAccess_LCG": _LOCATIONS,
    "StarRandomAccess_LCG": _LOCATIONS,
    "PTRANS": re.compile(r" +\d+ tests completed and passed residual checks\.$"),
    "StarSTREAM": re.compile(r"Solution Validates|Failed Validation"),
}
# Lines that report the failure of a part of HPCC. Each count is anchored: "10" is not "0".
_FAILURES = re.compile(
    r"Found \d+ errors in \d+ locations \(failed\)\."
    r"|(?:WALL|CPU ) .* (?:FAILED|BYPASS) "
    r"| *0*[1-9]\d* tests (?:completed and failed residual checks|skipped because of illegal)"
    r"| *\d+ tests completed without checking"
    r"|Node\(s\) with error 0*[1-9]"
    r"|Failed Validation on array"
    r"|Failed to allocate"
    r"|Error in line \d+ of the input file"
    r"|\[\d+\]: ERROR:"
    r"|HPL (?:WARNING|ERROR) "
)


def recognise(text: str) -> bool:
    """Whether `text` holds the banner of HPCC."""
    return bool(_OURS.search(text))


def parse(text: str) -> Parsed:
    """Read one ``hpccoutf.txt``.

    There is one row for each measured metric: ``metric`` (the key in the summary of HPCC),
    ``value`` and ``unit``. ``units["value"]`` is ``"unit"``, the name of the column that holds the
    unit. A metric is a problem and has no row if it is missing, not a number, or not above 0
    (HPCC writes -1 for "did not run").

    :raises ParseError: no banner, an unknown version, more than one run in the file, or an HPL
        section that is not an output of HPL.
    """
    lines = split(text)
    number, banner = only(lines, _BANNER, "banner of HPCC")
    if banner[2] not in VERSIONS:
        raise ParseError(f"only HPCC {', '.join(VERSIONS)} is known", number, lines[number - 1])

    sections = _sections(lines)
    linpack = _linpack(lines, sections)
    summary = _summary(lines, sections)
    rows, unmeasured = _measured(summary)
    first, last = sections.get("HPL", (0, 0))  # HPL's own parser reads it
    problems = [
        f"line {number}: {line.strip()}"
        for number, line in enumerate(lines, 1)
        if _FAILURES.match(line) and not first <= number <= last
    ]
    problems += _unchecked(lines, sections)
    problems += linpack.problems if linpack else ()
    problems += _contradictions(summary, linpack)
    problems += _unlike_their_times(summary)
    problems += _impossible(summary)
    problems += _unlike_their_sections(lines, sections, summary)
    problems += _wrong_transforms(lines, summary)
    if summary.get("Success", ("1", 0))[0] != "1":
        value, number = summary["Success"]
        problems.append(f"line {number}: Success={value}: HPCC says that a part of it failed")
    hosts = [match[1] for line in lines if (match := _HOST.match(line))]
    return Parsed(
        family="hpcc",
        program="hpcc",
        version=banner[1],
        complete=(
            set(sections) == set(_SECTIONS)
            and linpack is not None
            and linpack.complete
            and {*METRICS, *_COUNTS, "Success"} <= set(summary)
            and _ended(lines)
        ),
        rows=rows,
        units={"value": "unit"},
        problems=(*problems, *unmeasured),
        facts={
            "host": hosts[0] if hosts else None,
            "hpl": [dict(row) for row in linpack.rows] if linpack else [],
            **{key: integer(*summary[key], key) for key in _COUNTS if key in summary},
        },
    )


def _sections(lines: Sequence[str]) -> dict[str, tuple[int, int]]:
    """First and last line of each known section that is complete."""
    begun: dict[str, int] = {}
    sections: dict[str, tuple[int, int]] = {}
    for number, line in enumerate(lines, 1):
        match = _EDGE.match(line)
        if not match or match[2] not in _SECTIONS:
            continue
        name = match[2]
        if match[1] == "End" and name in begun:
            sections.setdefault(name, (begun[name], number))
        elif match[1] == "Begin":
            if name in begun:
                raise ParseError(f"section {name} begins twice", number, line)
            begun[name] = number
    return sections


def _linpack(lines: Sequence[str], sections: Mapping[str, tuple[int, int]]) -> Parsed | None:
    """The HPL section, read by the parser of HPL."""
    if "HPL" not in sections:
        return None
    first, last = sections["HPL"]
    # Empty lines replace the lines before it, so that messages name lines of the whole file.
    return hpl.parse("\n" * first + "\n".join(lines[first : last - 1]))


def _summary(
    lines: Sequence[str], sections: Mapping[str, tuple[int, int]]
) -> dict[str, tuple[str, int]]:
    """Value and line of each key of the summary."""
    first, last = sections.get("Summary", (0, 0))
    summary: dict[str, tuple[str, int]] = {}
    for number in range(first + 1, last):
        match = _PAIR.match(lines[number - 1])
        if match and match[1] in summary:
            raise ParseError(f"{match[1]} twice in the summary", number, lines[number - 1])
        if match:
            summary[match[1]] = (match[2].strip(), number)
    return summary


def _unchecked(lines: Sequence[str], sections: Mapping[str, tuple[int, int]]) -> list[str]:
    problems = []
    for name, proof in _PROOFS.items():
        first, last = sections.get(name, (0, 0))
        if last and not any(proof.match(line) for line in lines[first:last]):
            problems.append(f"line {first}: section {name} does not say that it checked its result")
    return problems


def _contradictions(summary: Mapping[str, tuple[str, int]], linpack: Parsed | None) -> list[str]:
    """Numbers of the summary that do not fit to the section of HPL, or to each other.

    HPCC derives the sizes of its other parts from the memory of HPL's matrix (src/hpcc.c and
    src/stream.c of HPCC 1.5.0): three vectors of STREAM or three matrices of DGEMM fill the share
    of one rank. PTRANS has half of the order of HPL. The table of RandomAccess is the largest power
    of two that fits.
    """
    said = {key: real(*summary[key], key) for key in _COMPARED if key in summary}
    if len(said) < len(_COMPARED):
        return []
    problems = []
    if linpack and len(linpack.rows) == 1:
        (row,) = linpack.rows
        for key, name, factor, error in (
            ("HPL_N", "n", 1, 0.5),
            ("HPL_Tflops", "performance", 1000, 0.001 * said["HPL_Tflops"] * 1000),
            ("HPL_time", "time", 1, 0.0051 + 5e-6 * said["HPL_time"]),
            ("HPL_nprow", "p", 1, 0.5),
            ("HPL_npcol", "q", 1, 0.5),
        ):
            if not abs(said[key] * factor - float(row[name])) <= error:
                problems.append(
                    f"line {summary[key][1]}: {key}={summary[key][0]}, but HPL's own row has "
                    f"{name} {row[name]}"
                )
    words = said["HPL_N"] ** 2 / (said["HPL_nprow"] * said["HPL_npcol"])
    for key, least in (
        ("STREAM_VectorSize", min(words / 3, LONGEST_VECTOR)),
        ("DGEMM_N", (words / 3) ** 0.5),
        ("PTRANS_n", said["HPL_N"] / 2),
        ("RandomAccess_N", words / 2),
        ("MPIRandomAccess_N", said["HPL_N"] ** 2 / 2),
    ):
        if not said[key] >= 0.9 * least:
            problems.append(
                f"line {summary[key][1]}: {key}={summary[key][0]} is too small for HPL_N="
                f"{summary['HPL_N'][0]}: {least:.0f} fits into the same memory"
            )
    return problems


def _unlike_their_times(summary: Mapping[str, tuple[str, int]]) -> list[str]:
    """Metrics of the summary that do not follow from its own counts and times, or are disordered.

    RandomAccess: updates / time. FFT: 5 N log2 N operations in no less than the sum of its parts
    (FFT/mpifft.c of HPCC 1.5.0). Ping-pong: least, average and greatest value.
    """
    said = {key: real(*pair, key) for key, pair in summary.items() if key.startswith(_TIMED)}
    problems = []
    for name in ("MPIRandomAccess", "MPIRandomAccess_LCG"):
        time, updates, rate = (
            said.get(f"{name}_{key}", 0.0) for key in ("time", "ExeUpdates", "GUPs")
        )
        if time > 0 and rate > 0 and not abs(updates / time / 1e9 - rate) <= 1e-4 * rate:
            problems.append(
                f"line {summary[f'{name}_GUPs'][1]}: {name}_GUPs={rate:g}, but {updates:g} updates "
                f"took {time:g} s"
            )
    parts = sum(said.get(f"MPIFFT_time{part}", 0.0) for part in range(7))
    points, rate = said.get("MPIFFT_N", 0.0), said.get("MPIFFT_Gflops", 0.0)
    if points > 1 and parts > 0 and rate * 1e9 * parts > 1.1 * 5 * points * math.log2(points):
        problems.append(
            f"line {summary['MPIFFT_Gflops'][1]}: MPIFFT_Gflops={rate:g}, but its parts took "
            f"{parts:g} s for N={points:g}"
        )
    for what in ("Latency_usec", "Bandwidth_GBytes"):
        keys = [f"{order}PingPong{what}" for order in ("Min", "Avg", "Max")]
        low, middle, high = (said.get(key, 0.0) for key in keys)
        # One rank has no partner: HPCC prints -1, which is named as not measured.
        if min(low, middle, high) >= 0 and not low * 0.9999 <= middle <= high * 1.0001:
            problems.append(f"{', '.join(keys)} are {low:g}, {middle:g}, {high:g}: not in order")
    return problems


_TIMED = ("MPIRandomAccess", "MPIFFT_", "MinPing", "AvgPing", "MaxPing")


def _impossible(summary: Mapping[str, tuple[str, int]]) -> list[str]:
    """Numbers of the summary that no healthy run prints.

    PTRANS: the rate is that of the slowest repetition, and the time that of the last one. Only a
    residual below 16 times the rounding passes, if rank 0 was in the grid
    (PTRANS/pdtransdriver.c of HPCC 1.5.0). MPIFFT: it takes the largest number of ranks that is a
    power of two, or that has the factors 2, 3 and 5 (FFT/mpifft.c). STREAM, rings and ping-pong
    are rates and times of one rank.
    """
    said = {key: real(*summary[key], key) for key in _LIMITED if key in summary}
    problems = [
        f"line {summary[key][1]}: {key}={summary[key][0]}, but a C compiler has {size}"
        for key, size in _C_SIZES.items()
        if key in said and said[key] != size
    ]
    for key in filter(_OF_A_RANK.search, METRICS.keys() & summary.keys()):
        text, number = summary[key]
        value = real(text, number, key)
        if METRICS[key] == "GB/s" and value > FASTEST:
            problems.append(f"line {number}: {key}={text}: no memory carries more than {FASTEST:g}")
        if METRICS[key] == "us" and 0 < value < SHORTEST:
            problems.append(f"line {number}: {key}={text}: no message takes less than {SHORTEST:g}")
    if len(said) < len(_LIMITED):
        return problems
    order, time, rate = said["PTRANS_n"], said["PTRANS_time"], said["PTRANS_GBs"]
    if time > 0 and rate * 1e9 * time > 1.001 * 8 * order**2:
        problems.append(
            f"line {summary['PTRANS_GBs'][1]}: PTRANS_GBs={rate:g}, but a matrix of order "
            f"{order:g} took {time:g} s"
        )
    ranks, most = said["CommWorldProcs"], WORST_PTRANS * order
    if said["PTRANS_nprow"] * said["PTRANS_npcol"] == ranks and said["PTRANS_residual"] > most:
        text, number = summary["PTRANS_residual"]
        problems.append(f"line {number}: PTRANS_residual={text}, at most {most:g}")
    if not ranks / 2 < said["MPIFFT_Procs"] <= ranks:
        text, number = summary["MPIFFT_Procs"]
        problems.append(f"line {number}: MPIFFT_Procs={text}, but {ranks:g} ranks ran")
    return problems


def _unlike_their_sections(
    lines: Sequence[str],
    sections: Mapping[str, tuple[int, int]],
    summary: Mapping[str, tuple[str, int]],
) -> list[str]:
    """Metrics of the summary that differ from the numbers in their own sections."""
    problems = []

    def compare(key: str, printed: Sequence[tuple[str, int]], factor: float = 1.0) -> None:
        """`printed`: texts of the section with their lines; the summary must repeat one of them."""
        if key not in summary or not printed or (said := real(*summary[key], key)) < 0:
            return
        owns = [real(text, number, lines[number - 1]) * factor for text, number in printed]
        # Sections have a number of decimals, the summary has six digits.
        half = 0.6 * 10.0 ** -len(printed[0][0].partition(".")[2]) * factor
        if not any(abs(own - said) <= half + 1e-5 * abs(own) for own in owns):
            problems.append(
                f"line {summary[key][1]}: {key}={summary[key][0]}, but its section has {owns[0]:g}"
            )

    for section, repeated in _REPEATED.items():
        first, last = sections.get(section, (0, 0))
        for number in range(first + 1, last):
            for line in repeated:
                if match := line.pattern.match(lines[number - 1]):
                    key = line.key.format(section=section, **match.groupdict())
                    compare(key, [(match.groups()[-1], number)], line.factor)
    first, last = sections.get("PTRANS", (0, 0))
    found = ((_PTRANS.match(lines[number - 1]), number) for number in range(first + 1, last))
    compare("PTRANS_GBs", [(match[1], number) for match, number in found if match])
    return problems


def _wrong_transforms(lines: Sequence[str], summary: Mapping[str, tuple[str, int]]) -> list[str]:
    """Errors of FFT beyond rounding. HPCC prints them and does not judge them."""
    found = [(match[1], n) for n, line in enumerate(lines, 1) if (match := _FFT_ERROR.match(line))]
    if "MPIFFT_maxErr" in summary:
        found.append(summary["MPIFFT_maxErr"])
    return [
        f"line {number}: the result of an FFT is wrong by {text}, at most {WORST_FFT:g}"
        for text, number in found
        if not real(text, number, lines[number - 1]) <= WORST_FFT
    ]


def _measured(summary: Mapping[str, tuple[str, int]]) -> tuple[tuple[Row, ...], list[str]]:
    """One row for each measured metric, and the problems of the metrics that were not measured."""
    rows: list[Row] = []
    missing = []
    absent = []
    for metric, unit in METRICS.items():
        if metric not in summary:
            missing.append(metric)
            continue
        text, number = summary[metric]
        value = real(text, number, f"{metric}={text}")
        if value > 0:
            rows.append({"metric": metric, "value": value, "unit": unit})
        else:
            absent.append(f"{metric}={text} (line {number})")
    problems = [f"missing from the summary: {', '.join(missing)}"] if missing else []
    problems += [f"not measured: {', '.join(absent)}"] if absent else []
    return tuple(rows), problems


def _ended(lines: Sequence[str]) -> bool:
    return _END in lines and _RULE in lines[lines.index(_END) :]
