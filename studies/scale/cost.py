"""The cost of the tournament and of a full acceptance run, by ``parameters.yaml``.

A round takes as long as one pair. Steps and tasks begin one after the other, because one controller
begins them. Each case costs the harness time in which it can handle no other case.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from assay.fleet.tournament import schedule

PARAMETERS = Path(__file__).with_name("parameters.yaml")

#: Numbers of nodes in the tables.
SIZES = (4, 16, 64, 256, 1024, 4096, 10_000)


@dataclass(frozen=True)
class Cost:
    """The cost of something. It includes idle nodes of the allocation.

    :ivar wall: seconds.
    :ivar node_seconds: of all nodes that it holds.
    :ivar bytes: sent between nodes.
    """

    wall: float
    node_seconds: float
    bytes: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.wall + other.wall,
            self.node_seconds + other.node_seconds,
            self.bytes + other.bytes,
        )


def load() -> dict[str, Any]:
    """The parameters as written in the file."""
    return dict(yaml.safe_load(PARAMETERS.read_text(encoding="utf-8")))


def values(entries: Mapping[str, Any]) -> dict[str, float]:
    """The values of a block of the parameters."""
    return {name: float(entry["value"]) for name, entry in entries.items()}


def by_steps(machine: Mapping[str, float], n: int, rounds: int, at_once: int | None = None) -> Cost:
    """The tournament with a step for each pair; `at_once` pairs run together (default: all)."""
    pairs = n // 2
    together = min(at_once or pairs, pairs)
    batch = machine["start"] + machine["busy"] + (together - 1) * machine["step"]
    wall = rounds * math.ceil(pairs / together) * batch
    return Cost(wall, n * wall, rounds * pairs * machine["bytes"])


def tournament(machine: Mapping[str, float], n: int, rounds: int) -> Cost:
    """The tournament as the suite runs it: one program on all nodes performs all rounds."""
    wall = machine["start"] + n * machine["step"] + rounds * (machine["begin"] + machine["busy"])
    return Cost(wall, n * wall, rounds * (n // 2) * machine["bytes"])


def hpl_seconds(node: Mapping[str, float], n: int, share: float) -> float:
    """HPL on `n` nodes with a share of their memory: 2/3 N^3 operations, 8 N^2 bytes."""
    order = math.sqrt(share * n * node["memory"] / 8)
    return 2 / 3 * order**3 / (n * node["flops"] * node["efficiency"])


def cases(test: Mapping[str, Any], n: int) -> tuple[int, int]:
    """Number of cases of a test, and nodes of each."""
    size = n if test["nodes"] == "all" else min(test["nodes"], n)
    return test.get("cases", n // size), size


def harness_seconds(parameters: Mapping[str, Any], n: int) -> float:
    """The part of the wall time in which the harness begins and ends cases, one after the other."""
    pace = values(parameters["harness"])["case"]
    return pace * sum(cases(test, n)[0] for test in parameters["tests"])


def tests(parameters: Mapping[str, Any], n: int) -> Iterator[tuple[str, Cost]]:
    """Each test except the tournament. Cases on single nodes run at the same time."""
    node, harness = values(parameters["node"]), values(parameters["harness"])
    for test in parameters["tests"]:
        count, size = cases(test, n)
        once = (
            hpl_seconds(node, size, test["memory"]) if "memory" in test else float(test["seconds"])
        )
        seconds = once * test.get("launches", harness["launches"])
        # Cases begin one after the other, at the harness's pace. The last one ends the test.
        yield test["what"], Cost(count * harness["case"] + seconds, count * size * seconds)


def acceptance(parameters: Mapping[str, Any], n: int) -> Cost:
    """All tests, and the sparse tournament."""
    total = tournament(values(parameters["production"]), n, schedule.sparse(n))
    for _, cost in tests(parameters, n):
        total += cost
    return total
