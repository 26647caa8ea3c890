"""Every figure of a session: what the records of its cases hold, as lines and grids."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from assay.declared import KINDS
from assay.judge import Verdict, worst_first
from assay.metrics import factor, lower_is_better
from assay.quantities import better, binary, quantity, spaced
from assay.show import plots, scaling, validation
from assay.show.figure import (
    Figure,
    Section,
    declared,
    drawable,
    lack,
    of_lines,
    pivot,
    positive,
    reasons,
)
from assay.show.plots import COUNTS, SIZES, Grid, Line, Lines, Mark
from assay.store.cases import Case, grouped
from assay.store.sanitize import finite, line

#: Columns of a table by file size and record size.
SIZES_OF_A_CELL = ("file_size", "record_size")

#: (size of the file [B], size of a record [B]) -> the value of a cell.
Cells = dict[tuple[float, float], float]

#: Unit of the colour bar of a grid of bytes per second.
RATE = "MB/s"

#: Columns of a table that name the two ends of a pair.
ENDS = ("a", "b")

#: How many cases of a test at a place are drawn of a session of many cases, and how many figures of
#: a scale a section then has.
MOST_CASES, MOST_FIGURES = 2, 2

#: Locations of the buffers of the two ranks of a GPU test, in words.
BUFFERS = {"DD": "GPU to GPU", "DH": "GPU to host", "HD": "host to GPU", "HH": "host to host"}

#: On a linear scale, the least of values that differ by more powers of ten cannot be read.
DECADES = 2

#: Units of columns that are better on neither side, in words: a part of another case, a size.
NO_SIDE = {"%": "At 100 % both are equal", "B": "Neither more nor less is better"}

_MODES = {"o_sync": "SYNC", "direct": "O_DIRECT"}


def sections(cases: Sequence[Case], whole: bool = True) -> list[Section]:
    """The figures of a session; a section without figures is left out.

    :param whole: draw all cases. Else each test has at most :data:`MOST_CASES` of its cases at a
        place, the worst ones, and each section :data:`MOST_FIGURES` figures of each scale.
    """
    if not whole:
        ordered = sorted(cases, key=lambda case: worst_first(case.verdict))
        groups = grouped(((case.test, case.where), case) for case in ordered)
        cases = [case for its in groups.values() for case in its[:MOST_CASES]]
    kinds = {kind: [c for c in cases if declared(c.figures, kind)] for kind in KINDS}
    by_size, hpl = curves(cases), scaling.hpl(kinds["scaling"])
    runs = list(scaling.btio_figures(kinds["runs"]))
    storage = heat_maps(c for c in cases if {*SIZES_OF_A_CELL} <= c.parsed.units.keys())
    columns = [list(of_columns(case)) for case in kinds["lines"] if case.proven]
    of_pairs = (case for case in cases if any("a" in row for row in case.parsed.rows))
    found = [
        Section("pairs", "Pairs of nodes", "Pairs of nodes", [list(pair_grids(of_pairs))]),
        Section("curves", "Point to point", "Messages between two ranks", [by_size["curve"]]),
        Section("partitions", "Partitions", "Messages within and across", [by_size["partitions"]]),
        Section(
            "collectives", "Collectives", "Collectives by message size", [by_size["collective"]]
        ),
        Section("scaling", "HPL", "HPL over nodes and problem sizes", hpl),
        Section("storage", "Storage", "Storage by file size and record size", storage, narrow=True),
        Section("lines", "More and more", "More and more pairs, ranks or devices", columns),
        Section("btio", "BT-IO", "BT-IO: computing and writing", runs),
    ]
    if not whole:
        found = [replace(s, rows=[row[:MOST_FIGURES] for row in s.rows[:2]]) for s in found]
    return [section for section in found if any(section.rows)]


class _Panel(NamedTuple):
    """What the lines of one figure share. The partition is "" if its lines are partitions."""

    system: str
    partition: str
    test: str
    benchmark: str
    buffers: str
    stack: str
    column: str

    @classmethod
    def of(cls, case: Case, column: str) -> _Panel:
        parameters = case.values
        joined = any(figure.column == column for figure in declared(case.figures, "partitions"))
        partition, buffers = "" if joined else case.partition, parameters.get("buffers", "")
        benchmark = parameters.get("benchmark") or parameters.get("operation", "")
        # Way and ranks already use colour and marker, so another stack needs another figure.
        stack = case.environ if validation.ranks(case.values) else ""
        return cls(case.system, partition, case.test, benchmark, buffers, stack, column)


def curves(cases: Sequence[Case]) -> dict[str, list[Figure]]:
    """The figures of messages by size: those of the kinds curve, collective and partitions.

    Each benchmark, partition and unit has one, with a line for each transport. Of several columns
    in one unit (average, minimum, percentiles), the first is drawn.
    """
    groups: dict[tuple[str, int, str, _Panel, str], list[tuple[Case, plots.Points]]] = {}
    for case in cases:
        if case.parsed.units.get("size") != "B" or not case.proven:
            continue
        units = {"1", "B"}
        for column in map(str, case.parsed.rows[0]):
            unit = case.parsed.units.get(column, "1")
            if unit in units:
                continue
            units.add(unit)
            pairs = (positive(row, ("size", column)) for row in case.parsed.rows)
            if len(found := tuple(sorted((at[0], at[1]) for at in pairs if at))) > 1:
                panel = _Panel.of(case, column)
                key = (case.family, _rank(case.program), case.program, panel, unit)
                groups.setdefault(key, []).append((case, found))
    # Each way looks the same in every figure. Transports and configurations do not share colours.
    ways: dict[bool, set[str]] = {True: set(), False: set()}
    for key, members in groups.items():
        if key[3].partition:
            ways[_on_gpu(members[0][0])] |= {case.way for case, _ in members}
    where = validation.of_partitions(cases)
    drawn: dict[str, list[Figure]] = {"curve": [], "collective": [], "partitions": []}
    for key in sorted(groups):
        panel, members = key[3], groups[key]
        collective = any(declared(case.figures, "collective") for case, _ in members)
        kind = "collective" if collective else "curve" if panel.partition else "partitions"
        alike = (case for case in cases if _Panel.of(case, panel.column) == panel)
        undrawn = [case for case in alike if not any(case is one for one, _ in members)]
        place = where.get((panel.system, panel.partition), "")
        colours = sorted(ways[_on_gpu(members[0][0])])
        drawn[kind].append(_of_curves(panel, place, members, undrawn, colours))
    return drawn


def _of_curves(
    panel: _Panel,
    place: str,
    members: Sequence[tuple[Case, plots.Points]],
    undrawn: Sequence[Case],
    ways: Sequence[str],
) -> Figure:
    first, column, gpu = members[0][0], panel.column, _on_gpu(members[0][0])
    unit = first.parsed.units[column]
    both = [*(case for case, _ in members), *undrawn]
    always = "transport" if panel.partition else "partition"
    names = [name or case.way or first.program for name, case in zip(_labels(both, always), both)]
    shown = {
        figure
        for case, _ in members
        for figure in declared(case.figures, "curve", "collective", "partitions")
        if figure.kind != "partitions" or figure.column == column
    }
    partition = panel.partition or "within and across"
    missing = [*zip(names[len(members) :], (lack(case) for case in undrawn))]
    if gpu and place and panel.buffers != "HH":
        asked = {case.way for case in both}
        unselected = (way for way in validation.configurations(place) if way not in asked)
        missing += [(way, reasons([])) for way in unselected]
    lines = []
    for label, (case, found) in zip(names, members):
        way, marks = case.way if panel.partition else label, _marks(case, column, found)
        lines.append(Line(label, found, way, validation.ranks(case.values), tuple(marks)))
    lines.sort(key=lambda line: line.label)
    # The column is the word on its axis; the unit on the axis gives the rest.
    what = column.replace("_per_s", "").replace("_", " ")
    between = BUFFERS.get(panel.buffers) or ("GPUs" if gpu else "")
    # These distinguish it from a figure of another test with the same program and partition.
    over = "over P ranks" if any(validation.ranks(case.values) for case in both) else ""
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


def _marks(case: Case, column: str, of_curve: plots.Points) -> Iterator[Mark]:
    """The points of a curve that are a metric which was judged."""
    drawn = {x for x, _ in of_curve}
    for metric in case.metrics:
        row, of = _cell(metric.origin)
        if of != column or metric.unit != case.parsed.units[column] or row >= len(case.parsed.rows):
            continue
        at = finite(case.parsed.rows[row].get("size"))
        value, reference = metric.value, metric.reference
        if at is None or at not in drawn or value is None or reference is None:
            continue
        bounds = metric.lower, metric.upper
        if drawable(value, reference, *(bound for bound in bounds if bound is not None)):
            yield Mark(at, value, reference, *bounds, metric.verdict is Verdict.FAIL)


def _cell(origin: Any) -> tuple[int, str]:
    """Row and column of the cell that a metric is, by its formula; column "" if it is none."""
    match origin:
        case [["cell", int(row), column]] if type(row) is int and row >= 0:
            return row, str(column)
    return 0, ""


def pair_grids(cases: Iterable[Case]) -> Iterator[Figure]:
    """A grid for each measured column of the cases whose rows name pairs of nodes."""
    for case in cases:
        rows = [row for row in case.parsed.rows if all(row.get(end) for end in ENDS)]
        nodes = sorted({line(row[end]) for row in rows for end in ENDS})
        for column in case.parsed.units:
            found = grouped(
                ((a, b), values[0])
                for row in rows
                for a, b in [sorted(line(row[end]) for end in ENDS)]
                if (values := positive(row, (column,)))
            )
            if found:
                cells = {pair: statistics.median(values) for pair, values in found.items()}
                yield _of_pairs(case, column, nodes, cells)


def _of_pairs(
    case: Case, column: str, nodes: Sequence[str], cells: Mapping[tuple[str, str], float]
) -> Figure:
    unit, where = case.parsed.units[column], f"{case.partition}, {case.environ}"
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
    """Rows of grids that share a scale: a row for each operation and mode, a grid for each case."""
    rows: dict[tuple[str, str, str, str], list[tuple[Case, Cells]]] = {}
    for case in cases:
        units = case.parsed.units
        of_file, of_record = (factor(units.get(key, ""), "B") for key in SIZES_OF_A_CELL)
        if of_file is None or of_record is None or not case.proven:
            continue
        for column, raw_unit in units.items():
            if not raw_unit.endswith("/s"):
                continue
            scale = factor(raw_unit, RATE)
            found = (positive(row, (*SIZES_OF_A_CELL, column)) for row in case.parsed.rows)
            of = scale or 1.0
            cells = {(at[0] * of_file, at[1] * of_record): at[2] * of for at in found if at}
            if cells:
                mode, unit = case.values.get("sync", ""), raw_unit if scale is None else RATE
                key = (case.test, column, mode, unit)
                rows.setdefault(key, []).append((case, cells))
    drawn: list[list[Figure]] = []
    for (_, operation, mode, unit), members in sorted(rows.items(), key=lambda row: row[0]):
        values = [value for _, cells in members for value in cells.values()]
        what = (operation, mode, unit, (min(values), max(values)))
        named = zip(_labels([case for case, _ in members]), members)
        ordered = sorted(named, key=lambda one: (one[1][0].partition, one[0]))
        drawn.append([_of_sizes(case, cells, label, *what) for label, (case, cells) in ordered])
    return drawn


def _of_sizes(  # noqa: PLR0913, PLR0917
    case: Case,
    cells: Cells,
    label: str,
    column: str,
    mode: str,
    unit: str,
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
    columns = [{y: value for (x, y), value in cells.items() if x == size} for size in sizes]
    shown = [figure for figure in declared(case.figures, "heat map") if figure.column == column]
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
        pivot=pivot((f"record \\ file [{unit}]", *map(binary, sizes)), columns, binary),
        words=f"{title} by file size and record size: {text}",
        shows=validation.shows(shown, case.partition),
    )  # fmt: skip


def of_columns(case: Case) -> Iterator[Figure]:
    """One column of a case over another one, for each figure `lines` that it declares.

    A row belongs to the line that its column ``line`` names. If the rows have a column ``figure``,
    a row belongs to the figure of that name. A quantity without a unit has a logarithmic scale,
    beside the line on which it equals what it is drawn over. So does a quantity whose values differ
    by more than :data:`DECADES`, without that line.
    """
    for figure in declared(case.figures, "lines"):
        found = grouped(
            (str(row.get("line", "")), (point[0], point[1]))
            for row in case.parsed.rows
            if (point := positive(row, (figure.over, figure.column)))
            and row.get("figure", figure.name) == figure.name
        )
        if not found:
            continue
        lines = tuple(Line(name, tuple(sorted(its))) for name, its in found.items())
        unit = case.parsed.units.get(figure.column, "1")
        words, over = (text.replace("_", " ") for text in (figure.column, figure.over))
        values = [y for line in lines for _, y in line.points]
        wide = max(values) > 10**DECADES * min(values)
        base = 2 if unit == "1" else 10 if wide else 0
        scale = SIZES if case.parsed.units.get(figure.over) == "B" else COUNTS
        what, side = figure.name or words, NO_SIDE.get(unit, "")
        # The values of the parameters tell the cases of a test apart.
        which = ", ".join([case.partition, case.environ, *case.values.values()])
        at = figure.where(case.partition)
        yield of_lines(
            f"{case.test} {figure.name} {which}",
            f"{case.program or case.test}, {which}: {figure.name}",
            Lines(what, unit, over, lines, scale, base, unit == "1", axis=words, side=side),
            [(figure.name, at)] if figure.name and at else [],
        )


def _on_gpu(case: Case) -> bool:
    """Whether its way is a configuration for GPU memory."""
    return "configuration" in case.values


def _labels(cases: Sequence[Case], always: str = "") -> list[str]:
    """Names for cases of one benchmark, from what varies among them, and the property `always`."""
    traits = [
        {"partition": case.partition, "way": case.way}
        if always == "partition"
        else {"transport": case.transport, "environ": case.environ, **case.values}
        for case in cases
    ]
    keys = dict.fromkeys(key for trait in traits for key in trait)
    several = [key for key in keys if len({trait.get(key, "") for trait in traits}) > 1]
    varying = [key for key in several if key != "benchmark"]
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


def _rank(program: str) -> int:
    """Sort key: latency, then bandwidth between two ranks, which a reader looks for first."""
    first = ("latency", "_bw", "_bibw")
    return next((n for n, end in enumerate(first) if program.endswith(end)), len(first))
