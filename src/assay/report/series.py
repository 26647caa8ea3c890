"""The data for curves over message size and for heat maps, selected from the records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from assay.declared import Figure
from assay.judge import Verdict
from assay.metrics import factor
from assay.report import units
from assay.results import locality
from assay.results.cases import Case
from assay.results.sanitize import finite

#: Columns of IOzone's table.
FILE_SIZE, RECORD_SIZE = "file_size", "record_size"

#: Parameters that count processes -> their name in a legend.
_SHORT = {"gpus": "P =", "ranks": "P ="}

#: Unit of the colour bar of a heat map of bytes per second.
RATE = "MB/s"

#: The missing part of a figure, and the reason.
Missing = tuple[str, str]


@dataclass(frozen=True)
class Mark:
    """A point of a curve that was judged; values and bounds are in the unit of the figure.

    :ivar reference: the expected value, with the bounds `lower` and `upper`, if it has them.
    """

    size: float
    value: float
    reference: float
    lower: float | None
    upper: float | None
    verdict: Verdict


@dataclass(frozen=True)
class Line:
    """One curve: `y` in the figure's unit over `x` in bytes, both greater than zero.

    :ivar way: how the bytes moved: a transport, or a configuration for GPU memory.
    :ivar ranks: number of ranks, for a collective that is measured with several numbers; ""
        otherwise.
    :ivar marks: its points that were judged.
    """

    label: str
    way: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    ranks: str = ""
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class Curves:
    """All lines of one benchmark on one partition.

    :ivar column: the column of the output that is drawn, in `unit`.
    :ivar benchmark: the parameter of the test, without the name of its suite.
    :ivar buffers: locations of the buffers of the two ranks of a GPU test: ``DD``, ``DH``, ``HD``,
        ``HH``.
    :ivar stack: the stack of these lines, if each stack has its own figure; else "".
    :ivar on_gpu: whether its lines are configurations for GPU memory.
    :ivar figures: the figures that its cases are a part of, as their test declares them.
    :ivar planned: (way, ranks) of every case that should be a line, measured or not.
    :ivar missing: the lines that this session should have measured but did not.
    """

    family: str
    program: str
    partition: str
    column: str
    unit: str
    lines: tuple[Line, ...]
    test: str = ""
    benchmark: str = ""
    buffers: str = ""
    place: str = ""
    planned: frozenset[tuple[str, str]] = frozenset()
    missing: tuple[Missing, ...] = ()
    stack: str = ""
    on_gpu: bool = False
    figures: tuple[Figure, ...] = ()

    @property
    def quantity(self) -> str:
        """The column as the word on its axis; the unit on the axis gives the rest."""
        return self.column.replace("_per_s", "").replace("_", " ")


@dataclass(frozen=True)
class HeatMap:
    """One operation in one mode on one file system: value by (file size, record size) in bytes.

    :ivar label: besides the partition, what distinguishes it from the other maps of its row;
        mostly "".
    :ivar scale: least and greatest value of all heat maps of the row, in `unit`.
    :ivar figures: the figures that show this operation, as the test declares them.
    """

    partition: str
    operation: str
    mode: str
    unit: str
    cells: Mapping[tuple[float, float], float]
    scale: tuple[float, float]
    label: str = ""
    test: str = ""
    figures: tuple[Figure, ...] = ()


class _Panel(NamedTuple):
    """The properties that the lines of one figure share; also known for a case that was not run."""

    system: str
    partition: str
    test: str
    benchmark: str
    buffers: str
    stack: str

    @classmethod
    def of(cls, case: Case) -> _Panel:
        parameters = case.parameters
        return cls(
            case.system,
            case.partition,
            case.test,
            parameters.get("benchmark") or parameters.get("operation", ""),
            parameters.get("buffers", ""),
            # Way and ranks already use colour and marker, so another stack needs another figure.
            case.environ if ranks(case) else "",
        )


#: (size, value) of each point of a line.
_Points = list[tuple[float, float]]


def curves(cases: Sequence[Case]) -> list[Curves]:
    """One entry for each benchmark, partition and unit, with a line for each transport.

    If several columns have the same unit (average, minimum, percentiles), the first is drawn.
    """
    groups: dict[tuple[str, str, _Panel, str, str], list[tuple[Case, _Points]]] = {}
    for case in cases:
        if case.units.get("size") != "B" or not case.proven:
            continue
        for column, unit in _first_of_each_unit(case).items():
            points = [
                (x, y)
                for row in case.rows
                if (x := finite(row.get("size"))) is not None
                and (y := finite(row.get(column))) is not None
                and drawable(x, y)
            ]
            if len(points) > 1:
                key = (case.family, case.program, _Panel.of(case), column, unit)
                groups.setdefault(key, []).append((case, sorted(points)))
    where = locality.of_partitions(cases)
    found = []
    for (family, program, panel, column, unit), members in sorted(
        groups.items(), key=lambda group: (group[0][0], _rank(group[0][1]), *group[0][1:])
    ):
        drawn = [case for case, _ in members]
        undrawn = [
            case
            for case in cases
            if _Panel.of(case) == panel and not any(case is other for other in drawn)
        ]
        both = [*drawn, *undrawn]
        names = [
            name or way(case) or program
            for name, case in zip(labels(both, always="transport"), both)
        ]
        lines = []
        for name, (case, points) in zip(names, members):
            sizes, values = zip(*points)
            judged = tuple(marks(case, column, unit, sizes))
            lines.append(Line(name, way(case), sizes, values, ranks(case), judged))
        found.append(
            Curves(
                family=family,
                program=program,
                partition=panel.partition,
                column=column,
                unit=unit,
                lines=tuple(sorted(lines, key=lambda line: line.label)),
                test=panel.test,
                benchmark=panel.benchmark,
                buffers=panel.buffers,
                stack=panel.stack,
                on_gpu=any("configuration" in case.parameters for case in drawn),
                figures=tuple(
                    dict.fromkeys(
                        figure
                        for case in drawn
                        for figure in case.drawn_as("curve", "collective", "partitions")
                        if figure.kind != "partitions" or figure.column == column
                    )
                ),
                place=where.get((panel.system, panel.partition), ""),
                planned=frozenset((way(case), ranks(case)) for case in both),
                missing=tuple(zip(names[len(drawn) :], (case.lack for case in undrawn))),
            )
        )
    return found


def marks(case: Case, column: str, unit: str, sizes: Iterable[float]) -> Iterator[Mark]:
    """The sizes of a curve at which a metric of the case was judged: ``latency_8B`` at 8 B."""
    metrics = {metric.name: metric for metric in case.metrics if metric.unit == unit}
    for size in sizes:
        metric = metrics.get(f"{column}_{units.size(size)}".replace("\N{NO-BREAK SPACE}", ""))
        if metric is None or metric.value is None or metric.reference is None:
            continue
        ends = (metric.value, metric.reference, metric.lower, metric.upper)
        if all(drawable(end) for end in ends if end is not None):
            yield Mark(size, *ends, metric.verdict)


def by_partition(groups: Iterable[Curves]) -> tuple[list[Curves], list[Curves]]:
    """The groups that stay as they are, and those whose partitions share a figure.

    A line of the latter is a partition, and the transport if there are several.
    """
    alone: list[Curves] = []
    shared: dict[tuple[str, ...], list[Curves]] = {}
    for group in groups:
        if any(figure.kind == "partitions" for figure in group.figures):
            key = (group.test, group.family, group.program, group.column, group.unit, group.stack)
            shared.setdefault(key, []).append(group)
        else:
            alone.append(group)
    return alone, [_joined(members) for members in shared.values()]


def _joined(members: Sequence[Curves]) -> Curves:
    several = len({line.way for group in members for line in group.lines}) > 1

    def name(group: Curves, way: str) -> str:
        return f"{group.partition}, {way}" if several and way else group.partition

    return replace(
        members[0],
        partition="within and across",
        place="",
        lines=tuple(
            replace(line, label=name(group, line.way), way=name(group, line.way))
            for group in members
            for line in group.lines
        ),
        planned=frozenset(
            (name(group, way), count) for group in members for way, count in group.planned
        ),
        missing=tuple(
            (f"{group.partition}, {part}", why) for group in members for part, why in group.missing
        ),
    )


def heat_maps(cases: Iterable[Case]) -> list[list[HeatMap]]:
    """Rows of heat maps: a row for each (operation, mode), a map for each file system in it."""
    rows: dict[tuple[str, ...], list[tuple[Case, dict[tuple[float, float], float]]]] = {}
    for case in cases:
        file_unit = factor(case.units.get(FILE_SIZE, ""), "B")
        record_unit = factor(case.units.get(RECORD_SIZE, ""), "B")
        if file_unit is None or record_unit is None or not case.proven:
            continue
        for column, raw_unit in case.units.items():
            if not raw_unit.endswith("/s"):
                continue
            scale = factor(raw_unit, RATE)
            unit = raw_unit if scale is None else RATE
            cells = {
                (x * file_unit, y * record_unit): value * (1.0 if scale is None else scale)
                for row in case.rows
                if (x := finite(row.get(FILE_SIZE))) is not None
                and (y := finite(row.get(RECORD_SIZE))) is not None
                and (value := finite(row.get(column))) is not None
                and drawable(x, y, value)
            }
            if cells:
                key = (case.test, column, case.parameters.get("sync", ""), unit)
                rows.setdefault(key, []).append((case, cells))
    found = []
    for (test, operation, mode, unit), members in rows.items():
        values = [value for _, cells in members for value in cells.values()]
        ends = (min(values), max(values))
        names = labels([case for case, _ in members])
        row = [
            HeatMap(
                case.partition, operation, mode, unit, cells, ends, name, test,
                tuple(f for f in case.drawn_as("heat map") if f.column == operation),
            )
            for name, (case, cells) in zip(names, members)
        ]  # fmt: skip
        found.append(sorted(row, key=lambda m: (m.partition, m.label)))
    return sorted(found, key=lambda row: (row[0].test, *_order(row[0].operation, row[0].mode)))


def way(case: Case) -> str:
    """How the bytes of a case moved."""
    return case.transport or case.parameters.get("configuration", "")


def ranks(case: Case) -> str:
    """The number of ranks, if a test is measured with several numbers of ranks."""
    return case.parameters.get("gpus") or case.parameters.get("ranks", "")


def labels(cases: Sequence[Case], always: str = "") -> list[str]:
    """Names for different cases of the same benchmark, from the properties that vary among them."""
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
            f"{_SHORT.get(key, key)} {trait[key]}" if trait[key].isdigit() else trait[key]
            for key in varying
            if trait.get(key)
        )
        for trait in traits
    ]


def drawable(*values: float) -> bool:
    """Whether a logarithmic axis can show all values; 0 and absurd values stay in the outputs."""
    return all(1e-18 < value < 1e18 for value in values)


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


def _first_of_each_unit(case: Case) -> dict[str, str]:
    first: dict[str, str] = {}
    for column in case.rows[0] if case.rows else ():
        unit = case.units.get(str(column), "1")
        if column != "size" and unit not in ("1", "B"):
            first.setdefault(unit, str(column))
    return {column: unit for unit, column in first.items()}
