"""What a figure draws: lines or a grid. Importing this imports matplotlib (a second).

Colours are those of Okabe and Ito ("Color Universal Design", 2008) without yellow. Purple, orange
and sky blue are darker than there, so that each has a contrast of 3:1 on white paper (WCAG 2.2,
1.4.11). Markers differ too. The colour map is cividis, which suits colour-blind readers.
"""

from __future__ import annotations

import io
import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import ticker
from matplotlib.collections import PatchCollection
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from assay.metrics import lower_is_better
from assay.quantities import binary, spaced

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

#: Scales of what lines are drawn over: sizes [B] and counts to base 2, orders of a matrix.
SIZES, COUNTS, ORDERS = "sizes", "counts", "orders"

#: How many labels an axis has room for: of all sizes, of powers of two among more, of orders.
MOST_SIZES, MOST_POWERS, MOST_ORDERS = 8, 5, 5

#: Most nodes of a grid of pairs whose squares hold their numbers, and letters of upright names.
MOST_WRITTEN, MOST_LETTERS = 12, 30

#: Least span of the colours of a grid of pairs, as a share of the best value.
PAIR_SCALE = 0.2

#: Ids of the cells of a grid, and of the points of a line, in a drawing.
CELLS, POINTS = "cells", "points-"

#: The mark of a judged point that failed.
OUTSIDE: dict[str, Any] = {
    "color": "#B00020", "marker": "X", "markersize": 10, "linestyle": "",
    "markeredgecolor": "white",
}  # fmt: skip

#: Resolution of a PNG: 4.3 inches are 860 pixels.
DPI = 200

#: A warning that says nothing: the browser has the fonts, and matplotlib's only measure text.
NO_GLYPH = "Glyph .* missing from font"

#: Width of a figure and of a narrow grid [inch]; their text is 10 pt. A phone shows them at 1 px
#: per point or more, so the text stays readable. A desktop shows four narrow grids in a row.
WIDTH, NARROW = 4.3, 3.7

#: How all figures look.
STYLE = mpl.rc_params_from_file(
    Path(__file__).with_name("plots.mplstyle"), use_default_template=False
)

#: The missing part of a figure, and the reason.
Missing = tuple[str, str]

#: (x, y) of each point of a line.
Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Mark:
    """A judged point of a line at `at`, with its reference and bounds, in the unit of the line."""

    at: float
    value: float
    reference: float
    lower: float | None
    upper: float | None
    failed: bool


@dataclass(frozen=True)
class Line:
    """One line, in order of x, all values greater than zero.

    :ivar way: what its colour stands for: how the bytes moved, if :attr:`Lines.ways` has them.
    :ivar ranks: the number of ranks that its marker stands for; "" if the number does not vary.
    """

    label: str
    points: Points
    way: str = ""
    ranks: str = ""
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class Lines:
    """Lines of `quantity` in `unit` ("1" for a ratio) over `over`.

    :ivar scale: of `over`: :data:`SIZES`, :data:`COUNTS` or :data:`ORDERS`.
    :ivar base: of the logarithmic scale of `quantity`; 0 for a linear scale that begins at 0.
    :ivar ideal: whether to draw the line on which quantity and count are equal.
    :ivar missing: lines and parts of lines that this session should have measured but did not.
    :ivar axis: a shorter name of `quantity`, and `across` a longer one of `over`.
    :ivar side: which side is better, in words; empty for the side of the unit.
    :ivar ways: all ways of the session; each looks the same in every figure. Empty if each line
        has a colour of its own.
    """

    quantity: str
    unit: str
    over: str
    lines: tuple[Line, ...]
    scale: str
    base: int = 0
    ideal: bool = False
    missing: tuple[Missing, ...] = ()
    axis: str = ""
    across: str = ""
    side: str = ""
    ways: tuple[str, ...] = ()


def step(points: int, by_ranks: bool) -> int:
    """A marker is drawn at each of so many points of a line."""
    return max(1, points // (12 if by_ranks else 24))


@dataclass(frozen=True)
class Grid:
    """A coloured cell for each (column, row) with a value; an empty one was not measured.

    :ivar cells: (place in `columns`, place in `rows`) -> value in `unit`.
    :ivar scale: the least and the greatest value of the colours.
    :ivar over: what columns and rows are. Empty for a grid of pairs: columns and rows are then the
        same nodes, and the cells are squares.
    """

    quantity: str
    unit: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    cells: Mapping[tuple[int, int], float]
    scale: tuple[float, float]
    over: tuple[str, str] = ("", "")


Drawing = Lines | Grid


def draw(drawing: Drawing) -> Canvas:
    with mpl.rc_context(STYLE):
        return _lines(drawing) if isinstance(drawing, Lines) else _grid(drawing)


def _lines(drawing: Lines) -> Canvas:
    """Each line has a colour and a marker. If numbers of ranks vary, the marker shows this one."""
    figure = Canvas(figsize=(WIDTH, 3.0), layout="constrained")
    axes = figure.add_subplot()
    handles: list[Any] = []
    by_ranks = any(line.ranks for line in drawing.lines)
    seen: Counter[tuple[int, str]] = Counter()
    for place, line in enumerate(drawing.lines):
        number = drawing.ways.index(line.way) if drawing.ways else place
        dash = seen[number, line.ranks] + number // len(PALETTE)
        seen[number, line.ranks] += 1
        handles += axes.plot(
            *zip(*line.points),
            color=PALETTE[number % len(PALETTE)],
            marker=_of_ranks(line.ranks) if by_ranks else MARKERS[number % len(MARKERS)],
            markevery=step(len(line.points), by_ranks),
            gid=f"{POINTS}{place}",
            linestyle=DASHES[dash % len(DASHES)],
            label=line.label.lstrip("_") or "?",
        )
    xs = sorted({x for line in drawing.lines for x, _ in line.points})
    if by_ranks:
        handles = _by_way_and_ranks(drawing)
    handles += _marks(axes, [mark for line in drawing.lines for mark in line.marks])
    if drawing.ideal:
        handles += axes.plot(
            xs, xs, color=GREY, linestyle=":", linewidth=1.2, label="S = P", zorder=1
        )
    _scale_x(axes, drawing.scale, xs)
    low, high = axes.dataLim.intervaly
    if drawing.base:
        axes.set_yscale("log", base=drawing.base)
        margin = max(1.2, (high / low) ** 0.05)
        axes.set_ylim(low / margin, high * margin)
        to_two = ticker.LogLocator(base=2, numticks=8)
        axes.yaxis.set_major_locator(to_two if drawing.base == 2 else decimal_ticks(low, high))
        axes.yaxis.set_minor_locator(ticker.NullLocator())
    else:
        axes.set_ylim(0, 1.08 * high)
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda y, _: spaced(y)))
    axes.set_xlabel(drawing.across or drawing.over)
    unit = "" if drawing.unit == "1" else f" [{drawing.unit}]"
    axes.set_ylabel(f"{drawing.axis or drawing.quantity}{unit}")
    axes.grid(which="major")
    _legend(figure, handles, 2 if by_ranks else None)
    return figure


def _scale_x(axes: Any, scale: str, xs: Sequence[float]) -> None:
    axis, text = axes.xaxis, binary if scale == SIZES else spaced
    if scale == ORDERS:
        axis.set_major_locator(ticker.MaxNLocator(MOST_ORDERS))
    else:
        axes.set_xscale("log", base=2)
        margin = 1.3 if scale == SIZES else 1.15
        axes.set_xlim(xs[0] / margin, xs[-1] * margin)
        if scale == COUNTS:
            labelled = _apart(xs, 14 if xs[-1] < 1000 else 9)
        elif len(xs) <= MOST_SIZES:
            labelled = _apart(xs, MOST_SIZES)
        else:  # some programs measure multiples of 1000 B, whose names are long
            first, last = math.ceil(math.log2(xs[0])), math.floor(math.log2(xs[-1]))
            powers = [x for x in xs if math.log2(x).is_integer()]
            powers = powers or [2.0**k for k in range(first, last + 1)] or [*xs]
            labelled = _apart(powers, MOST_POWERS)
        axis.set_major_locator(ticker.FixedLocator(labelled))
        axis.set_minor_locator(ticker.NullLocator())
    axis.set_major_formatter(ticker.FuncFormatter(lambda x, _: text(round(x))))


def _marks(axes: Any, marks: Sequence[Mark]) -> list[Line2D]:
    """Draws references and bounds, and crosses on what lies outside; returns legend entries."""
    entries = []
    for mark in marks:
        ends = [end for end in (mark.lower, mark.upper, mark.reference) if end is not None]
        span = [mark.at, mark.at], [min(ends), max(ends)]
        axes.plot(*span, color=GREY, linewidth=5, alpha=0.35, solid_capstyle="butt", zorder=1)
        axes.plot([mark.at], [mark.reference], color=BLACK, marker="_", markersize=9)
        if mark.failed:
            axes.plot([mark.at], [mark.value], **OUTSIDE)
    if marks:
        entries.append(Line2D([], [], color=BLACK, marker="_", linestyle="", label="reference"))
    if any(mark.failed for mark in marks):
        entries.append(Line2D([], [], **OUTSIDE, label="FAIL"))
    return entries


def _of_ranks(ranks: str) -> str:
    if ranks in RANK_MARKERS:
        return RANK_MARKERS[ranks]
    return RANK_MARKERS_ELSE[int(ranks) % len(RANK_MARKERS_ELSE)] if ranks.isdecimal() else "."


def _by_way_and_ranks(drawing: Lines) -> list[Line2D]:
    """Entries of a legend of two columns: a colour for each way, a marker for each P."""
    ways = sorted({line.way for line in drawing.lines}, key=drawing.ways.index)
    counts = sorted({line.ranks for line in drawing.lines}, key=lambda text: (len(text), text))
    colours = [
        Line2D([], [], color=PALETTE[drawing.ways.index(way) % len(PALETTE)], label=way or "?")
        for way in ways
    ]
    style: dict[str, Any] = {"color": GREY, "linestyle": "", "markersize": 6}
    said = ((count, f"P = {count}" if count else "P not stated") for count in counts)
    markers = [Line2D([], [], marker=_of_ranks(n), label=text, **style) for n, text in said]
    rows = max(len(colours), len(markers))
    for column in (colours, markers):
        column.extend([Line2D([], [], linestyle="", label=" ")] * (rows - len(column)))
    return colours + markers


def _legend(figure: Canvas, handles: Sequence[Any], columns: int | None = None) -> None:
    """A legend below the axes, in as many columns as its longest entry leaves room for."""
    longest = max(len(str(handle.get_label())) for handle in handles)
    room = int(WIDTH / (0.62 + 0.075 * longest))
    columns = columns or max(1, min(len(handles), 4, room))
    height = figure.get_figheight() + 0.21 * math.ceil(len(handles) / columns)
    figure.set_figheight(height)
    figure.legend(handles=list(handles), loc="outside lower center", ncols=columns)


def _grid(drawing: Grid) -> Canvas:
    """Bright is good. Colours of sizes are logarithmic, those of pairs linear."""
    pairs = drawing.over == ("", "")
    side = min(max(3.4, 0.55 * len(drawing.rows) + 1.4), 8.0)
    size = (side + 0.9, side) if pairs else (NARROW, 2.9)
    figure = Canvas(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    low, high = drawing.scale
    lower = lower_is_better(drawing.unit)
    # A narrower scale would show noise in strong colours.
    if pairs and lower:
        high = max(high, low * (1 + PAIR_SCALE))
    else:
        low = min(low, high * (1 - PAIR_SCALE) if pairs else high / 2)
    norm = Normalize(low, high) if pairs else LogNorm(low, high)
    patches = PatchCollection(
        [Rectangle((x - 0.5, y - 0.5), 1, 1) for x, y in drawing.cells],
        cmap="cividis_r" if lower else "cividis", norm=norm, edgecolor=GREY, linewidth=0.5,
    )  # fmt: skip
    patches.set_array(list(drawing.cells.values()))
    patches.set_gid(CELLS)
    axes.add_collection(patches)
    columns, rows = len(drawing.columns), len(drawing.rows)
    axes.set(xlim=(-0.5, columns - 0.5), ylim=(-0.5, rows - 0.5))
    axes.set(xlabel=drawing.over[0], ylabel=drawing.over[1])
    for axis, names, room in ((axes.xaxis, drawing.columns, 3), (axes.yaxis, drawing.rows, 5)):
        step = math.ceil(len(names) / (32 if pairs else room))
        axis.set_ticks(range(0, len(names), step), names[::step])
    if not pairs:
        bar = figure.colorbar(
            patches, ax=axes, ticks=decimal_ticks(low, high), label=drawing.unit,
            format=ticker.FuncFormatter(lambda value, _: spaced(value)),
        )  # fmt: skip
    else:
        axes.set_aspect("equal")
        axes.invert_yaxis()
        if columns <= MOST_WRITTEN:
            _write(axes, drawing.cells, patches)
        label = f"{drawing.quantity} [{drawing.unit}]"
        bar = figure.colorbar(patches, ax=axes, label=label)
        if columns > 5 or columns * max(map(len, drawing.columns)) > MOST_LETTERS:
            axes.tick_params(axis="x", labelrotation=90)
    bar.minorticks_off()
    return figure


def _write(axes: Any, cells: Mapping[tuple[int, int], float], patches: PatchCollection) -> None:
    """Writes the number of each cell, in black or white."""
    shades = patches.to_rgba(np.array(list(cells.values())))
    for ((x, y), value), shade in zip(cells.items(), shades):
        dark = 0.2126 * shade[0] + 0.7152 * shade[1] + 0.0722 * shade[2] < 0.45
        colour = "#fefefe" if dark else "#010101"
        axes.text(x, y, spaced(value), ha="center", va="center", color=colour, fontsize=9)


def svg(figure: Canvas) -> str:
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


def _apart(values: Sequence[float], labels: int) -> list[float]:
    """The values with room for so many labels on an axis to base 2: 15, but then not 16."""
    ratio = (values[-1] / values[0]) ** (1 / labels)
    kept: list[float] = []
    for value in values:
        if not kept or value > kept[-1] * ratio:
            kept.append(value)
    return kept


def decimal_ticks(low: float, high: float) -> ticker.Locator:
    """Ticks of a scale that is logarithmic to base 10."""
    decades = math.log10(high / low)
    subs = (1,) if decades > 3 else (1, 2, 5) if decades > 0.7 else range(1, 10)
    return ticker.LogLocator(base=10, subs=subs, numticks=12)
