"""A metric over time as a small picture, scaled to its tolerance.

The height of the picture is at least twice the tolerance on either side of the baseline, so that
noise within the tolerance looks like noise.
"""

from __future__ import annotations

import html
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assay.quantities import number

#: Width and height of a picture, and its margin, which leaves room for the last point.
WIDE, HIGH, ROOM = 180, 36, 3

#: How far from a line a pointer may be to be told what it is.
REACH = 5

#: Height above and below the baseline, in tolerances; more if a value needs it.
_SCALE = 2.0


@dataclass(frozen=True)
class Mark:
    """A vertical line.

    :ivar at: index of the first value behind it.
    :ivar what: what a reader is told of it.
    :ivar kind: ``change`` or ``planned``, the class of the line.
    """

    at: int
    what: str
    kind: str


def baselines(values: Sequence[float], marks: Iterable[Mark]) -> list[tuple[int, int, float]]:
    """The parts between planned changes: first index, end, and the level before their first change.

    :param values: in order of time, at least one.
    """
    marks = list(marks)
    edges = sorted(
        {0, len(values)}
        | {mark.at for mark in marks if mark.kind == "planned" and 0 < mark.at < len(values)}
    )
    found = []
    for first, end in zip(edges, edges[1:]):
        inner = [mark.at for mark in marks if mark.kind == "change" and first < mark.at < end]
        found.append((first, end, statistics.median(values[first : min([*inner, end])])))
    return found


def draw(values: Sequence[float], tolerance: float, marks: Sequence[Mark], first: int = 0) -> str:
    """The picture as SVG; "" for less than two values.

    :param values: in order of time, all finite.
    :param tolerance: as a fraction of the baseline.
    :param first: index of the first value that is drawn; baselines follow from all values.
    """
    if len(values) - first < 2:
        return ""
    bands = [
        (max(begin, first), end, level, abs(level) * tolerance)
        for begin, end, level in baselines(values, marks)
        if end > first
    ]
    shown = values[first:]
    least = min(*shown, *(level - _SCALE * width for _, _, level, width in bands))
    most = max(*shown, *(level + _SCALE * width for _, _, level, width in bands))
    across = (WIDE - 2 * ROOM) / (len(shown) - 1)
    up = (HIGH - 2 * ROOM) / (most - least) if most > least else 0.0

    def x(index: int) -> float:
        return ROOM + (index - first) * across

    def y(value: float) -> float:
        return HIGH - ROOM - (value - least) * up

    bars = [
        f'<rect class="band" x="{x(begin):.1f}" y="{y(level + width):.1f}" '
        f'width="{x(min(end, len(values) - 1)) - x(begin):.1f}" '
        f'height="{max(2 * width * up, 1):.1f}"/>'
        for begin, end, level, width in bands
    ]
    lines = [
        _line(mark, x(mark.at) - across / 2) for mark in marks if first < mark.at < len(values)
    ]
    points = " ".join(f"{x(first + n):.1f},{y(value):.1f}" for n, value in enumerate(shown))
    last = f'cx="{x(len(values) - 1):.1f}" cy="{y(values[-1]):.1f}"'
    said = f"{number(min(shown), 6)} to {number(max(shown), 6)}, last {number(values[-1], 6)}"
    if any(mark.kind == "change" for mark in marks):
        said += ", with a change"
    return (
        f'<svg class="trend" width="{WIDE}" height="{HIGH}" viewBox="0 0 {WIDE} {HIGH}" role="img" '
        f'aria-label="{said}">{"".join(bars)}<polyline points="{points}"/><circle {last} r="2.5"/>'
        f"{''.join(lines)}</svg>"
    )


def _line(mark: Mark, x: float) -> str:
    """A vertical line, and a wider area around it that a pointer can hit."""
    return (
        f"<g><title>{html.escape(mark.what)}</title>"
        f'<line class="{mark.kind}" x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{HIGH}"/>'
        f'<rect class="reach" x="{x - REACH:.1f}" y="0" width="{2 * REACH}" height="{HIGH}"/></g>'
    )
