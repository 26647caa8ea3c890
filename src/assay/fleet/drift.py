"""How the cores of all nodes changed over the turns of a long run: the worst value, and the drift.

Heat and power change a node over hours. In each turn a core is compared with all cores, so the
drift of a node is that against the others. The drift of all nodes together is recorded only:
nothing says whether the room or the benchmark changed.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from assay.accused import Against, How
from assay.fleet import cores
from assay.judge import population

#: Fewest turns in which a drift is looked for. Their first and their last third are compared.
LEAST_TURNS = 9


def of_nodes(rounds: Sequence[population.Round], fault: str) -> dict[str, float]:
    """Node -> its share in the last third of the rounds divided by that in the first third.

    A share is a value divided by the median of all cores in the round; a node has the median of its
    cores. Below 1 the node became worse than the others.

    :param rounds: names of cores as :func:`assay.fleet.cores.rounds` gives them; at least three.
    """
    shares: dict[str, list[float]] = {}
    for of_round in rounds:
        of_node: dict[str, list[float]] = {}
        for name, (share,) in population.shares([of_round], fault=fault).items():
            of_node.setdefault(name.rpartition(" ")[0], []).append(share)
        for node, found in of_node.items():
            shares.setdefault(node, []).append(statistics.median(found))
    return {node: _ratio(found) for node, found in shares.items() if len(found) >= 3}


def _ratio(values: Sequence[float]) -> float:
    third = len(values) // 3
    return statistics.median(values[-third:]) / statistics.median(values[:third])


def record(found: Sequence[cores.Turn]) -> dict[str, Any]:
    """Quantity -> the worst value with its core and turn, and the drift; empty for a short run.

    ``all`` is the drift of the median of all cores, in the direction of the quantity: below 1 a
    rate fell, and a time became shorter.
    """
    said: dict[str, Any] = {}
    for quantity, (unit, fault) in cores.quantities(found).items():
        rounds = cores.rounds(found, quantity, 1)
        if len(rounds) < LEAST_TURNS:
            return {}
        worst = min if fault == "lower" else max
        value, turn, name = worst(
            (value, turn, name)
            for turn, of_round in enumerate(rounds)
            for name, value in of_round.items()
        )
        said[quantity] = {
            "worst": {"value": value, "unit": unit, "core": name, "turn": turn},
            "turns": len(rounds),
            "all": _ratio([statistics.median(of_round.values()) for of_round in rounds]),
            "nodes": of_nodes(rounds, fault),
        }
    return said


def worse(found: Sequence[cores.Turn], tolerance: float) -> tuple[list[str], list[str]]:
    """The nodes that became worse than the others, one line each: accused, and undecided."""
    accused: list[str] = []
    undecided: list[str] = []
    for quantity, said in record(found).items():
        drifts = said["nodes"]
        judged = population.of([drifts], tolerance)
        for node in judged.suspects:
            line = (
                f"{node}: {quantity} became {1 - drifts[node]:.1%} worse against the other nodes, "
                f"from the first to the last third of {said['turns']} turns"
            )
            if node in judged.outliers:
                accused.append(Against(line, [node], How.SLOW))
            else:
                undecided.append(f"{line}; nobody is accused: {judged.why_not()}")
    return accused, undecided
