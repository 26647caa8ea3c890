"""Numbers and sizes as text for a message."""

from __future__ import annotations

import math

import pytest

from assay.quantities import binary, number, size, spaced


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


@pytest.mark.parametrize(
    ("count", "text"),
    [(1, "1 B"), (1000, "1000 B"), (1024, "1 KiB"), (65536, "64 KiB"), (1 << 20, "1 MiB"),
     (3 << 29, "1536 MiB"), (1 << 40, "1 TiB")],
)  # fmt: skip
def test_sizes_in_words(count: int, text: str) -> None:
    assert binary(count) == text.replace(" ", "\N{NO-BREAK SPACE}")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.12348, "0.1235"), (12.3456, "12.35"), (999.96, "1000"), (12345.6, "12 346"),
     (1e-5, "1.000e-05"), (2.5e9, "2.500e+09"), (-0.5, "-0.5"), (None, "not a number")],
)  # fmt: skip
def test_numbers_in_words(value: float | None, text: str) -> None:
    assert spaced(value) == text.replace(" ", "\N{NO-BREAK SPACE}" if value else " ")
