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

    :param cores: number of cores of one node that may have a rank each.
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


def process_grid(ranks: int) -> Grid:
    """The grid closest to a square that uses exactly `ranks` ranks.

    A prime number of ranks above 3 leaves only the grid 1 x ranks, where every panel broadcast
    crosses the whole row. The function refuses it instead of choosing it silently.

    :raises SizingError: `ranks` is below 1, or a prime above 3.
    """
    if ranks < 1:
        raise SizingError(f"{ranks} ranks: at least 1 is needed")
    p = next(d for d in range(math.isqrt(ranks), 0, -1) if ranks % d == 0)
    if p == 1 and ranks > 3:
        near = usable_ranks(ranks)
        raise SizingError(
            f"{ranks} ranks are a prime number: the only process grid is 1 x {ranks}; "
            f"use {near} ranks ({process_grid(near).p} x {process_grid(near).q})"
        )
    return Grid(p, ranks // p)


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


def matrix_order(memory_bytes: int, fraction: float, block: int, grid: Grid) -> int:
    """Order N of a matrix of doubles that fills `fraction` of the memory.

    :param memory_bytes: memory of all nodes together [B].
    :param fraction: share of it for the matrix, above 0 and at most 0.9.
    :param block: NB; N is a multiple of NB * lcm(P, Q), so that every rank has whole blocks.
    :raises SizingError: the fraction is out of range, or not even one block fits.
    """
    if not 0 < fraction <= 0.9:
        raise SizingError(
            f"memory fraction {fraction}: must be above 0 and at most 0.9, or the node swaps"
        )
    step = block * math.lcm(grid.p, grid.q)
    largest = math.isqrt(int(memory_bytes * fraction / BYTES_PER_DOUBLE))
    if largest < step:
        raise SizingError(
            f"{fraction:.0%} of {memory_bytes} B hold a matrix of order {largest}, less than one "
            f"block of {step}: use a smaller NB or a larger share of the memory"
        )
    return largest // step * step


def study_orders(one_node: int, nodes: int, block: int) -> list[int]:
    """Orders N of a study over the number of nodes, ascending, each a multiple of NB.

    Every number of nodes gets the same orders, all of which one node can hold, so that their times
    can be compared. More nodes also get orders that only they can hold: their memory grows with P,
    and N grows with the square root of P.

    :param one_node: the largest N of one node.
    :param block: NB.
    """
    factors = [0.25, 0.5, 1.0] + [float(f) for f in (2, 4, 8) if f * f <= nodes]
    orders = (int(one_node * factor) // block * block for factor in factors)
    return list(dict.fromkeys(order for order in orders if order))


def square_ranks(cores: int) -> int:
    """The largest square number of ranks up to `cores`, as BT needs."""
    if cores < 1:
        raise SizingError(f"{cores} cores: at least 1 is needed")
    return math.isqrt(cores) ** 2


def even_ranks(cores: int) -> int:
    """The largest even number of ranks up to `cores`, for tests that work in pairs.

    :raises SizingError: there is only one core.
    """
    if cores < 2:
        raise SizingError(f"{cores} core: a test in pairs needs at least 2", "incomplete")
    return cores // 2 * 2
