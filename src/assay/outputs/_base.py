"""The result type of all parsers in this package, and the one error that they may raise.

A parser is a pure function ``parse(text, ...) -> Parsed``. It finds columns by their header, never
by their position, and reports whether the output was complete. It raises :class:`ParseError` if
the text is not what it claims to be. It never raises another error, whatever the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Union

Value = Union[int, float, str]
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


@dataclass(frozen=True)
class Quantity:
    """A value with its unit, as the output states it."""

    value: float
    unit: str


@dataclass(frozen=True)
class Parsed:
    """One output of one program.

    :ivar family: the family of programs that the numbers belong to, such as ``osu-py``, as
        :mod:`assay.outputs.registry` names them. Numbers of different families are never compared.
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

        :raises KeyError: no row matches, or more than one does.
        """
        hits = [r for r in self.rows if all(r.get(k) == v for k, v in where.items())]
        if len(hits) != 1:
            named = ", ".join(f"{k}={v}" for k, v in where.items())
            raise KeyError(f"{len(hits)} rows of {self.program} have {named}")
        return hits[0][column]

    def quantity(self, column: str, **where: Value) -> Quantity:
        """The value that :meth:`at` returns, with the unit of the column.

        :raises KeyError: as :meth:`at`, or the column has no unit.
        :raises ValueError: the value is not a number.
        """
        value = self.at(column, **where)
        # A number that knows its place (assay.outputs.formulas) is a float, and keeps its place.
        return Quantity(value if isinstance(value, float) else float(value), self.units[column])

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
