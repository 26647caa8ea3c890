"""HPCC, the HPC Challenge benchmark: the file ``hpccoutf.txt`` that ``hpcc`` writes.

The parser was checked against HPCC 1.4.2 and 1.5.0. Banner, sections and summary come from
``src/io.c`` (``HPCC_Init``, ``HPCC_Finalize``) and ``src/hpcc.c``. The check of RandomAccess comes
from ``RandomAccess/MPIRandomAccess.c`` lines 879-884, that of PTRANS from
``PTRANS/pdtransdriver.c`` lines 519-541, and that of STREAM from ``STREAM/stream.c`` lines 258-308.
The HPL section is an output of HPL 2.0 and is read as such. Numbers of the summary that
contradict each other, or those of the sections, are problems.

HPCC appends to its output file and never overwrites it. If its input file is missing or does not
fit the number of ranks, HPCC runs with parameters of its own and still exits with 0. So compare
``HPL_N``, ``HPL_NB`` and the grid in ``facts`` with the values that were asked for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from assay import files
from assay.parse import Parsed, ParseError, Row, hpl
from assay.parse.reading import first, integer, only, read_as, real, recogniser, split
from assay.parse.tables import Identity, Line, contradictions

#: Key of the summary -> its value and its line. Section -> its lines, from Begin to End.
Summary = Mapping[str, tuple[str, int]]
Sections = Mapping[str, Sequence[Line]]

VERSIONS = ("1.4", "1.5")

_FORMAT = files.own(__file__, dict[str, Any])
#: The metrics of the summary and their units.
METRICS: Mapping[str, str] = _FORMAT["metrics"]

_BANNER = re.compile(
    r"This is the DARPA/DOE HPC Challenge Benchmark version ((\d{1,4}\.\d{1,4})[\w.]*)"
)
_EDGE = re.compile(r"(Begin|End) of (\w+) section\.$")
_PAIR = re.compile(r"(\w+)=(.*)$")
_HOST = re.compile(r"Hostname: '(.*)'$")
_END = "End of HPC Challenge tests."
_RULE = "#" * 72

_FAILURES = re.compile("|".join(_FORMAT["failures"]))

recognise = recogniser(re.compile(r"This is the DARPA/DOE HPC Challenge Benchmark version .*"))


def parse_hpcc(text: str) -> Parsed:
    """Read one ``hpccoutf.txt``.

    There is one row for each measured metric: ``metric`` (the key in the summary of HPCC),
    ``value`` and ``unit``. ``units["value"]`` is ``"unit"``, the name of the column that holds the
    unit. A metric is a problem and has no row if it is missing, not a number, or not above 0
    (HPCC writes -1 for "did not run").

    :raises ParseError: no banner, more than one run in the file, or an HPL section that is not an
        output of HPL.
    """
    lines = split(text)
    _, banner = only(lines, _BANNER, "banner of HPCC")
    sections = _sections(lines)
    own = dict(sections.get("HPL", ()))
    # HPL's own parser reads it. Empty lines before it keep the numbers of its lines.
    blank = "\n" * (min(own) - 1) if own else ""
    linpack = hpl.parse_hpl(blank + "\n".join(own.values())) if own else None
    summary = _summary(sections.get("Summary", ()))
    rows, unmeasured = _measured(summary)
    failed = ((n, line.strip()) for n, line in enumerate(lines, 1) if _FAILURES.match(line))
    problems = [f"line {number}: {line}" for number, line in failed if number not in own]
    problems += [
        f"line {sections[name][0][0]}: section {name} does not say that it checked its result"
        for name, proof in _FORMAT["proofs"].items()
        if name in sections and not any(re.match(proof, line) for _, line in sections[name])
    ]
    problems += linpack.problems if linpack else ()
    problems += _contradictions(lines, sections, summary, linpack)
    if summary.get("Success", ("1", 0))[0] != "1":
        value, number = summary["Success"]
        problems.append(f"line {number}: Success={value}: HPCC says that a part of it failed")
    return Parsed(
        family="hpcc",
        program="hpcc",
        version=banner[1],
        complete=(
            set(sections) == set(_FORMAT["sections"])
            and linpack is not None
            and linpack.complete
            and {*METRICS, *_FORMAT["counts"], "Success"} <= set(summary)
            and _END in lines
            and _RULE in lines[lines.index(_END) :]
        ),
        rows=rows,
        units={"value": "unit"},
        problems=(*problems, *unmeasured),
        facts={
            "host": first(lines, _HOST),
            "hpl": [dict(row) for row in linpack.rows] if linpack else [],
            **{key: integer(*summary[key], key) for key in _FORMAT["counts"] if key in summary},
            **read_as(banner[2], VERSIONS),
        },
    )


def _sections(lines: Sequence[str]) -> dict[str, Sequence[Line]]:
    """The lines of each known section that is complete."""
    begun: dict[str, int] = {}
    sections: dict[str, Sequence[Line]] = {}
    for number, line in enumerate(lines, 1):
        match = _EDGE.match(line)
        if not match or match[2] not in _FORMAT["sections"]:
            continue
        name = match[2]
        if match[1] == "End" and name in begun:
            at = begun[name]
            sections.setdefault(name, [*enumerate(lines[at - 1 : number], at)])
        elif match[1] == "Begin":
            if name in begun:
                raise ParseError(f"section {name} begins twice", number, line)
            begun[name] = number
    return sections


def _summary(section: Sequence[Line]) -> dict[str, tuple[str, int]]:
    """Value and line of each key of the summary."""
    summary: dict[str, tuple[str, int]] = {}
    for number, line in section:
        if match := _PAIR.match(line):
            if match[1] in summary:
                raise ParseError(f"{match[1]} twice in the summary", number, line)
            summary[match[1]] = (match[2].strip(), number)
    return summary


def _measured(summary: Summary) -> tuple[tuple[Row, ...], list[str]]:
    """One row for each measured metric, and the problems of the metrics that were not measured."""
    rows: list[Row] = []
    absent = []
    missing = [metric for metric in METRICS if metric not in summary]
    alone = summary.get("CommWorldProcs", ("", 0))[0] == "1"
    for metric, unit in METRICS.items():
        if metric in missing or (alone and re.search("Ring|PingPong", metric)):
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


# --- numbers that must agree ----------------------------------------------------------------------

#: Most elements of a vector of STREAM (HPCC_LocalVectorSize in src/hpcc.c).
LONGEST_VECTOR = 2**30

#: An FFT and its inverse return their input but for rounding; 10^-15 is usual.
WORST_FFT = 1e-8

#: Largest residual of PTRANS / its order; one that passes is below 16 times 2.2 * 10^-16.
WORST_PTRANS = 1e-13

_SPACES = ("STREAM_VectorSize", "DGEMM_N", "PTRANS_n", "RandomAccess_N", "MPIRandomAccess_N")

_IDENTITIES = [
    Identity(it["says"].replace("KEY", key), it["words"].replace("KEY", key), it.get("share", 0.0))
    for it in _FORMAT["identities"]
    for key in it.get("of", [""])
]
_PARTS = [f"MPIFFT_time{part}" for part in range(7)]
_COMPARED = {
    *(name for one in _IDENTITIES for name in one.names),
    *("MPIFFT_N", "PTRANS_nprow", "PTRANS_npcol", *_PARTS),
}


def _numbers(summary: Summary, linpack: Parsed | None) -> dict[str, Any]:
    """The numbers that are compared; HPCC prints -1 for what did not run.

    ``own_``: what HPL's own row has. ``_fits``: the sizes that HPCC derives from the memory of
    HPL's matrix (src/hpcc.c, src/stream.c). Three vectors of STREAM or three matrices of DGEMM fill
    the share of one rank. PTRANS has half of the order of HPL. The table of RandomAccess is the
    largest power of two that fits.
    """
    said = {key: real(*summary[key], key) for key in sorted(_COMPARED & summary.keys())}
    at: dict[str, Any] = {key: value for key, value in said.items() if not value < 0}
    if linpack and len(linpack.rows) == 1:
        at |= {f"own_{name}": value for name, value in linpack.rows[0].items()}
    order, p, q = (at.get(f"HPL_{name}", 0.0) for name in ("N", "nprow", "npcol"))
    if p * q > 0:
        words = order * order / (p * q)
        fits = (
            *(min(words / 3, LONGEST_VECTOR), math.sqrt(words / 3), order / 2, words / 2),
            order * order / 2,
        )
        at |= {f"{key}_fits": value for key, value in zip(_SPACES, fits)}
    # 5 N log2 N operations in no less than the sum of its parts (FFT/mpifft.c).
    at["MPIFFT_parts"] = sum(at.get(part, 0.0) for part in _PARTS)
    if (points := at.get("MPIFFT_N", 0.0)) > 1:
        at["MPIFFT_operations"] = 5 * points * math.log2(points)
    if at.get("PTRANS_nprow", 0) * at.get("PTRANS_npcol", 0) == at.get("CommWorldProcs"):
        at["PTRANS_most"] = WORST_PTRANS * at.get("PTRANS_n", math.nan)
    return at


#: A metric in the section of messages, which has its words, and another unit -> the end of its
#: name, and the factor to its unit.
_MESSAGES = re.compile(r"LatencyBandwidth ([\w ]+): +(\S+) (msecs|MB/s)$")
_FACTORS = {"msecs": ("_usec", 1e3), "MB/s": ("_GBytes", 1e-3)}

#: A row of PTRANS by the clock on the wall. Each size has several; the summary repeats one of them.
_PTRANS = re.compile(r"WALL +\d.* (?:PASSED|FAILED|BYPASS) +(\S+) +\S+$")
_FFT_ERROR = re.compile(r"max\(\|x-x0\|\): +(\S+)$")


def _contradictions(
    lines: Sequence[str], sections: Sections, summary: Summary, linpack: Parsed | None
) -> Iterator[str]:
    """What contradicts itself in an output, one line each.

    :raises assay.parse.ParseError: a compared value is not a number.
    """
    at = _numbers(summary, linpack)
    for said in contradictions(_IDENTITIES, at, {"own_time": "0.00"}):
        key = re.split(r"\W", said, maxsplit=1)[0]
        yield f"line {summary[key][1]}: {key}={summary[key][0]}{said.removeprefix(key)}"
    yield from _unlike_their_sections(sections, summary)
    # HPCC prints errors of FFT beyond rounding, and does not judge them.
    found = [(match[1], n) for n, line in enumerate(lines, 1) if (match := _FFT_ERROR.match(line))]
    if "MPIFFT_maxErr" in summary:
        found.append(summary["MPIFFT_maxErr"])
    for text, number in found:
        if not real(text, number, lines[number - 1]) <= WORST_FFT:
            yield f"line {number}: the result of an FFT is wrong by {text}, at most {WORST_FFT:g}"


def _repeated(sections: Sections) -> Iterator[tuple[str, list[tuple[str, int, str]], float]]:
    """Metric, the text, number and line of its values, and the factor to the summary's unit."""
    for section, lines in sections.items():
        for number, line in lines:
            said = f"{section} {line}"
            for pattern, end in _FORMAT["repeated"].items():
                if match := re.match(pattern, said):
                    yield match[1] + end, [(match[2], number, line)], 1.0
            if match := _MESSAGES.match(said):
                end, factor = _FACTORS[match[3]]
                yield match[1].replace(" ", "") + end, [(match[2], number, line)], factor
    rows = [(_PTRANS.match(line), number, line) for number, line in sections.get("PTRANS", ())]
    yield "PTRANS_GBs", [(row[1], number, line) for row, number, line in rows if row], 1.0


def _unlike_their_sections(sections: Sections, summary: Summary) -> Iterator[str]:
    """Metrics of the summary that differ from the numbers in their own sections."""
    for key, texts, factor in _repeated(sections):
        if key not in summary or not texts or (said := real(*summary[key], key)) < 0:
            continue
        owns = [real(*text) * factor for text in texts]
        # Sections have a number of decimals, the summary has six digits.
        half = 0.6 * 10.0 ** -len(texts[0][0].partition(".")[2]) * factor
        if not any(abs(own - said) <= half + 1e-5 * abs(own) for own in owns):
            text, number = summary[key]
            yield f"line {number}: {key}={text}, but its section has {owns[0]:g}"
