"""HPCC, the HPC Challenge benchmark: the file ``hpccoutf.txt`` that ``hpcc`` writes.

The parser was checked against HPCC 1.5.0. Banner, sections and summary come from ``src/io.c``
(``HPCC_Init``, ``HPCC_Finalize``) and ``src/hpcc.c``. The check of RandomAccess comes from
``RandomAccess/MPIRandomAccess.c`` lines 879-884, that of PTRANS from ``PTRANS/pdtransdriver.c``
lines 519-541, and that of STREAM from ``STREAM/stream.c`` lines 258-308. The HPL section is an
output of HPL 2.0 and is read as such. ``_hpcc_numbers.py`` compares the numbers with each other.

HPCC appends to its output file and never overwrites it. If its input file is missing or does not
fit the number of ranks, HPCC runs with parameters of its own and still exits with 0. So compare
``HPL_N``, ``HPL_NB`` and the grid in ``facts`` with the values that were asked for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from assay.outputs import _hpcc_numbers, hpl
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
    problems += _hpcc_numbers.contradictions(lines, sections, summary, linpack, METRICS)
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
