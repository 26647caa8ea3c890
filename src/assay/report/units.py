"""Numbers and sizes as text for a reader."""

from __future__ import annotations

from assay.metrics import lower_is_better

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def number(value: float | None) -> str:
    """Four significant digits, without an exponent between 1e-4 and 1e9: ``12 340``, ``0.1234``."""
    if value is None:
        return "not a number"
    if abs(value) >= 1e9 or 0 < abs(value) < 1e-4:
        return f"{value:.3e}"
    if abs(value) >= 1000:
        # A no-break space separates groups of three digits: a comma could be read as a point.
        return f"{value:,.0f}".replace(",", "\N{NO-BREAK SPACE}")
    return f"{value:.4g}"


def quantity(value: float | None, unit: str) -> str:
    """A number with its unit; the unit ``1`` of counts and ratios is not written."""
    return number(value) if unit in ("", "1") else f"{number(value)}\N{NO-BREAK SPACE}{unit}"


def better(unit: str) -> str:
    """The better side in words. A ratio that is drawn is a speed-up or a share of a peak."""
    return "Lower is better" if lower_is_better(unit) else "Higher is better"


def size(count: float) -> str:
    """A number of bytes in the largest binary unit that divides it: ``1 B``, ``64 KiB``."""
    step = 0
    while count >= 1024 and count % 1024 == 0 and step < len(_BINARY) - 1:
        count /= 1024
        step += 1
    return f"{count:g}\N{NO-BREAK SPACE}{_BINARY[step]}"
