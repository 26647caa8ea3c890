"""Judged points of curves, and maps of pairs of nodes."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest
import report_records
from msgspec import structs

from assay.accused import Accusation
from assay.show import figures, plots

UNITS = {"size": "B", "latency": "us"}


def curve(verdict, value=30.0, name="latency_8B", **change):
    rows = [{"size": size, "latency": value if size == 8 else 10.0} for size in (4, 8, 16)]
    judged = {
        "value": value, "unit": "us", "verdict": verdict, "why": "it is", "reference": 10.0,
        "lower": None, "upper": 12.0, "origin": [["cell", 1, "latency"]], **change,
    }  # fmt: skip
    return report_records.case(
        "Osu", rows, UNITS, program="osu_latency", transport="tcp", metrics={name: judged}
    )


def drawn(case):
    (found,) = figures.curves([case])["curve"]
    return found


def crosses(canvas):
    return [line for line in canvas.axes[0].get_lines() if line.get_marker() == "X"]


def test_a_point_outside_of_its_bounds_has_a_cross_and_a_sentence():
    found = drawn(curve("FAIL"))
    ((mark,),) = [line.marks for line in found.drawing.lines]
    assert (mark.at, mark.value, mark.reference, mark.upper) == (8, 30.0, 10.0, 12.0)
    (cross,) = crosses(found.canvas)
    assert (list(cross.get_xdata()), list(cross.get_ydata())) == ([8], [30.0])
    assert "tcp at 8\N{NO-BREAK SPACE}B is 30\N{NO-BREAK SPACE}us, at most 12" in found.caption
    legend = [text.get_text() for text in found.canvas.legends[0].get_texts()]
    assert "FAIL" in legend


@pytest.mark.parametrize("name", ["half_round_trip", "latency_of_8_byte_messages", "latency_16B"])
def test_a_metric_is_drawn_at_the_cell_that_it_is_whatever_its_name(name):
    ((mark,),) = [line.marks for line in drawn(curve("FAIL", name=name)).drawing.lines]
    assert (mark.at, mark.value, mark.failed) == (8, 30.0, True)


def test_a_point_that_passed_has_its_reference_and_no_cross():
    found = drawn(curve("PASS", 11.0))
    assert crosses(found.canvas) == []
    assert "Outside its bounds" not in found.caption
    legend = [text.get_text() for text in found.canvas.legends[0].get_texts()]
    assert "reference" in legend
    assert "FAIL" not in legend


@pytest.mark.parametrize(
    "origin",
    [
        None, [], [["cell", 1, "bandwidth"]], [["cell", 3, "latency"]], [["cell", -1, "latency"]],
        [["*", 2.0, ["cell", 1, "latency"]]], [["cell", 1, "latency"], ["cell", 2, "latency"]],
        [["cell", True, "latency"]], "cell", [7],
    ],
)  # fmt: skip
def test_a_metric_that_is_no_cell_of_this_curve_marks_nothing(origin):
    assert [line.marks for line in drawn(curve("FAIL", origin=origin)).drawing.lines] == [()]


def test_a_metric_in_another_unit_marks_nothing():
    assert [line.marks for line in drawn(curve("FAIL", unit="ms")).drawing.lines] == [()]


def tournament(*accused):
    rows = [
        {"a": a, "b": b, "pass": 1, "latency": 200.0 if "n2" in (a, b) else 100.0}
        for a, b in (("n1", "n2"), ("n3", "n1"), ("n2", "n3"), ("n1", "n2"))
    ]
    case = report_records.case("Tournament", rows, {"latency": "us"}, family="assay")
    named = tuple(Accusation((node,), "slower than the others", node) for node in accused)
    return [structs.replace(case, accused=named)]


def grid(*accused):
    (found,) = figures.pair_grids(tournament(*accused))
    return found


def test_a_map_has_each_pair_once_with_the_median_of_its_runs():
    found = grid("n2")
    assert found.table[1:] == (
        ("n1", "n2", "200"), ("n2", "n3", "200"), ("n1", "n3", "100"),
    )  # fmt: skip
    assert found.drawing.cells == {
        (0, 1): 200.0, (1, 0): 200.0, (0, 2): 100.0, (2, 0): 100.0, (1, 2): 200.0, (2, 1): 200.0,
    }  # fmt: skip


def test_a_map_names_the_accused_and_tells_each_square():
    found = grid("n2")
    assert "worst: n1 - n2 with 200" in found.caption
    assert "Accused: n2." in found.caption
    ticks = [label.get_text() for label in found.canvas.axes[0].get_yticklabels()]
    assert ticks == ["n1", "\N{MULTIPLICATION X} n2", "n3"]
    told = [html.unescape(text) for text in re.findall(r"<title>([^<]*)</title></path>", found.svg)]
    assert sorted(told) == sorted(found.told[plots.CELLS])
    assert "n2 - n1: 200\N{NO-BREAK SPACE}us" in told


def test_noise_between_pairs_does_not_fill_the_scale_of_colours():
    found = grid().drawing
    squares = plots.draw(found).axes[0].collections[0]
    assert (squares.norm.vmin, squares.norm.vmax) == (100.0, 200.0)
    quiet = plots.draw(replace(found, scale=(100.0, 102.0)))
    norm = quiet.axes[0].collections[0].norm
    assert (norm.vmin, norm.vmax) == (100.0, pytest.approx(120.0))


@pytest.mark.parametrize(("name", "upright"), [("n{}", 0), ("compute-0-{}", 90)])
def test_long_names_of_few_nodes_do_not_overlap(name, upright):
    nodes = tuple(name.format(number) for number in (1, 2, 3))
    figure = plots.draw(replace(grid().drawing, columns=nodes, rows=nodes))
    figure.draw_without_rendering()
    labels = figure.axes[0].get_xticklabels()
    assert [label.get_text() for label in labels] == list(nodes)
    assert {label.get_rotation() for label in labels} == {upright}
    boxes = [label.get_window_extent() for label in labels]
    assert all(left.x1 < right.x0 for left, right in zip(boxes, boxes[1:]))


def test_each_marker_of_a_curve_tells_its_value():
    found = drawn(curve("PASS", 11.0))
    told = re.findall(r"<title>([^<]*)</title></use>", found.svg)
    assert [html.unescape(text) for text in told] == list(found.told[f"{plots.POINTS}0"])
    assert len(told) == 3
