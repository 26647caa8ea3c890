"""BabelStream: bandwidths of memory, checked against 4.0 to 6.0-rc.

src/main.cpp prints a table. Lines of CSV (``--csv``) are not read. The first of the repetitions
does not count. The program checks the arrays at the end. Before 6.0, wrong arrays were no reason
for another exit code than 0. ``--triad-only`` of 4.0 and 5.0 is refused.
"""

from __future__ import annotations

import re
from typing import Any

from assay.parse import Parsed, ParseError, Row, tables
from assay.parse.reading import first, read_as, recogniser

KNOWN = ("4.0", "5.0")
PROGRAM = "babelstream"

#: Kernel -> how many arrays it reads and writes, in the order of the table.
KERNELS = {"Copy": 2, "Mul": 2, "Add": 3, "Triad": 3, "Dot": 2, "Nstream": 4}

_TITLE = re.compile("BabelStream")
_HEAD = re.compile(
    r"Function +([MGT]i?B)(?:ytes)?/s(?:ec)? +Min \(sec\) +Max +Average", re.IGNORECASE
)
_SAID = re.compile(r"(Version|Implementation|Precision): (\S.*)")
_RUNNING = re.compile(
    r"Running (?:Running )? ?(?:(All|Classic|Copy|Mul|Add|Triad|Dot|Nstream) )?(?:kernels )?"
    r"(\d{1,9}) times.*",
    re.ASCII,
)
_ELEMENTS = re.compile(r"Number of elements: (\d{1,15})", re.ASCII)
_ARRAY = re.compile(r"Array size: (\d{1,15}\.\d) [MGT]i?B\b.*", re.ASCII)
_WRONG = re.compile(r"Validation failed on .*|FAILED validation of .*")
_TRIAD = re.compile(r"Runtime \(seconds\): .*")
_IDENTITIES = (
    tables.Identity("time_min <= time_avg <= time_max", share=1e-5),
    # Both sides in the unit that is printed.
    tables.Identity("bandwidth * time_min = arrays * array", share=1e-5),
)
_TIMES = tuple(tables.Column(f"time_{each}", "s", positive=False) for each in ("min", "max", "avg"))

recognise = recogniser(_TITLE, _HEAD)


def parse_babelstream(text: str) -> Parsed:
    """One row for each kernel.

    Columns: ``kernel``, ``bandwidth`` [MB/s] of the fastest repetition, ``time_min``, ``time_max``
    and ``time_avg`` [s].

    Facts, if the output states them: ``implementation`` (``OpenMP``, ``CUDA``, ``HIP``...),
    ``precision``, ``repetitions``, ``elements`` of an array, and its rounded size ``array`` [B].

    :raises ParseError: no table.
    """
    lines, problems = tables.body(text)
    if triad := next((line for line in lines if _TRIAD.fullmatch(line[1])), None):
        raise ParseError("--triad-only states one time for all repetitions", *triad)
    at, head = tables.begun(lines, _HEAD, (_WRONG,), "no table of BabelStream")
    before = [said for _, said in lines[:at]]
    told = {match[1].lower(): match[2] for line in before if (match := _SAID.fullmatch(line))}
    version = told.pop("version", None)
    running = next((match for line in before if (match := _RUNNING.fullmatch(line))), None)
    array = first(before, _ARRAY)
    unit = head[1].lower()
    factor = float((1024 if "i" in unit else 1000) ** ("mgt".index(unit[0]) + 2)) / 1e6
    columns = (tables.Column("bandwidth", "MB/s"), *_TIMES)
    rows: list[Row] = []
    loose: list[tables.Line] = []
    last = 0
    for number, said in lines[at + 1 :]:
        kernel, *values = said.split() or [""]
        if kernel not in KERNELS:
            loose.append((number, said))
            continue
        problems += [
            f"line {n}: not a row of {PROGRAM}: {tables.quote(its)}" for n, its in loose if its
        ]
        loose, last = [], number
        for row in tables.cells((number, " ".join(values)), columns, problems):
            printed = dict(zip([c.name for c in columns], values))
            its = {**row, "arrays": KERNELS[kernel]}
            if array:
                its["array"], printed["array"] = float(array), array
            said_of = tables.contradictions(_IDENTITIES, its, printed)
            problems += [f"line {number}: {each}" for each in said_of]
            rate = float(row["bandwidth"]) * factor
            times = {c.name: row[c.name] for c in _TIMES}
            rows.append({"kernel": kernel, "bandwidth": rate, **times})
    problems += [f"line {n}: {said}" for n, said in lines if _WRONG.fullmatch(said)]
    problems += [f"line {n}: a second run" for n, said in lines[at + 1 :] if _HEAD.fullmatch(said)]
    kernels = [str(row["kernel"]) for row in rows]
    complete = kernels in _plans(running)
    if last == text.count("\n") + 1 or not complete:
        problems.append(f"the table was cut after {', '.join(kernels) or 'its heading'}")
        complete = False
    facts: dict[str, Any] = dict(told)
    if running:
        facts["repetitions"] = int(running[2])
    if elements := first(before, _ELEMENTS):
        facts["elements"] = int(elements)
    if array:
        facts["array"] = float(array) * factor * 1e6
    return Parsed(
        PROGRAM, PROGRAM, version, complete, tuple(rows), tables.units(columns),
        tables.capped(problems, loose),
        {**facts, **(read_as(version, KNOWN) if version else {})},
    )  # fmt: skip


def _plans(running: re.Match[str] | None) -> list[list[str]]:
    """The lists of kernels that a whole table may have."""
    names = list(KERNELS)
    # Without its first lines, a table of Copy alone may be the begin of any other.
    if running is None:
        return [names[:5], names, *([name] for name in names[1:])]
    if running[1] in KERNELS:
        return [[running[1]]]
    return [names if running[1] == "All" else names[:5]]
