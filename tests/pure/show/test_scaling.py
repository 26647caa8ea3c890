"""HPL over nodes and BT-IO over processes: the right lines, the arithmetic, no invented values."""

from __future__ import annotations

import math

import pytest
import report_records as records
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from assay.show import figures, plots, scaling

N1, N2 = 1000, 2000


def study(*cases):
    (found,) = scaling.studies(cases)
    return found


def chart(of, quantity):
    by_quantity = {c.quantity: c for c in scaling.charts(of)}
    return by_quantity[quantity]


def test_the_speed_up_is_the_time_of_one_node_over_that_of_p():
    found = study(records.hpl(1, {N1: 8.0}), records.hpl(2, {N1: 5.0}), records.hpl(4, {N1: 2.0}))
    assert found.speedup == {(1, N1): 1.0, (2, N1): 1.6, (4, N1): 4.0}
    (line,) = chart(found, scaling.SPEEDUP).lines
    assert line.points == ((1, 1.0), (2, 1.6), (4, 4.0))


def test_the_fraction_of_peak_is_the_performance_over_that_of_p_nodes():
    found = study(records.hpl(1, {N1: 8.0}, peak=0.5), records.hpl(2, {N1: 5.0}, peak=1.0))
    for (nodes, order), value in found.performance.items():
        assert found.fraction[nodes, order] == value / (0.5 * nodes)
    assert found.performance[2, N1] == pytest.approx(2 / 3 / 5)


def test_a_peak_in_another_unit_counts_only_if_it_is_one_of_rate():
    peaks = {}
    for unit in ("TFLOP/s", "%"):
        metric = {"value": 1.0, "unit": "GFLOP/s", "verdict": "RECORDED"}
        metric["percent_of"] = {"what": "nodes", "peak": 2.0, "unit": unit, "percent": 50}
        peaks[unit] = study(records.hpl(1, {N1: 8.0}, metrics={"performance": metric})).peak
    assert peaks == {"TFLOP/s": {1: 2000.0}, "%": {}}


def test_time_has_a_line_for_each_n_and_performance_one_for_each_p():
    found = study(*(records.hpl(p, {N1: 8.0 / p, N2: 64.0 / p}) for p in (1, 2)))
    assert [(s.label.replace("\N{NO-BREAK SPACE}", ""), s.points)
            for s in chart(found, scaling.TIME).lines] == [
        ("N = 1000", ((1, 8.0), (2, 4.0))), ("N = 2000", ((1, 64.0), (2, 32.0)))]  # fmt: skip
    lines = chart(found, scaling.PERFORMANCE).lines
    assert [s.label for s in lines] == ["P = 1", "P = 2"]
    assert [[n for n, _ in s.points] for s in lines] == [[N1, N2], [N1, N2]]


def test_of_several_runs_of_a_problem_the_shortest_counts_with_its_own_rate():
    slow, fast = records.hpl(1, {N1: 9.0}), records.hpl(1, {N1: 8.0})
    for order in ((slow, fast), (fast, slow)):
        found = study(*order)
        assert found.time == {(1, N1): 8.0}
        assert found.performance == {(1, N1): fast.parsed.rows[0]["performance"]}


@pytest.mark.parametrize("nodes", [(2, 4), (1,)], ids=["without one node", "one node alone"])
def test_there_is_no_speed_up_without_one_node_and_others_and_no_fraction_without_peak(nodes):
    found = study(*(records.hpl(p, {N1: 8.0 / p}) for p in nodes))
    quantities = [c.quantity for c in scaling.charts(found)]
    assert quantities == [scaling.TIME, scaling.PERFORMANCE]


def test_what_a_study_lacks_is_named_in_the_figure_it_is_missing_from():
    found = study(
        records.hpl(1, {N1: 8.0}, peak=1.0),
        records.hpl(2, {N1: 5.0, N2: 9.0}),
        records.hpl(4, {N1: 5.0}, problems=["residual too large"]),
        records.hpl(8, {}, skipped="8 nodes are needed"),
    )
    failed = ("P = 4", "failed: residual too large")
    skipped = ("P = 8", "not run: 8 nodes are needed")
    parts = {c.quantity: dict(c.missing) for c in scaling.charts(found)}
    for missing in parts.values():
        assert {failed, skipped} <= set(missing.items())
    large = "N = 2\N{NO-BREAK SPACE}000"
    assert f"P = 1, {large}" in parts[scaling.TIME]
    assert "no T(1, N)" in parts[scaling.SPEEDUP][large]
    assert "peak" in parts[scaling.FRACTION]["P = 2"]
    assert "P = 2" not in parts[scaling.TIME]


def test_studies_of_different_stacks_and_programs_are_not_mixed():
    cases = [
        records.hpl(1, {N1: 8.0}),
        records.hpl(1, {N1: 7.0}, environ="container"),
        records.hpl(1, {N1: 6.0}, partition="ethernet"),
        records.hpl(1, {N1: 5.0}, test="GpuHplStudy"),
    ]
    assert sorted(s.time[1, N1] for s in scaling.studies(cases)) == [5.0, 6.0, 7.0, 8.0]


ROW = records.hpl(1, {N1: 8.0}).parsed.rows[0]


@pytest.mark.parametrize(
    ("change", "units", "nodes"),
    [
        *(({}, {}, nodes) for nodes in ("", "0", "-1", "two", "1.5", "\N{SUPERSCRIPT TWO}")),
        *(
            ({column: value}, {}, "1")
            for column in ("n", "time", "performance")
            for value in (0, -1.0, math.nan, math.inf, None, "8", True)
            if (column, value) != ("time", 0)  # HPL rounds
        ),
        *(({}, {column: "1"}, "1") for column in ("time", "performance")),
    ],
)
def test_what_is_no_measurement_of_a_number_of_nodes_is_not_drawn(change, units, nodes):
    case = records.case("HplStudy", [{**ROW, **change}], {**records.HPL, **units}, nodes=nodes)
    assert scaling.studies([case]) == []


@pytest.mark.parametrize("printed", [0.0, 0.09])
def test_a_time_that_hpl_rounded_away_follows_from_its_rate(printed):
    """(2/3 960^3 + 3/2 960^2) operations at 6.5082 GFLOP/s take 0.0908 s."""
    row = {"n": 960, "nb": 192, "time": printed, "performance": 6.5082}
    (study,) = scaling.studies([records.case("HplStudy", [row], records.HPL, nodes=1)])
    assert study.time[1, 960] == pytest.approx(0.09084, rel=1e-3)


def test_the_speed_up_is_drawn_as_it_is_with_the_ideal_beside_it():
    found = study(*(records.hpl(p, {N1: 8.0 / p**0.5, N2: 64.0 / p}) for p in (1, 2, 4)))
    (axes,) = plots.draw(chart(found, scaling.SPEEDUP)).axes
    *lines, ideal = axes.get_lines()
    assert [list(line.get_ydata()) for line in lines] == [
        pytest.approx([1, 2**0.5, 2]), pytest.approx([1, 2, 4])]  # fmt: skip
    assert list(ideal.get_xdata()) == list(ideal.get_ydata()) == [1, 2, 4]
    assert len({line.get_color() for line in lines} | {ideal.get_color()}) == 3
    assert len({line.get_marker() for line in lines}) == 2


def test_the_fraction_of_peak_begins_at_zero():
    found = study(*(records.hpl(p, {N1: 8.0, N2: 9.0}, peak=9.0 * p) for p in (1, 2)))
    (axes,) = plots.draw(chart(found, scaling.FRACTION)).axes
    assert axes.get_ylim()[0] == 0
    assert axes.get_yscale() == axes.get_xscale() == "linear"


def drawn(found):
    """Label of each line -> its points, from the drawing."""
    return {line.label: dict(line.points) for line in found.drawing.lines}


def test_the_total_time_and_the_time_of_io_have_a_line_each_by_file_system():
    cases = [
        records.btio("hdd", 4, 100.0, 40.0),
        records.btio("hdd", 9, 60.0, 30.0),
        records.btio("ssd", 4, 90.0, 20.0),
        records.btio("ssd", 9, 1.0, 1.0, skipped="9 nodes are needed"),
    ]
    ((times, *_),) = scaling.btio_figures(cases)
    assert drawn(times) == {
        "hdd, total time": {4: 100.0, 9: 60.0}, "hdd, time of I/O": {4: 40.0, 9: 30.0},
        "ssd, total time": {4: 90.0}, "ssd, time of I/O": {4: 20.0},
    }  # fmt: skip
    (axes,) = times.canvas.axes
    assert axes.get_ylim()[0] == 0
    assert "ssd, P = 9 (not run: 9 nodes are needed)" in times.caption


def test_a_file_system_without_any_run_is_named_in_the_caption():
    cases = [
        records.btio("hdd", 4, 1.0, 1.0, skipped="the file system is full"),
        records.btio("ssd", 4, 90.0, 20.0),
    ]
    ((times, *_),) = scaling.btio_figures(cases)
    assert [partition for _, partition in times.shows] == ["ssd"]
    assert "hdd, P = 4 (not run: the file system is full)" in times.caption


def test_what_was_not_measured_of_one_class_is_not_missing_of_another():
    def of(npb_class, case):
        rows = [{**row, "class": npb_class} for row in case.parsed.rows]
        return replace(
            case,
            parsed=replace(case.parsed, rows=rows),
            parameters={**case.parameters, "npb_class": npb_class},
        )

    cases = [
        of("C", records.btio("lustre", 4, 90.0, 40.0)),
        of("C", records.btio("lustre", 16, 1.0, 1.0, skipped="16 nodes are needed")),
        of("A", records.btio("xfs", 4, 9.0, 4.0)),
    ]
    missing = [{part for part, _ in times.missing} for times, *_ in scaling.btio_figures(cases)]
    assert missing == [set(), {"lustre, P = 16"}]


def test_throughput_has_a_line_for_each_file_system():
    cases = [records.btio(fs, p, 90.0 / p, 40.0 / p) for fs in ("hdd", "ssd") for p in (4, 9)]
    ((_, computing, writing),) = scaling.btio_figures(cases)
    assert (computing.drawing.unit, writing.drawing.unit) == ("Mop/s", "MB/s")
    for found, column in ((computing, "mops_total"), (writing, "io_rate")):
        assert drawn(found) == {
            fs: {p: c.parsed.rows[0][column] for p, c in zip((4, 9), of)}
            for fs, of in (("hdd", cases[:2]), ("ssd", cases[2:]))
        }


def test_classes_and_ways_of_writing_are_not_mixed():
    cases = [
        records.btio("hdd", 4, 90.0, 40.0),
        records.btio("hdd", 4, 80.0, 40.0, mpi_io="romio"),
        records.btio("hdd", 4, 70.0, 40.0, subtype="full"),
    ]
    titles = [times.title.split(", spack")[0] for times, *_ in scaling.btio_figures(cases)]
    assert sorted(titles) == [
        "BT-IO class E full, ompio", "BT-IO class E simple, ompio", "BT-IO class E simple, romio",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("time", "io_time"), [(0.0, 0.0), (10.0, 11.0), (10.0, -1.0), (math.nan, 1.0), (10.0, math.nan)]
)
def test_times_that_cannot_be_are_not_drawn(time, io_time):
    rows = [{**records.btio("hdd", 4, 9.0, 1.0).parsed.rows[0], "time": time, "io_time": io_time}]
    case = records.case("BtIo", rows, records.NPB, ranks=4, subtype="simple", partition="hdd")
    assert list(scaling.btio_figures([case])) == []


def test_io_that_took_no_time_that_bt_can_tell_is_drawn():
    ((times, *_),) = scaling.btio_figures([records.btio("hdd", 4, 9.0, 0.0)])
    assert times.table[1:] == (("4", "9", "0"),)
    assert times.svg.startswith("<svg")


NUMBERS = st.floats() | st.integers(0, 2**70) | st.text(max_size=3) | st.none()


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), max_size=4), st.text(max_size=5))
def test_no_row_makes_a_drawing_raise(rows, partition):
    solved = [{"n": n, "time": t, "performance": f} for n, t, f in rows]
    wrote = [
        {"processes": n, "time": t, "io_time": f, "mops_total": t, "io_rate": f} for n, t, f in rows
    ]
    cases = [
        *(records.case("HplStudy", solved, records.HPL, nodes=p) for p in (1, 2)),
        records.case("BtIo", wrote, records.NPB, ranks=4, partition=partition),
    ]
    for section in figures.sections(cases):
        for row in section.rows:
            for figure in row:
                assert figure.svg.startswith("<svg")
