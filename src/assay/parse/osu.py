"""OSU Micro-Benchmarks (C programs), versions 5 to 7: point-to-point, one-sided and collectives.

``osu.yaml`` says what the versions print.

With Open MPI, ``-c`` fails in reductions of MPI_CHAR. The failure is correct, but it is not a
fault of the machine: the vectorised MPI_SUM of Open MPI saturates 8-bit integers (open-mpi/ompi
issue 8045, closed as wontfix). 7.4 checks these reductions; run it with ``-T mpi_int``.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from assay import files
from assay.parse import Parsed, ParseError
from assay.parse.reading import read_as, recogniser
from assay.parse.tables import SIZE, Column, Identity, Line, Table, begun, body, quote

KNOWN_MAJORS = ("5", "6", "7")

_FORMAT = files.own(__file__, dict[str, Any])

#: Largest message by default.
PT2PT, COLLECTIVE = 1 << 22, 1 << 20

#: Title -> program, last size; None for a table without sizes.
PROGRAMS: dict[str, tuple[str, int | None]] = {
    title: (program, last)
    for kind, last in (
        ("point_to_point", PT2PT),
        ("collective", COLLECTIVE),
        ("single", None),
    )
    for title, program in _FORMAT[kind].items()
}
# In all versions that were checked, these programs refuse any other number of ranks ("requires
# exactly two processes").
TWO_RANKS = ("osu_latency", "osu_bw", "osu_bibw")
# The titles of these programs never contain -CUDA.
NO_SUFFIX = ("osu_multi_lat", "osu_mbw_mr")
REDUCTIONS = ("osu_reduce", "osu_allreduce")

_TITLE = re.compile(r"# OSU (\S.*) v(\d\S*)")
_TEST = re.compile(r"MPI(?:_(\w+))?(?:-(CUDA MANAGED|CUDA|OPENACC|ROCM|SYCL|MANAGED))? (.+) Test")
_PAIRS = re.compile(r"# \[ pairs: (\d{1,9}) \] \[ window size: (\d{1,9}) \]", re.ASCII)
_DATATYPE = re.compile(r"# Datatype: (\S+)\.")
_BUFFERS = re.compile(
    r"# (?:Send Buffer|Rank 0 Memory) on (\w+) \(\w+\) and (?:Receive Buffer|Rank 1 Memory) on "
    r"(\w+) \(\w+\)"
)
_SETTING = re.compile(r"# (Window creation|Synchronization|Number of [^:]+): (.+)")
_OVERALL = "# Overall = Coll. Init + Compute + MPI_Test + MPI_Wait"
_HEADINGS = re.compile(r"(?:# (?:Size|Avg Latency\(us\))| +Overall\(us\))(?:\s|$)")
_COLUMNS = {
    **{heading: Column(**column) for heading, column in _FORMAT["columns"].items()},
    **{f"P{part} Tail Lat(us)": Column(f"p{part}", "us") for part in range(100)},
    **{f"P{part} Tail BW(MB/s)": Column(f"p{part}", "MB/s") for part in range(100)},
}
_IDENTITIES = [
    Identity("min <= latency <= max"),
    Identity("pure_min <= pure <= pure_max"),
    Identity("messages_per_s * size / 1e6 = bandwidth"),
]
# Messages that a program prints instead of a table, the most informative first.
_REFUSALS = tuple(
    re.compile(pattern)
    for pattern in (
        r"This test requires (?:exactly|at least) two processes",
        r"(?:CUDA|OPENACC|ROCM|NCCL) support not (?:enabled|available)\..*",
        r"Error initializing device",
        r"Could Not Allocate Memory \[rank \d+\]",
        r"Invalid option \[.*",
        r"Usage: \S*osu_\w+ .*",
    )
)
_MEMORY_LIMIT = re.compile(r"Continuing with max message size of \d+ bytes")

recognise = recogniser(re.compile("# OSU .*"), *_REFUSALS)


def parse_osu(text: str, *, last_size: int | None = None) -> Parsed:
    """The table of one run.

    Columns, as far as the run printed them: ``size`` [B], ``latency`` [us] (the average of
    collectives), ``min`` and ``max`` over the ranks [us], ``iterations``, ``validation`` (a word),
    ``bandwidth`` [MB/s, 10^6 B/s], ``messages_per_s`` [1/s], ``p50``... (percentiles of the
    quantity that the program measures), ``transmit_size`` [B]. Of non-blocking collectives
    ``overall`` and its parts ``compute``, ``init``, ``test``, ``wait`` [us], ``pure``, the time of
    the collective alone, with ``pure_min`` and ``pure_max`` [us], and ``overlap`` [%].

    Facts: ``accelerator`` (None, ``cuda``...), ``buffers`` (``send``, ``receive``: ``host``,
    ``device``, ``managed``) if the header states them, ``datatype``, ``pairs``, ``window_size``,
    ``ranks`` if the program implies their number, the ``settings`` of one-sided, multi-threaded and
    multi-process programs, and ``validates`` for a run with ``-c``.
    ``validates`` is False if the program compares nothing; ``validates_why`` gives the reason.

    :param last_size: largest message size [B], if ``-m`` set one.
    :raises ParseError: no table, an unknown program or header line, or a refusal.
    """
    lines, problems = body(text)
    at, title = begun(lines, _TITLE, _REFUSALS, "no title of an OSU benchmark")
    reader = _Reader(lines[at], title[1], title[2], problems, last_size)
    for line in lines[at + 1 :]:
        reader.take(line)
        if reader.ended:
            break
    return reader.result(text)


class _Reader(Table):
    """The table, with what its title and its header say."""

    def __init__(
        self, title: Line, test: str, version: str, problems: list[str], last_size: int | None
    ) -> None:
        known = _TEST.fullmatch(test)
        found = known and _program(known[1], known[3])
        if known is None or found is None:
            raise ParseError(f"unknown test {test!r}", *title)
        program, self.default_last = found
        if last_size is None or self.default_last is None:
            last_size = self.default_last
        super().__init__(program, [], last_size, problems, identities=_IDENTITIES)
        self.title, self.version = title, version
        self.facts: dict[str, Any] = {"accelerator": known[2].lower() if known[2] else None}
        self.facts |= read_as(version, KNOWN_MAJORS)
        self.titles = 1
        self.ended = False

    def take(self, line: Line) -> None:
        """Read a line after the title."""
        number, text = line
        if not text:
            return
        # By their sources, 6.1 to 7.2 print it in osu_mbw_mr.c (HEADER) and in print_header().
        twice = self.program == "osu_mbw_mr" and self.titles == 1 and not self.columns
        if text == self.title[1] and twice:
            self.titles += 1
        elif text.startswith("# OSU ") or (
            self.columns and (_HEADINGS.match(text) or (self.rows and _DATATYPE.fullmatch(text)))
        ):
            why = "a second table (of N singletons? of several datatypes, -T?)"
            self.problems.append(f"line {number}: {why}: {quote(text)}")
            self.ended = True
        elif (text.startswith("#") or _HEADINGS.match(text)) and not self.rows:
            self._header(line)
        elif self.columns:
            super().take(line)
        else:
            self.problems.append(f"line {number}: not of {self.program}: {quote(text)}")

    def _header(self, line: Line) -> None:
        number, text = line
        if datatype := _DATATYPE.fullmatch(text):
            self.facts["datatype"] = datatype[1]
        elif pairs := _PAIRS.fullmatch(text):
            self.facts["pairs"], self.facts["window_size"] = int(pairs[1]), int(pairs[2])
            self.facts["ranks"] = 2 * int(pairs[1])
        elif buffers := _BUFFERS.fullmatch(text):
            send, receive = buffers[1].lower(), buffers[2].lower()
            self.facts["buffers"] = {"send": send, "receive": receive}
        elif setting := _SETTING.fullmatch(text):
            self.facts.setdefault("settings", {})[setting[1]] = setting[2]
        elif _HEADINGS.match(text):
            self.columns = [*self.columns, *_columns(line)]
            if (SIZE in self.columns) != (self.default_last is not None):
                raise ParseError(f"not the columns of {self.program}", number, text)
        elif text != _OVERALL:
            raise ParseError(f"unknown header line of {self.program}", number, text)

    def result(self, text: str) -> Parsed:
        complete = self.close(text)
        self.problems += [
            f"line {text.count(chr(10), 0, said.start()) + 1}: memory limit (-M): {said[0]}"
            for said in _MEMORY_LIMIT.finditer(text)
        ]
        self._conclude()
        return self.parsed("osu", self.version, complete, self.facts)

    def _conclude(self) -> None:
        """Add the facts that no single line states."""
        if self.program in TWO_RANKS:
            self.facts["ranks"] = 2
        silent = numbers(self.version) >= (7, 4) and self.default_last == PT2PT
        if "buffers" not in self.facts:
            if self.facts["accelerator"] is None and not (silent and self.program in NO_SUFFIX):
                self.facts["buffers"] = {"send": "host", "receive": "host"}
            elif self.facts["accelerator"] and self.default_last != PT2PT:
                self.facts["buffers"] = {"send": "device", "receive": "device"}
            elif self.facts["accelerator"] and self.columns and not silent:
                self.problems.append(
                    f"line {self.title[0]}: {self.facts['accelerator']}, but no line says where "
                    "the buffers are"
                )
        if any(column.name == "validation" for column in self.columns):
            # In 7.2 (and likewise 7.1), validate_reduction() of c/util/osu_util_mpi.c:2227 fills
            # the expected values, frees them and returns `errors`, which is never set. 7.0 and 7.4
            # compare the values. The CHANGES of 7.4 name the repair, so 7.3 counts as broken.
            blind = self.program in REDUCTIONS and (7, 1) <= numbers(self.version) < (7, 4)
            self.facts["validates"] = not blind
            if blind:
                self.facts["validates_why"] = (
                    f"{self.version} compares nothing: validate_reduction() in "
                    "c/util/osu_util_mpi.c never sets errors"
                )


def _program(operation: str | None, test: str) -> tuple[str, int | None] | None:
    """The program and the size of its last row by the words of its title; None if not known."""
    if operation:
        known, kind = _FORMAT["one_sided"].get(operation), _FORMAT["kinds"].get(test.lower())
        one = 8 if operation in ("Fetch_and_op", "Compare_and_swap") else PT2PT
        return (f"osu_{known}_{kind}", one) if known and kind else None
    blocking = re.sub("^Non-[bB]locking ", "", test)
    if blocking == test:
        return PROGRAMS.get(test)
    name = blocking.replace("All-to-All Latency", "All-to-All Personalized Exchange Latency")
    found = PROGRAMS.get(name)
    return (found[0].replace("osu_", "osu_i"), found[1]) if found else None


def numbers(version: str | None) -> tuple[int, ...]:
    """A version as numbers, without letters behind it (``-git``); empty for an unknown one."""
    known = re.match(r"\d{1,9}(?:\.\d{1,9})*", version or "", re.ASCII)
    return tuple(map(int, known[0].split("."))) if known else ()


def _columns(line: Line) -> list[Column]:
    """Columns by their headings; only one blank separates a percentile from the next heading."""
    number, text = line
    columns: list[Column] = []
    rest = text.lstrip("# ")
    while rest:
        heading = next((known for known in _COLUMNS if rest.startswith(known)), None)
        if heading is None:
            raise ParseError(f"unknown column {rest[:40]!r}", number, text)
        column = _COLUMNS[heading]
        if column.name in (c.name for c in columns):
            raise ParseError(f"two columns {column.name}", number, text)
        columns.append(column)
        rest = rest.removeprefix(heading).lstrip()
    if any(column.name == "messages_per_s" for column in columns):
        # Beside the message rate, 0.00 MB/s is a small number: _IDENTITIES compares both.
        columns = [replace(c, positive=c.positive and c.name != "bandwidth") for c in columns]
    return columns
