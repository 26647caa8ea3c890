"""Judged points of curves, and maps of pairs of nodes."""

from __future__ import annotations

import html
import re

import pytest
import report_records

from assay.report import figures, pairs, plots, series
from assay.results.cases import Accusation

UNITS = {"size": "B", "latency": "us"}


def curve(verdict, value=30.0):
    rows = [{"size": size, "latency": value if size == 8 else 10.0} for size in (4, 8, 16)]
    judged = {
        "value": value, "unit": "us", "verdict": verdict, "why": "it is", "reference": 10.0,
        "lower": None, "upper": 12.0,
    }  # fmt: skip
    return report_records.case(
        "Osu", rows, UNITS, program="osu_latency", transport="tcp", metrics={"latency_8B": judged}
    )


def drawn(case):
    (group,) = series.curves([case])
    return group, figures.of_curves(group, ["tcp"])


def crosses(canvas):
    return [line for line in canvas.axes[0].get_lines() if line.get_marker() == "X"]


def test_a_point_outside_of_its_bounds_has_a_cross_and_a_sentence():
    group, found = drawn(curve("FAIL"))
    ((mark,),) = [line.marks for line in group.lines]
    assert (mark.size, mark.value, mark.reference, mark.upper) == (8, 30.0, 10.0, 12.0)
    (cross,) = crosses(found.canvas)
    assert (list(cross.get_xdata()), list(cross.get_ydata())) == ([8], [30.0])
    assert "tcp at 8\N{NO-BREAK SPACE}B is 30\N{NO-BREAK SPACE}us, at most 12" in found.caption
    legend = [text.get_text() for text in found.canvas.legends[0].get_texts()]
    assert "FAIL" in legend


def test_a_point_that_passed_has_its_reference_and_no_cross():
    _, found = drawn(curve("PASS", 11.0))
    assert crosses(found.canvas) == []
    assert "Outside its bounds" not in found.caption
    legend = [text.get_text() for text in found.canvas.legends[0].get_texts()]
    assert "reference" in legend
    assert "FAIL" not in legend


def test_a_metric_that_is_not_of_this_curve_marks_nothing():
    case = curve("FAIL")
    assert list(series.marks(case, "bandwidth", "MB/s", [8])) == []
    assert list(series.marks(case, "latency", "us", [4, 16])) == []


def tournament(*accused):
    rows = [
        {"a": a, "b": b, "pass": 1, "latency": 200.0 if "n2" in (a, b) else 100.0}
        for a, b in (("n1", "n2"), ("n3", "n1"), ("n2", "n3"), ("n1", "n2"))
    ]
    case = report_records.case("Tournament", rows, {"latency": "us"}, family="assay")
    named = tuple(Accusation((node,), "slower than the others", node) for node in accused)
    return [case.__class__(**{**vars(case), "accused": named})]


def test_a_map_has_each_pair_once_with_the_median_of_its_runs():
    (found,) = pairs.maps(tournament("n2"))
    assert found.nodes == ("n1", "n2", "n3")
    assert found.cells == {("n1", "n2"): 200.0, ("n1", "n3"): 100.0, ("n2", "n3"): 200.0}
    assert len(plots.pair_places(found)) == 6


def test_a_map_names_the_accused_and_tells_each_square():
    (found,) = pairs.maps(tournament("n2"))
    figure = figures.of_pairs(found)
    assert "worst: n1 - n2 with 200" in figure.caption
    assert "Accused: n2." in figure.caption
    ticks = [label.get_text() for label in figure.canvas.axes[0].get_yticklabels()]
    assert ticks == ["n1", "\N{MULTIPLICATION X} n2", "n3"]
    told = [
        html.unescape(text) for text in re.findall(r"<title>([^<]*)</title></path>", figure.svg)
    ]
    assert sorted(told) == sorted(figure.told[plots.PAIRS])
    assert "n2 - n1: 200\N{NO-BREAK SPACE}us" in told


def test_noise_between_pairs_does_not_fill_the_scale_of_colours():
    (found,) = pairs.maps(tournament())
    squares = plots.pair_map(found).axes[0].collections[0]
    assert (squares.norm.vmin, squares.norm.vmax) == (100.0, 200.0)
    cells = {pair: 100.0 + number for number, pair in enumerate(found.cells)}
    quiet = plots.pair_map(pairs.PairMap(**{**vars(found), "cells": cells}))
    norm = quiet.axes[0].collections[0].norm
    assert (norm.vmin, norm.vmax) == (100.0, pytest.approx(120.0))


@pytest.mark.parametrize(("name", "upright"), [("n{}", 0), ("compute-0-{}", 90)])
def test_long_names_of_few_nodes_do_not_overlap(name, upright):
    (found,) = pairs.maps(tournament())
    named = {node: name.format(node[1:]) for node in found.nodes}
    cells = {(named[a], named[b]): value for (a, b), value in found.cells.items()}
    nodes = tuple(named.values())
    figure = plots.pair_map(pairs.PairMap(**{**vars(found), "nodes": nodes, "cells": cells}))
    figure.draw_without_rendering()
    labels = figure.axes[0].get_xticklabels()
    assert [label.get_text() for label in labels] == list(nodes)
    assert {label.get_rotation() for label in labels} == {upright}
    boxes = [label.get_window_extent() for label in labels]
    assert all(left.x1 < right.x0 for left, right in zip(boxes, boxes[1:]))


def test_each_marker_of_a_curve_tells_its_value():
    _, found = drawn(curve("PASS", 11.0))
    told = re.findall(r"<title>([^<]*)</title></use>", found.svg)
    assert [html.unescape(text) for text in told] == list(found.told[f"{plots.POINTS}0"])
    assert len(told) == 3
