"""The drawings themselves. Importing this module imports matplotlib, which takes a second.

Colours are those of Okabe and Ito ("Color Universal Design", 2008) without the yellow, which white
paper swallows; markers differ too. The colour map is cividis, made for colour-blind eyes.
"""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib import ticker
from matplotlib.collections import PatchCollection
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Rectangle

from assay.report import units
from assay.report.cases import Metric
from assay.report.series import Curves, HeatMap

BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, BLACK = "#E69F00", "#56B4E9", "#000000"
PALETTE = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", ":", "-.")

#: Width of a figure and of a heat map [inch], the text in them being 10 pt: a phone shows them at
#: 1 px per point or more, so that it stays readable; a desktop shows four heat maps in a row.
WIDTH, NARROW = 4.3, 3.7

STYLE: dict[Any, Any] = {
    # Text stays text: searchable, and in the fonts of the page.
    "svg.fonttype": "none",
    # Ids by content, not by chance: the same session gives the same page.
    "svg.hashsalt": "assay",
    # A dollar sign in an output is no formula.
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


def curves(group: Curves, transports: Sequence[str]) -> Canvas:
    """A line for each transport: log2 of the message size, log10 of the value.

    :param transports: all of the session: each has the same colour and marker in every figure.
    """
    with mpl.rc_context(STYLE):
        height = 3.0 + 0.22 * math.ceil(len(group.lines) / 4)
        figure = Canvas(figsize=(WIDTH, height), layout="constrained")
        axes = figure.add_subplot()
        seen: dict[str, int] = {}
        for line in group.lines:
            number = transports.index(line.transport)
            nth = seen[line.transport] = seen.get(line.transport, -1) + 1
            axes.plot(
                line.x,
                line.y,
                color=PALETTE[number % len(PALETTE)],
                marker=MARKERS[number % len(MARKERS)],
                markevery=max(1, len(line.x) // 24),
                linestyle=DASHES[nth % len(DASHES)],
                label=line.label.lstrip("_") or "?",
            )
        ys = [y for line in group.lines for y in line.y]
        locator, formatter = _decimal_ticks(min(ys), max(ys))
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(locator)
        axes.yaxis.set_major_formatter(formatter)
        axes.yaxis.set_minor_locator(ticker.NullLocator())
        _size_axis(axes, "x", [x for line in group.lines for x in line.x], margin=1.3, labels=5)
        axes.set_xlabel("message size")
        axes.set_ylabel(f"{group.quantity} [{group.unit}]")
        axes.grid(which="major")
        figure.legend(loc="outside lower center", ncols=min(len(group.lines), 4))
    return figure


def heat_map(found: HeatMap) -> Canvas:
    """A rectangle for each (file size, record size), both log2; its colour on the row's scale."""
    with mpl.rc_context(STYLE):
        figure = Canvas(figsize=(NARROW, 2.9), layout="constrained")
        axes = figure.add_subplot()
        files, records = zip(*found.cells)
        x_step, y_step = _half_step(files), _half_step(records)
        low, high = found.scale
        # At least a factor of two: a narrower scale would paint noise in strong colours.
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
            edgecolor="white",
            linewidth=0.5,
        )
        patches.set_array(list(found.cells.values()))
        axes.add_collection(patches)
        _size_axis(axes, "x", files, margin=x_step, labels=3)
        _size_axis(axes, "y", records, margin=y_step, labels=4)
        axes.set_xlabel("file size")
        axes.set_ylabel("record size")
        locator, formatter = _decimal_ticks(low, high)
        bar = figure.colorbar(patches, ax=axes, ticks=locator, format=formatter, label=found.unit)
        bar.minorticks_off()
    return figure


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
    stream = io.StringIO()
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        # The browser has the fonts; matplotlib only measures with its own.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(stream, format="svg", metadata=nothing, transparent=True)
    return stream.getvalue()


def _size_axis(
    axes: Any, name: str, values: Sequence[float], *, margin: float, labels: int
) -> None:
    """An axis of sizes, logarithmic to base 2, labelled in binary units.

    :param name: ``x`` or ``y``.
    :param values: sizes [B].
    :param margin: the factor of space at both ends.
    :param labels: how many there is room for.
    """
    low, high = min(values), max(values)
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    step = next(s for s in (1, 2, 3, 5, 10, 20, 50, 100) if (last - first) // s < labels)
    ticks = [2.0**exponent for exponent in range(first, last + 1) if exponent % step == 0]
    getattr(axes, f"set_{name}scale")("log", base=2)
    axes.set(**{f"{name}lim": (low / margin, high * margin)})
    axis = getattr(axes, f"{name}axis")
    axis.set_major_locator(ticker.FixedLocator(ticks or [low]))
    axis.set_minor_locator(ticker.NullLocator())
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: units.size(round(value))))


def _decimal_ticks(low: float, high: float) -> tuple[ticker.Locator, ticker.Formatter]:
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
