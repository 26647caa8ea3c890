"""The power of a metric: which fault its launches would have shown, as the suite judges."""

from __future__ import annotations

import pytest

from assay.certificate import power
from assay.judge import Reference, Verdict, decided, in_turn

#: Six launches whose spread is 2 %.
LAUNCHES = (100.0, 99.0, 101.0, 99.5, 100.5, 100.0)


def rate(lower: float) -> Reference:
    return Reference(100.0, "MB/s", lower, None, "a test")


def test_a_narrow_tolerance_finds_a_small_fault() -> None:
    # All launches of a machine that is 6 % slower lie below 95; at 4 %, most of them pass.
    assert 5 < (power.least_fault(LAUNCHES, rate(-0.05)) or 0) <= 6
    assert 20 < (power.least_fault(LAUNCHES, rate(-0.2)) or 0) <= 21


def test_noise_costs_power() -> None:
    noisy = [100 + 5 * (value - 100) for value in LAUNCHES]
    clean, lost = (power.least_fault(samples, rate(-0.06)) for samples in (LAUNCHES, noisy))
    assert clean and lost and lost > clean + 2


def test_a_time_grows_by_a_fault() -> None:
    time = Reference(100.0, "us", None, 0.1, "a test")
    assert 9 < (power.least_fault(LAUNCHES, time) or 0) <= 10.5


def test_more_launches_before_a_pass_find_more() -> None:
    bimodal = (100.0, 100.0, 100.0, 100.0, 100.0, 120.0)
    once, often = (power.least_fault(bimodal, rate(-0.05), least) for least in (1, 6))
    assert once and often and often < once


def test_without_a_lower_bound_nothing_is_found() -> None:
    assert power.least_fault(LAUNCHES, Reference(100.0, "MB/s", None, 9.0, "a test")) is None


def test_five_launches_are_not_enough() -> None:
    assert power.enough(LAUNCHES)
    assert not power.enough(LAUNCHES[1:])


@pytest.mark.parametrize(
    ("samples", "least", "verdict"),
    [
        ([100.0], 1, Verdict.PASS),
        ([100.0] * 5, 6, Verdict.INCONCLUSIVE),
        ([100.0] * 6, 6, Verdict.PASS),
        ([80.0, 80.0], 1, Verdict.FAIL),
        ([80.0, 80.0, 80.0, 100.0, 100.0], 1, Verdict.FAIL),  # decided by the first three
        ([80.0, *[100.0] * 7], 1, Verdict.INCONCLUSIVE),
        ([80.0, *[100.0] * 8], 1, Verdict.PASS),  # one outlier of nine decides nothing
    ],
)
def test_a_case_is_launched_until_its_launches_decide(
    samples: list[float], least: int, verdict: Verdict
) -> None:
    assert in_turn(samples, rate(-0.05), least) is verdict


def test_a_fail_is_decided_by_three_launches() -> None:
    assert not decided(Verdict.FAIL, 2)
    assert decided(Verdict.FAIL, 3)
    assert decided(Verdict.PASS, 1)
    assert not decided(Verdict.INCONCLUSIVE, 9)
