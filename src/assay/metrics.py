"""The units of metrics: kind of each unit, the side of a fault, and factors between units.

A test declares each metric with its unit (``declares``). The unit decides the rest, so a new metric
needs no other entry. A unit that is not in :data:`UNITS` is a :class:`Unit` of the test itself.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path

from assay import files

#: Kind of metric -> the side of a fault: a rate that is too low, a time that is too high.
#: For a ratio or a count, neither side is known to be good; a reference gives both bounds.
FAULT = {"rate": "lower", "time": "upper", "other": "both"}


class Unit(str):
    """A unit: its name, a text, with what the name does not say. A test brings one by it.

    :ivar kind: a key of :data:`FAULT`.
    :ivar base: the base unit of its quantity, which `factor` leads to; by default itself.
    :raises ValueError: the kind is none.
    """

    kind: str
    base: str
    factor: float

    def __new__(cls, name: str, kind: str, base: str = "", factor: float = 1.0) -> Unit:
        if kind not in FAULT:
            raise ValueError(f"Unit({name!r}, {kind!r}): the kind is one of {', '.join(FAULT)}")
        made = super().__new__(cls, name)
        made.kind, made.base, made.factor = kind, base or name, factor
        return made

    def __getnewargs__(self) -> tuple[str, str, str, float]:  # type: ignore[override]
        return str(self), self.kind, self.base, self.factor


#: The units that every metric may have, from ``units.csv``.
with Path(__file__).with_name("units.csv").open(encoding="utf-8") as _file:
    UNITS = {
        row["unit"]: Unit(row["unit"], row["kind"], row["base"], float(row["factor"]))
        for row in csv.DictReader(_file)
    }


def unit(name: str) -> Unit | None:
    """What is known of a unit: by a test that brings it, or by the table."""
    return name if isinstance(name, Unit) else UNITS.get(name)


def kind(name: str) -> str | None:
    """The kind of a unit; None for one that nobody has declared."""
    known = unit(name)
    return known.kind if known else None


def own(units: Iterable[str]) -> dict[str, str]:
    """The units that a test brings -> their kinds, as the record of a case keeps them."""
    return {str(it): it.kind for it in units if isinstance(it, Unit) and it not in UNITS}


def named(name: str, kinds: Mapping[str, str]) -> str:
    """A unit with its kind, if a test brought it."""
    return Unit(name, kinds[name]) if kinds.get(name) in FAULT else name


def unknown(declared: Mapping[str, str]) -> list[str]:
    """The metrics whose unit is unknown, one line each; `declared`: metric -> unit."""
    found = []
    for metric, name in declared.items():
        known = UNITS.get(name)
        if unit(name) is None:
            mend = f'write Unit("{name}", "rate"), or "time" or "other", with assay.metrics.Unit'
            said = f"unknown unit {name!r}: {mend}; {files.nearest(name, UNITS)}"
            found.append(f"declares: {metric!r}: {said}")
        elif known and kind(name) != known.kind:
            found.append(f"declares: {metric!r}: {name} is the unit of a {known.kind} already")
    return found


def fault(name: str) -> str:
    """The side of a fault of metrics in this unit: ``lower``, ``upper``, or ``both``."""
    return FAULT[kind(name) or "other"]


def lower_is_better(name: str) -> bool:
    """Whether a smaller value in this unit is a better one; not so for an unknown unit."""
    return fault(name) == "upper"


def factor(name: str, into: str) -> float | None:
    """The factor from one unit into another; None if they are not of the same quantity."""
    here, there = unit(name), unit(into)
    if here and there and here.base == there.base:
        return here.factor / there.factor
    return 1.0 if name == into else None
