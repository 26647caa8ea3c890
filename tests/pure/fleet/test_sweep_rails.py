"""Rails that are compared with each other: made rates of neighbours over two devices."""

import pytest

from assay.fleet.sweep import slow_rails

PAIRS = [("n1", "n2"), ("n3", "n4"), ("n5", "n6")]
DEVICES = ("mlx5_0:1", "mlx5_1:1")


def measured(**other):
    """Two looks at each rail; `other` has those of some, by first node and device."""
    return {
        (a, b, device): other.get(f"{a}_{at}", (100.0 + at, 99.0))
        for a, b in PAIRS
        for at, device in enumerate(DEVICES)
    }


def test_healthy_rails_accuse_nobody():
    assert slow_rails(measured(), "MB/s", "lower") == ([], [])
    assert slow_rails({}, "MB/s", "lower") == ([], [])


def test_a_rail_at_half_its_rate_is_named_with_device_and_nodes():
    ((line,), undecided) = slow_rails(measured(n3_1=(50.0, 51.0)), "MB/s", "lower")
    assert line.startswith(
        "n3 - n4 over mlx5_1:1: 50.5 MB/s, the median of 5 other rails is 99.5 MB/s (-49.2 %)"
    )
    assert (line.nodes, undecided) == (("n3", "n4"), [])


def test_one_look_is_not_enough():
    assert slow_rails(measured(n3_1=(50.0, 99.0)), "MB/s", "lower") == ([], [])
    assert slow_rails(measured(n3_1=(99.0, 50.0)), "MB/s", "lower") == ([], [])


def test_a_long_latency_is_worse():
    ((line,), _) = slow_rails(measured(n5_0=(150.0, 160.0)), "us", "upper")
    assert line.startswith("n5 - n6 over mlx5_0:1: 155 us")
    assert slow_rails(measured(n5_0=(50.0, 50.0)), "us", "upper") == ([], [])


def test_without_a_majority_nobody_is_accused():
    half = {rail: values for rail, values in measured(n1_0=(50.0, 50.0)).items() if rail[0] == "n1"}
    accused, undecided = slow_rails(half, "MB/s", "lower")
    assert accused == [] and "nobody is accused" in undecided[0]


@pytest.mark.parametrize("value", [float("nan"), -1.0])
def test_what_is_no_measurement_is_refused(value):
    with pytest.raises(ValueError, match="is not a measurement"):
        slow_rails(measured(n1_0=(value, 1.0)), "MB/s", "lower")
