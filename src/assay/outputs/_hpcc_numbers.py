"""The numbers of one output of HPCC against each other: a changed or impossible one is a problem.

Sources: HPCC 1.5.0, files as the functions name them. :mod:`assay.outputs.hpcc` reads the output.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.outputs._base import Parsed
from assay.outputs._scan import real

#: Key of the summary -> its value and its line.
Summary = Mapping[str, "tuple[str, int]"]

#: Section -> its first and last line.
Sections = Mapping[str, "tuple[int, int]"]

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

#: Metrics of the summary that are rates and times of one rank.
_OF_A_RANK = re.compile("STREAM|Ring|PingPong")

#: Keys of the summary -> sizes [B] of types in C, the same on all machines that HPCC supports.
_C_SIZES = {
    **{"sizeof_char": 1, "sizeof_int": 4, "sizeof_float": 4, "sizeof_double": 8},
    **{"sizeof_s64Int": 8, "sizeof_u64Int": 8, "sizeof_struct_double_double": 16},
}
#: Keys of the summary that have limits, see :func:`_impossible`.
_LIMITED = (
    *("CommWorldProcs", "MPIFFT_Procs", "PTRANS_GBs", "PTRANS_time", "PTRANS_n"),
    *("PTRANS_nprow", "PTRANS_npcol", "PTRANS_residual", *_C_SIZES),
)

#: How the keys begin that :func:`_unlike_their_times` reads.
_TIMED = ("MPIRandomAccess", "MPIFFT_", "MinPing", "AvgPing", "MaxPing")


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


def contradictions(
    lines: Sequence[str],
    sections: Sections,
    summary: Summary,
    linpack: Parsed | None,
    units: Mapping[str, str],
) -> list[str]:
    """What contradicts itself in an output of HPCC, one line each.

    :param lines: of the output.
    :param linpack: the section of HPL; None if there is none.
    :param units: metric of the summary -> its unit.
    :raises assay.outputs.ParseError: a compared value is not a number.
    """
    return [
        *_unlike_hpl(summary, linpack),
        *_unlike_their_times(summary),
        *_impossible(summary, units),
        *_unlike_their_sections(lines, sections, summary),
        *_wrong_transforms(lines, summary),
    ]


def _unlike_hpl(summary: Summary, linpack: Parsed | None) -> list[str]:
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


def _unlike_their_times(summary: Summary) -> list[str]:
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


def _impossible(summary: Summary, units: Mapping[str, str]) -> list[str]:
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
    for key in filter(_OF_A_RANK.search, units.keys() & summary.keys()):
        text, number = summary[key]
        value = real(text, number, key)
        if units[key] == "GB/s" and value > FASTEST:
            problems.append(
                f"line {number}: {key}={text}: no memory carries more than {FASTEST:g} GB/s"
            )
        if units[key] == "us" and 0 < value < SHORTEST:
            problems.append(
                f"line {number}: {key}={text}: no message takes less than {SHORTEST:g} us"
            )
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
    sections: Sections,
    summary: Summary,
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


def _wrong_transforms(lines: Sequence[str], summary: Summary) -> list[str]:
    """Errors of FFT beyond rounding. HPCC prints them and does not judge them."""
    found = [(match[1], n) for n, line in enumerate(lines, 1) if (match := _FFT_ERROR.match(line))]
    if "MPIFFT_maxErr" in summary:
        found.append(summary["MPIFFT_maxErr"])
    return [
        f"line {number}: the result of an FFT is wrong by {text}, at most {WORST_FFT:g}"
        for text, number in found
        if not real(text, number, lines[number - 1]) <= WORST_FFT
    ]
