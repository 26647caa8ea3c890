import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.judge import Reference, Verdict, judge, median_interval, worst

BAND = Reference(100.0, "MB/s", -0.1, 0.2, "a test")


def test_six_launches_cover_the_median_with_their_range_and_ten_with_less():
    assert median_interval([3, 1, 2, 6, 5, 4]) == (1, 6)
    assert median_interval(range(10)) == (1, 8)  # 1 - 2 * (1 + 10) / 1024 = 0.979
    # Of many it is the median -/+ 0.98 sqrt(n), whether the chances are exact or from logarithms.
    assert median_interval(range(1000)) == (468, 531)
    assert median_interval(range(1001)) == (469, 531)
    assert median_interval(range(100_000)) == (49_689, 50_310)


@given(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=60))
def test_the_interval_holds_the_median_and_covers_95_percent_where_it_can(samples):
    low, high = median_interval(samples)
    assert low <= statistics.median(samples) <= high
    n, ordered = len(samples), sorted(samples)
    if n >= 6:
        k = next(i for i in range(n) if ordered[i] == low)
        assert 1 - 2 * sum(math.comb(n, i) for i in range(k + 1)) / 2**n < 1
        # an interval that is one order statistic narrower must not cover any more
        outside = sum(math.comb(n, i) for i in range(n) if ordered[i] < low)
        assert 1 - 2 * outside / 2**n >= 0.95 or ordered.count(low) > 1


@pytest.mark.parametrize(
    ("samples", "verdict"),
    [
        ([100.0], Verdict.PASS),
        ([90.0], Verdict.PASS),
        ([89.9], Verdict.FAIL),
        ([120.1], Verdict.FAIL),
        ([95, 96, 97, 98, 99, 101], Verdict.PASS),
        ([70, 71, 72, 73, 74, 75], Verdict.FAIL),
        ([85, 91, 92, 93, 94, 95], Verdict.INCONCLUSIVE),
        ([115, 118, 119, 119, 119, 121], Verdict.INCONCLUSIVE),
        ([130, 131, 132, 133, 134, 135], Verdict.FAIL),
    ],
)
def test_verdicts(samples, verdict):
    judgement = judge(samples, BAND)
    assert judgement.verdict is verdict
    assert "MB/s" in judgement.why


def test_one_bound_is_enough_and_the_other_side_is_free():
    floor = Reference(10.0, "us", None, 0.5, "a test")
    assert judge([0.001], floor).verdict is Verdict.PASS
    assert judge([15.1], floor).verdict is Verdict.FAIL


def test_the_worst_verdict_counts():
    assert worst([Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.RECORDED]) is Verdict.INCONCLUSIVE
    assert worst([Verdict.INCONCLUSIVE, Verdict.FAIL]) is Verdict.FAIL
    assert worst([]) is Verdict.RECORDED
