"""Collectives whose first sweep in a job spikes: what the judge makes of them, by simulation.

The rates are those of aws/aws-parallelcluster, pull request 7565: a spike in 27 % of the jobs, and
in one job of twelve of these also in the sweep behind it. A spike is tenfold.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from assay.judge import LAUNCHES_IN_BUDGET, LAUNCHES_TO_PASS, Reference, Verdict, decided, judge

SPIKED, AGAIN, SPIKE, NOISE = 0.25, 1 / 12, 10.0, 0.02

#: The bounds that a calibration gives a time: the least tolerance of site-config/tolerances.yaml.
REFERENCE = Reference(20.0, "us", -0.33, 0.15, "made")


def sweeps(dice: random.Random, slower: float) -> tuple[float, float]:
    """The time of the first sweep in a job, and that of the sweep behind it [us]."""
    spiked = dice.random() < SPIKED
    first, second = (20.0 * slower * dice.gauss(1, NOISE) for _ in range(2))
    again = spiked and dice.random() < AGAIN
    return first * (SPIKE if spiked else 1), second * (SPIKE if again else 1)


def verdict(measured: Callable[[], float]) -> Verdict:
    """The verdict on one case, launched as a run launches it."""
    samples: list[float] = []
    while True:
        samples.append(measured())
        found = judge(samples, REFERENCE).verdict
        few = found is Verdict.PASS and len(samples) < LAUNCHES_TO_PASS
        if len(samples) == LAUNCHES_IN_BUDGET or (decided(found, len(samples)) and not few):
            return found


def share_not_passed(sweep: int, slower: float = 1.0, cases: int = 4000) -> float:
    dice = random.Random(7)
    verdicts = [verdict(lambda: sweeps(dice, slower)[sweep]) for _ in range(cases)]
    return sum(each is not Verdict.PASS for each in verdicts) / cases


def test_healthy_cases_pass_by_the_second_sweep_and_not_by_the_first() -> None:
    assert share_not_passed(1) < 0.01
    assert share_not_passed(0) > 0.1, "what is measured without the sweep before"


def test_a_slowdown_is_still_found() -> None:
    assert share_not_passed(1, slower=1.25) > 0.999
