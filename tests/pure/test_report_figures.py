"""The figures that are drawn, and their agreement with the records."""

from __future__ import annotations

import math

import pytest
import report_records
from hypothesis import given, settings
from hypothesis import strategies as st
from report_results import DATA

from assay.judge import Verdict
from assay.report import figures, plots, series, units
from assay.results import cases, session

#: Read rate of the best cell [KiB/s].
FILE_SYSTEMS = {"hdd": 1e6, "ssd": 5e6}

CASES = session.load(DATA / "reports" / "run-report-0.json").cases


def case(rows, units, **kw):
    names = dict.fromkeys(("test", "display_name", "unique_name"), "Osu")
    place = {"system": "local", "partition": "intra-node", "environ": "system"}
    given = {**names, **place, "verdict": Verdict.RECORDED, "rows": tuple(rows), "units": units}
    return cases.Case(**{**given, **kw})


def test_there_is_one_figure_for_each_benchmark_and_one_line_for_each_transport():
    groups = series.curves(CASES)
    measured = {
        (c.family, c.program): {d.transport for d in CASES if d.program == c.program}
        for c in CASES
        if c.units.get("size") == "B"
    }
    assert measured
    assert {(g.family, g.program) for g in groups} == set(measured)
    for group in groups:
        assert {line.way for line in group.lines} == measured[group.family, group.program]
        assert len(group.lines) == len(measured[group.family, group.program])


def test_the_lines_are_the_rows_of_the_records_on_log_scales():
    (group, *_) = series.curves(CASES)
    transports = [line.way for line in group.lines]
    (axes,) = plots.curves(group, transports).axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.xaxis.get_transform().base == 2
    assert axes.yaxis.get_transform().base == 10
    for drawn, transport in zip(axes.get_lines(), transports):
        (of,) = (c for c in CASES if c.program == group.program and c.transport == transport)
        assert list(drawn.get_xdata()) == [r["size"] for r in of.rows if r["size"] > 0]
        assert list(drawn.get_ydata()) == [r[group.column] for r in of.rows if r["size"] > 0]


def test_a_transport_looks_the_same_in_every_figure_and_unlike_any_other():
    groups = series.curves(CASES)
    transports = sorted({line.way for g in groups for line in g.lines})
    looks = {
        (line.way, drawn.get_color(), drawn.get_marker())
        for group in groups
        for line, drawn in zip(group.lines, plots.curves(group, transports).axes[0].get_lines())
    }
    for column in zip(*looks):  # transports, colours, markers
        assert len(column) == len(set(column)) == len(transports) > 1


def test_sizes_are_labelled_in_binary_units():
    (group, *_) = series.curves(CASES)
    figure = plots.curves(group, [line.way for line in group.lines])
    figure.draw_without_rendering()
    words = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert "1\N{NO-BREAK SPACE}KiB" in words
    assert len(words) <= 6


def test_cases_that_differ_by_more_than_the_transport_have_their_own_lines():
    rows = [{"size": 8, "latency": 1.0}, {"size": 16, "latency": 2.0}]
    kind = {"size": "B", "latency": "us"}
    cases = [
        case(rows, kind, transport=t, environ=e, parameters={"transport": t, "pairs": r})
        for t, e, r in (("posix", "system", "2"), ("posix", "spack", "2"), ("tcp", "system", "4"))
    ]
    (group,) = series.curves(cases)
    assert [line.label for line in group.lines] == [
        "posix, spack, pairs 2", "posix, system, pairs 2", "tcp, system, pairs 4",
    ]  # fmt: skip


def test_heat_maps_have_the_cells_of_the_table():
    rows = series.heat_maps(CASES)
    tables = [c for c in CASES if c.family == "iozone"]
    operations = ("write", "rewrite", "read", "reread")
    assert sorted(m.operation for row in rows for m in row) == sorted(operations * len(tables))
    for row in rows:
        values = [v for m in row for v in m.cells.values()]
        for found in row:
            (of,) = (c for c in tables if c.parameters["sync"] == found.mode)
            assert found.unit == "MB/s"
            assert found.cells == {
                (1024 * r["file_size"], 1024 * r["record_size"]): pytest.approx(
                    r[found.operation] * 1024 / 1e6
                )
                for r in of.rows
            }
            assert found.scale == (min(values), max(values))


def test_a_heat_map_draws_each_cell_where_it_belongs_on_the_scale_of_its_row():
    cases = [report_records.iozone(place, "cached", fast) for place, fast in FILE_SYSTEMS.items()]
    (found, other), *_ = series.heat_maps(cases)
    axes, bar = plots.heat_map(found).axes
    assert axes.xaxis.get_transform().base == axes.yaxis.get_transform().base == 2
    assert bar.get_ylabel() == "MB/s"
    (patches,) = axes.collections
    assert len(patches.get_paths()) == len(found.cells)
    assert (patches.norm.vmin, patches.norm.vmax) == found.scale
    for (x, y), value, path in zip(found.cells, patches.get_array(), patches.get_paths()):
        assert value == found.cells[x, y]
        assert path.contains_point((x, y))
        (left, low), (right, high) = path.get_extents().get_points()
        # The point is in the middle of its rectangle. The axes are logarithmic.
        assert math.sqrt(left * right) == pytest.approx(x)
        assert math.sqrt(low * high) == pytest.approx(y)
    (same,) = plots.heat_map(other).axes[0].collections
    assert (same.norm.vmin, same.norm.vmax) == (patches.norm.vmin, patches.norm.vmax)


def test_bars_are_the_percentages_of_the_record():
    (hpcc,) = (c for c in CASES if c.program == "hpcc" and c.kind == "compute")
    metrics = [m for m in hpcc.metrics if m.percent is not None]
    assert metrics
    axes = plots.peaks(metrics, [m.name for m in metrics]).axes[0]
    assert [bar.get_width() for bar in axes.patches] == [m.percent for m in metrics]
    figure = figures.of_peaks(hpcc)
    assert [row[0] for row in figure.table] == [m.name for m in metrics]
    for metric in metrics:
        assert metric.percent == pytest.approx(100 * metric.value / metric.peak)


def test_a_case_without_peaks_has_no_bars():
    assert figures.of_peaks(case([], {})) is None


def test_the_table_of_a_figure_has_what_it_draws(tmp_path):
    (group, *_) = series.curves(CASES)
    figure = figures.of_curves(group, [line.way for line in group.lines])
    assert figure.header == ("size", *(f"{line.label} [{group.unit}]" for line in group.lines))
    by_size = {row[0]: row[1:] for row in figure.table}
    for column, line in enumerate(group.lines):
        for x, y in zip(line.x, line.y):
            assert by_size[units.size(x)][column] == units.number(y)


def test_zero_and_nonsense_stay_out_of_a_figure():
    points = ((0, 1.0), (1, 0.0), (2, math.nan), (4, "x"), (8, 2.0), (16, 3.0), (32, 1e300))
    rows = [{"size": size, "latency": value} for size, value in points]
    (group,) = series.curves([case(rows, {"size": "B", "latency": "us"}, transport="posix")])
    (line,) = group.lines
    assert (line.x, line.y) == ((8.0, 16.0), (2.0, 3.0))


def test_of_several_columns_in_a_unit_the_first_is_drawn():
    rows = [{"size": s, "latency": 2.0, "min": 1.0, "rate": 5.0, "iterations": 9} for s in (8, 16)]
    kind = {"size": "B", "latency": "us", "min": "us", "rate": "1/s", "iterations": "1"}
    groups = series.curves([case(rows, kind)])
    assert sorted((g.column, g.unit) for g in groups) == [("latency", "us"), ("rate", "1/s")]


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


@pytest.mark.parametrize(
    ("count", "text"),
    [(1, "1 B"), (1000, "1000 B"), (1024, "1 KiB"), (65536, "64 KiB"), (1 << 20, "1 MiB"),
     (3 << 29, "1536 MiB"), (1 << 40, "1 TiB")],
)  # fmt: skip
def test_sizes_in_words(count, text):
    assert units.size(count) == text.replace(" ", "\N{NO-BREAK SPACE}")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.12348, "0.1235"), (12.3456, "12.35"), (999.96, "1000"), (12345.6, "12 346"),
     (1e-5, "1.000e-05"), (2.5e9, "2.500e+09"), (-0.5, "-0.5"), (None, "not a number")],
)  # fmt: skip
def test_numbers_in_words(value, text):
    assert units.number(value) == text.replace(" ", "\N{NO-BREAK SPACE}" if value else " ")
