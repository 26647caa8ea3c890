"""How often a sparse tournament names the right switch, trunk, node or link, by simulation.

The machine has leaf switches of 32 nodes below a spine. A trial is a machine with one fault or
none, as in :mod:`power`; the suite's own code draws the rounds, suspects, chooses the second pass
and concludes. Each cell has its own seed.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from power import METRIC, Outcome, share

from assay.fleet.topology.fabric import Fabric, Kind, Part
from assay.fleet.tournament import schedule
from assay.fleet.tournament.again import second_pass
from assay.fleet.tournament.diagnosis import conclude
from assay.fleet.tournament.localise import Crossings, Floats, Ints, Pairs, Search, localise
from assay.fleet.tournament.model import Diagnosis, Fault, Finding, Level, Measurement

#: Nodes of one leaf switch.
ON_A_LEAF = 32

FAULTS = ("switch", "trunk", "node", "pair")
SEVERITIES = (0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5)
NOISES = (0.01, 0.02, 0.05)


@dataclass(frozen=True)
class Sparse:
    """A sparse tournament by switches, with `trials` trials of each cell."""

    nodes: int
    trials: int
    severities: tuple[float, ...] = SEVERITIES
    noises: tuple[float, ...] = NOISES

    @property
    def rounds(self) -> int:
        return schedule.sparse(self.nodes)

    def __str__(self) -> str:
        leaves = math.ceil(self.nodes / ON_A_LEAF)
        return f"{self.nodes} nodes on {leaves} switches, {self.rounds} rounds"


TOURNAMENTS = (Sparse(1_000, 60), Sparse(10_000, 20, (0.05, 0.075, 0.1, 0.15, 0.2), (0.01, 0.02)))


@dataclass(frozen=True)
class Cell:
    """One point: the kind of the fault (one of :data:`FAULTS`, or nothing), severity and noise."""

    tournament: Any
    fault: str
    severity: float
    noise: float


def cells(tournament: Any, faults: Sequence[str] = FAULTS) -> Iterator[Cell]:
    """All points of a tournament, or of another simulation with severities and noises."""
    for noise in tournament.noises:
        yield Cell(tournament, "", 0.0, noise)
        for fault, severity in itertools.product(faults, tournament.severities):
            yield Cell(tournament, fault, severity, noise)


class Machine:
    """The network, and the pairs of the first pass with what they cross."""

    def __init__(self, nodes: int) -> None:
        self.nodes = tuple(f"n{number:05}" for number in range(nodes))
        leaves = {
            f"leaf{at // ON_A_LEAF}": self.nodes[at : at + ON_A_LEAF]
            for at in range(0, nodes, ON_A_LEAF)
        }
        self.fabric = Fabric({**leaves, "spine": ()}, [(leaf, "spine") for leaf in leaves])
        self.leaves = tuple(leaves)
        groups = self.fabric.leaves(self.nodes)
        met = [p for r in schedule.by_switch(groups, schedule.sparse(nodes)) for p in r]
        ends = np.unique(np.array(met, dtype=np.int64), axis=0)
        self.first: Ints = ends[:, 0]
        self.second: Ints = ends[:, 1]
        self.leaf: Ints = np.arange(nodes, dtype=np.int64) // ON_A_LEAF
        self.crossings = Crossings(
            self.fabric, [(self.nodes[a], self.nodes[b]) for a, b in ends.tolist()]
        )


@lru_cache(maxsize=1)
def machine(nodes: int) -> Machine:
    return Machine(nodes)


def simulate(cell: Cell) -> Outcome:
    """All trials of a cell."""
    key = f"switches {cell.tournament.nodes} {cell.fault} {cell.severity} {cell.noise}"
    random = np.random.RandomState(zlib.crc32(key.encode()))
    made = machine(cell.tournament.nodes)
    return share(cell.tournament.trials, lambda: _trial(made, cell, random))


def _trial(made: Machine, cell: Cell, random: np.random.RandomState) -> tuple[set[str], set[str]]:
    """The faulty part, and what is named in the end."""
    noise = math.sqrt(math.log1p(cell.noise**2))
    loss = math.log1p(-cell.severity)
    leaf = random.randint(len(made.leaves))
    pair = random.randint(len(made.first))
    a, b = int(made.first[pair]), int(made.second[pair])
    truth = {
        "": "",
        "switch": f"switch leaf{leaf}",
        "trunk": str(Part(Kind.TRUNK, (f"leaf{leaf}", "spine"))),
        "node": made.nodes[a],
        "pair": f"{made.nodes[a]} - {made.nodes[b]}",
    }[cell.fault]

    def measured(first: Ints, second: Ints) -> Floats:
        values = random.standard_normal(len(first)) * noise
        one, other = made.leaf[first] == leaf, made.leaf[second] == leaf
        slow = {
            "": np.zeros(len(first), dtype=np.bool_),
            "switch": one | other,
            "trunk": one ^ other,
            "node": (first == a) | (second == a),
            "pair": ((first == a) & (second == b)) | ((first == b) & (second == a)),
        }[cell.fault]
        values[slow] += loss
        return values

    diagnosis = _first_pass(made, measured(made.first, made.second))
    number = {name: place for place, name in enumerate(made.nodes)}
    again = [p for pairs in second_pass(diagnosis, fabric=made.fabric) for p in pairs]
    if again:
        first, second = np.array([[number[x] for x in p] for p in again], dtype=np.int64).T
        values = np.exp(measured(first, second)).tolist()
        runs = [Measurement(x, y, {METRIC.name: v}) for (x, y), v in zip(again, values)]
        diagnosis = conclude(diagnosis, runs, made.fabric)
    return {truth} - {""}, {f.part or " - ".join(f.nodes) for f in diagnosis.findings}


def _first_pass(made: Machine, values: Floats) -> Diagnosis:
    """What :func:`assay.fleet.tournament.diagnosis.diagnose` finds, without its slow wording."""
    pairs = Pairs(len(made.nodes), made.first, made.second, values)
    found = Search(pairs, made.crossings, made.leaf, METRIC.threshold, METRIC.distance)
    fit = localise(pairs.without(found.cost), METRIC.threshold)
    findings = [
        Finding(Fault.SLOW_TRUNK, (), "", METRIC.name, -0.5, False, blame.parts)
        if any(part.kind is not Kind.SWITCH for part in blame.parts)
        else Finding(Fault.SLOW_SWITCH, (), "", METRIC.name, -0.5, False, blame.parts)
        for blame in found.blamed
    ]
    nodes = made.nodes
    named = [(Fault.SLOW_NODE, (nodes[i],)) for i in fit.slow_nodes]
    named += [
        (Fault.SLOW_PAIR, (nodes[made.first[p]], nodes[made.second[p]])) for p in fit.slow_pairs
    ]
    findings += [Finding(fault, who, "", METRIC.name, -1.0) for fault, who in named]
    level = Level(math.exp(fit.base), fit.noise)
    return Diagnosis(nodes, (METRIC,), tuple(findings), (), (), {METRIC.name: level})
