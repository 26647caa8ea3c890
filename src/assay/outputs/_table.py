"""Functions that the parsers of network benchmarks share, to read tables of message sizes.

Lines of the logs of UCX and Open MPI may stand between the lines of a table.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from assay.outputs._base import ParseError, Row, Value
from assay.outputs._scan import CRASH, integer, real, split, without_warnings

# Format of src/ucs/debug/log.c in UCX 1.13 to 1.22: "[time] [host:pid:thread] file.c:12 UCX INFO
# text". The rows of the protocol tables (UCX_PROTO_INFO=y) have no file and no level, and may be
# empty. The pid is padded.
_UCX = re.compile(
    r"\[\d{1,12}\.\d{1,9}\] \[[^\s\[\]:]+:\d+ *:[^\]\s]*\]"
    r"(?:$|\s+(?:\S+:\d+\s+UCX\s+(?P<level>[A-Z]+)\s+(?P<said>.*)|[+|].*))"
)
# Open MPI prints on stderr which components it considered (pml_base_verbose) and which settings
# it was given (mpi_show_mca_params=enviro).
_OPEN_MPI = re.compile(
    r"\[[^\s\[\]:]+:\d+\] (?:mca: base: .*|(?:check:)?select: .*|selected \S+ best priority .*"
    r"|\w+=.* \(environment\))"
)
_MOST_PROBLEMS = 20

Line = tuple[int, str]


@dataclass(frozen=True)
class Column:
    """One column of a table.

    :ivar unit: unit of the numbers; empty for a column of words.
    :ivar positive: a zero is not a measurement (for example of a latency), and not a small number
        printed as 0.00.
    :ivar rounds: the program may nevertheless print a small number as 0.00.
    :ivar whole: the numbers are counts.
    :ivar healthy: the only word of a column of words that is not a problem.
    """

    name: str
    unit: str
    positive: bool = True
    whole: bool = False
    healthy: str = ""
    rounds: bool = False


SIZE = Column("size", "B", positive=False, whole=True)


def body(text: str) -> tuple[list[Line], list[str]]:
    """The numbered lines without logs of UCX and Open MPI, and a problem per UCX ERROR or FATAL.

    A process writes its log into the same pipe, sometimes between the two halves of a line of the
    benchmark. The halves are joined again under the number of the first half.
    """
    lines: list[Line] = []
    problems: list[str] = []
    cut: Line | None = None
    for number, line in without_warnings(split(text)):
        log = _UCX.search(line)
        if log is None:
            if _OPEN_MPI.fullmatch(line):
                continue
            lines.append((cut[0], cut[1] + line) if cut else (number, line))
            cut = None
            continue
        if log["level"] in ("ERROR", "FATAL"):
            problems.append(f"line {number}: UCX {log['level']}: {log['said'][:200]}")
        if before := line[: log.start()]:
            if cut:
                lines.append(cut)
            cut = (number, before)
    if cut:
        lines.append(cut)
    return lines, problems


def crashes(lines: Sequence[Line]) -> list[str]:
    """The messages of a launcher about processes that died."""
    return [f"line {n}: {line.strip()[:200]}" for n, line in lines if CRASH.search(line)]


def cells(
    line: Line, columns: Sequence[Column], problems: list[str], rounded: list[str] | None = None
) -> dict[str, Value] | None:
    """One row; None if the line is not a row, with a problem that gives the reason.

    :param rounded: receives the problems that may be small numbers printed as zero.
    """
    number, text = line
    tokens = text.split()
    if len(tokens) != len(columns):
        problems.append(
            f"line {number}: {len(tokens)} values for {len(columns)} columns: {quote(text)}"
        )
        return None
    row: dict[str, Value] = {}
    for column, token in zip(columns, tokens):
        if not column.unit:
            row[column.name] = token
            if token != column.healthy:
                problems.append(f"line {number}: {column.name} says {token[:40]}: {quote(text)}")
            continue
        try:
            value = integer(token, number, text) if column.whole else real(token, number, text)
        except ParseError as error:
            problems.append(str(error))
            return None
        if not math.isfinite(value):
            problems.append(f"line {number}: {column.name} is {token[:40]}: {quote(text)}")
            return None
        if value < 0 or (value == 0 and column.positive):
            problems.append(
                f"line {number}: {column.name} is {token[:40]}, which is not a measured value"
            )
            if column.rounds and rounded is not None and re.fullmatch(r"0\.0+", token):
                rounded.append(problems[-1])
        row[column.name] = value
    return row


class Table:
    """Rows of a table sorted by message size; each size is twice the previous one, 1 follows 0.

    :ivar rows: the rows that could be read.
    :ivar problems: errors in the other rows, and in the lines between and after the rows.
    :ivar rounded: the problems that may be small numbers printed as zero.
    """

    def __init__(
        self, program: str, columns: Sequence[Column], last_size: int | None, problems: list[str]
    ) -> None:
        """Set up an empty table.

        :param last_size: the largest size that the run should print; None if the table has no
            sizes and only one row.
        """
        self.program = program
        self.columns = columns
        self.last_size = last_size
        self.problems = problems
        self.rows: list[Row] = []
        self.rounded: list[str] = []
        self._size: int | None = None
        self._last_row = 0
        self._loose: list[Line] = []

    def take(self, line: Line) -> None:
        """Read a line after the headings."""
        number, text = line
        # A number that a job script prints after the table is not a row.
        if not re.match(r"\s*(?:\d|[-+]?(?:nan|inf))", text) or (
            self._reached() and len(text.split()) != len(self.columns)
        ):
            self._loose.append(line)
            return
        if self.last_size is not None:
            self._follow(line)
        elif self._last_row:
            self.problems.append(f"line {number}: a second row (of N singletons?): {quote(text)}")
        self._report(self._loose)
        self._loose = []
        self._last_row = number
        row = cells(line, self.columns, self.problems, self.rounded)
        if row is not None:
            self.rows.append(row)

    def close(self, text: str) -> bool:
        """Finish the table and tell whether it is complete; `text` is the whole output."""
        complete = bool(self.rows) and self._reached()
        if self._last_row == text.count("\n") + 1:
            self.problems.append(f"line {self._last_row}: no line end, the output was cut")
            complete = False
        if complete:
            self.problems += crashes(self._loose)
            return True
        # The lines after the last row of a broken table often give the reason.
        self._report([line for line in self._loose if re.search(r"\w", line[1])][:3])
        if not self._last_row:
            self.problems.append(f"no row of {self.program}")
        elif self._size is not None:
            self.problems.append(
                f"line {self._last_row}: the table ends at size {self._size}, not {self.last_size}"
            )
        return False

    def _follow(self, line: Line) -> None:
        # A torn row counts here: it is a problem itself, but the row after it is not.
        token = line[1].split()[0]
        if not re.fullmatch(r"\d{1,18}", token, re.ASCII):
            return
        size, before = int(token), self._size
        self._size = size
        if before is None or size == _after(before):
            return
        why = "rows are missing" if size > before else "a second table (of N singletons?)"
        self.problems.append(f"line {line[0]}: size {size} after size {before}: {why}")

    def _reached(self) -> bool:
        """Whether the last row that the program prints was there."""
        if self.last_size is None or self._size is None:
            return self.last_size is None and self._last_row > 0
        return self._size <= self.last_size < _after(self._size)

    def _report(self, loose: Sequence[Line]) -> None:
        for number, text in loose:
            self.problems.append(f"line {number}: not a row of {self.program}: {quote(text)}")


def _after(size: int) -> int:
    """The size that follows in a table of doubling sizes."""
    return 2 * size if size else 1


def units(columns: Sequence[Column]) -> dict[str, str]:
    return {column.name: column.unit for column in columns if column.unit}


def capped(problems: Sequence[str]) -> tuple[str, ...]:
    """At most 20 problems: a text of another kind causes one problem for each of its lines."""
    more = len(problems) - _MOST_PROBLEMS
    tail = (f"and {more} more problems",) if more > 0 else ()
    return (*problems[:_MOST_PROBLEMS], *tail)


def quote(text: str) -> str:
    return repr(text.strip()[:120])
