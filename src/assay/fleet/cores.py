"""Compares every core with all cores of all nodes: a slow core, a slow memory, a low clock.

Every node measures all its cores at once, in several turns (``node/cores.py``). All cores of all
nodes are one population. Heat and power change a node over hours: its drift is that against the
others. The drift of all nodes together is recorded only: the room may have changed.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from assay.accused import Against, How
from assay.fleet import population
from assay.fleet.population import Finding
from assay.fleet.sweep import Sweep, Turn, against
from assay.quantities import number
from assay.store.cases import grouped

#: Quantity -> its unit. The clock is an observation, and judged where all nodes state it.
UNITS = {"dgemm": "GFLOP/s", "copy": "GB/s", "latency": "ns"}
CLOCK, MHZ = "clock", "MHz"

#: Number of cores that a line names.
NAMED = 4

#: Fewest turns in which a drift is looked for. Their first and their last third are compared.
LEAST_TURNS = 9


class Cores(Sweep):
    """The cores of all nodes; a unit is called ``node01 cpu3``."""

    measured = {**UNITS, CLOCK: MHZ}
    failed = "its cores were not measured"
    differ = "their arrays differ with their free memory"

    def values(self, node: str, entry: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
        if entry["rc"]:
            raise ValueError
        said = json.loads(entry["out"])
        cores = {f"{node} cpu{cpu}": values for cpu, values in said["cores"].items()}
        found = {
            quantity: {name: statistics.median(its[quantity]) for name, its in cores.items()}
            for quantity in UNITS
        }
        clocks = {f"{node} cpu{cpu}": float(mhz) for cpu, mhz in said["clock"].items()}
        if clocks.keys() >= cores.keys():
            found[CLOCK] = {name: clocks[name] for name in cores}
        every = [value for values in found.values() for value in values.values()]
        if not cores or not all(0 < value < math.inf for value in every):
            raise ValueError
        return found, f"{int(said['bytes'])} B"

    def node_of(self, unit: str) -> str:
        return unit.rpartition(" ")[0]

    def line(self, found: Sequence[Turn], quantity: str, slow: Sequence[Finding]) -> str:
        node, unit = self.node_of(slow[0].name), self.measured[quantity]
        own = statistics.median(finding.own for finding in slow)
        there = len({name for t in found if t.node == node for name in t.values[quantity]})
        which = "each of its cores" if there > 1 else "its core"
        if len(slow) < there:
            names = [finding.name.rpartition(" ")[2] for finding in slow]
            more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            which = f"{', '.join(names[:NAMED])}{more} of {there} cores"
        return (
            f"{node}: {quantity} {number(own)} {unit} on {which}, the median of the other cores is "
            f"{against(own, slow[0].usual, unit)}"
        )


CORES = Cores()


def shares_of_nodes(rounds: Sequence[population.Round], fault: str) -> dict[str, float]:
    """Node -> its share in the last third of the rounds divided by that in the first third.

    A share is a value divided by the median of all cores in the round; a node has the median of its
    cores. Below 1 the node became worse than the others.

    :param rounds: at least three.
    """
    shares: dict[str, list[float]] = {}
    for of_round in rounds:
        its = population.shares([of_round], fault=fault).items()
        of_node = grouped((CORES.node_of(name), share) for name, (share,) in its)
        for node, found in of_node.items():
            shares.setdefault(node, []).append(statistics.median(found))
    return {node: _ratio(found) for node, found in shares.items() if len(found) >= 3}


def _ratio(values: Sequence[float]) -> float:
    third = len(values) // 3
    return statistics.median(values[-third:]) / statistics.median(values[:third])


def drift(found: Sequence[Turn]) -> dict[str, Any]:
    """Quantity -> the worst value with its core and turn, and the drift; empty for a short run.

    ``all`` is the drift of the median of all cores: below 1 a rate fell, a time became shorter.
    """
    said: dict[str, Any] = {}
    for quantity, (unit, fault) in CORES.quantities(found).items():
        rounds = CORES.rounds(found, quantity, 1)
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
            "nodes": shares_of_nodes(rounds, fault),
        }
    return said


def worse(found: Sequence[Turn], tolerance: float) -> tuple[list[str], list[str]]:
    """The nodes that became worse than the others, one line each: accused, and undecided."""
    lines: dict[bool, list[str]] = {True: [], False: []}
    for quantity, said in drift(found).items():
        for one in population.confirmed([said["nodes"]], [], tolerance):
            line = (
                f"{one.name}: {quantity} became {1 - one.own:.1%} worse against the other nodes, "
                f"from the first to the last third of {said['turns']} turns"
            )
            accused = Against(line, [one.name], How.SLOW)
            lines[one.accused].append(accused if one.accused else line + one.said)
    return lines[True], lines[False]
