"""The Python ports of OSU benchmarks in mpi4py's ``demo/osu_*.py``; checked against mpi4py 4.1.2.

The ports are a separate family: the interpreter runs between two messages, so their latencies are
not those of the C programs. They print no version, take no options and validate nothing.

osu_multi_lat.py and osu_alltoall.py run with any number of ranks, even with one: a single process
prints a whole table without a partner. If N singletons print into one text, the parser finds the
second table. The caller must prove by other means that the world had the requested size.
"""

from __future__ import annotations

import re
from typing import Any

from assay import files
from assay.parse import Parsed, ParseError
from assay.parse.osu import TWO_RANKS
from assay.parse.reading import recogniser
from assay.parse.tables import SIZE, Column, Table, begun, body, quote

# osu_bw.py and osu_bibw.py print MB/s (10^6 B/s, lines 73-76 and 76-79) under the heading
# "Latency [us]" (line 34 of both), so only the title shows the quantity. osu_bibw.py counts the
# bytes of one direction; the C program counts both (mpi/pt2pt/osu_bibw.c of 5.7: "* 2").
# Below 0.005 MB/s they print 0.00 ("%20.2f"); this happens on a machine that others keep busy.
_COLUMNS = {
    "latency": Column("latency", "us"),
    "bandwidth": Column("bandwidth", "MB/s", rounds=True),
}
PROGRAMS = files.own(__file__, dict[str, tuple[str, str, int, int]])
_TITLE = re.compile(r"# MPI (.+) Test")
_HEADINGS = re.compile(r"# Size \[B\]\s+Latency \[us\]")
_REFUSAL = re.compile(r"This test requires (?:exactly|at least) two processes")

recognise = recogniser(_TITLE)


def parse_osu_py(text: str, *, last_size: int | None = None) -> Parsed:
    """The table of one run: ``size`` [B] and ``latency`` [us] or ``bandwidth`` [MB/s, 10^6 B/s].

    Facts: ``ranks`` if the program refuses any other number of ranks.

    :param last_size: the last size [B], if the port was changed to end at another size.
    :raises ParseError: no title, an unknown title, or the program refused to run.
    """
    lines, problems = body(text)
    at, title = begun(lines, _TITLE, [_REFUSAL], "no title of an OSU port of mpi4py")
    if title[1] not in PROGRAMS:
        raise ParseError(f"unknown test {title[1]!r}", *lines[at])
    program, column, first, last = PROGRAMS[title[1]]
    if last_size is not None and last > 0:
        last = last_size
    table = Table(program, (SIZE, _COLUMNS[column]), last, problems, first)
    headed = False
    for number, line in lines[at + 1 :]:
        if _TITLE.fullmatch(line) or (headed and _HEADINGS.fullmatch(line)):
            problems.append(f"line {number}: a second table (of N singletons?): {quote(line)}")
            break
        if headed and line:
            table.take((number, line))
        elif line:
            if not _HEADINGS.fullmatch(line):
                raise ParseError(f"not the headings of {program}", number, line)
            headed = True
    complete = table.close(text)
    facts: dict[str, Any] = {"ranks": 2} if program in TWO_RANKS else {}
    return table.parsed("osu-py", None, complete, facts)
