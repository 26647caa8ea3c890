"""The table of units: kinds, sides of faults, factors, and units that are not in it."""

import copy
import pickle

import pytest

from assay import metrics


@pytest.mark.parametrize(
    ("unit", "into", "factor"),
    [("KiB/s", "MB/s", 1024 / 1e6), ("TFLOP/s", "GFLOP/s", 1e3), ("MiB", "B", 2**20),
     ("GFLOP/s", "GFLOP/s", 1), ("GFLOP/s", "MB/s", None), ("%", "GFLOP/s", None),
     ("", "B", None)],
)  # fmt: skip
def test_factors_are_between_units_of_one_quantity(unit, into, factor):
    assert metrics.factor(unit, into) == factor


def test_the_base_of_each_quantity_has_the_factor_1():
    for name, unit in metrics.UNITS.items():
        assert unit.kind in metrics.FAULT
        assert metrics.UNITS.get(unit.base, unit).kind == unit.kind
        assert (name != unit.base) or unit.factor == 1


def test_less_of_a_time_is_better_and_of_nothing_else():
    lower = {name for name in metrics.UNITS if metrics.lower_is_better(name)}
    assert lower == {"s", "ms", "us", "ns"}
    assert not metrics.lower_is_better("furlong")


def test_a_unit_that_is_not_there_is_one_line_with_the_remedy():
    (line,) = metrics.unknown({"triad": "MBps", "copy": "MB/s"})
    assert line == (
        'declares: \'triad\': unknown unit \'MBps\': write Unit("MBps", "rate"), or "time" or '
        "\"other\", with assay.metrics.Unit; did you mean 'MB/s'?"
    )


def test_a_test_brings_a_unit_of_its_own():
    mips = metrics.Unit("MIPS", "rate")
    assert metrics.unknown({"speed": mips, "wait": metrics.Unit("tick", "time")}) == []
    assert (mips, metrics.fault(mips), metrics.fault("MIPS")) == ("MIPS", "lower", "both")
    assert metrics.lower_is_better(metrics.Unit("tick", "time"))
    assert metrics.factor(metrics.Unit("kop/s", "rate", "op/s", 1e3), "Mop/s") == 1e-3
    assert metrics.factor(mips, "op/s") is None
    assert metrics.own(["MB/s", mips, "MIPS"]) == {"MIPS": "rate"}
    for copied in (copy.deepcopy(mips), pickle.loads(pickle.dumps(mips))):  # as ReFrame does
        assert (copied, copied.kind) == ("MIPS", "rate")


def test_a_unit_of_a_test_has_a_kind_and_does_not_contradict_the_table():
    with pytest.raises(ValueError, match="the kind is one of rate, time, other"):
        metrics.Unit("MIPS", "speed")
    (line,) = metrics.unknown({"copy": metrics.Unit("MB/s", "time")})
    assert line == "declares: 'copy': MB/s is the unit of a rate already"
