"""Every figure of a session."""

from __future__ import annotations

from collections.abc import Sequence

from assay.judge import Verdict
from assay.metrics import lower_is_better
from assay.report import (
    btio,
    charts,
    columns,
    graphs,
    pairs,
    plots,
    scaling,
    series,
    units,
    validation,
)
from assay.report.figure import Figure, Section, Shown, Tidy, by_x, caption
from assay.report.series import Curves, HeatMap, Mark
from assay.results.cases import Case

#: Locations of the buffers of the two ranks of a GPU test, in words.
BUFFERS = {
    "DD": "GPU to GPU", "DH": "GPU to host", "HD": "host to GPU", "HH": "host to host",
}  # fmt: skip

_MODES = {"o_sync": "SYNC", "direct": "O_DIRECT"}


def sections(cases: Sequence[Case]) -> list[Section]:
    """Every figure of a session; a section without figures is left out."""
    groups, joined = series.by_partition(series.curves(cases))
    curves = {
        collective: [
            of_curves(group, ways_of(group, groups))
            for group in groups
            if any(f.kind == "collective" for f in group.figures) == collective
        ]
        for collective in (False, True)
    }
    partitions = [of_curves(group, [line.way for line in group.lines]) for group in joined]
    studies = [
        [of_chart(study, chart) for chart in scaling.charts(study)]
        for study in scaling.studies(cases)
    ]
    compute = [
        figure
        for case in cases
        if case.kind == "compute" and not case.drawn_as("scaling") and (figure := of_peaks(case))
    ]
    storage = [[of_heat_map(found) for found in row] for row in series.heat_maps(cases)]
    writing = [of_application(application) for application in btio.applications(cases)]
    between = [of_pairs(found) for found in pairs.maps(cases)]
    lines = [
        [of_columns(case, one) for one in columns.charts(case)]
        for case in cases
        if case.drawn_as("lines") and case.proven
    ]
    found = [
        Section("pairs", "Pairs of nodes", "Pairs of nodes", [between]),
        Section("curves", "Point to point", "Messages between two ranks", [curves[False]]),
        Section("partitions", "Partitions", "Messages within and across", [partitions]),
        Section("collectives", "Collectives", "Collectives by message size", [curves[True]]),
        Section("scaling", "HPL", "HPL over nodes and problem sizes", studies),
        Section("compute", "Compute", "Compute against its peaks", [compute]),
        Section("storage", "Storage", "Storage by file size and record size", storage, narrow=True),
        Section("lines", "More and more", "More and more pairs, ranks or devices", lines),
        Section("btio", "BT-IO", "BT-IO: computing and writing", writing),
    ]
    return [section for section in found if any(section.rows)]


def ways_of(group: Curves, groups: Sequence[Curves]) -> list[str]:
    """All transports of a session, or all configurations; the two do not share colours."""
    return sorted({x.way for g in groups if g.on_gpu == group.on_gpu for x in g.lines})


def of_curves(group: Curves, ways: Sequence[str]) -> Figure:
    """The lines of one benchmark; the table has a row for each size."""
    what = group.quantity
    ends = "; ".join(
        f"{line.label}: {units.quantity(line.y[0], group.unit)} at {units.size(line.x[0])}, "
        f"{units.quantity(line.y[-1], group.unit)} at {units.size(line.x[-1])}"
        for line in group.lines
    )
    better = units.better(group.unit)
    missing = (*group.missing, *validation.unselected(group))
    between = BUFFERS.get(group.buffers) or ("GPUs" if group.on_gpu else "")
    where = " ".join(filter(None, (between, group.place if group.on_gpu else "")))
    program = f"{group.program} ({group.family})"
    # This distinguishes it from a figure of another test with the same program and partition.
    over = "over P ranks" if any(count for _, count in group.planned) else ""
    title = ", ".join(filter(None, (program, over, where, group.partition, group.stack)))
    name = [group.test or group.family, group.program.removeprefix("osu_"), between]
    if what not in ("latency", "bandwidth"):
        title = f"{title}: {what}"
    if what not in ("latency", "bandwidth") or not group.benchmark:
        name.append(what)
    markers = any(line.ranks for line in group.lines)
    return Figure(
        name=" ".join((*name, group.partition, group.stack)),
        title=title,
        caption=caption(f"{better}; both scales are logarithmic.{_judged(group)}", missing),
        description=f"{what.capitalize()} by message size. {ends}.",
        canvas=plots.curves(group, ways, [part for part, _ in missing]),
        header=("size", *(f"{line.label} [{group.unit}]" for line in group.lines)),
        table=by_x((zip(line.x, line.y) for line in group.lines), units.size),
        numbers=Tidy(
            ("line", *(("way", "P") if markers else ()), "size [B]", f"{what} [{group.unit}]"),
            tuple(
                (line.label, *((line.way, line.ranks) if markers else ()), x, y)
                for line in group.lines
                for x, y in zip(line.x, line.y)
            ),
        ),
        shows=validation.shows(group.figures, group.partition, group.place),
        missing=missing,
        told={
            f"{plots.POINTS}{number}": tuple(
                f"{line.label}, {units.size(x)}: {units.quantity(y, group.unit)}"
                for x, y in list(zip(line.x, line.y))[:: plots.every(line, markers)]
            )
            for number, line in enumerate(group.lines)
        },
    )


def of_pairs(found: pairs.PairMap) -> Figure:
    """One quantity between all pairs of nodes; the table has a row for each pair."""
    where = f"{found.partition}, {found.environ}"
    title = f"{found.test}: {found.quantity} between pairs of nodes, {where}"
    order = sorted(
        found.cells.items(), key=lambda cell: cell[1], reverse=lower_is_better(found.unit)
    )
    (worst, least), (best, most) = order[0], order[-1]
    accused = f" Accused: {', '.join(sorted(found.accused))}." if found.accused else ""
    text = (
        f"{units.better(found.unit)}; worst: {' - '.join(worst)} with "
        f"{units.quantity(least, found.unit)}, best: {' - '.join(best)} with "
        f"{units.quantity(most, found.unit)}.{accused}"
    )
    squares = plots.pair_places(found)
    return Figure(
        name=f"{found.test} pairs {found.quantity} {where}",
        title=title,
        caption=text,
        description=text,
        canvas=plots.pair_map(found),
        header=("pair", f"{found.quantity} [{found.unit}]"),
        table=tuple((" - ".join(pair), units.number(value)) for pair, value in order),
        numbers=Tidy(
            ("node", "other node", f"{found.quantity} [{found.unit}]"),
            tuple((*pair, value) for pair, value in sorted(found.cells.items())),
        ),
        told={
            plots.PAIRS: tuple(
                f"{found.nodes[y]} - {found.nodes[x]}: {units.quantity(value, found.unit)}"
                for (x, y), value in squares.items()
            )
        },
    )


def _judged(group: Curves) -> str:
    """Sentences about the points that were judged; empty if there are none."""
    told = [
        f"{line.label} at {units.size(mark.size)} is {units.quantity(mark.value, group.unit)}, "
        f"{_bounds(mark, group.unit)}"
        for line in group.lines
        for mark in line.marks
        if mark.verdict is Verdict.FAIL
    ]
    bounds = " Grey bars are bounds." if any(line.marks for line in group.lines) else ""
    return bounds + (f" Outside its bounds: {'; '.join(told)}." if told else "")


def _bounds(mark: Mark, unit: str) -> str:
    ends = (("at least", mark.lower), ("at most", mark.upper))
    said = [f"{word} {units.quantity(end, unit)}" for word, end in ends if end is not None]
    return " and ".join([*said, f"reference {units.quantity(mark.reference, unit)}"])


def of_heat_map(found: HeatMap) -> Figure:
    """One operation in one mode; the table has a row for each record size."""
    mode = _MODES.get(found.mode, "")
    operation = " ".join(filter(None, (mode, found.operation.replace("_", " "))))
    title = ", ".join(filter(None, (operation, found.partition, found.label)))
    best = max(found.cells, key=lambda at: found.cells[at])
    text = (
        f"{units.number(min(found.cells.values()))} to "
        f"{units.quantity(found.cells[best], found.unit)}; best: a file of "
        f"{units.size(best[0])} in records of {units.size(best[1])}."
    )
    files, records = (sorted(set(sizes)) for sizes in zip(*found.cells))
    return Figure(
        name=" ".join((found.test, found.operation, found.mode, found.partition, found.label)),
        title=title,
        caption=text,
        description=f"{title} by file size and record size: {text}",
        canvas=plots.heat_map(found),
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
        numbers=Tidy(
            ("file size [B]", "record size [B]", f"{found.operation} [{found.unit}]"),
            tuple((*sizes, value) for sizes, value in sorted(found.cells.items())),
        ),
        shows=validation.shows(found.figures, found.partition),
    )


def of_peaks(case: Case) -> Figure | None:
    """The metrics of a case in percent of their peaks; None if it has no peak."""
    metrics = [m for m in case.metrics if m.percent is not None and 0 < m.percent < 1e4]
    if not metrics:
        return None
    title = f"{case.program or case.test}, {case.partition}: percent of peak"
    texts = [f"{m.name}: {m.percent:.3g} % of {m.peak_of or 'its peak'}" for m in metrics]
    return Figure(
        name=f"{case.title} {case.partition} percent of peak",
        title=title,
        caption="The dashed line is the peak.",
        description="; ".join(texts) + ".",
        canvas=plots.peaks(metrics, texts),
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
        numbers=Tidy(
            ("metric", "of peak [%]", "peak is"),
            tuple((m.name, m.percent or 0.0, m.peak_of) for m in metrics),
        ),
    )


def of_chart(study: scaling.Study, chart: charts.Chart) -> Figure:
    """The figure of T, S, SP or SPF of a study."""
    return _of_lines(
        f"{study.test} {chart.quantity.split('(')[0]} {study.partition} {study.environ}",
        f"{study.program}, {study.partition}, {study.environ}: {chart.quantity}",
        chart,
        "N" if chart.by_count else "P",
        [(chart.quantity, study.program)],
    )


def of_columns(case: Case, drawn: columns.Drawn) -> Figure:
    """One column of a case over another one, with a line for each text in the column `line`."""
    # The values of the parameters tell the cases of a test apart.
    which = ", ".join([case.partition, case.environ, *case.parameters.values()])
    return _of_lines(
        f"{case.test} {drawn.name} {which}",
        f"{case.program or case.test}, {which}: {drawn.name}",
        drawn.chart,
        "line",
        [(drawn.name, drawn.at)] if drawn.name and drawn.at else [],
    )


def of_application(application: btio.Application) -> list[Figure]:
    """The figures of the times of BT-IO and of its throughputs."""
    where = f"{application.name}, {application.environ}"
    runs = sorted(application.runs.items())
    there = {partition for partition, _ in application.runs}
    times = Figure(
        name=f"{where} time",
        title=f"{where}: {btio.TIMES}",
        caption=caption("Lower is better.", application.parts),
        description="; ".join(
            f"{at}, P = {processes}: {units.quantity(run.time, 's')}, of which "
            f"{units.quantity(run.io_time, 's')} in I/O"
            for (at, processes), run in runs
        )
        + ".",
        canvas=graphs.bars(application),
        header=("file system, P", "total [s]", "I/O [s]"),
        table=tuple(
            (f"{at}, {processes}", units.number(run.time), units.number(run.io_time))
            for (at, processes), run in runs
        ),
        numbers=Tidy(
            ("file system", "P", "total time [s]", "I/O time [s]"),
            tuple((*at, run.time, run.io_time) for at, run in runs),
        ),
        shows=frozenset((f"{application.program}: {btio.TIMES}", place) for place in there),
        missing=application.parts,
    )
    return [
        times,
        *(
            _of_lines(
                f"{where} {chart.quantity}",
                f"{where}: {chart.quantity}",
                chart,
                "file system",
                [(f"{application.program}: {chart.quantity}", place) for place in there],
            )
            for chart in btio.charts(application)
        ),
    ]


def _of_lines(
    name: str,
    title: str,
    chart: charts.Chart,
    what: str,
    shows: Sequence[Shown],
) -> Figure:
    """A chart of lines; the table has a row for each x.

    :param what: name of the parameter that distinguishes its lines.
    """
    unit = "" if chart.unit == "1" else f" [{chart.unit}]"
    lines = chart.series
    text = units.size if chart.sizes else units.number
    ideal = "; the dotted line is the ideal" if chart.ideal else ""
    return Figure(
        name=name,
        title=title,
        caption=caption(f"{chart.side or units.better(chart.unit)}{ideal}.", chart.missing),
        description=f"{chart.quantity} over {chart.over}. "
        + "; ".join(
            f"{line.label}: "
            + ", ".join(f"{units.quantity(y, chart.unit)} at {text(x)}" for x, y in line.points)
            for line in lines
        )
        + ".",
        canvas=graphs.lines(chart, [part for part, _ in chart.missing]),
        header=(chart.over, *(f"{line.label}{unit}" for line in lines)),
        table=by_x((line.points for line in lines), text),
        numbers=Tidy(
            (what, chart.over + " [B]" * chart.sizes, f"{chart.quantity} [{chart.unit}]"),
            tuple(
                (line.label.removeprefix(f"{what} = ").replace("\N{NO-BREAK SPACE}", ""), x, y)
                for line in lines
                for x, y in line.points
            ),
        ),
        shows=frozenset(shows),
        missing=chart.missing,
    )
