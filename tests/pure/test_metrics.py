"""The table of units: kinds, sides of faults, factors, and units that are not in it."""

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
        "declares: 'triad': unknown unit 'MBps'; did you mean 'MB/s'? "
        "(new units go into src/assay/metrics.py)"
    )
    assert metrics.unknown({"speed": "furlong/fortnight"})[0].endswith("metrics.py)")
