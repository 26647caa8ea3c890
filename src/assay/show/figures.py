"""Every figure of a session: what the records of its cases hold, as lines, grids and bars."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from assay.judge import Verdict
from assay.metrics import factor, lower_is_better
from assay.quantities import better, binary, quantity, spaced
from assay.show import plots, scaling, validation
from assay.show.figure import (
    Figure,
    Section,
    caption,
    count,
    drawable,
    of_lines,
    others,
    positive,
    reasons,
)
from assay.show.plots import COUNTS, SIZES, Bars, Grid, Line, Lines, Mark
from assay.store.cases import Case
from assay.store.sanitize import finite, line

#: Columns of a table by file size and record size.
FILE_SIZE, RECORD_SIZE = "file_size", "record_size"

#: Unit of the colour bar of a grid of bytes per second.
RATE = "MB/s"

#: Columns of a table that name the two ends of a pair.
ENDS = ("a", "b")

#: Locations of the buffers of the two ranks of a GPU test, in words.
BUFFERS = {
    "DD": "GPU to GPU", "DH": "GPU to host", "HD": "host to GPU", "HH": "host to host",
}  # fmt: skip

#: On a linear scale, the least of values that differ by more powers of ten cannot be read.
DECADES = 2

#: Units of columns that are better on neither side, in words: a part of another case, a size.
NO_SIDE = {"%": "At 100 % both are equal", "B": "Neither more nor less is better"}

#: What figures of the kind `runs` show: the times, and both throughputs with column and unit.
TIMES = "total time and time of I/O"
THROUGHPUTS = {
    "throughput of computing": ("mops_total", "Mop/s"), "throughput of I/O": ("io_rate", "MB/s"),
}  # fmt: skip
_UNITS = {"time": "s", "io_time": "s", "mops_total": "Mop/s", "io_rate": "MB/s"}

_MODES = {"o_sync": "SYNC", "direct": "O_DIRECT"}


def sections(cases: Sequence[Case]) -> list[Section]:
    """Every figure of a session; a section without figures is left out."""
    messages = curves(cases)
    studies = [
        [_of_study(study, lines) for lines in scaling.charts(study)]
        for study in scaling.studies(cases)
    ]
    computing = (c for c in cases if c.kind == "compute" and not c.drawn_as("scaling"))
    storage = heat_maps(cases)
    columns = [list(of_columns(case)) for case in cases if case.proven]
    found = [
        Section("pairs", "Pairs of nodes", "Pairs of nodes", [list(pairs(cases))]),
        Section("curves", "Point to point", "Messages between two ranks", [messages["curve"]]),
        Section("partitions", "Partitions", "Messages within and across", [messages["partitions"]]),
        Section(
            "collectives", "Collectives", "Collectives by message size", [messages["collective"]]
        ),
        Section("scaling", "HPL", "HPL over nodes and problem sizes", studies),
        Section(
            "compute",
            "Compute",
            "Compute against its peaks",
            [list(filter(None, map(of_peaks, computing)))],
        ),
        Section("storage", "Storage", "Storage by file size and record size", storage, narrow=True),
        Section("lines", "More and more", "More and more pairs, ranks or devices", columns),
        Section("btio", "BT-IO", "BT-IO: computing and writing", list(runs(cases))),
    ]
    return [section for section in found if any(section.rows)]


class _Panel(NamedTuple):
    """What the lines of one figure share; also known for a case that was not run.

    :ivar partition: "" if its lines are partitions.
    """

    system: str
    partition: str
    test: str
    benchmark: str
    buffers: str
    stack: str

    @classmethod
    def of(cls, case: Case, column: str) -> _Panel:
        parameters = case.parameters
        joined = any(figure.column == column for figure in case.drawn_as("partitions"))
        return cls(
            case.system,
            "" if joined else case.partition,
            case.test,
            parameters.get("benchmark") or parameters.get("operation", ""),
            parameters.get("buffers", ""),
            # Way and ranks already use colour and marker, so another stack needs another figure.
            case.environ if validation.ranks(case) else "",
        )


def curves(cases: Sequence[Case]) -> dict[str, list[Figure]]:
    """The figures of messages by size: those of the kinds curve, collective and partitions.

    There is one for each benchmark, partition and unit, with a line for each transport. If several
    columns have the same unit (average, minimum, percentiles), the first is drawn.
    """
    groups: dict[tuple[str, int, str, _Panel, str, str], list[tuple[Case, plots.Points]]] = {}
    for case in cases:
        if case.units.get("size") != "B" or not case.proven:
            continue
        units = {"1", "B"}
        for column in map(str, case.rows[0]):
            unit = case.units.get(column, "1")
            if unit in units:
                continue
            units.add(unit)
            found = (positive(row, ("size", column)) for row in case.rows)
            points = tuple(sorted((at[0], at[1]) for at in found if at))
            if len(points) > 1:
                panel = _Panel.of(case, column)
                key = (case.family, _rank(case.program), case.program, panel, column, unit)
                groups.setdefault(key, []).append((case, points))
    # Each way looks the same in every figure. Transports and configurations do not share colours.
    ways: dict[bool, set[str]] = {True: set(), False: set()}
    for key, members in groups.items():
        if key[3].partition:
            ways[_on_gpu(members[0][0])] |= {_way(case) for case, _ in members}
    where = validation.of_partitions(cases)
    drawn: dict[str, list[Figure]] = {"curve": [], "collective": [], "partitions": []}
    for (*_, panel, column, unit), members in sorted(groups.items(), key=lambda group: group[0]):
        collective = any(case.drawn_as("collective") for case, _ in members)
        kind = "collective" if collective else "curve" if panel.partition else "partitions"
        undrawn = [
            case
            for case in cases
            if _Panel.of(case, column) == panel and not any(case is one for one, _ in members)
        ]
        place = where.get((panel.system, panel.partition), "")
        colours = sorted(ways[_on_gpu(members[0][0])])
        drawn[kind].append(_of_curves(panel, place, column, unit, members, undrawn, colours))
    return drawn


def _of_curves(  # noqa: PLR0913, PLR0917
    panel: _Panel,
    place: str,
    column: str,
    unit: str,
    members: Sequence[tuple[Case, plots.Points]],
    undrawn: Sequence[Case],
    ways: Sequence[str],
) -> Figure:
    first, gpu = members[0][0], _on_gpu(members[0][0])
    both = [*(case for case, _ in members), *undrawn]
    names = [
        name or _way(case) or first.program
        for name, case in zip(_labels(both, "transport", panel.partition == ""), both)
    ]
    shown = tuple(
        dict.fromkeys(
            figure
            for case, _ in members
            for figure in case.drawn_as("curve", "collective", "partitions")
            if figure.kind != "partitions" or figure.column == column
        )
    )
    partition = panel.partition or "within and across"
    missing = [*zip(names[len(members) :], (case.lack for case in undrawn))]
    if gpu and place and panel.buffers != "HH":
        missing += validation.unselected(place, {_way(case) for case in both})
    lines = [
        Line(
            name, points, _way(case) if panel.partition else name, validation.ranks(case),
            tuple(_marks(case, column, points)),
        )
        for name, (case, points) in zip(names, members)
    ]  # fmt: skip
    lines.sort(key=lambda line: line.label)
    # The column is the word on its axis; the unit on the axis gives the rest.
    what = column.replace("_per_s", "").replace("_", " ")
    between = BUFFERS.get(panel.buffers) or ("GPUs" if gpu else "")
    # These distinguish it from a figure of another test with the same program and partition.
    over = "over P ranks" if any(map(validation.ranks, both)) else ""
    at = " ".join(filter(None, (between, place if gpu else "")))
    words = (f"{first.program} ({first.family})", over, at, partition, panel.stack)
    title = ", ".join(filter(None, words))
    name = [panel.test or first.family, first.program.removeprefix("osu_"), between]
    if what not in ("latency", "bandwidth"):
        title = f"{title}: {what}"
    if what not in ("latency", "bandwidth") or not panel.benchmark:
        name.append(what)
    return of_lines(
        " ".join((*name, partition, panel.stack)),
        title,
        Lines(
            what, unit, "size", tuple(lines), SIZES, base=10, across="message size",
            missing=tuple(missing), side=f"{better(unit)}; both scales are logarithmic",
            ways=tuple(ways if panel.partition else (line.way for line in lines)),
        ),
        validation.shows(shown, partition, place),
    )  # fmt: skip


def _marks(case: Case, column: str, points: plots.Points) -> Iterator[Mark]:
    """The points of a curve that are a metric which was judged."""
    drawn = {x for x, _ in points}
    for metric in case.metrics:
        row, of = metric.cell or (0, "")
        if of != column or metric.unit != case.units[column] or row >= len(case.rows):
            continue
        at, value, reference = finite(case.rows[row].get("size")), metric.value, metric.reference
        if at is None or at not in drawn or value is None or reference is None:
            continue
        bounds = metric.lower, metric.upper
        if drawable(value, reference, *(bound for bound in bounds if bound is not None)):
            yield Mark(at, value, reference, *bounds, metric.verdict is Verdict.FAIL)


def pairs(cases: Iterable[Case]) -> Iterator[Figure]:
    """One grid for each measured column of each case whose rows name both ends of a pair.

    Its table has a row for each pair, the worst first.
    """
    for case in cases:
        rows = [row for row in case.rows if all(row.get(end) for end in ENDS)]
        nodes = sorted({line(row[end]) for row in rows for end in ENDS})
        for column in case.units:
            found: dict[tuple[str, str], list[float]] = {}
            for row in rows:
                if value := positive(row, (column,)):
                    a, b = sorted(line(row[end]) for end in ENDS)
                    found.setdefault((a, b), []).append(*value)
            if found:
                cells = {pair: statistics.median(values) for pair, values in found.items()}
                yield _of_pairs(case, column, nodes, cells)


def _of_pairs(
    case: Case, column: str, nodes: Sequence[str], cells: Mapping[tuple[str, str], float]
) -> Figure:
    unit, where = case.units[column], f"{case.partition}, {case.environ}"
    order = sorted(cells.items(), key=lambda cell: cell[1], reverse=lower_is_better(unit))
    (worst, least), (best, most) = order[0], order[-1]
    accused = sorted({node for one in case.accused for node in one.nodes})
    text = (
        f"{better(unit)}; worst: {' - '.join(worst)} with {quantity(least, unit)}, "
        f"best: {' - '.join(best)} with {quantity(most, unit)}."
        + (f" Accused: {', '.join(accused)}." if accused else "")
    )
    names = tuple(f"\N{MULTIPLICATION X} {n}" if n in accused else n for n in nodes)
    squares = {}
    for (a, b), value in cells.items():
        x, y = nodes.index(a), nodes.index(b)
        squares[x, y] = squares[y, x] = value
    told = (f"{nodes[y]} - {nodes[x]}: {quantity(v, unit)}" for (x, y), v in squares.items())
    return Figure(
        f"{case.test} pairs {column} {where}",
        f"{case.test}: {column} between pairs of nodes, {where}",
        text,
        Grid(column, unit, names, names, squares, (min(least, most), max(least, most))),
        (("node", "other node", f"{column} [{unit}]"), *((*pair, value) for pair, value in order)),
        told={plots.CELLS: tuple(told)},
    )


def heat_maps(cases: Iterable[Case]) -> list[list[Figure]]:
    """Rows of grids: a row for each (operation, mode), a grid for each file system in it.

    The grids of a row share the scale of their colours.
    """
    rows: dict[tuple[Any, ...], list[tuple[Case, dict[tuple[float, float], float]]]] = {}
    for case in cases:
        file_unit = factor(case.units.get(FILE_SIZE, ""), "B")
        record_unit = factor(case.units.get(RECORD_SIZE, ""), "B")
        if file_unit is None or record_unit is None or not case.proven:
            continue
        for column, raw_unit in case.units.items():
            if not raw_unit.endswith("/s"):
                continue
            scale = factor(raw_unit, RATE)
            found = [positive(row, (FILE_SIZE, RECORD_SIZE, column)) for row in case.rows]
            cells = {
                (at[0] * file_unit, at[1] * record_unit): at[2] * (scale or 1.0)
                for at in found
                if at
            }
            if cells:
                mode, unit = case.parameters.get("sync", ""), raw_unit if scale is None else RATE
                key = (case.test, *_order(column, mode), mode, unit)
                rows.setdefault(key, []).append((case, cells))
    drawn: list[list[Figure]] = []
    for (*_, operation, mode, unit), members in sorted(rows.items(), key=lambda row: row[0]):
        values = [value for _, cells in members for value in cells.values()]
        ends = (min(values), max(values))
        named = zip(_labels([case for case, _ in members]), members)
        drawn.append([])
        for label, (case, cells) in sorted(named, key=lambda one: (one[1][0].partition, one[0])):
            drawn[-1].append(_of_sizes(case, operation, mode, unit, label, cells, ends))
    return drawn


def _of_sizes(  # noqa: PLR0913, PLR0917
    case: Case,
    column: str,
    mode: str,
    unit: str,
    label: str,
    cells: Mapping[tuple[float, float], float],
    scale: tuple[float, float],
) -> Figure:
    """One operation in one mode; the table has a row for each record size."""
    operation = " ".join(filter(None, (_MODES.get(mode, ""), column.replace("_", " "))))
    title = ", ".join(filter(None, (operation, case.partition, label)))
    best = max(cells, key=lambda at: cells[at])
    text = (
        f"{spaced(min(cells.values()))} to {quantity(cells[best], unit)}; best: a file of "
        f"{binary(best[0])} in records of {binary(best[1])}."
    )
    sizes, records = (sorted(set(both)) for both in zip(*cells))
    shown = [figure for figure in case.drawn_as("heat map") if figure.column == column]
    return Figure(
        " ".join((case.test, column, mode, case.partition, label)),
        title,
        text,
        Grid(
            column, unit, tuple(map(binary, sizes)), tuple(map(binary, records)),
            {(sizes.index(x), records.index(y)): value for (x, y), value in cells.items()},
            scale, ("file size", "record size"),
        ),
        (
            ("file size [B]", "record size [B]", f"{column} [{unit}]"),
            *((*at, value) for at, value in sorted(cells.items())),
        ),
        pivot=(
            (f"record \\ file [{unit}]", *map(binary, sizes)),
            *(
                (binary(y), *(spaced(cells[x, y]) if (x, y) in cells else "" for x in sizes))
                for y in records
            ),
        ),
        words=f"{title} by file size and record size: {text}",
        shows=validation.shows(shown, case.partition),
    )  # fmt: skip


def of_peaks(case: Case) -> Figure | None:
    """The metrics of a case in percent of their peaks; None if it has no peak."""
    metrics = [m for m in case.metrics if m.percent is not None and 0 < m.percent < 1e4]
    if not metrics:
        return None
    texts = [f"{m.name}: {m.percent:.3g} % of {m.peak_of or 'its peak'}" for m in metrics]
    rows = tuple((text, (m.percent or 0.0,)) for m, text in zip(metrics, texts))
    return Figure(
        f"{case.title} {case.partition} percent of peak",
        f"{case.program or case.test}, {case.partition}: percent of peak",
        "The dashed line is the peak.",
        Bars("percent of peak", ("",), rows, full=100),
        (
            ("metric", "of peak [%]", "peak is"),
            *((m.name, *percent, m.peak_of) for m, (_, percent) in zip(metrics, rows)),
        ),
        pivot=(
            ("metric", "value", "peak", "of peak", "peak is"),
            *(
                (
                    m.name,
                    quantity(m.value, m.unit),
                    quantity(m.peak, m.peak_unit or m.unit),
                    f"{m.percent:.3g} %",
                    m.peak_of,
                )
                for m in metrics
            ),
        ),
        words="; ".join(texts) + ".",
    )


def _of_study(study: scaling.Study, lines: Lines) -> Figure:
    """The figure of T, S, SP or SPF of a study."""
    return of_lines(
        f"{study.test} {lines.quantity.split('(')[0]} {study.partition} {study.environ}",
        f"{study.program}, {study.partition}, {study.environ}: {lines.quantity}",
        lines,
        [(lines.quantity, study.program)],
        "N" if lines.scale == COUNTS else "P",
    )


def of_columns(case: Case) -> Iterator[Figure]:
    """One column of a case over another one, for each figure `lines` that it declares.

    A row belongs to the line that its column ``line`` names. If the rows have a column ``figure``,
    a row belongs to the figure of that name. A quantity without a unit has a logarithmic scale,
    beside the line on which it equals what it is drawn over. So does a quantity whose values differ
    by more than :data:`DECADES`, without that line.
    """
    for figure in case.drawn_as("lines"):
        found: dict[str, list[tuple[float, float]]] = {}
        for row in case.rows:
            point = positive(row, (figure.over, figure.column))
            if point and row.get("figure", figure.name) == figure.name:
                found.setdefault(str(row.get("line", "")), []).append((point[0], point[1]))
        if not found:
            continue
        unit = case.units.get(figure.column, "1")
        words = figure.column.replace("_", " ")
        ratio = unit == "1"
        values = [y for points in found.values() for _, y in points]
        wide = max(values) > 10**DECADES * min(values)
        # The values of the parameters tell the cases of a test apart.
        which = ", ".join([case.partition, case.environ, *case.parameters.values()])
        at = figure.where(case.partition)
        yield of_lines(
            f"{case.test} {figure.name} {which}",
            f"{case.program or case.test}, {which}: {figure.name}",
            Lines(
                figure.name or words,
                unit,
                figure.over.replace("_", " "),
                tuple(Line(name, tuple(sorted(points))) for name, points in found.items()),
                SIZES if case.units.get(figure.over) == "B" else COUNTS,
                base=2 if ratio else 10 if wide else 0,
                ideal=ratio,
                axis=words,
                side=NO_SIDE.get(unit, ""),
            ),
            [(figure.name, at)] if figure.name and at else [],
        )


def runs(cases: Iterable[Case]) -> Iterator[list[Figure]]:
    """Times and throughputs over the number of processes, for each class, way and stack."""
    groups: dict[tuple[object, ...], list[Case]] = {}
    for case in cases:
        for figure in case.drawn_as("runs"):
            key = (figure.name, case.system, case.environ, others(case, "ranks", "npb_class"))
            groups.setdefault(key, []).append(case)
    for (program, *_), members in sorted(groups.items(), key=lambda group: str(group[0])):
        done: dict[str, dict[tuple[str, int], Mapping[str, float]]] = {}
        undone: list[tuple[str, tuple[str, int], Case]] = []
        for case in members:
            if run := _run(case):
                of_class = str(case.rows[0].get("class", "?"))
                done.setdefault(of_class, {})[case.partition, int(run["processes"])] = run
            elif asked := count(case, "ranks"):
                of_class = case.parameters.get("npb_class", "")
                undone.append((of_class, (case.partition, asked), case))
        same = members[0]
        way = ", ".join(filter(None, map(same.parameters.get, ("subtype", "mpi_io"))))
        for of_class, found in sorted(done.items()):
            lacking: dict[tuple[str, int], list[Case]] = {}
            for class_of_case, at, case in undone:
                # A case that ended before it chose its class may belong to any class.
                if class_of_case in ("", of_class):
                    lacking.setdefault(at, []).append(case)
            name = " ".join(filter(None, (f"{program} class {of_class}", way)))
            yield list(_of_runs(str(program), f"{name}, {same.environ}", found, lacking))


def _run(case: Case) -> dict[str, float] | None:
    """The numbers of the first row; None if they are not those of a run."""
    if not case.proven or any(case.units.get(name) != unit for name, unit in _UNITS.items()):
        return None
    row, names = case.rows[0], ("processes", "time", "mops_total", "io_rate")
    found = positive(row, names)
    # BT rounds times to 0.01 s, so the time of I/O may be 0.
    io_time = finite(row.get("io_time"))
    if found is None or io_time is None or found[0] != int(found[0]):
        return None
    if not 0 <= io_time <= found[1]:
        return None
    return {**dict(zip(names, found)), "io_time": io_time}


def _of_runs(
    program: str,
    name: str,
    done: Mapping[tuple[str, int], Mapping[str, float]],
    undone: Mapping[tuple[str, int], Sequence[Case]],
) -> Iterator[Figure]:
    found = sorted(done.items())
    places = sorted({place for place, _ in done})
    missing = tuple(
        (f"{at}, P = {number}", reasons(its)) for (at, number), its in sorted(undone.items())
    )
    times = {at: (run["time"], run["io_time"]) for at, run in found}
    drawing = Bars(
        "time [s]",
        ("total time", "time of I/O"),
        tuple(
            (f"{at[0]}, P = {at[1]}" + ("" if at in times else ": not measured"), times.get(at, ()))
            for at in sorted({*done, *undone})
        ),
    )
    yield Figure(
        f"{name} time",
        f"{name}: {TIMES}",
        caption("Lower is better.", missing),
        drawing,
        (
            ("file system", "P", "total time [s]", "I/O time [s]"),
            *((place, str(number), *both) for (place, number), both in times.items()),
        ),
        words="; ".join(
            f"{place}, P = {number}: {quantity(time, 's')}, of which {quantity(io, 's')} in I/O"
            for (place, number), (time, io) in times.items()
        )
        + ".",
        shows=frozenset((f"{program}: {TIMES}", place) for place in places),
        missing=missing,
    )
    for what, (column, unit) in THROUGHPUTS.items():
        lines = tuple(
            Line(place, tuple((float(n), run[column]) for (at, n), run in found if at == place))
            for place in places
        )
        yield of_lines(
            f"{name} {what}",
            f"{name}: {what}",
            Lines(what, unit, "processes P", lines, COUNTS, base=10, missing=missing),
            [(f"{program}: {what}", place) for place in places],
            "file system",
        )


def _way(case: Case) -> str:
    """How the bytes of a case moved."""
    return case.transport or case.parameters.get("configuration", "")


def _on_gpu(case: Case) -> bool:
    """Whether its way is a configuration for GPU memory."""
    return "configuration" in case.parameters


def _labels(cases: Sequence[Case], always: str = "", partitions: bool = False) -> list[str]:
    """Names for different cases of the same benchmark, from the properties that vary among them.

    :param partitions: name the partition, and the way if there are several.
    """
    if partitions:
        several = len({_way(case) for case in cases}) > 1
        return [
            f"{case.partition}, {_way(case)}" if several and _way(case) else case.partition
            for case in cases
        ]
    traits = [
        {"transport": case.transport, "environ": case.environ, **case.parameters} for case in cases
    ]
    keys = dict.fromkeys(key for trait in traits for key in trait)
    varying = [
        key
        for key in keys
        if key != "benchmark" and len({trait.get(key, "") for trait in traits}) > 1
    ]
    if always in keys and always not in varying:
        varying.insert(0, always)
    return [
        ", ".join(
            f"{key} {trait[key]}" if trait[key].isdigit() else trait[key]
            for key in varying
            if trait.get(key)
        )
        for trait in traits
    ]


def _order(operation: str, mode: str) -> tuple[int, int, str]:
    """Sort key: plain reads and writes first, and cached modes before the others."""
    first, modes = ("read", "write"), ("cached", "o_sync", "direct")
    return (
        first.index(operation) if operation in first else len(first),
        modes.index(mode) if mode in modes else len(modes),
        operation,
    )


def _rank(program: str) -> int:
    """Sort key: latency, then bandwidth between two ranks, which a reader looks for first."""
    first = ("latency", "_bw", "_bibw")
    return next((n for n, end in enumerate(first) if program.endswith(end)), len(first))
