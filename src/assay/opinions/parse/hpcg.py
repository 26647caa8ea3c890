"""HPCG: its report, as text (3.1) or YAML (2.4, 3.0), checked against 3.1.

HPCG writes the report into a file beside its log. Some builds print its lines on stdout.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from assay.parse import Parsed, ParseError, Row
from assay.parse.reading import first, only, read_as, real, recogniser, split, without_warnings
from assay.parse.tables import Identity, Line, capped, contradictions

KNOWN = ("2.4", "3.0", "3.1")

_BEGIN = re.compile(r"HPCG-Benchmark(?:[ -]version: ?(?P<version>\d\S{0,19}))?")
_VERSION = re.compile(r"(?:version[=:] *)?(\d\.\d\S{0,19})$")
_KEY = re.compile(r"(?P<indent> *)(?P<key>[^=:]{1,120}(?:::[^=]{1,300})?)(?:=|: ?)(?P<value>.*)")
_SYMMETRY = "Departure from Symmetry |x'Ay-y'Ax|/(2*||x||*||A||*||y||)/epsilon"
#: The tests by which HPCG calls a run valid.
_TESTS = (
    "Spectral Convergence Tests", _SYMMETRY, "Iteration Count Information",
    "Reproducibility Information",
)  # fmt: skip
_VALID = "HPCG result is VALID with a GFLOP/s rating of"
_RATED = "Total with convergence and optimization phase overhead"
#: The last key of a report begins with one of these.
_LAST = tuple(f"Final Summary::{begin}" for begin in ("Please", "Official", "After"))
#: The parts of the work: their keys among the operations, the times and the rates.
_PARTS = {part: (f"Raw {part}", part, f"Raw {part}") for part in ("DDOT", "WAXPBY", "SpMV", "MG")}
_PARTS["raw"] = ("Total", "Total", "Raw Total")
_CONVERGED = "Total with convergence overhead"
_PARTS["converged"] = (_CONVERGED, "Total", _CONVERGED)
_IDENTITY = Identity(
    "rate * time * 1e9 = operations",
    "{part}: {operations:g} operations in {time:g} s are not {rate:g} GFLOP/s",
)
_UNITS = {"operations": "1", "time": "s", "rate": "GFLOP/s"}
_SIZES = ("Global nx", "Global ny", "Global nz")


recognise = recogniser(_BEGIN)


def parse_hpcg(text: str) -> Parsed:
    """Read the report of one run of HPCG.

    There is one row for each part of the work: ``part`` (``DDOT``, ``WAXPBY``, ``SpMV``, ``MG``,
    ``raw``: all of them, ``converged``: without the iterations that only an optimized version
    needs), ``operations``, ``time`` [s] and ``rate`` [GFLOP/s].

    ``facts``: ``rating`` [GFLOP/s], the result of the run, which also counts the setup; ``ranks``,
    ``threads`` of a rank, ``size``, the numbers of points of the global grid.

    :raises ParseError: no report, or several; no version; or a number that is none.
    """
    lines = list(without_warnings(split(text)))
    at, begin = only([line for _, line in lines], _BEGIN, "a report of HPCG")
    version = begin["version"] or first([line for _, line in lines[at : at + 2]], _VERSION)
    if not version:
        raise ParseError("no version of HPCG", at)
    values = _flat(lines[at:])
    problems = [
        f"{test.partition(' |')[0]}: {result or 'no result'}"
        for test in _TESTS
        if (result := values.get(f"{test}::Result", (0, ""))[1]) != "PASSED"
    ]

    def number(section: str, key: str) -> float:
        line, value = values.get(f"{section}::{key}", (0, ""))
        return real(value, line, value) if value else math.nan

    rating = number("Final Summary", _VALID)
    if math.isnan(rating):
        problems.append("HPCG does not call the result valid")
    elif rating != number("GFLOP/s Summary", _RATED):
        problems.append(f"the rating {rating:g} GFLOP/s is not the rate with all overheads")
    rows: list[Row] = []
    for part, (operations, time, rate) in _PARTS.items():
        row: Row = {
            "part": part,
            "operations": number("Floating Point Operations Summary", operations),
            "time": number("Benchmark Time Summary", time),
            "rate": number("GFLOP/s Summary", rate),
        }
        printed = {name: f"{row[name]:g}" for name in _UNITS}  # as a C++ stream does
        problems += contradictions([_IDENTITY], row, printed)
        rows.append(row)
    facts = {
        "rating": rating,
        "ranks": number("Machine Summary", "Distributed Processes"),
        "threads": number("Machine Summary", "Threads per processes"),
        "size": [number("Global Problem Dimensions", size) for size in _SIZES],
    }
    ended = any(key.startswith(_LAST) for key in values)
    whole = ended and text.endswith("\n")
    return Parsed(
        "hpcg", "hpcg", version, whole, tuple(rows), _UNITS, capped(problems),
        facts | read_as(version, KNOWN),
    )  # fmt: skip


def _flat(lines: Iterable[Line]) -> dict[str, tuple[int, str]]:
    """Section and key -> line number and value; the first of several equal ones."""
    values: dict[str, tuple[int, str]] = {}
    section = ""
    for number, line in lines:
        if not (said := _KEY.fullmatch(line)):
            continue
        key = said["key"].strip(" *_#")
        if said["indent"]:
            key = f"{section}::{key}"
        elif "::" not in key:
            section = key
        values.setdefault(key, (number, said["value"].strip()))
    return values
