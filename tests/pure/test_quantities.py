"""Numbers and sizes as text for a message."""

from __future__ import annotations

import math

import pytest

from assay.quantities import number, size


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.12346, "0.1235"),
        (123.45, "123.5"),
        (9999.6, "10000"),
        (287654.3, "287700"),
        (999_990_000, "1e+09"),
        (1.2345e9, "1.234e+09"),
        (1.2345e-5, "1.234e-05"),
        (-17984, "-17980"),
        (math.inf, "inf"),
        (None, "none"),
    ],
)
def test_a_number_has_four_digits_and_mostly_no_exponent(value: float | None, text: str) -> None:
    assert number(value) == text


def test_more_digits_can_be_asked_for() -> None:
    assert number(1234567.8, 6) == "1234570"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (512, "512 B"), (999.96, "1 kB"), (2.097e8, "209.7 MB"), (4e18, "4000 PB")],
)
def test_a_size_has_a_decimal_prefix(count: float, text: str) -> None:
    assert size(count) == text
