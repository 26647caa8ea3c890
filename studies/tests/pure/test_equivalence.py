"""Equivalence of paired ratios: a published table, and the promised error rate."""

import math
import random

import pytest

from studies.equivalence import Equivalence, decide, fewest

# Critical values of the sign test, one-sided at 5 %: the largest number of the rarer sign that
# still rejects (Dixon & Mood 1946, 10.1080/01621459.1946.10501898). The interval leaves this number
# of ratios out on each side.
SIGN_TEST = {
    5: 0,
    8: 1,
    11: 2,
    13: 3,
    16: 4,
    18: 5,
    20: 5,
    21: 6,
    23: 7,
    25: 7,
    26: 8,
    28: 9,
    30: 10,
}


@pytest.mark.parametrize(("pairs", "left_out"), SIGN_TEST.items())
def test_the_interval_is_that_of_the_sign_test(pairs, left_out):
    ratios = [1 + number / 1000 for number in range(pairs)]
    decision = decide(random.Random(1).sample(ratios, pairs))
    assert (decision.low, decision.high) == (ratios[left_out], ratios[pairs - 1 - left_out])


def test_equal_and_well_known_is_equivalent():
    decision = decide([1.001, 0.999] * 10)
    assert decision.verdict is Equivalence.EQUIVALENT
    assert decision.ratio == pytest.approx(1)
    assert decision.why == (
        "EQUIVALENT: ratio 1.0000, 90% interval 0.9990 to 1.0010 of 20 pairs, margin 2%"
    )


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([1.2, 0.85] * 10, "UNDECIDED"),  # equal, but badly known
        ([1.01] * 8, "EQUIVALENT"),  # a small and sure difference
        ([1.03] * 8, "DIFFERENT"),
        ([0.97] * 8, "DIFFERENT"),
        ([1.02] * 30, "UNDECIDED"),  # the end of the margin
        ([1 / 1.02] * 30, "UNDECIDED"),
        ([1.0] * 19 + [7.5], "EQUIVALENT"),  # one disturbed run
    ],
)
def test_what_is_claimed(ratios, verdict):
    assert decide(ratios).verdict is Equivalence[verdict]


def test_it_does_not_matter_which_is_divided_by_which():
    source = random.Random(2)
    for center in (1, 1.015, 1.05):
        ratios = [center * math.exp(source.gauss(0, 0.01)) for _ in range(15)]
        assert decide(ratios).verdict is decide([1 / ratio for ratio in ratios]).verdict


def test_with_too_few_pairs_nothing_is_claimed():
    assert fewest(0.05) == 5
    four = decide([1.0] * 4)
    assert four.verdict is Equivalence.UNDECIDED
    assert four.why.endswith("5 pairs are needed to decide")
    assert decide([1.0] * 5).verdict is Equivalence.EQUIVALENT


@pytest.mark.parametrize("median", [1.02, 1 / 1.02])
@pytest.mark.parametrize("pairs", [8, 20, 41])
def test_a_ratio_at_the_margin_is_called_equivalent_in_at_most_one_of_twenty(median, pairs):
    # The noise is heavy-tailed and skewed: every tenth run takes up to eight times as long.
    source = random.Random(3)

    def ratio():
        noise = source.gauss(0, 0.004)
        if source.random() < 0.1:
            noise = abs(noise) + source.random() * 2
        elif source.random() < 1 / 9:  # as often below the median as above
            noise = -abs(noise)
        return median * math.exp(noise)

    trials = 2000
    wrong = sum(
        decide([ratio() for _ in range(pairs)]).verdict is Equivalence.EQUIVALENT
        for _ in range(trials)
    )
    # The limit is three standard deviations of a count above the promised error rate.
    assert wrong <= 0.05 * trials + 3 * math.sqrt(0.05 * 0.95 * trials)


@pytest.mark.parametrize("ratios", [[], [1, 0], [1, -1], [1, math.nan], [1, math.inf]])
def test_what_is_no_ratio_is_refused(ratios):
    with pytest.raises(ValueError, match="ratios are positive numbers"):
        decide(ratios)


@pytest.mark.parametrize("options", [{"margin": 0}, {"alpha": 0.5}, {"alpha": 0}])
def test_what_is_no_margin_or_alpha_is_refused(options):
    with pytest.raises(ValueError, match="margin"):
        decide([1.0], **options)
