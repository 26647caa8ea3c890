"""The drawings themselves. Importing this module imports matplotlib, which takes a second.

Colours are those of Okabe and Ito ("Color Universal Design", 2008) without yellow. Purple, orange
and sky blue are darker than there, so that each has a contrast of 3:1 on white paper (WCAG 2.2,
1.4.11). Markers differ too. The colour map is cividis, which suits colour-blind readers.
"""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import ticker
from matplotlib.collections import PatchCollection
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from assay.judge import Verdict
from assay.metrics import lower_is_better
from assay.report import units
from assay.report.pairs import PairMap
from assay.report.series import Curves, HeatMap, Line, Mark
from assay.results.cases import Metric

BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#C2659A"
ORANGE, SKY, BLACK = "#A87400", "#2F8DC4", "#000000"
PALETTE = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", ":", "-.")

#: Square, diamond and triangle for the numbers of ranks of the validation; other numbers get other
#: markers.
RANK_MARKERS = {"2": "s", "3": "D", "4": "v"}
RANK_MARKERS_ELSE = ("o", "^", "P", "X", "*")
GREY = "#555555"

#: Most nodes of a map of pairs whose squares hold their numbers.
MOST_WRITTEN = 12

#: Least span of the colours of a map of pairs, as a share of the best value.
PAIR_SCALE = 0.2

#: Ids of the squares of a map of pairs, and of the points of a line, in a drawing.
PAIRS, POINTS = "pairs", "points-"

#: The mark of a judged point that failed.
OUTSIDE: dict[str, Any] = {
    "color": "#B00020", "marker": "X", "markersize": 10, "linestyle": "",
    "markeredgecolor": "white",
}  # fmt: skip

#: How many missing lines a legend names before it counts the rest.
MOST_MISSING = 4

#: Resolution of a PNG: 4.3 inches are 860 pixels.
DPI = 200

#: A warning that says nothing: the browser has the fonts, and matplotlib's only measure text.
NO_GLYPH = "Glyph .* missing from font"

#: Width of a figure and of a heat map [inch]; their text is 10 pt. A phone shows them at 1 px per
#: point or more, so the text stays readable. A desktop shows four heat maps in a row.
WIDTH, NARROW = 4.3, 3.7

STYLE: dict[Any, Any] = {
    # Text stays text: searchable, and in the fonts of the page.
    "svg.fonttype": "none",
    # Ids depend on the content and not on chance: the same session gives the same page.
    "svg.hashsalt": "assay",
    # A dollar sign in an output does not begin a formula.
    "text.parse_math": False,
    "font.size": 10,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "legend.columnspacing": 1.4,
}


def curves(group: Curves, ways: Sequence[str], missing: Sequence[str] = ()) -> Canvas:
    """A line for each way: log2 of the message size, log10 of the value.

    If the number of ranks varies, the marker shows this number, and only the colour shows the way.

    :param ways: all ways in the figures of the session; each way looks the same in every figure.
    :param missing: the lines that the legend lists as not measured.
    """
    with mpl.rc_context(STYLE):
        figure = Canvas(figsize=(WIDTH, 3.0), layout="constrained")
        axes = figure.add_subplot()
        handles: list[Any] = []
        by_ranks = any(line.ranks for line in group.lines)
        seen: dict[tuple[str, str], int] = {}
        for line in group.lines:
            number = ways.index(line.way)
            nth = seen[line.way, line.ranks] = seen.get((line.way, line.ranks), -1) + 1
            handles += axes.plot(
                line.x,
                line.y,
                color=PALETTE[number % len(PALETTE)],
                marker=_of_ranks(line.ranks) if by_ranks else MARKERS[number % len(MARKERS)],
                markevery=every(line, by_ranks),
                gid=f"{POINTS}{len(handles)}",
                linestyle=DASHES[nth % len(DASHES)],
                label=line.label.lstrip("_") or "?",
            )
        judged = _marks(axes, [mark for line in group.lines for mark in line.marks])
        ys = [y for line in group.lines for y in line.y]
        ys += [end for end in axes.dataLim.intervaly if end > 0]
        locator, formatter = decimal_ticks(min(ys), max(ys))
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(locator)
        axes.yaxis.set_major_formatter(formatter)
        axes.yaxis.set_minor_locator(ticker.NullLocator())
        xs = [x for line in group.lines for x in line.x]
        size_axis(axes, "x", xs, margin=1.3, ticks=_powers(xs, 5))
        axes.set_xlabel("message size")
        axes.set_ylabel(f"{group.quantity} [{group.unit}]")
        axes.grid(which="major")
        handles = _by_way_and_ranks(group, ways) if by_ranks else handles
        legend(figure, [*handles, *judged], missing, columns=2 if by_ranks else None)
    return figure


def every(line: Line, by_ranks: bool) -> int:
    """A marker is drawn at each of so many points of a line."""
    return max(1, len(line.x) // (12 if by_ranks else 24))


def _marks(axes: Any, marks: Sequence[Mark]) -> list[Line2D]:
    """Draws reference and bounds of judged points, and a cross on those outside of their bounds.

    Returns the entries of the legend.
    """
    entries = []
    for mark in marks:
        ends = [end for end in (mark.lower, mark.upper) if end is not None]
        ends.append(mark.reference)
        span = [mark.size, mark.size], [min(ends), max(ends)]
        axes.plot(*span, color=GREY, linewidth=5, alpha=0.35, solid_capstyle="butt", zorder=1)
        axes.plot([mark.size], [mark.reference], color=BLACK, marker="_", markersize=9)
        if mark.verdict is Verdict.FAIL:
            axes.plot([mark.size], [mark.value], **OUTSIDE)
    if marks:
        entries.append(Line2D([], [], color=BLACK, marker="_", linestyle="", label="reference"))
    if any(mark.verdict is Verdict.FAIL for mark in marks):
        entries.append(Line2D([], [], **OUTSIDE, label="FAIL"))
    return entries


def _of_ranks(ranks: str) -> str:
    """A marker by the number of ranks."""
    if ranks in RANK_MARKERS:
        return RANK_MARKERS[ranks]
    return RANK_MARKERS_ELSE[int(ranks) % len(RANK_MARKERS_ELSE)] if ranks.isdecimal() else "."


def _by_way_and_ranks(group: Curves, ways: Sequence[str]) -> list[Line2D]:
    """Entries of a legend of two columns: a colour for each way, a marker for each P."""
    of_group = sorted({line.way for line in group.lines}, key=ways.index)
    counts = sorted({line.ranks for line in group.lines}, key=lambda text: (len(text), text))
    colours = [
        Line2D([], [], color=PALETTE[ways.index(way) % len(PALETTE)], label=way or group.program)
        for way in of_group
    ]
    markers = [
        Line2D(
            [], [], color=GREY, linestyle="", marker=_of_ranks(count), markersize=6,
            label=f"P = {count}" if count else "P not stated",
        )
        for count in counts
    ]  # fmt: skip
    rows = max(len(colours), len(markers))
    for column in (colours, markers):
        column.extend([Line2D([], [], linestyle="", label=" ")] * (rows - len(column)))
    return colours + markers


def legend(
    figure: Canvas, handles: Sequence[Any], missing: Sequence[str] = (), columns: int | None = None
) -> None:
    """A legend below the axes, in as many columns as its longest entry leaves room for.

    :param missing: the lines that its title lists as not measured; of a long list, it names the
        first ones and the number of the others.
    """
    longest = max(len(str(handle.get_label())) for handle in handles)
    room = int(WIDTH / (0.62 + 0.075 * longest))
    columns = columns or max(1, min(len(handles), 4, room))
    title = ""
    if missing:
        shown = list(missing if len(missing) <= MOST_MISSING else missing[: MOST_MISSING - 1])
        if len(shown) < len(missing):
            shown.append(f"{len(missing) - len(shown)} more")
        title = textwrap.fill("not measured: " + "; ".join(shown), 54)
    lines = math.ceil(len(handles) / columns) + (title.count("\n") + 1 if title else 0)
    figure.set_figheight(figure.get_figheight() + 0.21 * lines)
    figure.legend(
        handles=list(handles), loc="outside lower center", ncols=columns, title=title or None,
        title_fontproperties={"size": 10, "style": "italic"},
    )  # fmt: skip


def heat_map(found: HeatMap) -> Canvas:
    """A rectangle for each (file size, record size), both log2, coloured on the row's scale."""
    with mpl.rc_context(STYLE):
        figure = Canvas(figsize=(NARROW, 2.9), layout="constrained")
        axes = figure.add_subplot()
        files, records = zip(*found.cells)
        x_step, y_step = _half_step(files), _half_step(records)
        low, high = found.scale
        # At least a factor of two: a narrower scale would show noise in strong colours.
        low = min(low, high / 2)
        patches = PatchCollection(
            [
                Rectangle(
                    (x / x_step, y / y_step), x * (x_step - 1 / x_step), y * (y_step - 1 / y_step)
                )
                for x, y in found.cells
            ],
            cmap="cividis",
            norm=LogNorm(low, high),
            edgecolor=GREY,
            linewidth=0.5,
        )
        patches.set_array(list(found.cells.values()))
        axes.add_collection(patches)
        size_axis(axes, "x", files, margin=x_step, ticks=_some(files, 3))
        size_axis(axes, "y", records, margin=y_step, ticks=_some(records, 5))
        axes.set_xlabel("file size")
        axes.set_ylabel("record size")
        locator, formatter = decimal_ticks(low, high)
        bar = figure.colorbar(patches, ax=axes, ticks=locator, format=formatter, label=found.unit)
        bar.minorticks_off()
    return figure


def pair_map(found: PairMap) -> Canvas:
    """A square for each pair of nodes; bright is good; an empty square was not measured."""
    with mpl.rc_context(STYLE):
        count = len(found.nodes)
        side = min(max(3.4, 0.55 * count + 1.4), 8.0)
        figure = Canvas(figsize=(side + 0.9, side), layout="constrained")
        axes = figure.add_subplot()
        at = pair_places(found)
        low, high = min(at.values()), max(at.values())
        # A narrower scale would show noise in strong colours.
        if lower_is_better(found.unit):
            high = max(high, low * (1 + PAIR_SCALE))
        else:
            low = min(low, high * (1 - PAIR_SCALE))
        patches = PatchCollection(
            [Rectangle((x - 0.5, y - 0.5), 1, 1) for x, y in at],
            cmap="cividis_r" if lower_is_better(found.unit) else "cividis",
            norm=Normalize(low, high),
            edgecolor=GREY,
            linewidth=0.5,
        )
        patches.set_array(list(at.values()))
        patches.set_gid(PAIRS)
        axes.add_collection(patches)
        axes.set(xlim=(-0.5, count - 0.5), ylim=(count - 0.5, -0.5), aspect="equal")
        step = math.ceil(count / 32)
        names = [f"\N{MULTIPLICATION X} {n}" if n in found.accused else n for n in found.nodes]
        axes.set_xticks(range(0, count, step), names[::step])
        axes.set_yticks(range(0, count, step), names[::step])
        if count <= MOST_WRITTEN:
            shades = patches.to_rgba(np.array(list(at.values())))
            for ((x, y), value), shade in zip(at.items(), shades):
                dark = 0.2126 * shade[0] + 0.7152 * shade[1] + 0.0722 * shade[2] < 0.45
                colour = "#fefefe" if dark else "#010101"
                axes.text(
                    x, y, units.number(value), ha="center", va="center", color=colour, fontsize=9
                )
        bar = figure.colorbar(patches, ax=axes, label=f"{found.quantity} [{found.unit}]")
        bar.minorticks_off()
        if count > 5 or _touch(figure, axes):
            axes.tick_params(axis="x", labelrotation=90)
    return figure


def _touch(figure: Canvas, axes: Any) -> bool:
    """Whether labels of the horizontal axis overlap, or nearly do."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=NO_GLYPH)
        figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
    return any(right.x0 - left.x1 < 2 for left, right in zip(boxes, boxes[1:]))


def pair_places(found: PairMap) -> dict[tuple[int, int], float]:
    """(column, row) of each square -> its value; a pair has two squares."""
    place = {node: number for number, node in enumerate(found.nodes)}
    places = {}
    for (a, b), value in found.cells.items():
        places[place[a], place[b]] = places[place[b], place[a]] = value
    return places


def peaks(metrics: Sequence[Metric], texts: Sequence[str]) -> Canvas:
    """A bar in percent of its peak for each metric, with its text above; 100 % is a dashed line."""
    with mpl.rc_context(STYLE):
        figure = Canvas(figsize=(WIDTH, 0.7 + 0.52 * len(metrics)), layout="constrained")
        axes = figure.add_subplot()
        paper = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
        for place, (metric, text) in enumerate(zip(metrics, texts)):
            axes.barh(-place, metric.percent or 0.0, height=0.36, color=BLUE)
            words = textwrap.shorten(text, 58, placeholder=" ...")
            axes.text(0, -place + 0.25, words, va="bottom", fontsize=9, bbox=paper)
        axes.axvline(100, color=BLACK, linestyle="--", linewidth=1)
        axes.set_xlim(0, max(105, *(1.05 * (m.percent or 0) for m in metrics)))
        axes.set_ylim(-len(metrics) + 0.6, 0.75)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("percent of peak")
        axes.grid(axis="x")
    return figure


def svg(figure: Canvas) -> str:
    """The drawing as an SVG document."""
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    return _saved(figure, format="svg", metadata=nothing, transparent=True).decode()


def png(figure: Canvas) -> bytes:
    """The drawing as a PNG on white, for paper."""
    return _saved(figure, format="png", dpi=DPI, facecolor="white", metadata={"Software": None})


def _saved(figure: Canvas, **options: Any) -> bytes:
    stream = io.BytesIO()
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=NO_GLYPH)
        figure.savefig(stream, **options)
    return stream.getvalue()


def size_axis(
    axes: Any, name: str, values: Sequence[float], *, margin: float, ticks: Sequence[float]
) -> None:
    """An axis of sizes, logarithmic to base 2, labelled in binary units.

    :param name: ``x`` or ``y``.
    :param values: sizes [B].
    :param margin: the factor of space at both ends.
    """
    getattr(axes, f"set_{name}scale")("log", base=2)
    axes.set(**{f"{name}lim": (min(values) / margin, max(values) * margin)})
    axis = getattr(axes, f"{name}axis")
    axis.set_major_locator(ticker.FixedLocator(ticks))
    axis.set_minor_locator(ticker.NullLocator())
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: units.size(round(value))))


def _powers(values: Sequence[float], labels: int) -> list[float]:
    """Powers of two from the least value to the greatest, at most as many as there is room for."""
    low = min(values)
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(max(values)))
    step = next(s for s in (1, 2, 3, 5, 10, 20, 50, 100) if (last - first) // s < labels)
    return [2.0**exponent for exponent in range(first, last + 1) if exponent % step == 0] or [low]


def _some(values: Iterable[float], labels: int) -> list[float]:
    """Values at equal distances in their order, at most as many as there is room for."""
    ordered = sorted(set(values))
    return ordered[:: math.ceil(len(ordered) / labels)]


def decimal_ticks(low: float, high: float) -> tuple[ticker.Locator, ticker.Formatter]:
    """Ticks of a scale that is logarithmic to base 10, with plain numbers."""
    decades = math.log10(high / low)
    subs = (1,) if decades > 3 else (1, 2, 5) if decades > 0.7 else range(1, 10)
    locator = ticker.LogLocator(base=10, subs=subs, numticks=12)
    return locator, ticker.FuncFormatter(lambda value, _: units.number(value))


def _half_step(values: Iterable[float]) -> float:
    """Half of the least step between sizes, as a factor: cells touch, gaps stay visible."""
    ordered = sorted(set(values))
    ratios = [b / a for a, b in zip(ordered, ordered[1:])]
    return math.sqrt(min(ratios, default=2.0))
