"""Number of ranks, process grid and order of the matrix, by pure arithmetic; poor ones are refused.

Sources: HPL's tuning notes (a grid close to square, Q >= P, N a multiple of NB; netlib.org HPL,
tuning.html); NPB 3.4, BT/setup_mpi.f90 (a square number of ranks).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

BYTES_PER_DOUBLE = 8


class SizingError(ValueError):
    """The request cannot be run well; the message names what can be run.

    :ivar kind: of the skip, one of those of :mod:`assay.store.promise`.
    """

    def __init__(self, message: str, kind: str = "too-small") -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Grid:
    """A P x Q process grid with P <= Q."""

    p: int
    q: int

    @property
    def ranks(self) -> int:
        return self.p * self.q


@dataclass(frozen=True)
class Layout:
    """Equally many ranks on each of `nodes` nodes, in blocks (0 to per_node - 1 on the first)."""

    nodes: int
    per_node: int

    @property
    def ranks(self) -> int:
        return self.nodes * self.per_node


def spread(nodes: int, cores: int, ranks: Callable[[int], int]) -> Layout:
    """The most ranks on each of `nodes` nodes that a test can use.

    :param ranks: function that returns how many ranks the test would start on a number of cores.
    :raises SizingError: no number of ranks that is the same on all nodes suits the test.
    """
    for per_node in range(cores, 0, -1):
        if ranks(nodes * per_node) == nodes * per_node:
            return Layout(nodes, per_node)
    raise SizingError(
        f"no number of ranks from 1 to {cores} on each of {nodes} nodes suits this test "
        f"({ranks(nodes * cores)} in all would): give it other `nodes` or `cores_per_node`"
    )


def usable_ranks(cores: int) -> int:
    """The largest number of ranks up to `cores` that has a grid with P >= Q / 2, or 1, 2 or 3.

    :raises SizingError: `cores` is below 1.
    """
    if cores < 1:
        raise SizingError(f"{cores} cores: at least 1 is needed")
    for ranks in range(cores, 3, -1):
        p = next(d for d in range(math.isqrt(ranks), 0, -1) if ranks % d == 0)
        if 2 * p >= ranks // p:
            return ranks
    return min(cores, 3)


def even_ranks(cores: int) -> int:
    """The largest even number of ranks up to `cores`, for tests that work in pairs.

    :raises SizingError: there is only one core.
    """
    if cores < 2:
        raise SizingError(f"{cores} core: a test in pairs needs at least 2", "incomplete")
    return cores // 2 * 2
