"""Numbers of a row that must agree, as far as their digits say."""

import pytest

from assay.parse.tables import Identity, contradictions

RATE = Identity("rate * time = moved", "{rate:g} for {time:g} s are not {moved}")


@pytest.mark.parametrize(
    ("rate", "time", "good"),
    [
        ("2.00", "5.00", True),
        ("1.99", "5.02", True),  # up to 1.995 * 5.025
        ("1.98", "5.00", False),
        ("2.0", "4.9", True),
        ("2.00", "4.90", False),
        ("2e0", "4", True),
        ("0.00", "5.00", False),
        ("nan", "5.00", False),
        ("1e308", "1e308", False),
    ],
)
def test_two_numbers_agree_if_they_may_be_equal_before_rounding(rate, time, good):
    row = {"rate": float(rate), "time": float(time), "moved": 10}
    said = contradictions([RATE], row, {"rate": rate, "time": time})
    assert said == ([] if good else [f"{float(rate):g} for {float(time):g} s are not 10"])


@pytest.mark.parametrize(
    ("share", "values", "good"),
    [(0.0, (1, 2, 3), True), (0.0, (1, 1, 1), True), (0.0, (1, 3, 2), False),
     (0.0, (2, 1, 3), False), (0.5, (1, 3, 2), True), (0.4, (1, 3, 2), False)],
)  # fmt: skip
def test_an_order_of_numbers_and_what_it_forgives(share, values, good):
    row = dict(zip("abc", values))
    assert contradictions([Identity("a <= b <= c", "wrong", share)], row, {}) == (
        [] if good else ["wrong"]
    )


def test_a_row_without_a_column_is_not_compared_and_a_problem_is_said_once():
    assert not contradictions([RATE], {"rate": 1.0, "time": 2.0}, {})
    twice = [Identity("a = b", "wrong"), Identity("b = a", "wrong")]
    assert contradictions(twice, {"a": 1, "b": 2}, {}) == ["wrong"]


def test_what_cannot_be_computed_is_a_contradiction():
    assert contradictions([Identity("1 / a = b", "wrong")], {"a": 0, "b": 1}, {}) == ["wrong"]


def test_by_default_the_words_have_the_values_and_the_identity():
    identity = Identity("rate * time <= most")
    assert contradictions([identity], {"most": 3, "time": 2.5, "rate": 4.0, "size": 1}, {}) == [
        "rate 4, time 2.5, most 3 contradict each other: rate * time <= most"
    ]
