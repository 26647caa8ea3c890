"""Converts values of a file with unknown content to the expected type, or leaves them out."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from typing import Any

from assay import files


def finite(raw: Any) -> float | None:
    """A finite float, or None for anything else."""
    if isinstance(raw, bool) or not isinstance(raw, (int, float)):
        return None
    try:
        value = float(raw)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def line(raw: Any) -> str:
    """Any value as one line of printable text."""
    if raw is None:
        return ""
    text = str(raw)
    if not (text.isascii() and text.isprintable()):
        text = files.clean(" ".join(text.split()))
        text = "".join(c for c in text if c.isprintable())
    if "  " in text or text[:1] == " " or text[-1:] == " ":
        text = " ".join(text.split())
    return text[:500]


def reframe_date(raw: Any) -> datetime.datetime | None:
    """A time as ReFrame writes it, or None."""
    try:
        return datetime.datetime.strptime(str(raw), "%Y%m%dT%H%M%S%z")
    except ValueError:
        return None


def mapping(raw: Any) -> Mapping[str, Any]:
    """A mapping, or an empty one."""
    return raw if isinstance(raw, dict) else {}


def sequence(raw: Any) -> Sequence[Any]:
    """A list, or an empty one."""
    return raw if isinstance(raw, list) else ()
