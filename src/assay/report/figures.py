"""Figures as SVG: curves over message size, heat maps of storage, bars in percent of a peak.

Each figure comes with a text alternative and the numbers that it shows. Colours are those of Okabe
and Ito ("Color Universal Design", 2008), without the yellow that white paper swallows; markers
differ too. Import this module only to draw: matplotlib takes a second.
"""

from __future__ import annotations

import hashlib
import html
import io
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib import ticker
from matplotlib.collections import PatchCollection
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Rectangle

from assay.report import units
from assay.report.series import Curves, HeatMap, curves, heat_maps
from assay.report.session import Case

BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, BLACK = "#E69F00", "#56B4E9", "#000000"
PALETTE = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", ":", "-.")

#: Width of a figure and of a heat map [inch], the text in them being 10 pt. A phone shows them at
#: 1 px per point or more, so that it stays readable; a desktop shows two heat maps beside each
#: other in the place of one and a half figures.
WIDTH, NARROW = 4.3, 3.7


@dataclass(frozen=True)
class Figure:
    """A drawing with all that a reader who cannot see it needs.

    :ivar caption: one line below it.
    :ivar description: what it shows, in words, for who cannot see it.
    :ivar svg: one ``<svg>`` element, its ids unique in the page.
    :ivar header: columns of the table of its numbers.
    :ivar table: its numbers, as text.
    """

    title: str
    caption: str
    description: str
    svg: str
    header: tuple[str, ...]
    table: tuple[tuple[str, ...], ...]


# --- drawing --------------------------------------------------------------------------------------


def draw_curves(found: Sequence[Curves]) -> list[Figure]:
    """A figure for each; a transport has the same colour and marker in all of them."""
    transports = sorted({line.transport for group in found for line in group.lines})
    return [_draw_curves(group, transports) for group in found]


def _draw_curves(group: Curves, transports: Sequence[str]) -> Figure:
    title = f"{group.program} ({group.family}), {group.partition}"
    what = group.column.replace("_", " ")

    def draw(figure: Any) -> None:
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
                linestyle=DASHES[nth % len(DASHES)],
                label=line.label.lstrip("_"),
            )
        ys = [y for line in group.lines for y in line.y]
        ticks = _decimal_ticks(min(ys), max(ys))
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(ticks["locator"])
        axes.yaxis.set_major_formatter(ticks["formatter"])
        axes.yaxis.set_minor_locator(ticker.NullLocator())
        _size_axes(axes, 6, x=([x for line in group.lines for x in line.x], 1.3))
        axes.set_xlabel("message size")
        axes.set_ylabel(f"{what} [{group.unit}]")
        axes.grid(which="major")
        figure.legend(loc="outside lower center", ncols=min(len(group.lines), 4))

    ends = "; ".join(
        f"{line.label}: {units.quantity(line.y[0], group.unit)} at {units.size(line.x[0])}, "
        f"{units.quantity(line.y[-1], group.unit)} at {units.size(line.x[-1])}"
        for line in group.lines
    )
    better = "Lower" if group.unit in ("us", "s") else "Higher"
    caption = f"{better} is better; both scales are logarithmic."
    description = f"{what.capitalize()} by message size. {ends}."
    by_size: dict[float, dict[str, float]] = {}
    for line in group.lines:
        for x, y in zip(line.x, line.y):
            by_size.setdefault(x, {})[line.label] = y
    names = [line.label for line in group.lines]
    table = tuple(
        (units.size(x), *(units.number(ys[name]) if name in ys else "" for name in names))
        for x, ys in sorted(by_size.items())
    )
    header = ("size", *(f"{name} [{group.unit}]" for name in names))
    height = 3.0 + 0.22 * math.ceil(len(group.lines) / 4)
    svg = _svg(draw, (WIDTH, height), title, description)
    return Figure(title, caption, description, svg, header, table)


def draw_heat_map(found: HeatMap) -> Figure:
    """File size over record size; the colour is the value, on the scale of its row."""
    mode = "" if found.label == "all" else f", {found.label}"
    title = f"{found.operation}, {found.partition}{mode}"
    best = max(found.cells, key=lambda at: found.cells[at])
    caption = (
        f"{units.number(min(found.cells.values()))} to "
        f"{units.quantity(found.cells[best], found.unit)}; best: a file of "
        f"{units.size(best[0])} in records of {units.size(best[1])}."
    )
    description = f"{found.operation} by file size and record size{mode}: {caption}"

    def draw(figure: Any) -> None:

        low, high = found.scale
        if high < low * 1.01:
            low, high = low / 1.1, high * 1.1
        axes = figure.add_subplot()
        x_step = _half_step(at[0] for at in found.cells)
        y_step = _half_step(at[1] for at in found.cells)
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
        _size_axes(
            axes,
            4,
            x=([at[0] for at in found.cells], x_step),
            y=([at[1] for at in found.cells], y_step),
        )
        axes.set_xlabel("file size")
        axes.set_ylabel("record size")
        ticks = _decimal_ticks(low, high)
        bar = figure.colorbar(
            patches, ax=axes, ticks=ticks["locator"], format=ticks["formatter"], label=found.unit
        )
        bar.minorticks_off()

    files = sorted({at[0] for at in found.cells})
    records = sorted({at[1] for at in found.cells})
    table = tuple(
        (
            units.size(record),
            *(
                units.number(found.cells[file, record]) if (file, record) in found.cells else ""
                for file in files
            ),
        )
        for record in records
    )
    header = (f"record \\ file [{found.unit}]", *map(units.size, files))
    svg = _svg(draw, (NARROW, 2.9), title, description)
    return Figure(title, caption, description, svg, header, table)


def draw_peaks(case: Case) -> Figure | None:
    """Bars in percent of the peak of each metric; None where the case has no peak."""
    metrics = [m for m in case.metrics if m.percent is not None and m.percent > 0]
    if not metrics:
        return None
    title = f"{case.program or case.test}, {case.partition}: percent of peak"
    texts = [
        f"{m.name}: {units.quantity(m.value, m.unit)}, {m.percent:.3g} % of {m.peak_of or 'peak'}"
        for m in metrics
    ]
    caption = "The dashed line is the peak."
    description = "; ".join(texts) + "."

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        paper = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
        for place, (metric, text) in enumerate(zip(metrics, texts)):
            axes.barh(-place, metric.percent, height=0.36, color=BLUE)
            words = textwrap.shorten(text, 60, placeholder=" ...")
            axes.text(0, -place + 0.25, words, va="bottom", fontsize=9, bbox=paper)
        axes.axvline(100, color=BLACK, linestyle="--", linewidth=1)
        axes.set_xlim(0, max(105, *(1.05 * (m.percent or 0) for m in metrics)))
        axes.set_ylim(-len(metrics) + 0.6, 0.75)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("percent of peak")
        axes.grid(axis="x")

    header = ("metric", "value", "peak", "percent", "peak is")
    table = tuple(
        (
            m.name,
            units.quantity(m.value, m.unit),
            units.quantity(m.peak, m.peak_unit or m.unit) if m.peak is not None else "",
            f"{m.percent:.3g} %",
            m.peak_of,
        )
        for m in metrics
    )
    svg = _svg(draw, (WIDTH, 0.7 + 0.52 * len(metrics)), title, description)
    return Figure(title, caption, description, svg, header, table)


def _size_axes(axes: Any, places: int, **margins: tuple[Sequence[float], float]) -> None:
    """Axes of sizes, logarithmic to base 2, labelled in binary units.

    :param places: least number of labels that there is no room for.
    :param margins: for ``x`` and ``y``: the sizes [B], and the factor of space at both ends.
    """
    for name, (values, margin) in margins.items():
        low, high = min(values), max(values)
        first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
        step = next(
            s for s in (1, 2, 3, 5, 10, 20, 50, 100, 1100) if (last - first) // s + 1 < places
        )
        ticks = [2.0**exponent for exponent in range(first, last + 1) if exponent % step == 0]
        getattr(axes, f"set_{name}scale")("log", base=2)
        axes.set(**{f"{name}lim": (low / margin, high * margin)})
        axis = getattr(axes, f"{name}axis")
        axis.set_major_locator(ticker.FixedLocator(ticks or [low]))
        axis.set_minor_locator(ticker.NullLocator())
        axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: units.size(round(value))))


def _decimal_ticks(low: float, high: float) -> dict[str, Any]:
    """Locator and formatter of a scale that is logarithmic to base 10, with plain numbers."""
    decades = math.log10(high / low)
    subs = (1,) if decades > 3 else (1, 2, 5) if decades > 0.7 else range(1, 10)
    return {
        "locator": ticker.LogLocator(base=10, subs=subs, numticks=12),
        "formatter": ticker.FuncFormatter(lambda value, _: units.number(value)),
    }


def _half_step(values: Iterable[float]) -> float:
    """Half of the least step between sizes, as a factor: cells touch, gaps stay visible."""
    ordered = sorted(set(values))
    ratios = [b / a for a, b in zip(ordered, ordered[1:])]
    return math.sqrt(min(ratios, default=2.0))


def _svg(
    draw: Callable[[Any], None], inches: tuple[float, float], title: str, description: str
) -> str:
    """What `draw` puts on a matplotlib figure, as one accessible ``<svg>`` element."""

    style = {
        "svg.fonttype": "none",
        "svg.hashsalt": title,
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
    with mpl.rc_context(style):
        figure = Canvas(figsize=inches, layout="constrained")
        draw(figure)
        stream = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(stream, format="svg", metadata=nothing, transparent=True)
    return _embed(stream.getvalue(), title, description)


def _embed(svg: str, title: str, description: str) -> str:
    """A stand-alone SVG made fit for a page that holds many: unique ids, a name, no fixed size."""
    body = svg[svg.index("<svg") :]
    prefix = "f" + hashlib.sha256(body.encode()).hexdigest()[:8]
    body = re.sub(r'\bid="', f'id="{prefix}-', body)
    body = re.sub(r"url\(#", f"url(#{prefix}-", body)
    body = re.sub(r'xlink:href="#', f'xlink:href="#{prefix}-', body)
    head, rest = body.split(">", 1)
    head = re.sub(r'\s(width|height)="[^"]*"', "", head)
    name = f'<title id="{prefix}-t">{html.escape(title)}</title>'
    words = f'<desc id="{prefix}-d">{html.escape(description)}</desc>'
    labelled = f' role="img" aria-labelledby="{prefix}-t {prefix}-d"'
    return f"{head}{labelled}>{name}{words}{rest}".strip()


@dataclass(frozen=True)
class Section:
    """Figures under one heading, in rows that share a scale; `narrow` figures go side by side."""

    anchor: str
    heading: str
    rows: list[list[Figure]]
    narrow: bool = False


def sections(cases: Sequence[Case]) -> list[Section]:
    """Every figure of a session; a section without any is left out."""
    compute = [figure for case in cases if case.kind == "compute" and (figure := draw_peaks(case))]
    storage = [[draw_heat_map(found) for found in row] for row in heat_maps(cases)]
    found = [
        Section("curves", "Latency and bandwidth by message size", [draw_curves(curves(cases))]),
        Section("compute", "Compute against its peaks", [compute]),
        Section("storage", "Storage by file size and record size", storage, narrow=True),
    ]
    return [section for section in found if any(section.rows)]
