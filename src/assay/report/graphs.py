"""The drawings of HPL and BT-IO: lines over counts or orders, and bars of two times.

Importing this module imports matplotlib, as :mod:`assay.report.plots` does.
"""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
from matplotlib import ticker
from matplotlib.figure import Figure as Canvas

from assay.report import units
from assay.report.btio import Application
from assay.report.charts import Chart
from assay.report.plots import (
    BLUE,
    DASHES,
    GREY,
    MARKERS,
    ORANGE,
    PALETTE,
    STYLE,
    WIDTH,
    decimal_ticks,
    legend,
)  # fmt: skip

#: How many labels an axis of orders has room for.
LABELS = 5


def lines(chart: Chart, missing: Sequence[str] = ()) -> Canvas:
    """The lines of a chart, each with a colour and a marker of its own."""
    with mpl.rc_context(STYLE):
        figure = Canvas(figsize=(WIDTH, 3.0), layout="constrained")
        axes = figure.add_subplot()
        for number, series in enumerate(chart.series):
            axes.plot(
                *zip(*series.points),
                color=PALETTE[number % len(PALETTE)],
                marker=MARKERS[number % len(MARKERS)],
                linestyle=DASHES[number // len(PALETTE) % len(DASHES)],
                label=series.label.lstrip("_") or "?",
            )
        handles = list(axes.get_lines())
        xs = sorted({x for series in chart.series for x, _ in series.points})
        ys = [y for series in chart.series for _, y in series.points]
        if chart.by_count:
            axes.set_xscale("log", base=2)
            axes.set_xlim(xs[0] / 1.15, xs[-1] * 1.15)
            axes.xaxis.set_major_locator(ticker.FixedLocator(_apart(xs)))
            axes.xaxis.set_minor_locator(ticker.NullLocator())
        else:
            axes.xaxis.set_major_locator(ticker.MaxNLocator(LABELS))
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: units.number(x)))
        if chart.ideal:
            handles += axes.plot(
                xs, xs, color=GREY, linestyle=":", linewidth=1.2, label="S = P", zorder=1
            )
            ys += xs
        if chart.logarithmic:
            axes.set_yscale("log", base=chart.logarithmic)
            axes.set_ylim(min(ys) / 1.2, max(ys) * 1.2)
            locator, formatter = decimal_ticks(min(ys), max(ys))
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
    """For each file system and P the total time, and beside it the time of I/O."""
    slots = sorted({*application.runs, *application.missing})
    with mpl.rc_context(STYLE):
        figure = Canvas(figsize=(WIDTH, 3.0), layout="constrained")
        axes = figure.add_subplot()
        places = {}
        for number, (partition, _) in enumerate(slots):
            # A gap of one bar between file systems.
            places[slots[number]] = number + 0.7 * application.file_systems.index(partition)
        there = [slot for slot in slots if slot in application.runs]
        for name, colour, hatch, shift in (
            ("total time", BLUE, "", -0.2),
            ("time of I/O", ORANGE, "////", 0.2),
        ):
            axes.bar(
                [places[slot] + shift for slot in there],
                [
                    application.runs[slot].io_time if hatch else application.runs[slot].time
                    for slot in there
                ],
                width=0.4, color=colour, edgecolor="white", linewidth=0.5, hatch=hatch, label=name,
            )  # fmt: skip
        for slot in slots:
            if slot not in application.runs:
                axes.text(
                    places[slot], 0, " not measured", rotation=90, ha="center", va="bottom",
                    color=GREY, fontsize=9,
                )  # fmt: skip
        axes.set_xlim(min(places.values()) - 0.7, max(places.values()) + 0.7)
        axes.set_xticks(list(places.values()), [str(processes) for _, processes in slots])
        axes.set_xlabel("processes P, by file system")
        for partition in application.file_systems:
            mine = [place for slot, place in places.items() if slot[0] == partition]
            axes.annotate(
                partition, (sum(mine) / len(mine), 1), xycoords=("data", "axes fraction"),
                xytext=(0, 4), textcoords="offset points", ha="center", fontweight="bold",
            )  # fmt: skip
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda y, _: units.number(y)))
        axes.set_ylabel("time [s]")
        axes.grid(axis="y")
        legend(figure, axes.containers)
    return figure


def _apart(counts: Sequence[float]) -> list[float]:
    """The counts that have room for a label on an axis logarithmic to base 2: not 15 beside 16."""
    ratio = (counts[-1] / counts[0]) ** (1 / 14)
    kept: list[float] = []
    for value in counts:
        if not kept or value > kept[-1] * ratio:
            kept.append(value)
    return kept
