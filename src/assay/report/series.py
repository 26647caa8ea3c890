"""What there is to draw: curves over message size and heat maps, selected from the records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from assay.report.cases import Case
from assay.report.untrusted import finite

#: Columns of IOzone's table.
FILE_SIZE, RECORD_SIZE = "file_size", "record_size"

#: Units of sizes, in bytes.
_BYTES = {"B": 1, "KiB": 1024, "MiB": 1 << 20}

#: What the reader of a colour bar wants IOzone's KiB/s in.
_SCALES = {"KiB/s": (1024 / 1e6, "MB/s"), "kB/s": (1e-3, "MB/s")}


@dataclass(frozen=True)
class Line:
    """One curve: `y` in the figure's unit over `x` in bytes, both greater than zero."""

    label: str
    transport: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class Curves:
    """All lines of one benchmark on one partition.

    :ivar column: the column of the output that is drawn, in `unit`.
    """

    family: str
    program: str
    partition: str
    column: str
    unit: str
    lines: tuple[Line, ...]

    @property
    def quantity(self) -> str:
        """The column as a word of its axis: the unit says the rest."""
        return self.column.replace("_per_s", "").replace("_", " ")


@dataclass(frozen=True)
class HeatMap:
    """One operation of one case: value by (file size, record size) in bytes.

    :ivar scale: least and greatest value of all heat maps of the row, in `unit`.
    """

    partition: str
    operation: str
    label: str
    unit: str
    cells: Mapping[tuple[float, float], float]
    scale: tuple[float, float]


def curves(cases: Iterable[Case]) -> list[Curves]:
    """One entry for each (family, program, partition) and unit, with a line for each transport.

    Of several columns in the same unit (average, minimum, percentiles) the first is drawn.
    """
    groups: dict[tuple[str, str, str, str, str], list[tuple[Case, list[tuple[float, float]]]]] = {}
    for case in cases:
        if case.units.get("size") != "B":
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
                key = (case.family, case.program, case.partition, column, unit)
                groups.setdefault(key, []).append((case, sorted(points)))
    found = []
    for (family, program, partition, column, unit), members in sorted(
        groups.items(), key=lambda group: (group[0][0], _rank(group[0][1]), *group[0][1:])
    ):
        names = labels([case for case, _ in members], always="transport")
        lines = [
            Line(name or program, case.transport, *zip(*points))
            for name, (case, points) in zip(names, members)
        ]
        lines.sort(key=lambda line: line.label)
        found.append(Curves(family, program, partition, column, unit, tuple(lines)))
    return found


def heat_maps(cases: Iterable[Case]) -> list[list[HeatMap]]:
    """Rows of heat maps: a row for each (partition, operation), a map for each mode in it."""
    rows: dict[tuple[str, str, str], list[tuple[Case, dict[tuple[float, float], float]]]] = {}
    for case in cases:
        file_unit = _BYTES.get(case.units.get(FILE_SIZE, ""))
        record_unit = _BYTES.get(case.units.get(RECORD_SIZE, ""))
        if file_unit is None or record_unit is None:
            continue
        for column, raw_unit in case.units.items():
            factor, unit = _SCALES.get(raw_unit, (1.0, raw_unit))
            if not raw_unit.endswith("/s"):
                continue
            cells = {
                (x * file_unit, y * record_unit): value * factor
                for row in case.rows
                if (x := finite(row.get(FILE_SIZE))) is not None
                and (y := finite(row.get(RECORD_SIZE))) is not None
                and (value := finite(row.get(column))) is not None
                and drawable(x, y, value)
            }
            if cells:
                rows.setdefault((case.partition, column, unit), []).append((case, cells))
    found = []
    for (partition, operation, unit), members in rows.items():
        values = [value for _, cells in members for value in cells.values()]
        scale = (min(values), max(values))
        names = labels([case for case, _ in members])
        row = [
            HeatMap(partition, operation, name, unit, cells, scale)
            for name, (_, cells) in zip(names, members)
        ]
        found.append(sorted(row, key=lambda m: m.label))
    return sorted(found, key=lambda row: row[0].partition)


def labels(cases: Sequence[Case], always: str = "") -> list[str]:
    """Names for cases of the same benchmark that differ: by what varies among them."""
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


def drawable(*values: float) -> bool:
    """Whether a logarithmic axis has room for all of them: 0 and nonsense stay in the outputs."""
    return all(1e-18 < value < 1e18 for value in values)


def _rank(program: str) -> int:
    """Latency, then bandwidth between two ranks: what a reader looks for first."""
    first = ("latency", "_bw", "_bibw")
    return next((n for n, end in enumerate(first) if program.endswith(end)), len(first))


def _first_of_each_unit(case: Case) -> dict[str, str]:
    first: dict[str, str] = {}
    for column in case.rows[0] if case.rows else ():
        unit = case.units.get(str(column), "1")
        if column != "size" and unit not in ("1", "B"):
            first.setdefault(unit, str(column))
    return {column: unit for unit, column in first.items()}
