"""Launches of one machine in one state, of several states, and the rate of false alarms."""

import math
import random
import re
from datetime import date, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from assay.archive.calibrate import CalibrationError, bounds, launches, states
from assay.tolerances import tolerances_of

KINDS = tolerances_of(Path(__file__).parents[4] / "site-config" / "local", CalibrationError)
RATE, TIME = (bounds.kind_of(unit, KINDS) for unit in ("MB/s", "us"))


@pytest.mark.parametrize(
    ("samples", "says"),
    [
        ([100, 60, 101, 61, 59, 99, 60], "two speeds: 4 near 60, 3 near 100"),
        ([100, 50] * 5, "two speeds: 5 near 50, 5 near 100"),
        ([100 * 0.92**k for k in range(7)], r"drift: from 92 at the beginning to 65.91 at the end"),
        ([100 * 1.03**k for k in range(10)], "drift"),
    ],
)
def test_launches_of_more_than_one_state_are_named(samples, says):
    assert states.wide(samples, RATE)
    assert re.search(says, states.changed(samples, RATE, 1))


#: Run to run, healthy: links of V100 (ABCI, 0.02 %), of A100, osu_bw over InfiniBand (280 runs, of
#: the peak), GPUs of one kind ("Not all GPUs are created equal", SC22: 22 %).
PUBLISHED = [(48.48, 48.49), (262.3, 275.9), (0.969, 0.987), (0.78, 1.0)]


@pytest.mark.parametrize("ends", PUBLISHED)
@pytest.mark.parametrize("n", [6, 7, 10, 20])
def test_healthy_machines_as_others_publish_them_are_not_refused(ends, n):
    draw = random.Random(11)
    refused = 0
    for _ in range(500):
        samples = [draw.uniform(*ends) for _ in range(n)]
        refused += states.wide(samples, RATE) and bool(states.changed(samples, RATE, 1))
        assert bounds.metric(samples, "MB/s", RATE)["lower"] > -0.5
    assert refused / 500 <= 0.02 + 3 * math.sqrt(0.02 / 500), "1 % for two speeds, 1 % for a drift"


SHAPES = {
    "normal": lambda draw: draw.gauss(1, 0.1),
    "uniform": lambda draw: draw.uniform(0.7, 1.3),
    "one-sided": lambda draw: 1 + draw.expovariate(5),
    "lognormal": lambda draw: math.exp(draw.gauss(0, 0.3)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [6, 10])
def test_noise_that_is_far_wider_than_the_floor_is_seldom_refused(shape, n):
    """One metric at 1 % and a hundred metrics together at 1 %, for each of the two tests."""
    draw = random.Random(3)
    series = [[SHAPES[shape](draw) for _ in range(n)] for _ in range(3000)]
    for tested in (1, 100):
        refused = sum(bool(states.changed(samples, RATE, tested)) for samples in series)
        assert refused / 3000 <= 0.02 / tested + 3 * math.sqrt(0.02 / tested / 3000)


def test_few_disturbed_launches_are_no_second_speed():
    draw, refused = random.Random(3), 0
    for _ in range(3000):
        half = [draw.random() < 0.1 for _ in range(10)]
        samples = [draw.gauss(1, 0.02) * (0.5 if slow else 1) for slow in half]
        named = "two speeds" in states.changed(samples, RATE, 1)
        assert not named or sum(half) in range(3, 8)
        refused += named
    assert refused / 3000 < 0.08


def test_a_quiet_machine_is_never_tested():
    assert not states.wide([100, 104, 100, 104, 100, 104], RATE)
    # Two decimals of a short latency are two "speeds" by themselves.
    assert not states.wide([0.20, 0.21, 0.20, 0.21, 0.21, 0.20], TIME)


@pytest.mark.parametrize(
    ("one", "copied"),
    [
        ((33.957,), True),  # HPL
        ((12.3, 45.6, 0.21), False),  # few digits
        ((48.48, 48.49), False),  # links that are as steady
        (tuple(10.01 + k for k in range(20)), True),  # a curve
        ((12.5 * 1.048576 / 3,), False),  # converted
        ((), False),
    ],
)
def test_launches_that_are_copies_of_each_other_are_named(one, copied):
    assert states.copied([one] * 6) is copied
    assert not states.copied([one] * 5 + [(*one, 1.5)])


def test_only_rates_and_times_can_be_copied():
    rows = [{"size": 8.0, "latency": 1.234, "residual": 0.00471}]
    units = {"size": "B", "latency": "us", "residual": "1"}
    assert states.measured(rows, units) == (1.234,)


def session(name, year=2026):
    return SimpleNamespace(file=Path(name), start=datetime(year, 1, 2), attempts=[])


def test_a_report_that_is_given_twice_is_refused():
    with pytest.raises(CalibrationError, match=r"^a.json: is given twice; name each report once"):
        launches.samples([session("a.json"), session("b.json"), session("a.json")], "here")


def test_a_session_of_the_future_is_refused():
    year = date.today().year + 2
    with pytest.raises(CalibrationError, match=rf"^a.json: its date {year}-01-02 lies in the futu"):
        launches.samples([session("a.json", year)], "here")


def test_launches_on_different_hardware_are_no_calibration():
    one = launches.Sample({"test": "Osu"}, launches=6, printed=[(1.0,), (2.0,)])
    one.hardware |= {"gpu h100-sxm5-80gb", "gpu gh200-96gb"}
    (fault,) = launches._counts([one])
    assert "had different hardware: gpu gh200-96gb; gpu h100-sxm5-80gb; give each kind of" in fault
