import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.judge import RED, Fault, Reference, Verdict, judge, median_interval, outcome, worst

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


def test_a_word_of_a_record_is_red_as_its_verdict_is():
    assert [verdict.value in RED for verdict in Verdict] == [verdict in RED for verdict in Verdict]
    assert {verdict for verdict in Verdict if verdict in RED} == {"FAIL", "INCONCLUSIVE"}


BUSY = Fault("the machine was busy", Verdict.INCONCLUSIVE)
BROKEN, ENDED = Fault("1 case failed"), Fault("INTERRUPTED: 3 of 4", word="INTERRUPTED")


@pytest.mark.parametrize(
    ("cases", "faults", "partial", "verdict", "word"),
    [
        (["PASS", "RECORDED", None], [], False, "PASS", "PASS"),
        (["RECORDED", None], [], False, "RECORDED", "RECORDED"),
        # A part of a run is never a PASS.
        (["PASS"], [], True, "RECORDED", "PARTIAL"),
        (["RECORDED"], [], True, "RECORDED", "PARTIAL"),
        # A case that failed decides a run; one that could not be decided does not.
        (["PASS", "INCONCLUSIVE"], [BUSY], True, "INCONCLUSIVE", "INCONCLUSIVE"),
        (["FAIL", "INCONCLUSIVE"], [BROKEN, BUSY], False, "FAIL", "FAIL"),
        # A run may be red although each of its cases passed.
        (["PASS"], [BROKEN], False, "FAIL", "FAIL"),
        (["PASS"], [ENDED], False, "FAIL", "INTERRUPTED"),
        (["PASS"], [ENDED, BUSY], False, "FAIL", "INTERRUPTED"),
        (["PASS"], [ENDED, BROKEN], False, "FAIL", "FAIL"),
    ],
)
def test_the_outcome_of_a_run(cases, faults, partial, verdict, word):
    found = outcome([case and Verdict(case) for case in cases], faults, partial)
    assert (found.verdict, found.word) == (verdict, word)
    assert found.faults == tuple(fault.text for fault in faults)
