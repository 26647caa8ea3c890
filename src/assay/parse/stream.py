"""STREAM in C, Fortran and over MPI (5.6 to 5.10, stream_mpi 1.7 to 1.8), checked against 5.10."""

from __future__ import annotations

import re

from assay.parse import Parsed, Row
from assay.parse.reading import first, only, read_as, recogniser, split, without_warnings
from assay.parse.tables import Column, Identity, capped, cells, units

KNOWN = ("5.6", "5.8", "5.9", "1.7", "1.8", "5.10")

_VERSION = re.compile(
    r" *(?:Based on )?STREAM [Vv]ersion \$Revision: (\d[\d.]{0,9}) *\$ *(?:\(.*\))?"
)
_TITLE = re.compile(r" *Function +(?:Best )?Rate \(?MB/s\)? +Avg time +Min time +Max time")
_VALID = re.compile(r" *Solution Validates\b.*")
_LINE = re.compile(r"^ *-{40,}$")
#: Stands for a line of dashes: STREAM warns between two of them, as Open MPI does.
_RULE = "=" * 40
_INVALID = re.compile(r" *(?:Failed Validation|WEIRD:|For array \w\[\], \d+ errors)")
#: What the header states; the aggregate size of the variant over MPI counts all ranks.
_FACTS = {
    "array": re.compile(r" *(?:Total Aggregate )?Array size = +(\d{1,18})\b"),
    "element": re.compile(r" *This system uses (\d{1,3}) bytes"),
    "threads": re.compile(r" *Number of Threads requested = +(\d{1,9})"),
    "counted": re.compile(r" *Number of Threads counted = +(\d{1,9})"),
    "ranks": re.compile(r" *Data is distributed across (\d{1,9}) MPI ranks"),
    "repeats": re.compile(r" *Each (?:kernel will be executed|test is run) (\d{1,9}) times"),
}
_COLUMNS = [
    Column("rate", "MB/s"),
    Column("avg_time", "s"),
    Column("min_time", "s", rounds=True),
    Column("max_time", "s"),
]
#: How many arrays each function reads or writes.
_ARRAYS = {"Copy": 2, "Scale": 2, "Add": 3, "Triad": 3}
_ORDER = Identity("min_time <= avg_time <= max_time")


recognise = recogniser(_VERSION)


def parse_stream(text: str) -> Parsed:
    """Read the output of one run of STREAM.

    There is one row for each function: ``function`` (``Copy``, ``Scale``, ``Add``, ``Triad``),
    ``rate`` [MB/s, the best], ``avg_time``, ``min_time`` and ``max_time`` [s].

    ``facts``: ``array`` [elements], ``element`` [B], ``threads``, ``ranks``, ``repeats``, as far as
    the output states them.

    :raises ParseError: no version, or several of them: appended outputs, or ranks that ran alone.
    """
    lines = list(without_warnings([_LINE.sub(_RULE, line) for line in split(text)]))
    plain = [line for _, line in lines]
    _, version = only(plain, _VERSION, "version of STREAM")
    said = {name: first(plain, pattern) for name, pattern in _FACTS.items()}
    facts = {name: int(value) for name, value in said.items() if value}
    problems = [f"line {number}: {line.strip()}" for number, line in lines if _INVALID.match(line)]
    rows: list[Row] = []
    begun, valid, ended = False, False, False
    for number, line in lines:
        name, _, rest = line.strip().partition(":")
        if begun and name in _ARRAYS and not valid:
            identities = [_ORDER]
            if "array" in facts:  # the rate is that of the shortest time
                moved = _ARRAYS[name] * facts.get("element", 8) * facts["array"]
                words = f"{moved} B in {{min_time}} s are not {{rate}} MB/s"
                identities.append(Identity(f"rate * min_time * 1e6 = {moved}", words))
            found = cells((number, rest), _COLUMNS, problems, identities=identities)
            rows += [{"function": name, **row} for row in found]
        begun = begun or bool(_TITLE.fullmatch(line))
        ended = valid and line == _RULE and number <= text.count("\n")
        valid = valid or bool(_VALID.fullmatch(line))
        if ended:
            break
    names = [row["function"] for row in rows]
    if [*dict.fromkeys(names)] != names:
        problems.append("a function has more than one row")
    if lacks := [name for name in _ARRAYS if name not in names]:
        problems.append(f"no row of {', '.join(lacks)}")
    if not valid:
        problems.append("STREAM did not say that its solution validates")
    counted = facts.pop("counted", facts.get("threads"))
    if counted != facts.get("threads"):
        problems.append(f"{counted} threads ran, {facts.get('threads', 'none')} were asked for")
    return Parsed(
        "stream", "stream", version[1], ended and not lacks, tuple(rows), units(_COLUMNS),
        capped(problems), facts | read_as(version[1], KNOWN),
    )  # fmt: skip
