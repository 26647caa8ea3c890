"""The log of the coordinator of a meeting of nodes: JSON lines of :mod:`assay.fleet.node.meeting`.

The first line lists the processes that came, the last line lists the nodes that left before the
end. A meeting that was cut short has no last line; the lines that it wrote still count.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.accused import Against, How
from assay.parse.reading import ParseError


@dataclass(frozen=True)
class CoordinatorLog:
    """The record of a meeting.

    :ivar asked: number of processes that were expected.
    :ivar hosts: rank -> name of its node, for the processes that came.
    :ivar absent: names of the nodes that did not come; their ranks if the names are not known.
    :ivar gone: node -> why it could not be asked any more, for nodes that left before the end.
    :ivar entries: all other entries, in their order.
    :ivar complete: whether the meeting came to its end.
    """

    asked: int
    hosts: Mapping[int, str]
    absent: tuple[str, ...]
    gone: Mapping[str, str]
    entries: tuple[Mapping[str, Any], ...]
    complete: bool

    @property
    def nodes(self) -> tuple[str, ...]:
        """A name for each rank, including the ranks that did not come."""
        absent = iter(self.absent)
        return tuple(
            self.hosts[rank] if rank in self.hosts else next(absent) for rank in range(self.asked)
        )

    @property
    def problems(self) -> list[str]:
        """Deviations from one process on each node from beginning to end, one line each."""
        problems: list[str] = [
            Against(f"{name} did not come", [name], How.FAILED) for name in self.absent
        ]
        problems += [
            f"{count} processes came from {host}; each node was to send one"
            for host, count in Counter(self.hosts.values()).items()
            if count > 1
        ]
        problems += [
            Against(f"{host} left before the end: {why}", [host], How.FAILED)
            for host, why in self.gone.items()
        ]
        if not self.complete:
            problems.append("the meeting of the nodes was cut short")
        return problems


def read_coordinator_log(path: str) -> CoordinatorLog:
    """The log in a file. Raises as :func:`parse_coordinator_log`, and OSError."""
    return parse_coordinator_log(Path(path).read_text(encoding="utf-8"))


def parse_coordinator_log(text: str) -> CoordinatorLog:
    """Read a log, without a last line that was cut.

    :raises ParseError: nothing lists the processes that came, or a line is not a JSON object.
    """
    lines = text.split("\n")[:-1]
    entries = []
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            raise ParseError("no JSON", number, line) from None
        if not isinstance(entry, dict):
            raise ParseError("no JSON object", number, line)
        entries.append(entry)
    if not entries:
        raise ParseError("the nodes did not meet")
    try:
        first = entries.pop(0)
        hosts = {int(rank): str(host) for rank, host in first["met"].items()}
        asked, absent = int(first["asked"]), tuple(map(str, first["absent"]))
        if len(absent) != asked - len(hosts) or not set(hosts) <= set(range(asked)):
            raise ValueError
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ParseError("the first line does not say who came", 1, lines[0]) from None
    complete = bool(entries) and entries[-1].get("end") is True
    gone = entries.pop().get("gone", {}) if complete else {}
    return CoordinatorLog(asked, hosts, absent, gone, tuple(entries), complete)
