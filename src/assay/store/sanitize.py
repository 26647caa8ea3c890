"""Converts values of a file with unknown content to the expected type, or leaves them out."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from typing import Any

from assay import files
from assay.reframe_compat.log import COLOUR


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
    text = " ".join(COLOUR.sub("", str(raw)).split())
    return "".join(c for c in text if c.isprintable())[:500]


def tree(raw: Any) -> Any:
    """A value of JSON with all its texts and keys clean: :func:`assay.files.clean`."""
    if isinstance(raw, dict):
        return {files.clean(str(key)): tree(value) for key, value in raw.items()}
    if isinstance(raw, list):
        return [tree(value) for value in raw]
    return files.clean(raw) if isinstance(raw, str) else raw


def date(raw: Any) -> datetime.datetime | None:
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
