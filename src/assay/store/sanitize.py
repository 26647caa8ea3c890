"""Converts values of a file with unknown content to the expected type, or leaves them out."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from assay import files
from assay.judge import Verdict


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


def known_fields(kind: Any, raw: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a class that a mapping has, without those that are not of their type."""
    found = {}
    for key, name, make in _makers(kind):
        if key in raw and (value := make(raw[key])) is not None:
            found[name] = value
    return found


@cache
def _makers(kind: Any) -> tuple[tuple[str, str, Callable[[Any], Any]], ...]:
    """Of each field of a class: its key, its name, and what makes a value of its type."""
    hints = get_type_hints(kind)
    return tuple(
        (field.encode_name, field.name, maker(hints[field.name]))
        for field in msgspec.structs.fields(kind)
    )


#: Type -> what makes a value of it.
_PLAIN: dict[Any, Callable[[Any], Any]] = {
    str: line,
    float: finite,
    int: lambda raw: int(finite(raw) or 0) or None,
    bool: bool,
    Verdict: lambda raw: Verdict(raw) if raw in [*Verdict] else None,
    Any: lambda raw: raw,
}


@cache
def maker(kind: Any) -> Callable[[Any], Any]:
    """What makes a value of a type from any value of JSON, or None if it is not of the type."""
    of, args = get_origin(kind), get_args(kind)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if of in {Union, UnionType}:
        return maker(args[0])
    if of is tuple:
        one = maker(args[0])
        return lambda raw: (
            tuple([v for v in map(one, raw) if v is not None]) if isinstance(raw, list) else None
        )
    if kind == dict[str, Any]:
        return lambda raw: raw if isinstance(raw, dict) else None
    if of is dict:
        one = maker(args[1])
        return lambda raw: (
            {str(key): made for key, value in raw.items() if (made := one(value)) is not None}
            if isinstance(raw, dict)
            else None
        )

    def struct(raw: Any) -> Any:
        try:
            return kind(**known_fields(kind, raw)) if isinstance(raw, dict) else None
        except (TypeError, ValueError):
            return None

    return struct
