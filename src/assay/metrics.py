"""The units of metrics: kind of each unit, the side of a fault, and factors between units.

A test declares each metric with its unit (``declares``). The unit decides the rest, so a new metric
needs no other entry. A unit that is not in :data:`UNITS` is a :class:`Unit` of the test itself.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from assay import files

#: Kind of metric -> the side of a fault: a rate that is too low, a time that is too high.
#: For a ratio or a count, neither side is known to be good; a reference gives both bounds.
FAULT = {"rate": "lower", "time": "upper", "other": "both"}

#: In ``site-config`` and in the folder of a site; the head of the first explains it.
TOLERANCES = "tolerances.yaml"

Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]


class Tolerance(msgspec.Struct, forbid_unknown_fields=True):
    """A kind of metrics has least and wide, fractions between 0 and 1."""

    least: Share
    wide: Share


class Planned(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change has date (2026-03-01, or 2026-03-01 14:00:00, unquoted) and what.

    A new stack or a new firmware changes numbers, and nobody wants an alarm for it. The values from
    then on have a baseline of their own.

    :ivar what: what was changed, in words.
    :ivar partitions: the partitions that it concerns; empty for all.
    :ivar metrics: the metrics that it concerns, without units; empty for all.
    """

    date: Any
    what: Annotated[str, msgspec.Meta(min_length=1)]
    partitions: frozenset[str] = frozenset()
    metrics: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not isinstance(self.date, datetime.date):
            raise ValueError(f"date: {self.date!r} is no date")

    @property
    def start(self) -> float:
        """Seconds since 1970; values of runs that began then or later are after the change."""
        # PyYAML turns a time with a zone into UTC. A time without a zone is of this machine.
        if isinstance(self.date, datetime.datetime):
            return self.date.timestamp()
        return datetime.datetime.combine(self.date, datetime.time()).timestamp()

    def concerns(self, partition: str, metric: str) -> bool:
        """Whether the change may alter this metric of this partition."""
        return (not self.partitions or partition in self.partitions) and (
            not self.metrics or metric in self.metrics
        )


class Tolerances(msgspec.Struct, forbid_unknown_fields=True):
    """The file has rate, time, other, other_work, a number of processors, and planned changes."""

    rate: Tolerance
    time: Tolerance
    other: Tolerance
    other_work: Annotated[float, msgspec.Meta(gt=0)]
    planned: list[Planned] = []


def tolerances(site: Path, refusal: type[Exception]) -> Tolerances:
    """What is tolerated at a site: the file of all sites, with the changes of the site.

    :raises refusal: a file is missing or not valid.
    """
    return files.layered(site, TOLERANCES, Tolerances, refusal)


#: (kind, unit that the factors are for, unit -> factor)
_TABLE: tuple[tuple[str, str, Mapping[str, float]], ...] = (
    ("time", "s", {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}),
    ("rate", "B/s", {"B/s": 1, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9}),
    ("rate", "B/s", {"KiB/s": 2**10, "MiB/s": 2**20, "GiB/s": 2**30}),
    ("rate", "FLOP/s", {"MFLOP/s": 1e6, "GFLOP/s": 1e9, "TFLOP/s": 1e12}),
    ("rate", "op/s", {"op/s": 1, "Mop/s": 1e6}),
    ("rate", "UP/s", {"GUP/s": 1e9}),
    ("rate", "1/s", {"1/s": 1}),
    ("other", "B", {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}),
    ("other", "1", {"1": 1, "%": 1e-2}),
)


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


#: The units that every metric may have.
UNITS = {
    name: Unit(name, kind, base, factor)
    for kind, base, factors in _TABLE
    for name, factor in factors.items()
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
    here, there = unit(name), UNITS[into]
    return here.factor / there.factor if here and here.base == there.base else None
