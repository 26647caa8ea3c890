"""The figures that are drawn, and their agreement with the records."""

from __future__ import annotations

import math

import pytest
import report_records
from hypothesis import given, settings
from hypothesis import strategies as st
from report_results import DATA

from assay import quantities
from assay.judge import Verdict
from assay.show import figures
from assay.store import cases, session
from assay.store.record import Output

#: Read rate of the best cell [KiB/s].
FILE_SYSTEMS = {"hdd": 1e6, "ssd": 5e6}

CASES = session.load_session(DATA / "reports" / "run-report-0.json").cases


def case(rows, units, **kw):
    names = dict.fromkeys(("test", "display_name", "unique_name"), "Osu")
    place = {"system": "local", "partition": "intra-node", "environ": "system"}
    given = {
        **names,
        **place,
        "verdict": Verdict.RECORDED,
        "parsed": Output(rows=tuple(rows), units=units),
    }
    return cases.Case(**{**given, **kw})


def curves(cases):
    """The figures of messages by size, those of collectives last."""
    return [found for of_kind in figures.curves(cases).values() for found in of_kind]


def program(found):
    return found.title.split(" (")[0]


def test_there_is_one_figure_for_each_benchmark_and_one_line_for_each_transport():
    measured = {
        c.program: {d.transport for d in CASES if d.program == c.program}
        for c in CASES
        if c.parsed.units.get("size") == "B"
    }
    assert measured
    drawn = {program(found): found.drawing.lines for found in curves(CASES)}
    assert {name: {line.way for line in lines} for name, lines in drawn.items()} == measured
    assert {name: len(lines) for name, lines in drawn.items()} == {
        name: len(ways) for name, ways in measured.items()
    }


def test_the_lines_are_the_rows_of_the_records_on_log_scales():
    found, *_ = curves(CASES)
    (axes,) = found.canvas.axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.xaxis.get_transform().base == 2
    assert axes.yaxis.get_transform().base == 10
    for drawn, line in zip(axes.get_lines(), found.drawing.lines):
        (of,) = (c for c in CASES if c.program == program(found) and c.transport == line.way)
        assert list(drawn.get_xdata()) == [r["size"] for r in of.parsed.rows if r["size"] > 0]
        column = found.drawing.quantity
        assert list(drawn.get_ydata()) == [r[column] for r in of.parsed.rows if r["size"] > 0]


def test_a_transport_looks_the_same_in_every_figure_and_unlike_any_other():
    looks = {
        (line.way, drawn.get_color(), drawn.get_marker())
        for found in curves(CASES)
        for line, drawn in zip(found.drawing.lines, found.canvas.axes[0].get_lines())
    }
    for column in zip(*looks):  # transports, colours, markers
        assert len(column) == len(set(column)) == len({way for way, *_ in looks}) > 1


def test_sizes_are_labelled_in_binary_units():
    canvas = curves(CASES)[0].canvas
    canvas.draw_without_rendering()
    words = [label.get_text() for label in canvas.axes[0].get_xticklabels()]
    assert "1\N{NO-BREAK SPACE}KiB" in words
    assert len(words) <= 6


def test_cases_that_differ_by_more_than_the_transport_have_their_own_lines():
    rows = [{"size": 8, "latency": 1.0}, {"size": 16, "latency": 2.0}]
    kind = {"size": "B", "latency": "us"}
    cases = [
        case(rows, kind, transport=t, environ=e, parameters={"transport": t, "pairs": r})
        for t, e, r in (("posix", "system", "2"), ("posix", "spack", "2"), ("tcp", "system", "4"))
    ]
    (found,) = curves(cases)
    assert [line.label for line in found.drawing.lines] == [
        "posix, spack, pairs 2", "posix, system, pairs 2", "tcp, system, pairs 4",
    ]  # fmt: skip


def test_heat_maps_have_the_cells_of_the_table():
    rows = figures.heat_maps(CASES)
    tables = {c.parameters["sync"]: c for c in CASES if c.family == "iozone"}
    operations = ("write", "rewrite", "read", "reread")
    grids = [found.drawing for row in rows for found in row]
    assert sorted(grid.quantity for grid in grids) == sorted(operations * len(tables))
    for row in rows:
        values = [v for found in row for v in found.drawing.cells.values()]
        for found in row:
            grid, (of,) = found.drawing, [c for m, c in tables.items() if f" {m} " in found.name]
            assert grid.unit == "MB/s"
            cells = {(grid.columns[x], grid.rows[y]): value for (x, y), value in grid.cells.items()}
            assert cells == {
                tuple(quantities.binary(1024 * r[size]) for size in ("file_size", "record_size")):
                pytest.approx(r[grid.quantity] * 1024 / 1e6)
                for r in of.parsed.rows
            }  # fmt: skip
            assert grid.scale == (min(values), max(values))


def test_a_heat_map_draws_each_cell_where_it_belongs_on_the_scale_of_its_row():
    cases = [report_records.iozone(place, "cached", fast) for place, fast in FILE_SYSTEMS.items()]
    (found, other), *_ = figures.heat_maps(cases)
    axes, bar = found.canvas.axes
    assert bar.get_ylabel() == "MB/s"
    (patches,) = axes.collections
    grid = found.drawing
    assert len(patches.get_paths()) == len(grid.cells)
    assert (patches.norm.vmin, patches.norm.vmax) == grid.scale
    for at, value, path in zip(grid.cells, patches.get_array(), patches.get_paths()):
        assert value == grid.cells[at]
        assert path.get_extents().get_points().mean(axis=0) == pytest.approx(at)
    # The smallest sizes are at the lower left.
    assert axes.get_yticklabels()[0].get_text() == grid.rows[0]
    assert axes.get_ylim()[0] < axes.get_ylim()[1]
    (same,) = other.canvas.axes[0].collections
    assert (same.norm.vmin, same.norm.vmax) == (patches.norm.vmin, patches.norm.vmax)


def test_the_table_of_a_figure_has_what_it_draws(tmp_path):
    figure, *_ = curves(CASES)
    lines, unit = figure.drawing.lines, figure.drawing.unit
    assert figure.table[0] == ("size", *(f"{line.label} [{unit}]" for line in lines))
    by_size = {row[0]: row[1:] for row in figure.table}
    for column, line in enumerate(lines):
        for x, y in line.points:
            assert by_size[quantities.binary(x)][column] == quantities.spaced(y)


def test_zero_and_nonsense_stay_out_of_a_figure():
    points = ((0, 1.0), (1, 0.0), (2, math.nan), (4, "x"), (8, 2.0), (16, 3.0), (32, 1e300))
    rows = [{"size": size, "latency": value} for size, value in points]
    (found,) = curves([case(rows, {"size": "B", "latency": "us"}, transport="posix")])
    assert [line.points for line in found.drawing.lines] == [((8.0, 2.0), (16.0, 3.0))]


def test_of_several_columns_in_a_unit_the_first_is_drawn():
    rows = [{"size": s, "latency": 2.0, "min": 1.0, "rate": 5.0, "iterations": 9} for s in (8, 16)]
    kind = {"size": "B", "latency": "us", "min": "us", "rate": "1/s", "iterations": "1"}
    drawn = [found.drawing for found in curves([case(rows, kind)])]
    assert sorted((d.quantity, d.unit) for d in drawn) == [("latency", "us"), ("rate", "1/s")]


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**70) | st.floats(), st.integers(0, 2**70) | st.floats(), st.floats()
        ),
        max_size=8,
    ),
    st.text(max_size=6),
)
def test_no_row_makes_a_drawing_raise(rows, label):
    of_size = [{"size": a, "latency": c} for a, _, c in rows]
    of_file = [{"file_size": a, "record_size": b, "write": c} for a, b, c in rows]
    cases = [
        case(of_size, {"size": "B", "latency": "us"}, transport=label, program=label),
        case(of_file, {"file_size": "KiB", "record_size": "KiB", "write": "KiB/s"}),
    ]
    for section in figures.sections(cases):
        for row in section.rows:
            for figure in row:
                assert figure.svg.startswith("<svg")
