"""What all parsers share: their result, and how they read lines and numbers.

A parser is a pure function ``parse(text, ...) -> Parsed``. It finds columns by their header, never
by their position, and reports whether the output was complete. It raises :class:`ParseError` if
the text is not what it claims to be. It never raises another error, whatever the text.

Lines of launchers and libraries may stand between the lines of a program:
:func:`without_warnings` leaves them out. :mod:`assay.parse.tables` reads tables.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

from assay.parse.formulas import Number

#: Host name and process id.
Process = tuple[str, int]
Value = int | float | str
Row = Mapping[str, Value]


class ParseError(Exception):
    """The text is not an output of the expected program.

    :param why: what is wrong, in one line without a full stop.
    :param line: number of the offending line, counted from 1; 0 when the text as a whole is wrong.
    :param text: the offending line, verbatim.
    """

    def __init__(self, why: str, line: int = 0, text: str = "") -> None:
        self.why = why
        self.line = line
        self.text = text
        where = f"line {line}: " if line else ""
        what = f": {text.strip()[:120]!r}" if text.strip() else ""
        super().__init__(f"{where}{why}{what}")


class NoSuchRow(ValueError):
    """The output has no row that was asked for, or several: it is at fault, not the test."""


@dataclass(frozen=True)
class Quantity:
    """A value with its unit, as the output states it."""

    value: float
    unit: str


@dataclass(frozen=True)
class Parsed:
    """One output of one program.

    :ivar family: the family of programs that the numbers belong to, such as ``osu-py``, as
        :mod:`assay.parse.registry` names them. Numbers of different families are never compared.
    :ivar program: the program, by the name that a site uses for it (``osu_latency``,
        ``bt-mz``...).
    :ivar version: the version that the program reports; None if it reports no version.
    :ivar complete: whether the header, all rows and the last line of the program are present.
    :ivar rows: one mapping of column to value for each row, all with the same columns.
    :ivar units: unit of each numeric column; ``1`` for a count or a ratio.
    :ivar problems: errors that the program's own validation or the parser found; each is one
        line of text that names the line of the output. Empty for a healthy run.
    :ivar rounded: the problems that are values too small for the digits that the program prints:
        a value below 0.005 is printed as 0.00.
    :ivar facts: values from the header or the summary that are not part of the rows (ranks, grid,
        buffers...).
    """

    family: str
    program: str
    version: str | None
    complete: bool
    rows: tuple[Row, ...]
    units: Mapping[str, str]
    problems: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    rounded: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether the output is complete and has no problems."""
        return self.complete and not self.problems

    def column(self, name: str) -> list[Value]:
        """Values of one column, in the order of the rows. Raises KeyError for an unknown column."""
        return [row[name] for row in self.rows]

    def at(self, column: str, **where: Value) -> Value:
        """The value of `column` in the only row that matches `where`.

        :raises NoSuchRow: no row matches, or more than one does.
        :raises KeyError: there is no such column.
        """
        return self.rows[self._only(where)][column]

    def quantity(self, column: str, **where: Value) -> Quantity:
        """The value that :meth:`at` returns, with the unit of the column; it knows its cell.

        :raises NoSuchRow, KeyError: as :meth:`at`; the column may also have no unit.
        :raises ValueError: the value is not a number.
        """
        return Quantity(self._cell(self._only(where), column), self.units[column])

    def cells(self, column: str, **where: Value) -> list[float]:
        """The numbers of a column in the rows that match `where`; each knows its cell.

        :raises KeyError: there is no such column.
        :raises ValueError: a value is not a number.
        """
        return [self._cell(row, column) for row in self._matching(where)]

    def _matching(self, where: Mapping[str, Value]) -> list[int]:
        """The places of the rows that have all these values."""
        rows = enumerate(self.rows)
        return [at for at, row in rows if all(row.get(k) == v for k, v in where.items())]

    def _only(self, where: Mapping[str, Value]) -> int:
        hits = self._matching(where)
        if len(hits) != 1:
            named = ", ".join(f"{k}={v}" for k, v in where.items())
            raise NoSuchRow(f"{len(hits)} rows of {self.program} have {named}")
        return hits[0]

    def _cell(self, row: int, column: str) -> float:
        value = self.rows[row][column]
        if isinstance(value, Number):  # a metric of another case, which knows where it came from
            return value
        return Number(float(value), ["cell", row, column])

    def as_dict(self) -> dict[str, Any]:
        """The JSON object that ``assay parse`` prints."""
        said = asdict(self)
        del said["rounded"]
        return said


#: The largest output that is read [B], and its most lines.
MOST, MOST_LINES = 1 << 24, 1 << 17

#: A MB/s that is 2^20 B/s, in MB/s of 10^6 B/s: the unit of all bandwidths of this library.
MIB_PER_S = (1 << 20) / 1e6

# The number of digits is limited: int() raises above 4300 digits, and no benchmark prints 40.
_INTEGER = re.compile(r"[-+]?\d{1,40}", re.ASCII)
_REAL = re.compile(r"[-+]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][-+]?\d{1,4})?", re.ASCII)
#: What launchers print about processes that died.
CRASH = re.compile(
    r"exited on signal|Segmentation fault|MPI_ABORT was invoked|a non-zero exit code"
    r"|non-zero status|^srun: error:|^slurmstepd: error:"
)
# UCX has a log of its own, which may stand within the line of a program.
_WARNING = re.compile(r"(?!.* UCX )\s*[^\s\d#].*\bwarning\b|warning\b", re.IGNORECASE)
# Open MPI frames its messages by two such lines; the longest has this many lines.
_FRAME, _LONGEST = re.compile(r"-{60,100}"), 60
# printf and gfortran write these; "****" is a Fortran field that is too narrow for its value.
_NOT_FINITE = re.compile(r"[-+]?(?:nan|inf|infinity)|\*{2,}", re.IGNORECASE)


def of_bytes(raw: bytes) -> str:
    """The text of an output, without the NUL bytes that Open MPI 5 puts between its messages.

    :raises ParseError: it is larger than any output of a benchmark.
    """
    if len(raw) > MOST or raw.count(b"\n") > MOST_LINES:
        raise ParseError(f"has more than {MOST} B or {MOST_LINES} lines, as no output has")
    return raw.decode("utf-8", errors="replace").replace("\0", "")


def split(text: str) -> list[str]:
    """The lines of `text`, without trailing blanks; line ``n`` of the output is item ``n - 1``.

    A mark of the byte order, which editors and consoles of other systems write, is left out.
    Only ``\\n`` ends a line: ``str.splitlines`` also breaks at form feeds and would count wrongly.
    """
    return [line.rstrip() for line in text.removeprefix("\ufeff").split("\n")]


def without_warnings(
    lines: Sequence[str], start: int = 0, framed: bool = False
) -> Iterator[tuple[int, str]]:
    """The numbered lines from item `start` on, without the warnings of libraries.

    Libraries warn on the stream on which the program prints its numbers. A warning does not
    change them. A message that also reports a crash is kept, and so is a line that may be a row.

    :param framed: leave out only the framed messages of Open MPI: the program itself warns, too.
    """
    end = start
    for at, line in enumerate(lines[start:], start):
        if at < end:
            continue
        if line.startswith("-----") and _FRAME.fullmatch(line):
            ends = range(at + 1, min(at + _LONGEST, len(lines)))
            end = next((i + 1 for i in ends if _FRAME.fullmatch(lines[i])), at)
        elif not framed and "warning" in line.lower():
            end = at + 1
        message = lines[at:end]
        if not any(map(_WARNING.match, message)) or any(map(CRASH.search, message)):
            end = at
            yield at + 1, line


def integer(token: str, number: int, line: str) -> int:
    """`token` as an int.

    :raises ParseError: `token` is not a whole number; the error names line `number`.
    """
    if not _INTEGER.fullmatch(token):
        raise ParseError(f"{token[:40]!r} is not a whole number", number, line)
    return int(token)


def real(token: str, number: int, line: str) -> float:
    """`token` as a float; NaN if the program printed NaN, infinity or an overflowed Fortran field.

    :raises ParseError: `token` is not a number at all; the error names line `number`.
    """
    if _REAL.fullmatch(token):
        value = float(token)
        return value if math.isfinite(value) else math.nan
    if _NOT_FINITE.fullmatch(token):
        return math.nan
    raise ParseError(f"{token[:40]!r} is not a number", number, line)


def recogniser(*patterns: re.Pattern[str]) -> Callable[[str], bool]:
    """The function ``recognise`` of a parser: whether one of the patterns matches a whole line."""

    def recognise(text: str) -> bool:
        return any(any(map(pattern.fullmatch, _rows_of(text))) for pattern in patterns)

    return recognise


@lru_cache(maxsize=4)  # every parser is asked about a text
def _rows_of(text: str) -> list[str]:
    return [*map(str.rstrip, text.split("\n"))]


def said_by(line: str, prefix: re.Pattern[str]) -> Iterator[tuple[re.Match[str], str]]:
    """The prefixes in a line of a log, which is torn if it has several, and what follows each."""
    starts = list(prefix.finditer(line))
    for start, end in zip(starts, [*(start.start() for start in starts[1:]), len(line)]):
        yield start, line[start.end() : end].strip()


def read_as(version: str, known: Sequence[str]) -> dict[str, str]:
    """The fact ``read_as`` of a version that is none of the known ones: the newest of those."""
    is_known = any(re.match(rf"{re.escape(one)}(?!\d)", version) for one in known)
    return {} if is_known else {"read_as": known[-1]}


def first(lines: Iterable[str], pattern: re.Pattern[str]) -> str | None:
    """What `pattern` captures in the first line that it matches from the begin on."""
    return next((match[1] for line in lines if (match := pattern.match(line))), None)


def only(lines: Sequence[str], pattern: re.Pattern[str], what: str) -> tuple[int, re.Match[str]]:
    """Line number and match of the only line that `pattern` matches.

    :raises ParseError: no line matches, or more than one line does. Several matches mean appended
        outputs, or ranks that did not join one world and each ran the benchmark alone.
    """
    hits = [(n, m) for n, line in enumerate(lines, 1) if (m := pattern.match(line))]
    if not hits:
        raise ParseError(f"{what} not found")
    if len(hits) > 1:
        number = hits[1][0]
        why = f"{len(hits)} runs in one text (appended outputs, or ranks that ran alone)"
        raise ParseError(why, number, lines[number - 1])
    return hits[0]
