"""How often a tournament names the right node or link, by simulation with the suite's own code.

One trial is a machine whose pairs differ by noise (log-normal), with one fault or none. Its
tournament is diagnosed, the suspects are measured again, and the final verdict is compared with
the truth. Each cell has its own seed, so that a cell computed alone gives the same result.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from assay.fleet.tournament import schedule
from assay.fleet.tournament.again import second_pass
from assay.fleet.tournament.diagnosis import conclude
from assay.fleet.tournament.localise import Floats, Ints, Pairs, localise
from assay.fleet.tournament.model import Diagnosis, Fault, Finding, Level, Measurement, Metric

Names = tuple[str, ...]

#: The metric that judges the machine: a bandwidth, with a tolerance of 5 %.
METRIC = Metric("bandwidth", "1", higher_is_better=True, tolerance=0.05)

SEVERITIES = (0.02, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5)
NOISES = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1)


@dataclass(frozen=True)
class Tournament:
    """A number of nodes, in all rounds or in `limit` of them, with `trials` trials of each cell."""

    nodes: int
    limit: int | None
    trials: int
    severities: tuple[float, ...] = SEVERITIES
    noises: tuple[float, ...] = NOISES

    @property
    def rounds(self) -> int:
        full = schedule.count(self.nodes)
        return min(self.limit or full, full)

    def __str__(self) -> str:
        every = "all " if self.limit is None else ""
        return f"{self.nodes} nodes, {every}{self.rounds} rounds"


TOURNAMENTS = (
    Tournament(4, None, 200),
    Tournament(16, None, 200),
    Tournament(64, None, 100),
    Tournament(64, 6, 200),
    Tournament(1024, 10, 60),
    Tournament(10_000, 14, 20, (0.05, 0.1, 0.15, 0.2, 0.3), (0.01, 0.02)),
)


@dataclass(frozen=True)
class Cell:
    """One point: the faulty part (``node``, ``pair`` or nothing), the severity, and the noise."""

    tournament: Tournament
    fault: str
    severity: float
    noise: float


@dataclass(frozen=True)
class Outcome:
    """Shares of the trials.

    :ivar right: exactly the fault was named; nothing, if nothing is at fault.
    :ivar wrong: something innocent was named. In the rest of the trials the fault was missed.
    """

    right: float
    wrong: float


def cells(tournament: Tournament) -> Iterator[Cell]:
    for noise in tournament.noises:
        yield Cell(tournament, "", 0.0, noise)
        for fault, severity in itertools.product(("node", "pair"), tournament.severities):
            yield Cell(tournament, fault, severity, noise)


def simulate(cell: Cell) -> Outcome:
    """All trials of a cell."""
    key = f"{cell.tournament.nodes} {cell.tournament.rounds} {cell.fault} {cell.severity}"
    # The legacy generator: numpy promises the same numbers in all versions.
    random = np.random.RandomState(zlib.crc32(f"{key} {cell.noise}".encode()))
    return share(cell.tournament.trials, lambda: _trial(cell, random))


def share(number: int, trial: Callable[[], tuple[set[Any], set[Any]]]) -> Outcome:
    """The outcome of so many trials; each gives what is at fault, and what was named."""
    right = wrong = 0
    for _ in range(number):
        truth, named = trial()
        right += named == truth
        wrong += not named <= truth
    return Outcome(right / number, wrong / number)


@lru_cache(maxsize=1)
def _pairs(tournament: Tournament) -> tuple[tuple[str, ...], Ints, Ints]:
    met = [p for r in schedule.rounds(tournament.nodes, tournament.limit) for p in r]
    ends = np.array(met, dtype=np.int64)
    return tuple(map(str, range(tournament.nodes))), ends[:, 0], ends[:, 1]


def _trial(cell: Cell, random: np.random.RandomState) -> tuple[set[Names], set[Names]]:
    """The faulty nodes, and the nodes that are named in the end."""
    nodes, first, second = _pairs(cell.tournament)
    noise = math.sqrt(math.log1p(cell.noise**2))
    loss = math.log1p(-cell.severity)
    victim: Names = ()
    if cell.fault == "node":
        victim = (nodes[random.randint(len(nodes))],)
    elif cell.fault == "pair":
        p = random.randint(len(first))
        victim = (nodes[first[p]], nodes[second[p]])

    def measured(a: Ints, b: Ints) -> Floats:
        values = random.standard_normal(len(a)) * noise
        if cell.fault == "node":
            values[(a == int(victim[0])) | (b == int(victim[0]))] += loss
        elif cell.fault == "pair":
            values[(a == int(victim[0])) & (b == int(victim[1]))] += loss
            values[(b == int(victim[0])) & (a == int(victim[1]))] += loss
        return values

    diagnosis = _first_pass(nodes, first, second, measured(first, second))
    again = [pair for pairs in second_pass(diagnosis) for pair in pairs]
    if again:
        a, b = np.array(again, dtype=np.int64).T
        values = np.exp(measured(a, b)).tolist()
        runs = [Measurement(x, y, {METRIC.name: v}) for (x, y), v in zip(again, values)]
        diagnosis = conclude(diagnosis, runs)
    return {victim} - {()}, {finding.nodes for finding in diagnosis.findings}


def _first_pass(nodes: Names, first: Ints, second: Ints, values: Floats) -> Diagnosis:
    """What :func:`assay.fleet.tournament.diagnosis.diagnose` finds, without its slow wording."""
    fit = localise(Pairs(len(nodes), first, second, values), METRIC.threshold)
    named = [(Fault.SLOW_NODE, (nodes[i],)) for i in fit.slow_nodes]
    named += [(Fault.SLOW_PAIR, (nodes[first[p]], nodes[second[p]])) for p in fit.slow_pairs]
    findings = tuple(Finding(fault, who, "", METRIC.name, -1.0) for fault, who in named)
    level = Level(math.exp(fit.base), fit.noise)
    return Diagnosis(nodes, (METRIC,), findings, (), (), {METRIC.name: level})
