"""Figures for the page: a drawing, its text alternative, and the numbers that it shows."""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

from assay.report import plots, units
from assay.report.cases import Case
from assay.report.series import Curves, HeatMap, curves, heat_maps


@dataclass(frozen=True)
class Figure:
    """A drawing with all that a reader who cannot see it needs.

    :ivar caption: one line below it; the text alternative is inside the drawing.
    :ivar svg: one ``<svg>`` element, its ids unique in the page.
    :ivar header: columns of the table of its numbers.
    :ivar table: its numbers, as text.
    """

    title: str
    caption: str
    svg: str
    header: tuple[str, ...]
    table: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Section:
    """Figures under one heading, in rows that share a scale; `narrow` figures go side by side."""

    anchor: str
    heading: str
    rows: list[list[Figure]]
    narrow: bool = False


def sections(cases: Sequence[Case]) -> list[Section]:
    """Every figure of a session; a section without any is left out."""
    groups = curves(cases)
    transports = sorted({line.transport for group in groups for line in group.lines})
    network = [of_curves(group, transports) for group in groups]
    compute = [figure for case in cases if case.kind == "compute" and (figure := of_peaks(case))]
    storage = [[of_heat_map(found) for found in row] for row in heat_maps(cases)]
    found = [
        Section("curves", "Latency and bandwidth by message size", [network]),
        Section("compute", "Compute against its peaks", [compute]),
        Section("storage", "Storage by file size and record size", storage, narrow=True),
    ]
    return [section for section in found if any(section.rows)]


def of_curves(group: Curves, transports: Sequence[str]) -> Figure:
    """The lines of one benchmark; the table has a row for each size."""
    what = group.quantity
    ends = "; ".join(
        f"{line.label}: {units.quantity(line.y[0], group.unit)} at {units.size(line.x[0])}, "
        f"{units.quantity(line.y[-1], group.unit)} at {units.size(line.x[-1])}"
        for line in group.lines
    )
    better = "Lower" if group.unit in ("us", "s") else "Higher"
    by_size = [dict(zip(line.x, line.y)) for line in group.lines]
    sizes = sorted({size for line in by_size for size in line})
    title = f"{group.program} ({group.family}), {group.partition}"
    if what not in ("latency", "bandwidth"):
        title = f"{title}: {what}"
    return Figure(
        title=title,
        caption=f"{better} is better; both scales are logarithmic.",
        svg=_embed(
            plots.svg(plots.curves(group, transports)),
            title,
            f"{what.capitalize()} by message size. {ends}.",
        ),
        header=("size", *(f"{line.label} [{group.unit}]" for line in group.lines)),
        table=tuple(
            (units.size(at), *(units.number(line[at]) if at in line else "" for line in by_size))
            for at in sizes
        ),
    )


def of_heat_map(found: HeatMap) -> Figure:
    """One operation in one mode; the table has a row for each record size."""
    mode = f", {found.label}" if found.label else ""
    title = f"{found.operation}, {found.partition}{mode}"
    best = max(found.cells, key=lambda at: found.cells[at])
    caption = (
        f"{units.number(min(found.cells.values()))} to "
        f"{units.quantity(found.cells[best], found.unit)}; best: a file of "
        f"{units.size(best[0])} in records of {units.size(best[1])}."
    )
    files, records = (sorted(set(sizes)) for sizes in zip(*found.cells))
    return Figure(
        title=title,
        caption=caption,
        svg=_embed(
            plots.svg(plots.heat_map(found)),
            title,
            f"{found.operation} by file size and record size{mode}: {caption}",
        ),
        header=(f"record \\ file [{found.unit}]", *map(units.size, files)),
        table=tuple(
            (
                units.size(record),
                *(
                    units.number(found.cells[file, record]) if (file, record) in found.cells else ""
                    for file in files
                ),
            )
            for record in records
        ),
    )


def of_peaks(case: Case) -> Figure | None:
    """The metrics of a case in percent of their peaks; None where it has no peak."""
    metrics = [m for m in case.metrics if m.percent is not None and 0 < m.percent < 1e4]
    if not metrics:
        return None
    title = f"{case.program or case.test}, {case.partition}: percent of peak"
    texts = [f"{m.name}: {m.percent:.3g} % of {m.peak_of or 'its peak'}" for m in metrics]
    return Figure(
        title=title,
        caption="The dashed line is the peak.",
        svg=_embed(plots.svg(plots.peaks(metrics, texts)), title, "; ".join(texts) + "."),
        header=("metric", "value", "peak", "percent", "peak is"),
        table=tuple(
            (
                m.name,
                units.quantity(m.value, m.unit),
                "" if m.peak is None else units.quantity(m.peak, m.peak_unit or m.unit),
                f"{m.percent:.3g} %",
                m.peak_of,
            )
            for m in metrics
        ),
    )


def _embed(svg: str, title: str, description: str) -> str:
    """A stand-alone SVG made fit for a page that holds many: unique ids, a name, no fixed size."""
    body = svg[svg.index("<svg") :]
    prefix = "f" + hashlib.sha256((title + body).encode()).hexdigest()[:8]
    body = re.sub(r'\bid="', f'id="{prefix}-', body)
    body = re.sub(r"url\(#", f"url(#{prefix}-", body)
    body = re.sub(r'xlink:href="#', f'xlink:href="#{prefix}-', body)
    head, rest = body.split(">", 1)
    head = re.sub(r'\s(width|height)="[^"]*"', "", head)
    name = f'<title id="{prefix}-t">{html.escape(title)}</title>'
    words = f'<desc id="{prefix}-d">{html.escape(description)}</desc>'
    labelled = f' role="img" aria-labelledby="{prefix}-t {prefix}-d"'
    return f"{head}{labelled}>{name}{words}{rest}".strip()
