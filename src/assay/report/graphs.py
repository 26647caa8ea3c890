"""The drawings of HPL and BT-IO: lines over counts or orders, and bars of two times.

Importing this module imports matplotlib, as :mod:`assay.report.plots` does.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib import ticker
from matplotlib.figure import Figure as Canvas

from assay.report import plots, units
from assay.report.btio import Application
from assay.report.charts import Chart
from assay.report.plots import GREY, WIDTH, legend

#: How many labels an axis of orders has room for.
LABELS = 5

#: How many labels an axis of sizes has room for: `256 KiB` is the widest.
SIZES = 8

#: How many pairs of bars have room in one row.
MOST_BESIDE = 10


def lines(chart: Chart, missing: Sequence[str] = ()) -> Canvas:
    """The lines of a chart, each with a colour and a marker of its own."""
    with mpl.rc_context(plots.STYLE):
        figure = Canvas(figsize=(WIDTH, 3.0), layout="constrained")
        axes = figure.add_subplot()
        for number, series in enumerate(chart.series):
            axes.plot(
                *zip(*series.points),
                color=plots.PALETTE[number % len(plots.PALETTE)],
                marker=plots.MARKERS[number % len(plots.MARKERS)],
                linestyle=plots.DASHES[number // len(plots.PALETTE) % len(plots.DASHES)],
                label=series.label.lstrip("_") or "?",
            )
        handles = list(axes.get_lines())
        xs = sorted({x for series in chart.series for x, _ in series.points})
        ys = [y for series in chart.series for _, y in series.points]
        if chart.sizes:
            plots.size_axis(axes, "x", xs, margin=1.15, ticks=_apart(xs, SIZES))
        elif chart.by_count:
            axes.set_xscale("log", base=2)
            axes.set_xlim(xs[0] / 1.15, xs[-1] * 1.15)
            shown = _apart(xs, 14 if xs[-1] < 1000 else 9)
            axes.xaxis.set_major_locator(ticker.FixedLocator(shown))
            axes.xaxis.set_minor_locator(ticker.NullLocator())
        else:
            axes.xaxis.set_major_locator(ticker.MaxNLocator(LABELS))
        if not chart.sizes:
            axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: units.number(x)))
        if chart.ideal:
            handles += axes.plot(
                xs, xs, color=GREY, linestyle=":", linewidth=1.2, label="S = P", zorder=1
            )
            ys += xs
        if chart.logarithmic:
            axes.set_yscale("log", base=chart.logarithmic)
            axes.set_ylim(min(ys) / 1.2, max(ys) * 1.2)
            locator, formatter = plots.decimal_ticks(min(ys), max(ys))
            if chart.logarithmic == 2:
                locator = ticker.LogLocator(base=2, numticks=8)
            axes.yaxis.set_major_locator(locator)
            axes.yaxis.set_minor_locator(ticker.NullLocator())
        else:
            axes.set_ylim(0, 1.08 * max(ys))
            formatter = ticker.FuncFormatter(lambda y, _: units.number(y))
        axes.yaxis.set_major_formatter(formatter)
        axes.set_xlabel(chart.over)
        unit = "" if chart.unit == "1" else f" [{chart.unit}]"
        axes.set_ylabel(f"{chart.axis or chart.quantity}{unit}")
        axes.grid(which="major")
        legend(figure, handles, missing)
    return figure


def bars(application: Application) -> Canvas:
    """A group of bars for each file system: for each P the total time and the time of I/O.

    Groups are side by side if there is room, else one above the other; they share a scale.
    """
    slots = {*application.runs, *application.missing}
    names = application.file_systems
    beside = len(slots) <= MOST_BESIDE and len(names) <= 2
    with mpl.rc_context(plots.STYLE):
        height = 2.9 if beside else 0.9 + 1.4 * len(names)
        figure = Canvas(figsize=(WIDTH, height), layout="constrained")
        grid = (1, len(names)) if beside else (len(names), 1)
        ratios = {"width_ratios": [sum(at == name for at, _ in slots) for name in names]}
        panels = figure.subplots(
            *grid, sharey=True, squeeze=False, gridspec_kw=ratios if beside else None
        ).flat
        first = next(at for at, _ in sorted(application.runs))
        room = int(11 * WIDTH / grid[1])
        for axes, name in zip(panels, names):
            _group(axes, application, name)
            axes.set_title(textwrap.fill(name, room), fontsize=10, fontweight="bold")
            if beside or name == names[-1]:
                axes.set_xlabel("processes P")
        figure.supylabel("time [s]", fontsize=10)
        legend(figure, panels[names.index(first)].containers)
    return figure


def _group(axes: Any, application: Application, file_system: str) -> None:
    """Draw the bars of one file system by P; a note marks each missing one."""
    runs = {count: run for (at, count), run in application.runs.items() if at == file_system}
    missing = {count for at, count in application.missing if at == file_system}
    counts = sorted(runs.keys() | missing)
    there = [place for place, count in enumerate(counts) if count in runs]
    shared = {"width": 0.4, "edgecolor": "white", "linewidth": 0.5}
    total = [runs[counts[place]].time for place in there]
    writing = [runs[counts[place]].io_time for place in there]
    axes.bar([at - 0.2 for at in there], total, color=plots.BLUE, label="total time", **shared)
    axes.bar(
        [at + 0.2 for at in there], writing, color=plots.ORANGE, hatch="////", label="time of I/O",
        **shared,
    )  # fmt: skip
    for place, count in enumerate(counts):
        if count not in runs:
            axes.text(
                place, 0, " not measured", rotation=90, ha="center", va="bottom", color=GREY,
                fontsize=9,
            )  # fmt: skip
    margin = max(0.7, 1.7 - len(counts) / 2)
    axes.set_xlim(-margin, len(counts) - 1 + margin)
    axes.set_xticks(range(len(counts)), [str(count) for count in counts])
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda y, _: units.number(y)))
    axes.grid(axis="y")


def _apart(counts: Sequence[float], labels: int = 14) -> list[float]:
    """The counts with room for a label on an axis logarithmic to base 2: 15, but then not 16.

    :param labels: how many have room; of long ones fewer.
    """
    ratio = (counts[-1] / counts[0]) ** (1 / labels)
    kept: list[float] = []
    for value in counts:
        if not kept or value > kept[-1] * ratio:
            kept.append(value)
    return kept
