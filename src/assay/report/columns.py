"""One column of an output over another, as lines: figures of the kind ``lines``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from assay.report.charts import Chart, Series, positive
from assay.results.cases import Case

#: On a linear scale, the least of values that differ by more powers of ten cannot be read.
DECADES = 2

#: Units of columns that are better on neither side, in words: a part of another case, a size.
NO_SIDE = {"%": "At 100 % both are equal", "B": "Neither more nor less is better"}


@dataclass(frozen=True)
class Drawn:
    """A chart, with its name and place in a document; "" if it is in none."""

    name: str
    at: str
    chart: Chart


def charts(case: Case) -> Iterator[Drawn]:
    """The charts that a case declares and has rows for.

    A row belongs to the line that its column ``line`` names. If the rows have a column ``figure``,
    a row belongs to the figure of that name. A quantity without a unit has a logarithmic scale,
    beside the line on which it equals what it is drawn over. So does a quantity whose values differ
    by more than :data:`DECADES`, without that line.
    """
    for figure in case.drawn_as("lines"):
        lines: dict[str, list[tuple[float, float]]] = {}
        for row in case.rows:
            point = positive(row, (figure.over, figure.column))
            if point and row.get("figure", figure.name) == figure.name:
                lines.setdefault(str(row.get("line", "")), []).append((point[0], point[1]))
        if not lines:
            continue
        unit = case.units.get(figure.column, "1")
        words = figure.column.replace("_", " ")
        ratio = unit == "1"
        values = [y for line in lines.values() for _, y in line]
        wide = max(values) > 10**DECADES * min(values)
        yield Drawn(
            figure.name,
            figure.where(case.partition),
            Chart(
                figure.name or words,
                unit,
                figure.over.replace("_", " "),
                tuple(Series(name, tuple(sorted(at))) for name, at in lines.items()),
                by_count=True,
                logarithmic=2 if ratio else 10 if wide else 0,
                ideal=ratio,
                axis=words,
                sizes=case.units.get(figure.over) == "B",
                side=NO_SIDE.get(unit, ""),
            ),
        )
