"""How a metric follows from the cells of an output, on real outputs."""

from __future__ import annotations

import copy
import json
import statistics
from typing import Any

import pytest
from real_outputs import texts

from assay.archive.certificate.again import evaluate
from assay.parse import Parsed, Quantity, formulas
from assay.parse.registry import parse
from assay.workloads import osu as programs

LATENCY = parse(texts("osu")["osu_latency.5.7.np2"])
HPCC = parse(texts("hpcc")["np2"])


def none(*_of: Any) -> float:
    raise AssertionError("no metric of another case is used here")


def evaluated(said: Any, parsed: Parsed) -> float:
    # As a record keeps it.
    return evaluate(json.loads(json.dumps(said)), parsed.rows, none)


def test_a_value_of_a_curve_is_a_cell() -> None:
    said = formulas.origins(programs.values("latency", LATENCY))
    sizes = LATENCY.column("size")
    assert said["latency_8B"] == [["cell", sizes.index(8), "latency"]]
    for name, value in programs.values("latency", LATENCY).items():
        assert evaluated(said[name][0], LATENCY) == value.value


def test_a_ratio_is_computed_from_two_cells() -> None:
    def measure(parsed: Parsed) -> dict[str, Any]:
        (hpl,) = (value * 1000 for value in parsed.cells("value", metric="HPL_Tflops"))
        (dgemm,) = parsed.cells("value", metric="StarDGEMM_Gflops")
        return {"hpl": Quantity(hpl, "GFLOP/s"), "ratio": hpl / (2 * dgemm)}

    measured = measure(HPCC)
    said = formulas.origins(measured)
    assert said["ratio"][0][0] == "/"
    assert evaluated(said["ratio"][0], HPCC) == measured["ratio"]
    assert evaluated(said["hpl"][0], HPCC) == measured["hpl"].value


def test_the_median_and_the_least_of_a_column_are_followed() -> None:
    def measure(parsed: Parsed) -> dict[str, Any]:
        column = parsed.cells("latency")
        return {"middle": statistics.median(column), "least": min(column), "all": column}

    said = formulas.origins(measure(LATENCY))
    assert evaluated(said["middle"][0], LATENCY) == measure(LATENCY)["middle"]
    assert evaluated(said["least"][0], LATENCY) == measure(LATENCY)["least"]
    assert [evaluated(one, LATENCY) for one in said["all"]] == LATENCY.column("latency")


@pytest.mark.parametrize(
    "measure",
    [
        lambda parsed: {"x": int(parsed.cells("latency")[0])},
        lambda parsed: {"x": 1.0},
        lambda parsed: {"x": parsed.rows[0]["latency"]},
        lambda parsed: {"x": parsed.at("latency", size=8)},
        lambda parsed: {"x": [*parsed.cells("latency"), 1.0]},
        lambda parsed: {},
    ],
)
def test_what_cannot_be_followed_is_left_out(measure: Any) -> None:
    assert formulas.origins(measure(LATENCY)) == {}


def test_the_cells_of_some_rows_know_their_places() -> None:
    rows = [{"side": side, "x": x} for side, x in (("a", 1.0), ("b", 2.0), ("b", 3.0))]
    parsed = Parsed("t", "t", None, True, tuple(rows), {"x": "us"})
    found = parsed.cells("x", side="b")
    assert (found, formulas.origins({"x": found})) == (
        [2.0, 3.0],
        {"x": [["cell", 1, "x"], ["cell", 2, "x"]]},
    )
    with pytest.raises(KeyError):
        parsed.cells("y")


def test_a_metric_of_another_case_is_no_cell_of_this_one() -> None:
    of_another = formulas.Number(2.0, ["metric", "Other", "node+stack", "latency", 2.0])
    parsed = Parsed("t", "t", None, True, ({"x": of_another},), {"x": "us"})
    said = formulas.origins({"x": parsed.quantity("x")})
    assert said == {"x": [["metric", "Other", "node+stack", "latency", 2.0]]}


def test_a_number_remembers_and_its_copy_is_a_plain_float() -> None:
    number = 2 * formulas.Number(3.0, ["cell", 0, "x"]) - 1
    assert (number, number.formula) == (5.0, ["-", ["*", 2.0, ["cell", 0, "x"]], 1.0])
    assert type(copy.deepcopy(number)) is float
    assert json.dumps(number) == "5.0"


@pytest.mark.parametrize(
    "said",
    [
        *("text", None, True, [], ["cell"], ["cell", 99, "x"], ["cell", -1, "x"]),
        *(["cell", 0, "y"], ["%", 1, 2], ["/", 1, 0], ["+", 1], {"cell": 0}),
    ],
)
def test_what_is_no_formula_has_no_value(said: Any) -> None:
    with pytest.raises(ValueError, match="has no value"):
        evaluate(said, [{"x": 1.0}], none)
