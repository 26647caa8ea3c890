"""What a site tolerates, and what it plans to change: ``tolerances.yaml``."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec

from assay import files

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


def tolerances_of(site: Path, refusal: type[Exception]) -> Tolerances:
    """What is tolerated at a site: the file of all sites, with the changes of the site.

    :raises refusal: a file is missing or not valid.
    """
    return files.layered(site, TOLERANCES, Tolerances, refusal)
