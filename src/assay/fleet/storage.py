"""Sweeps over file systems: that of each node, and the servers of a parallel one."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from assay.fleet.population import Finding, Round
from assay.fleet.sweep import Sweep, Turn, against
from assay.parse import ParseError, iozone
from assay.quantities import number

MEASURED = ("write", "read")


class Disks(Sweep):
    """The same short IOzone on every node in turn: the file system of a node may be slow."""

    measured = dict.fromkeys(MEASURED, "KiB/s")
    failed = "iozone"
    differ = "their writes differ in kind"

    def values(self, node: str, entry: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
        parsed = iozone.parse_iozone(entry["out"])
        if entry["rc"] or not parsed.sound:
            raise ParseError("; ".join(parsed.problems) or "it failed")
        values = {what: {node: float(parsed.quantity(what).value)} for what in MEASURED}
        return values, "direct" if parsed.facts.get("o_direct") else "synchronous"


class Servers(Sweep):
    """Every node writes and reads a file on each server (``fleet/node/servers.py``).

    The rates of one node are compared with each other: a slow one is slow with all servers. If
    servers are nodes, its rates with the others tell a slow network from a slow disk.
    """

    measured = dict.fromkeys(MEASURED, "KiB/s")
    failed = "the files on the servers"
    accuses = False

    def values(self, node: str, entry: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
        if entry["rc"] != 0:
            raise ValueError
        said = json.loads(entry["out"])["servers"]
        return {
            what: {server: statistics.median(its[what]) for server, its in said.items()}
            for what in MEASURED
        }, ""

    def rounds(self, found: Sequence[Turn], quantity: str, look: int) -> list[Round]:
        # A node that is a server itself is not compared with its own files.
        return [
            {name: rate for name, rate in turn.values[quantity].items() if name != turn.node}
            for turn in found
            if turn.look == look
        ]

    def second_look(
        self, found: Sequence[Turn], tolerance: float, nodes: Sequence[str] = ()
    ) -> list[str]:
        """All nodes if there is a suspect."""
        return list(nodes) if self.suspects(found, tolerance) else []

    def line(self, found: Sequence[Turn], quantity: str, slow: Sequence[Finding]) -> str:
        server = slow[0].name
        here = statistics.median(_rates(found, quantity, lambda node, its: node != its == server))
        there = statistics.median(_rates(found, quantity, lambda node, its: node != its != server))
        return (
            f"files on {server}: {quantity} {number(here)} KiB/s, those on other servers "
            f"{against(here, there, 'KiB/s')}"
        )

    def cause(self, found: Sequence[Turn], quantity: str, node: str, tolerance: float) -> str:
        """What the server shows as a node, with others; empty if servers are no nodes."""
        own = _rates(found, quantity, lambda one, its: one == node != its)
        usual = _rates(found, quantity, lambda one, its: node != its != one != node)
        if not (own and usual):
            return ""
        if statistics.median(own) < statistics.median(usual) * (1 - tolerance):
            return f"; {node} itself is slow with the other servers, too: its network or processor"
        return f"; {node} itself is not slow with the other servers: its disk"


def _rates(found: Iterable[Turn], what: str, of: Callable[[str, str], bool]) -> list[float]:
    """The rates for which `of(node, server)` is true."""
    return [
        rate
        for turn in found
        for server, rate in turn.values[what].items()
        if of(turn.node, server)
    ]


DISKS, SERVERS = Disks(), Servers()
