"""Compares the servers of a parallel file system: the files on one against those on the others.

Every node writes and reads a file on each server (``onnode/servers.py``). A slow node is slow with
all servers, so its rates are compared with each other only. A server whose files are slow for most
nodes is named, if a second look in the same job confirms it. If servers are nodes, the rates of the
slow one with the other servers tell a slow network from a slow disk.

``python -m assay.fleet.servers LOG TOLERANCE`` prints the ranks for the second look.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.outputs.coordinator_log import CoordinatorLog, parse

MEASURED = ("write", "read")


@dataclass(frozen=True)
class Turn:
    """One turn of one node.

    :ivar look: 1 for the first look, 2 for the second.
    :ivar rates: server -> operation -> rate [KiB/s], the median of the rounds of the turn.
    """

    node: str
    look: int
    rates: Mapping[str, Mapping[str, float]]


def turns(log: CoordinatorLog) -> tuple[list[Turn], list[str]]:
    """The turns of all nodes, and a line for each turn that failed."""
    found, failed = [], []
    for entry in log.entries:
        if "out" not in entry:
            continue
        name = log.nodes[entry["node"]]
        try:
            said = json.loads(entry["out"])["servers"]
            rates = {
                server: {operation: statistics.median(values[operation]) for operation in MEASURED}
                for server, values in said.items()
            }
            found.append(Turn(name, entry["look"], rates))
        except (ValueError, LookupError, TypeError, AttributeError):
            how = "out of time" if entry["rc"] is None else f"exit code {entry['rc']}"
            last = (entry["out"].strip().splitlines() or ["it said nothing"])[-1]
            failed.append(f"{name}: the files on the servers ({how}): {last}")
    return found, failed


def shares(found: Sequence[Turn], operation: str, look: int) -> dict[str, float]:
    """Server -> rate of its files relative to those on the other servers: median over all turns.

    A node that is a server itself is not compared with its own files.
    """
    ratios: dict[str, list[float]] = {}
    for turn in found:
        if turn.look != look:
            continue
        far = {s: rates[operation] for s, rates in turn.rates.items() if s != turn.node}
        for server, rate in far.items():
            others = [other for its, other in far.items() if its != server]
            if others:
                ratios.setdefault(server, []).append(rate / statistics.median(others))
    return {server: statistics.median(values) for server, values in ratios.items()}


def suspects(found: Sequence[Turn], tolerance: float) -> list[str]:
    """The servers that the first look finds slow."""
    slow = [
        server
        for operation in MEASURED
        for server, share in shares(found, operation, 1).items()
        if share < 1 - tolerance
    ]
    return list(dict.fromkeys(slow))


def slow(found: Sequence[Turn], tolerance: float) -> Iterator[str]:
    """The servers that both looks find slow, one line for each operation."""
    for operation in MEASURED:
        first, second = (shares(found, operation, look) for look in (1, 2))
        for server, share in first.items():
            if max(share, second.get(server, share)) >= 1 - tolerance:
                continue
            far = _rates(found, operation, lambda node, its: node != its)
            here = _median(rate for _, its, rate in far if its == server)
            there = _median(rate for _, its, rate in far if its != server)
            yield (
                f"files on {server}: {operation} {here:.4g} KiB/s, those on other servers "
                f"{there:.4g} KiB/s ({100 * (here / there - 1):+.1f} %)"
                f"{_cause(found, operation, server, tolerance)}"
            )


def _rates(
    found: Sequence[Turn], operation: str, of: Callable[[str, str], bool]
) -> list[tuple[str, str, float]]:
    """Node, server and rate of all turns of which `of(node, server)` is true."""
    return [
        (turn.node, server, rates[operation])
        for turn in found
        for server, rates in turn.rates.items()
        if of(turn.node, server)
    ]


def _median(rates: Iterable[float]) -> float:
    return statistics.median([*rates] or [math.nan])


def _cause(found: Sequence[Turn], operation: str, server: str, tolerance: float) -> str:
    """What the server shows as a node; empty if servers are not nodes.

    A slow network slows its rates with all other servers, too; a slow disk does not.
    """
    others = _rates(found, operation, lambda node, its: server != its != node)
    own = _median(rate for node, _, rate in others if node == server)
    usual = _median(rate for node, _, rate in others if node != server)
    if math.isnan(own / usual):
        return ""
    if own < usual * (1 - tolerance):
        return f"; {server} itself is slow with the other servers, too: its network or processor"
    return f"; {server} itself is not slow with the other servers: its disk"


def second_look(found: Sequence[Turn], ranks: int, tolerance: float) -> list[int]:
    """The ranks with further turns: all of them if there is a suspect."""
    return list(range(ranks)) if suspects(found, tolerance) else []


def main(log_file: str, tolerance: str) -> list[int]:
    """The ranks for the second look, in their order."""
    log = parse(Path(log_file).read_text(encoding="utf-8"))
    return second_look(turns(log)[0], log.asked, float(tolerance))


if __name__ == "__main__":
    json.dump(main(*sys.argv[1:]), sys.stdout)
