"""Runs the same short IOzone on every node in turn, to find nodes with a slow file system.

A resource that the nodes share, such as the disk of their host, may be busy during the turn of one
node. So each rate is compared with the rates of the other nodes in the same round, and the median
over the rounds counts (:mod:`assay.judge.population`). A node is named only if a second look in the
same job confirms the result.

``python -m assay.fleet.sweep LOG TOLERANCE`` prints the ranks for the second look.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.accused import Against, How
from assay.fleet import looks
from assay.judge import population
from assay.outputs import ParseError, iozone
from assay.outputs.coordinator_log import CoordinatorLog
from assay.quantities import number

MEASURED = ("write", "read")


@dataclass(frozen=True)
class Turn:
    """One turn of one node.

    :ivar look: 1 for the first look at all nodes, 2 for the second.
    :ivar number: number of the round within that look.
    :ivar rates: rate of each operation [KiB/s].
    :ivar direct: whether IOzone opened the file with O_DIRECT.
    """

    node: str
    look: int
    number: int
    rates: Mapping[str, float]
    direct: bool


def turns(log: CoordinatorLog) -> tuple[list[Turn], list[str]]:
    """The turns of all nodes, and a line for each turn that failed."""
    found: list[Turn] = []
    failed: list[str] = []
    for entry in log.entries:
        if "out" not in entry:
            continue
        name = log.nodes[entry["node"]]
        try:
            parsed = iozone.parse(entry["out"])
            if entry["rc"] or not parsed.sound:
                raise ParseError("; ".join(parsed.problems) or "it failed")
            rates = {operation: parsed.quantity(operation).value for operation in MEASURED}
            direct = bool(parsed.facts.get("o_direct"))
            found.append(Turn(name, entry["look"], entry["turn"], rates, direct))
        except ParseError as error:
            how = {None: " (out of time)", 0: ""}.get(entry["rc"], f" (exit code {entry['rc']})")
            failed.append(Against(f"{name}: iozone{how}: {error}", [name], How.FAILED))
    return found, failed


def rounds(found: Sequence[Turn], operation: str, look: int) -> list[population.Round]:
    """The rates of the nodes in each round of one look [KiB/s]."""
    chosen = sorted((turn for turn in found if turn.look == look), key=lambda turn: turn.number)
    return [
        {turn.node: turn.rates[operation] for turn in of_round}
        for _, of_round in itertools.groupby(chosen, key=lambda turn: turn.number)
    ]


def suspects(found: Sequence[Turn], tolerance: float) -> list[str]:
    """The nodes that the first look finds slow.

    :param tolerance: how much slower a node may be, relative: 0.3 is 30 %.
    """
    return population.suspects((rounds(found, o, 1) for o in MEASURED), tolerance)


def criteria(found: Sequence[Turn], tolerance: float) -> dict[str, Any]:
    """Operation -> the criterion that the nodes gave in the first look, for the record."""
    return {o: population.of(rounds(found, o, 1), tolerance).record() for o in MEASURED}


def slow(found: Sequence[Turn], tolerance: float) -> tuple[list[str], list[str]]:
    """The nodes that both looks find slow, one line for each operation: accused, and undecided.

    :mod:`assay.judge.population` says who is accused. A node without a turn in the second look
    stays named.
    """
    accused: list[str] = []
    undecided: list[str] = []
    for operation in MEASURED:
        rates: dict[str, list[float]] = {}
        for turn in found:
            rates.setdefault(turn.node, []).append(turn.rates[operation])
        middle = {name: statistics.median(of_node) for name, of_node in rates.items()}
        first, second = (rounds(found, operation, look) for look in (1, 2))
        for finding in population.confirmed(first, second, tolerance):
            others = [other for its, other in middle.items() if its != finding.name]
            usual, own = statistics.median(others), middle[finding.name]
            line = (
                f"{finding.name}: {operation} {number(own)} KiB/s, the median of {len(others)} "
                f"others is {number(usual)} KiB/s ({100 * (own / usual - 1):+.1f} %){finding.said}"
            )
            if finding.accused:
                accused.append(Against(line, [finding.name], How.SLOW))
            else:
                undecided.append(line)
    return accused, undecided


def second_look(found: Sequence[Turn], tolerance: float) -> list[str]:
    """Nodes with further turns: the suspects, alternating with some nodes without suspicion."""
    suspected = suspects(found, tolerance)
    if not suspected:
        return []
    shares = population.of(rounds(found, MEASURED[0], 1), tolerance).shares
    healthy = {name: share for name, share in shares.items() if name not in suspected}
    beside = sorted(healthy, key=lambda name: abs(healthy[name] - 1))[: looks.BESIDE]
    return [name for pair in itertools.zip_longest(suspected, beside) for name in pair if name]


def main(log_file: str, tolerance: str) -> list[int]:
    """The ranks for the second look, in their order."""
    return looks.ranks(log_file, lambda log: second_look(turns(log)[0], float(tolerance)))


if __name__ == "__main__":
    json.dump(main(*sys.argv[1:]), sys.stdout)
