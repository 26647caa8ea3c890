"""What every parser in this room returns, and the one error that it may raise.

A parser is a pure function ``parse(text, ...) -> Parsed``. It reads columns by header, never by
position, and says of itself whether the output was complete. It raises :class:`ParseError` where
the text is not what it claims to be, and nothing else, whatever the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Union

Value = Union[int, float, str]
Row = Mapping[str, Value]


class ParseError(Exception):
    """The text is not an output of the program that was expected.

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


@dataclass(frozen=True)
class Quantity:
    """A value with the unit that the output gives it."""

    value: float
    unit: str


@dataclass(frozen=True)
class Parsed:
    """One output of one program.

    :ivar family: the family of programs that the numbers belong to (``osu``, ``osu-py``,
        ``netpipe``, ``ucx-perftest``, ``hpcc``, ``hpl``, ``npb``, ``iozone``). Numbers of
        different families are never compared.
    :ivar program: the program, as its site would call it (``osu_latency``, ``bt-mz``...).
    :ivar version: the version as the program reports it, None where it reports none.
    :ivar complete: the header, every row and the last line that the program promises are there.
    :ivar rows: one mapping of column to value for each row, all with the same columns.
    :ivar units: unit of each numeric column; ``1`` for a count or a ratio.
    :ivar problems: what the program's own validation, or the reading of it, found wrong; each
        is one line that names the line of the output. Empty for a healthy run.
    :ivar rounded: those of the problems that are values too small for the digits that the program
        prints: less than 0.005 is printed as 0.00.
    :ivar facts: what the header or summary states beside the rows (ranks, grid, buffers...).
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
        """Complete, and nothing found wrong."""
        return self.complete and not self.problems

    def column(self, name: str) -> list[Value]:
        """Values of one column, in the order of the rows. Raises KeyError for an unknown one."""
        return [row[name] for row in self.rows]

    def at(self, column: str, **where: Value) -> Value:
        """The value of `column` in the only row that matches `where`.

        :raises KeyError: no row matches, or more than one does.
        """
        hits = [r for r in self.rows if all(r.get(k) == v for k, v in where.items())]
        if len(hits) != 1:
            named = ", ".join(f"{k}={v}" for k, v in where.items())
            raise KeyError(f"{len(hits)} rows of {self.program} have {named}")
        return hits[0][column]

    def quantity(self, column: str, **where: Value) -> Quantity:
        """As :meth:`at`, with the unit of the column. Raises KeyError and ValueError likewise."""
        return Quantity(float(self.at(column, **where)), self.units[column])

    def as_dict(self) -> dict[str, Any]:
        """The JSON object that ``assay parse`` prints."""
        return {
            "family": self.family,
            "program": self.program,
            "version": self.version,
            "complete": self.complete,
            "rows": [dict(r) for r in self.rows],
            "units": dict(self.units),
            "problems": list(self.problems),
            "facts": dict(self.facts),
        }
