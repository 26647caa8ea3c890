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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay import files

PLANNED = "planned.yaml"

_REQUIRED, _OPTIONAL = ("date", "what"), ("partitions", "metrics")


class PlannedError(Exception):
    """The file is wrong; the message is one line with file, entry and remedy."""


@dataclass(frozen=True)
class Planned:
    """One planned change.

    :ivar start: seconds since 1970; values of runs that began then or later are after the change.
    :ivar partitions: the partitions that it concerns; empty for all.
    :ivar metrics: the metrics that it concerns, without units; empty for all.
    """

    start: float
    what: str
    partitions: frozenset[str] = frozenset()
    metrics: frozenset[str] = frozenset()

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
    document = files.read_yaml(path, PlannedError)
    if document is None:
        return []
    if not isinstance(document, list):
        raise PlannedError(f"{path}: is not a list; begin each change with `- date: YYYY-MM-DD`")
    return sorted(
        (_entry(f"{path}: change {number}", entry) for number, entry in enumerate(document, 1)),
        key=lambda planned: planned.start,
    )


def _entry(where: str, entry: Any) -> Planned:
    known = ", ".join((*_REQUIRED, *_OPTIONAL))
    if not isinstance(entry, dict):
        raise PlannedError(f"{where}: is not a mapping; its keys are {known}")
    for key in entry:
        if key not in (*_REQUIRED, *_OPTIONAL):
            raise PlannedError(f"{where}: unknown key {key!r}; the keys are {known}")
    for key in _REQUIRED:
        if key not in entry:
            raise PlannedError(f"{where}: {key}: is missing; add it")
    if not isinstance(entry["what"], str) or not entry["what"].strip():
        raise PlannedError(f"{where}: what: {entry['what']!r} is no text; say what was changed")
    return Planned(
        _start(where, entry["date"]),
        entry["what"],
        *(_names(where, key, entry.get(key, [])) for key in _OPTIONAL),
    )


def _start(where: str, value: object) -> float:
    if isinstance(value, datetime.datetime):
        # PyYAML turns a time with a zone into UTC. A time without a zone is of this machine.
        return value.timestamp()
    if isinstance(value, datetime.date):
        return datetime.datetime(value.year, value.month, value.day).timestamp()
    raise PlannedError(
        f"{where}: date: {value!r} is no date; write 2026-03-01, or 2026-03-01 14:00:00, unquoted"
    )


def _names(where: str, key: str, value: object) -> frozenset[str]:
    if (
        not isinstance(value, Sequence)
        or isinstance(value, str)
        or not all(isinstance(name, str) for name in value)
    ):
        raise PlannedError(f"{where}: {key}: {value!r} is no list of names; write [one, two]")
    return frozenset(value)
