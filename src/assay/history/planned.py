"""Planned changes of a site: ``planned.yaml`` in its folder.

A new stack or a new firmware changes numbers, and nobody wants an alarm for it. An entry says when
what was changed. The values from then on have a baseline of their own::

    - date: 2026-03-01
      what: firmware 20.41 of the network adapters
      partitions: [inter-node]      # optional; without it, all
      metrics: [bandwidth_4MiB]     # optional; without it, all
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec

from assay import files

PLANNED = "planned.yaml"


class PlannedError(Exception):
    """The file is wrong; the message is one line with file, entry and remedy."""


class Planned(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change has date (2026-03-01, or 2026-03-01 14:00:00, unquoted) and what.

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


def load(site: Path) -> list[Planned]:
    """The planned changes of a site, in order of time; none without the file.

    :param site: the site's folder.
    :raises PlannedError: the file is not YAML, or an entry is wrong.
    """
    path = site / PLANNED
    if not path.exists():
        return []
    found = files.read(path, list[Planned], PlannedError)
    return sorted(found, key=lambda planned: planned.start)
