"""Charts that HPL and BT-IO share: lines over a number of nodes or over the size of a problem."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from assay.report.series import Missing, drawable
from assay.results.cases import Case
from assay.results.sanitize import finite


@dataclass(frozen=True)
class Series:
    """One line: (x, y), in order of x, all greater than zero."""

    label: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Chart:
    """One drawing of lines.

    :ivar quantity: the quantity that is drawn, in `unit` ("1" for a ratio), over `over`.
    :ivar by_count: if true, `over` is a number of nodes or processes, on a scale logarithmic to
        base 2; else it is the order of a matrix, on a linear scale.
    :ivar sizes: whether `over` is a size in bytes, which is then labelled in binary units.
    :ivar logarithmic: the base of the scale of `quantity`; 0 for a linear scale that begins at 0.
    :ivar ideal: whether to draw the line on which quantity and count are equal.
    :ivar axis: a shorter name of `quantity`.
    :ivar side: which side is better, in words; empty for the side of the unit.
    :ivar missing: lines and parts of lines that this session should have measured but did not.
    """

    quantity: str
    unit: str
    over: str
    series: tuple[Series, ...]
    by_count: bool
    logarithmic: int = 0
    ideal: bool = False
    missing: tuple[Missing, ...] = ()
    axis: str = ""
    sizes: bool = False
    side: str = ""


def positive(row: Mapping[str, object], columns: Iterable[str]) -> list[float] | None:
    """The values of a row; None unless all are numbers greater than zero, which can be drawn."""
    values = [finite(row.get(column)) for column in columns]
    found = [value for value in values if value is not None and drawable(value)]
    return found if len(found) == len(values) else None


def count(case: Case, parameter: str) -> int | None:
    """A parameter that counts nodes or processes; None if it is not such a number."""
    text = case.parameters.get(parameter, "")
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else None


def others(case: Case, *left_out: str) -> tuple[tuple[str, str], ...]:
    """The parameters that must be equal for cases to share a drawing."""
    return tuple(sorted((k, v) for k, v in case.parameters.items() if k not in left_out))


def reasons(cases: Sequence[Case]) -> str:
    """Why these cases have no measurement: the first reason, and the number of further reasons."""
    found = list(dict.fromkeys(case.lack for case in cases))
    more = f" (and {len(found) - 1} more reasons)" if len(found) > 1 else ""
    return found[0] + more if found else "no case was selected"
