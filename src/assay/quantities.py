"""Numbers and sizes as text for a message."""

from __future__ import annotations

_PREFIXES = ("", "k", "M", "G", "T", "P")


def number(value: float | None, digits: int = 4) -> str:
    """Significant digits, without an exponent between 1e-4 and 1e9: ``12340``, ``0.1234``."""
    if value is None:
        return "none"
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e+0" in text and abs(float(text)) < 1e9 else text


def size(count: float) -> str:
    """A number of bytes with a decimal prefix: ``512 B``, ``25.28 GB``."""
    step = 0
    while abs(float(f"{count:.4g}")) >= 1000 and step < len(_PREFIXES) - 1:
        count /= 1000
        step += 1
    return f"{count:.4g} {_PREFIXES[step]}B"
