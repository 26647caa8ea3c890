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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.judge import population
from assay.outputs.coordinator_log import CoordinatorLog, parse
from assay.quantities import number

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


def rounds(found: Sequence[Turn], operation: str, look: int) -> list[population.Round]:
    """The rates of the servers in each turn of one look [KiB/s].

    A node that is a server itself is not compared with its own files.
    """
    return [
        {server: rates[operation] for server, rates in turn.rates.items() if server != turn.node}
        for turn in found
        if turn.look == look
    ]


def suspects(found: Sequence[Turn], tolerance: float) -> list[str]:
    """The servers that the first look finds slow."""
    return population.suspects((rounds(found, o, 1) for o in MEASURED), tolerance)


def criteria(found: Sequence[Turn], tolerance: float) -> dict[str, Any]:
    """Operation -> the criterion that the servers gave in the first look, for the record."""
    return {o: population.of(rounds(found, o, 1), tolerance).record() for o in MEASURED}


def slow(found: Sequence[Turn], tolerance: float) -> tuple[list[str], list[str]]:
    """The servers that both looks find slow, one line for each operation: accused, and undecided.

    :mod:`assay.judge.population` says which are accused.
    """
    accused: list[str] = []
    undecided: list[str] = []
    for operation in MEASURED:
        first, second = (rounds(found, operation, look) for look in (1, 2))
        for finding in population.confirmed(first, second, tolerance):
            server = finding.name
            far = _rates(found, operation, lambda node, its: node != its)
            here = _median(rate for _, its, rate in far if its == server)
            there = _median(rate for _, its, rate in far if its != server)
            line = (
                f"files on {server}: {operation} {number(here)} KiB/s, those on other servers "
                f"{number(there)} KiB/s ({100 * (here / there - 1):+.1f} %){finding.said}"
            )
            if finding.accused:
                accused.append(line + _cause(found, operation, server, tolerance))
            else:
                undecided.append(line)
    return accused, undecided


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
