"""How often `EachGpu` names the right GPU or pair on a large machine, by simulation.

Each node has four GPUs, and every two of them are joined by NVLink. A trial is a machine with one
fault or none. The suite's own code suspects, chooses the nodes of the second look, and accuses. The
noise of each rate is log-normal and independent. Each cell has its own seed.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import switches
from power import Outcome, share
from switches import Cell

from assay.gpu import gpus
from assay.gpu.gpu_ways import Copy, Turn
from assay.gpu.parse.each_gpu import HOST

#: The GPUs of a node: address on the PCI bus -> name in a message.
GPUS = {f"0000:{number + 1:02x}:00.0": f"GPU {number}" for number in range(4)}

#: Turns of each look and tolerance, as `EachGpu` has them (reframe/network/each_gpu.py).
TURNS, TOLERANCE = 3, 0.2

#: A slow GPU (all its copies), a slow pair (both ways), and slow copies of the host to one GPU.
FAULTS = ("gpu", "pair", "host")
SEVERITIES = (0.15, 0.2, 0.25, 0.3, 0.4)
NOISES = (0.02, 0.05)

#: Rate of a healthy copy between host and GPU, and between GPUs [GB/s].
RATES = {True: 25.0, False: 200.0}


@dataclass(frozen=True)
class Sweep:
    """`EachGpu` on so many nodes, with `trials` trials of each cell."""

    nodes: int
    trials: int
    severities: tuple[float, ...] = SEVERITIES
    noises: tuple[float, ...] = NOISES

    def __str__(self) -> str:
        return f"{self.nodes} nodes, {self.nodes * len(GPUS)} GPUs"


SWEEPS = (Sweep(1_000, 20), Sweep(10_000, 4, (0.2, 0.25, 0.3), (0.02,)))


def cells(sweep: Sweep) -> Iterator[Cell]:
    """All points of a sweep: each fault of each severity at each noise, and a healthy machine."""
    return switches.cells(sweep, FAULTS)


def simulate(cell: Cell) -> Outcome:
    """All trials of a cell."""
    key = f"gpus {cell.tournament.nodes} {cell.fault} {cell.severity} {cell.noise}"
    random = np.random.RandomState(zlib.crc32(key.encode()))
    return share(cell.tournament.trials, lambda: _trial(cell, random))


def ways() -> list[tuple[str, str]]:
    """Source and target of all copies of a node."""
    ends = list(GPUS)
    between = list(itertools.permutations(ends, 2))
    return [(HOST, bus) for bus in ends] + [(bus, HOST) for bus in ends] + between


def _trial(cell: Cell, random: np.random.RandomState) -> tuple[set[str], set[str]]:
    """The faulty part, and what is named in the end: node with the names of the GPUs."""
    nodes = [f"n{number:05}" for number in range(cell.tournament.nodes)]
    node = nodes[random.randint(len(nodes))]
    one, other = (list(GPUS)[at] for at in random.choice(len(GPUS), 2, replace=False))
    hit = {
        "": set(),
        "gpu": {way for way in ways() if one in way},
        "pair": {(one, other), (other, one)},
        "host": {(HOST, one)},
    }[cell.fault]
    guilty = {"": [], "gpu": [one], "pair": [one, other], "host": [one]}[cell.fault]
    truth = {f"{node}: {', '.join(sorted(GPUS[bus] for bus in guilty))}"} if guilty else set()
    noise = math.sqrt(math.log1p(cell.noise**2))

    def look(number: int, chosen: Sequence[str]) -> list[Turn]:
        factors = np.exp(random.standard_normal((len(chosen), TURNS, len(ways()))) * noise).tolist()
        return [
            Turn(name, number, turn, GPUS, tuple(_copies(row, hit if name == node else (), cell)))
            for name, of_node in zip(chosen, factors)
            for turn, row in enumerate(of_node)
        ]

    first = look(1, nodes)
    second = look(2, gpus.GPUS.second_look(first, TOLERANCE))
    accused = [each for each in gpus.diagnose([*first, *second], TOLERANCE) if each.accused]
    return truth, {f"{each.node}: {', '.join(_named(each.line))}" for each in accused}


def _copies(
    factors: Sequence[float], hit: Sequence[tuple[str, str]] | set[tuple[str, str]], cell: Cell
) -> Iterator[Copy]:
    for (source, target), factor in zip(ways(), factors):
        host = HOST in (source, target)
        rate = RATES[host] * factor * (1 - cell.severity if (source, target) in hit else 1)
        near, links = ("yes", 0) if host else ("", 4)
        yield Copy(source, target, "made" if host else "made NV4", rate, rate, True, near, links)


def _named(line: str) -> list[str]:
    """The GPUs that a line accuses: those before the first number."""
    head = line.partition(" GB/s")[0]
    return sorted(name for name in GPUS.values() if name in head)
