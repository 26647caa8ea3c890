"""Numbers and sizes as text: for a message, and for a reader of the page."""

from __future__ import annotations

from assay.metrics import lower_is_better

_DECIMAL = ("B", "kB", "MB", "GB", "TB", "PB")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


#: Standard deviation of normal values divided by their median absolute deviation.
NORMAL = 1.4826


def number(value: float | None, digits: int = 4) -> str:
    """Significant digits, without an exponent between 1e-4 and 1e9: ``12340``, ``0.1234``."""
    if value is None:
        return "none"
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e+0" in text and abs(float(text)) < 1e9 else text


def size(count: float) -> str:
    """A number of bytes with a decimal prefix: ``512 B``, ``25.28 GB``."""
    step = 0
    while abs(float(f"{count:.4g}")) >= 1000 and step < len(_DECIMAL) - 1:
        count /= 1000
        step += 1
    return f"{count:.4g} {_DECIMAL[step]}"


def spaced(value: float | None) -> str:
    """As :func:`number`, with all digits before the point, in groups of three: ``12 345``."""
    if value is None:
        return "not a number"
    if abs(value) >= 1e9 or 0 < abs(value) < 1e-4:
        return f"{value:.3e}"
    if abs(value) >= 1000:
        # A no-break space separates the groups: a comma could be read as a point.
        return f"{value:,.0f}".replace(",", "\N{NO-BREAK SPACE}")
    return f"{value:.4g}"


def quantity(value: float | None, unit: str) -> str:
    """A number with its unit; the unit ``1`` of counts and ratios is not written."""
    return spaced(value) if unit in ("", "1") else f"{spaced(value)}\N{NO-BREAK SPACE}{unit}"


def binary(count: float) -> str:
    """A number of bytes in the largest binary unit that divides it: ``1 B``, ``64 KiB``."""
    step = 0
    while count >= 1024 and count % 1024 == 0 and step < len(_BINARY) - 1:
        count /= 1024
        step += 1
    return f"{count:.12g}\N{NO-BREAK SPACE}{_BINARY[step]}"


def better(unit: str) -> str:
    """The better side in words. A ratio that is drawn is a speed-up or a share of a peak."""
    return "Lower is better" if lower_is_better(unit) else "Higher is better"
