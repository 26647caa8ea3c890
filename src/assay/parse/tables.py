"""Tables of numbers: rows of message sizes, logs between them, numbers that must agree.

Lines of the logs of UCX and Open MPI may stand between the lines of a table.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from assay.parse import Parsed, ParseError, Row, Value
from assay.parse.reading import CRASH, integer, real, split, without_warnings

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


class Identity:
    """Numbers of a row that follow from each other, as far as an output prints their digits.

    :ivar names: the columns that are needed.
    """

    def __init__(self, says: str, words: str = "", share: float = 0.0) -> None:
        """Takes an identity apart.

        :param says: two expressions with ``=`` between them, or several with ``<=``. A name in them
            is a column. Each is monotonic in each of its columns.
        :param words: of the problem, with the values as ``{column:g}``; by default all of them
            and `says`.
        :param share: how much two sides may differ beside their digits, as a share of the second.
        """
        self.share, self.most = share, "<=" in says
        self._sides = [compile(side.strip(), says, "eval") for side in re.split("<?=", says)]
        self.names = [*dict.fromkeys(name for side in self._sides for name in side.co_names)]
        values = ", ".join(f"{name} {{{name}:.12g}}" for name in self.names)
        self.words = words or f"{values} contradict each other: {says}"

    def holds(self, values: Mapping[str, float], halves: Mapping[str, float]) -> bool:
        """Whether it is true for some true values, at most so far from the printed ones."""
        if not all(map(math.isfinite, values.values())):
            return False
        ends = [{values[name] - halves[name], values[name] + halves[name]} for name in self.names]
        try:
            corners = [self._of(dict(zip(self.names, corner))) for corner in product(*ends)]
            printed = self._of(values)
        except ArithmeticError:
            return False
        for at, right in enumerate(printed[1:]):
            apart = [corner[at] - corner[at + 1] for corner in corners]
            slack = self.share * abs(right)
            if not (min(apart) <= slack and (self.most or max(apart) >= -slack)):
                return False
        return True

    def _of(self, values: Mapping[str, float]) -> list[float]:
        # The code is that of this library, never text of an output.
        return [eval(side, {"__builtins__": {}}, values) for side in self._sides]  # noqa: S307


def contradictions(
    identities: Iterable[Identity], row: Mapping[str, Any], printed: Mapping[str, str]
) -> list[str]:
    """The words of the identities that do not hold for a row, each once.

    :param printed: column -> a number with as many digits as the output prints. The other columns
        are exact. A row without a column of an identity is not compared.
    """
    found = []
    for one in identities:
        if row.keys() >= {*one.names}:
            halves = {name: _half(printed.get(name, "")) for name in one.names}
            if not one.holds({name: float(row[name]) for name in one.names}, halves):
                found.append(one.words.format_map(row))
    return list(dict.fromkeys(found))


def _half(printed: str) -> float:
    """Half of the last digit of a number, and a little for the conversion."""
    mantissa, _, exponent = printed.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 0.51 * float(f"1e{int(exponent or 0) - decimals}") if printed else 0.0


@dataclass(frozen=True)
class Column:
    """One column of a table.

    :ivar unit: unit of the numbers; empty for a column of words.
    :ivar positive: a zero is not a measurement (for example of a latency), and not a small number
        printed as 0.00.
    :ivar rounds: the program may nevertheless print a small number as 0.00.
    :ivar whole: the numbers are counts.
    :ivar healthy: the only word of a column of words that is not a problem.
    :ivar factor: from the unit that is printed to `unit`.
    """

    name: str
    unit: str
    positive: bool = True
    whole: bool = False
    healthy: str = ""
    rounds: bool = False
    factor: float = 1.0


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


def begun(
    lines: Sequence[Line], title: re.Pattern[str], refusals: Sequence[re.Pattern[str]], lacks: str
) -> tuple[int, re.Match[str]]:
    """Item and match of the first title.

    :param refusals: what the program prints instead of a table, the most informative first.
    :raises ParseError: `lacks`, or the program refused to run.
    """
    for at, (_, text) in enumerate(lines):
        if match := title.fullmatch(text):
            return at, match
    for refusal in refusals:
        for line in lines:
            if refusal.fullmatch(line[1]):
                raise ParseError("no result, the program refused", *line)
    raise ParseError(lacks)


def cells(
    line: Line,
    columns: Sequence[Column],
    problems: list[str],
    rounded: list[str] | None = None,
    identities: Iterable[Identity] = (),
) -> list[Row]:
    """The row of a line; none, and a problem that gives the reason, if the line is not a row.

    :param identities: of the numbers as they are printed; a column of counts is exact.
    :param rounded: receives the problems that may be small numbers printed as zero.
    """
    number, text = line
    tokens = text.split()
    if len(tokens) != len(columns):
        problems.append(
            f"line {number}: {len(tokens)} values for {len(columns)} columns: {quote(text)}"
        )
        return []
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
            return []
        if not math.isfinite(value):
            problems.append(f"line {number}: {column.name} is {token[:40]}: {quote(text)}")
            return []
        if value < 0 or (value == 0 and column.positive):
            problems.append(
                f"line {number}: {column.name} is {token[:40]}, which is not a measured value"
            )
            if column.rounds and rounded is not None and re.fullmatch(r"0\.0+", token):
                rounded.append(problems[-1])
        row[column.name] = value
    printed = {c.name: token for c, token in zip(columns, tokens) if c.unit and not c.whole}
    problems += [f"line {number}: {said}" for said in contradictions(identities, row, printed)]
    return [row | {c.name: float(row[c.name]) * c.factor for c in columns if c.factor != 1.0}]


@dataclass
class Table:
    """Rows of a table sorted by message size; each size is twice the previous one, 1 follows 0.

    :ivar last_size: the largest size that the run should print; None if the table has no sizes and
        only one row.
    :ivar first_size: the smallest one; None if it may be any.
    :ivar problems: errors in the other rows, and in the lines between and after the rows.
    :ivar rounded: the problems that may be small numbers printed as zero.
    """

    program: str
    columns: Sequence[Column]
    last_size: int | None
    problems: list[str]
    first_size: int | None = None
    identities: Iterable[Identity] = ()
    rows: list[Row] = field(default_factory=list)
    rounded: list[str] = field(default_factory=list)
    loose: list[Line] = field(default_factory=list)
    last_row: int = 0
    _size: int | None = None

    def take(self, line: Line) -> None:
        """Read a line after the headings."""
        number, text = line
        # A number that a job script prints after the table is not a row.
        if not re.match(r"\s*(?:\d|[-+]?(?:nan|inf))", text) or (
            self._reached() and len(text.split()) != len(self.columns)
        ):
            self.loose.append(line)
            return
        if self.last_size is not None:
            self._follow(line)
        elif self.last_row:
            self.problems.append(f"line {number}: a second row (of N singletons?): {quote(text)}")
        self.read(line)

    def read(self, line: Line) -> None:
        """Read a row of any size; the lines between it and the one before are problems."""
        self.report(self.loose)
        self.loose, self.last_row = [], line[0]
        self.rows += cells(line, self.columns, self.problems, self.rounded, self.identities)

    def is_cut(self, text: str) -> bool:
        """Whether the last row has no line end, which is a problem; `text` is the whole output."""
        cut = self.last_row == text.count("\n") + 1
        if cut:
            self.problems.append(f"line {self.last_row}: no line end, the output was cut")
        return cut

    def close(self, text: str) -> bool:
        """Finish the table and tell whether it is complete; `text` is the whole output."""
        if not self.is_cut(text) and self.rows and self._reached():
            self.problems += _crashes(self.loose)
            begin = self.rows[0].get("size")
            if self.first_size in (None, begin):
                return True
            self.problems.append(f"the table begins at size {begin}, not {self.first_size}")
            return False
        # The lines after the last row of a broken table often give the reason.
        self.report([line for line in self.loose if re.search(r"\w", line[1])][:3])
        if not self.last_row:
            self.problems.append(f"no row of {self.program}")
        elif self._size is not None:
            self.problems.append(
                f"line {self.last_row}: the table ends at size {self._size}, not {self.last_size}"
            )
        return False

    def parsed(
        self, family: str, version: str | None, complete: bool, facts: Mapping[str, Any]
    ) -> Parsed:
        return Parsed(
            family, self.program, version, complete, tuple(self.rows), units(self.columns),
            capped(self.problems), facts, tuple(self.rounded),
        )  # fmt: skip

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
            return self.last_size is None and self.last_row > 0
        return self._size <= self.last_size < _after(self._size)

    def report(self, loose: Sequence[Line]) -> None:
        for number, text in loose:
            self.problems.append(f"line {number}: not a row of {self.program}: {quote(text)}")


def _after(size: int) -> int:
    """The size that follows in a table of doubling sizes."""
    return 2 * size if size else 1


def units(columns: Sequence[Column]) -> dict[str, str]:
    return {column.name: column.unit for column in columns if column.unit}


def capped(problems: Sequence[str], loose: Sequence[Line] = ()) -> tuple[str, ...]:
    """At most 20 problems: a text of another kind causes one problem for each of its lines.

    :param loose: lines that are no rows; the messages of a launcher about processes that died are
        problems.
    """
    said = [*problems, *_crashes(loose)]
    more = len(said) - _MOST_PROBLEMS
    return (*said[:_MOST_PROBLEMS], *([f"and {more} more problems"] if more > 0 else []))


def _crashes(lines: Sequence[Line]) -> list[str]:
    return [f"line {n}: {line.strip()[:200]}" for n, line in lines if CRASH.search(line)]


def quote(text: str) -> str:
    return repr(text.strip()[:120])
