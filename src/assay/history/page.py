"""The page of a history: changes first, then the latest runs with the trend of each metric."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import jinja2
from markupsafe import Markup

from assay import report
from assay.history import changes, drawing, planned, series, table
from assay.quantities import number

#: How many sessions the trend of a metric shows, and how many there are before a change.
_TREND, _BEFORE = 100, 30

#: What a reader is told of a change, by ``Change.for_worse``.
DIRECTION = {True: "for the worse", False: "for the better", None: "in either direction a fault"}


@dataclass(frozen=True)
class Row:
    """A change, ready to be shown."""

    when: str
    case: str
    metric: str
    node: str
    levels: str
    size: str
    direction: str
    beyond: bool
    picture: Markup


@dataclass
class Trends:
    """The pictures of all metrics, and the changes.

    :ivar pictures: (case, metric with its unit) -> picture.
    :ivar problem: why changes are not known; None if they are.
    """

    rows: list[Row]
    pictures: dict[tuple[str, str], Markup]
    problem: Optional[str] = None


def size(change: series.Change) -> str:
    """The size of a change in per cent and in tolerances."""
    return f"{change.step.relative:+.1%}, {change.tolerances:.1f} x tolerance"


def levels(change: series.Change) -> str:
    """Both levels of a change, with the unit."""
    return f"{number(change.step.before)} to {number(change.step.after)} {change.series.unit}"


def trends(all_series: Iterable[series.Series], sites: series.Sites) -> Trends:
    """Draws each series, and finds its changes.

    Without ruptures the series are drawn, and the page says why it has no changes.

    :raises StoreError: a file of a site is wrong or missing.
    """
    found: list[tuple[series.Change, Markup]] = []
    pictures = {}
    problem = None
    try:
        changes.library()
    except changes.NoLibrary as error:
        problem = str(error)
    examined = ((one, []) for one in all_series) if problem else series.examine(all_series, sites)
    for one, steps in examined:
        site = sites.of(one.system)
        marks = _marks(steps, series.cuts(one, site))
        tolerance = site.tolerance(one.unit)
        values = one.values.tolist()
        if not one.node:
            first = max(len(values) - _TREND, 0)
            drawn = Markup(drawing.draw(values, tolerance, marks, first))  # noqa: S704
            pictures[one.case, f"{one.metric} [{one.unit}]"] = drawn
        for change in steps:
            first = max(min(len(values) - _TREND, change.step.at - _BEFORE), 0)
            drawn = Markup(drawing.draw(values, tolerance, marks, first))  # noqa: S704
            found.append((change, drawn))
    drawn_of = {id(change): picture for change, picture in found}
    ordered = series.newest_first(change for change, _ in found)
    return Trends([_row(each, drawn_of[id(each)]) for each in ordered], pictures, problem)


def _marks(
    steps: Iterable[series.Change], cuts: Iterable[tuple[int, planned.Planned]]
) -> list[drawing.Mark]:
    return [
        *(drawing.Mark(step.step.at, f"{table.date(step.start)}: {size(step)}", "change")
          for step in steps),
        *(drawing.Mark(at, f"{table.date(change.start)}: {change.what}", "planned")
          for at, change in cuts),
    ]  # fmt: skip


def _row(change: series.Change, picture: Markup) -> Row:
    return Row(
        table.date(change.start),
        change.series.case,
        change.series.metric,
        change.series.node or "all",
        levels(change),
        size(change),
        DIRECTION[change.for_worse],
        change.for_worse is not False and change.tolerances >= 1,
        picture,
    )


def render(
    found: Sequence[table.Run],
    drawn: Trends,
    site: Iterable[planned.Planned] = (),
    problems: Sequence[str] = (),
) -> str:
    """The page as self-contained HTML.

    :param found: the runs that have a column each.
    :param site: the planned changes, which the page lists.
    :param problems: one line for each session that was left out.
    """
    head, *lines = table.rows(found)
    style = Path(report.__file__).with_name("page.css").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template(
        "page.html"
    ).render(
        style=Markup(style),  # noqa: S704 - a file of this package
        head=head[2:],
        lines=[(line, drawn.pictures.get((line[0], line[1]), "")) for line in lines],
        drawn=drawn,
        planned=[(table.date(change.start), change) for change in site],
        problems=problems,
        rules=changes.RULES,
    )
