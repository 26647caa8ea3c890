"""The page of a history: changes first, then the latest runs with the trend of each metric.

A trend is a small picture of a metric over time. Its height is at least twice the tolerance on
either side of the baseline, so that noise within the tolerance looks like noise.
"""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from assay import files, show
from assay.archive.history import changes, series
from assay.archive.history.store import RESULT, Run
from assay.quantities import number
from assay.tolerances import Planned

#: How many sessions the trend of a metric shows, and how many there are before a change.
TREND, BEFORE = 100, 30

#: Width and height of a trend, and its margin, which leaves room for the last point.
WIDE, HIGH, ROOM = 180, 36, 3

#: Height above and below the baseline, in tolerances; more if a value needs it.
SCALE = 2.0

#: What a reader is told of a change, by ``Change.for_worse``.
DIRECTION = {True: "for the worse", False: "for the better", None: "in either direction a fault"}

_TEMPLATES = files.templates(Path(__file__).parent, html=True)


def date_in_words(start: float) -> str:
    """A time in seconds since 1970, in words, in the time zone of this machine."""
    return f"{datetime.datetime.fromtimestamp(start).astimezone():%Y-%m-%d %H:%M}"


def runs_table(found: Sequence[Run]) -> list[list[str]]:
    """The runs as a table: a header, then one line for each metric of each case."""
    keys = sorted({key for run in found for key in run.values})
    head = ["case", "metric"] + [f"{date_in_words(run.start)} {run.name}" for run in found]
    return [head] + [[*key, *(_cell(run, key) for run in found)] for key in keys]


def _cell(run: Run, key: tuple[str, str]) -> str:
    if key in run.values:
        value = run.values[key]
        return "failed" if value is None else "passed" if key[1] == RESULT else number(value, 6)
    return ""


def row(change: series.Change) -> tuple[str, ...]:
    """A change in words: when, case, metric, node, levels, size, direction."""
    one, step = change.series, change.step
    return (
        date_in_words(change.start), one.case, one.metric, one.node or "all nodes",
        f"{number(step.before)} to {number(step.after)} {one.unit}",
        f"{step.relative:+.1%}, {change.tolerances:.1f} x tolerance", DIRECTION[change.for_worse],
    )  # fmt: skip


class Mark(NamedTuple):
    """A vertical line before the value at an index, with its text and its class."""

    at: int
    what: str
    kind: str


def baselines(values: Sequence[float], marks: Iterable[Mark]) -> list[tuple[int, int, float]]:
    """Parts between planned changes: first index, end, level before their first change.

    :param values: in order of time, at least one.
    """
    at = {kind: [m.at for m in marks if m.kind == kind] for kind in ("planned", "change")}
    edges = sorted({0, len(values), *(n for n in at["planned"] if 0 < n < len(values))})
    return [
        (begin, end, statistics.median(values[begin : min([*inner, end])]))
        for begin, end in zip(edges, edges[1:])
        for inner in [[n for n in at["change"] if begin < n < end]]
    ]


def trend(values: Sequence[float], tolerance: float, marks: Sequence[Mark], first: int = 0) -> str:
    """The picture as SVG; "" for less than two values.

    :param values: in order of time, all finite.
    :param tolerance: as a fraction of the baseline.
    :param first: index of the first value that is drawn; baselines follow from all values.
    """
    shown = values[first:]
    if len(shown) < 2:
        return ""
    bands = [
        (max(begin, first), min(end, len(values) - 1), level, abs(level) * tolerance)
        for begin, end, level in baselines(values, marks)
        if end > first
    ]
    least = min(*shown, *(level - SCALE * width for *_, level, width in bands))
    most = max(*shown, *(level + SCALE * width for *_, level, width in bands))
    across = (WIDE - 2 * ROOM) / (len(shown) - 1)
    up = (HIGH - 2 * ROOM) / (most - least) if most > least else 0.0

    def height(value: float) -> float:
        return HIGH - ROOM - (value - least) * up

    xs = [ROOM + n * across for n in range(-first, len(shown))]  # of each value, by its index
    said = f"{number(min(shown), 6)} to {number(max(shown), 6)}, last {number(shown[-1], 6)}"
    said += ", with a change" if any(mark.kind == "change" for mark in marks) else ""
    return _TEMPLATES.get_template("trend.html").render(
        wide=WIDE,
        high=HIGH,
        said=said,
        bands=[
            (xs[begin], xs[end], height(level + width), max(2 * width * up, 1))
            for begin, end, level, width in bands
        ],
        points=list(zip(xs[first:], map(height, shown))),
        lines=[(xs[m.at] - across / 2, m) for m in marks if first < m.at < len(values)],
    )


def render_history(found: Sequence[Run], all_series: Iterable[series.Series], sites: Path) -> str:
    """The page as self-contained HTML.

    :param found: the runs that have a column each.
    :param sites: the folder of the sites.
    :raises StoreError: a file of a site is wrong or missing.
    """
    trends: dict[tuple[str, str], Markup] = {}
    pictures: dict[series.Change, Markup] = {}
    planned: set[Planned] = set()
    for one, steps in series.examine(all_series, sites):
        site, values = series.site_of(sites, one.system), one.values.tolist()
        planned |= set(site.planned)
        marks = [
            Mark(each.step.at, f"{date_in_words(each.start)}: {row(each)[5]}", "change")
            for each in steps
        ]
        marks += [
            Mark(at, f"{date_in_words(change.start)}: {change.what}", "planned")
            for at, change in series.cuts(site, one)
        ]
        last = max(len(values) - TREND, 0)
        drawn = partial(trend, values, series.tolerance(site, one.unit), marks)
        if not one.node:
            trends[one.case, f"{one.metric} [{one.unit}]"] = Markup(drawn(last))  # noqa: S704
        for each in steps:
            pictures[each] = Markup(drawn(min(last, max(each.step.at - BEFORE, 0))))  # noqa: S704
    head, *lines = runs_table(found)
    style = Path(show.__file__).with_name("page.css").read_text(encoding="utf-8")
    ordered = series.newest_first(pictures)
    return _TEMPLATES.get_template(
        "page.html"
    ).render(
        style=Markup(style),  # noqa: S704 - a file of this package
        head=head[2:],
        lines=[(line, trends.get((line[0], line[1]), "")) for line in lines],
        changes=[(row(change), pictures[change], _beyond(change)) for change in ordered],
        beyond=sum(map(_beyond, ordered)),
        planned=sorted((date_in_words(each.start), each.what, each) for each in planned),
        persist=changes.PERSIST,
        share=changes.SHARE,
    )


def _beyond(change: series.Change) -> bool:
    return change.for_worse is not False and change.tolerances >= 1
