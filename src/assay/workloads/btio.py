"""BT-IO: bytes and time of a class, and numbers of ranks.

Sources: NPB 3.4.3, NPB3.4-MPI: sys/setparams.c (interval), BT/bt_data.f90 (arrays),
BT/make_set.f90 (least size of a cell).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from assay.catalogue import NPB_CLASSES
from assay.parse.npb import CLASSES, POINT, npb_operations
from assay.workloads.sizing import Layout, SizingError

#: Number of steps between two writes.
INTERVAL = 5

#: The largest class that runs if the site chooses none. It takes a minute on one rank.
DEFAULT = "A"

#: Fewest points of a cell in each direction. BT divides the points of each direction among the root
#: of P cells.
LEAST_CELL = 3

#: Most ranks that are tried.
MOST_RANKS = 64

#: Fewest nodes with a shared file system for a curve over P that has one rank on each node.
NODES_OF_A_CURVE = 4

#: Speeds that the time limit of a run assumes: a slow core [op/s], and a slow file system [B/s].
SLOW_CORE, SLOW_STORAGE = 1e9, 50e6


def bytes_written(npb_class: str) -> int:
    """Size of all files of a run [B]."""
    (points, *_), steps = CLASSES["bt"][npb_class]
    return points**3 * POINT * (steps // INTERVAL)


def memory_of_rank(npb_class: str, ranks: int) -> int:
    """Memory that the arrays of one of `ranks` ranks take [B]."""
    (points, *_), _ = CLASSES["bt"][npb_class]
    cells = math.isqrt(ranks)
    edge = points // cells + 1
    doubles = 5 * edge**3 + 5 * (edge + 4) ** 3 + 30 * (edge + 1) ** 3 + 6 * (edge + 2) ** 3
    return 8 * cells * doubles


def seconds_at_most(npb_class: str, ranks: int) -> int:
    """Time limit of a run [s]."""
    (points, *_), steps = CLASSES["bt"][npb_class]
    computing = (npb_operations("bt", (points,) * 3, steps, npb_class) or 0.0) / (ranks * SLOW_CORE)
    # The written data is read again.
    moved = 2 * bytes_written(npb_class)
    return int(600 + computing + moved / SLOW_STORAGE)


def chosen(built: Sequence[str], said: str | None, smoke: bool) -> str:
    """The class to run, independent of what is free today: references are for one class.

    :param built: the classes that the stack has, in ascending order.
    :raises SizingError: the stack does not have that class.
    """
    if smoke:
        return built[0]
    if said is None:
        small = NPB_CLASSES[: NPB_CLASSES.index(DEFAULT) + 1]
        return next((c for c in reversed(built) if c in small), built[0])
    if said not in built:
        there = ", ".join(built)
        raise SizingError(f"this stack has no btio class {said}; it has {there}", "not-here")
    return said


def layout(ranks: int, features: Iterable[str], extras: Mapping[str, Any]) -> Layout:
    """The layout of the ranks: one node for all P of a curve, or one rank per node for all P.

    :raises SizingError: the partition offers too few nodes.
    """
    nodes = _nodes(features, extras)
    if nodes < NODES_OF_A_CURVE:
        return Layout(1, ranks)
    if ranks > nodes:
        raise SizingError(f"{ranks} nodes are needed, one for each rank; the site offers {nodes}")
    return Layout(ranks, 1)


def fits(npb_class: str, where: Layout, memory: int | None) -> None:
    """Refuses ranks that a class is too small for, and nodes that are too small for the class.

    :param memory: memory of one node [B]; None if the site does not state it.
    :raises SizingError: the class does not fit.
    """
    (points, *_), _ = CLASSES["bt"][npb_class]
    ranks = where.ranks
    if points // math.isqrt(ranks) < LEAST_CELL:
        most = (points // LEAST_CELL) ** 2
        why = f"class {npb_class} is too small for {ranks} ranks; {most} at most"
        raise SizingError(why, "no-case")
    needed = where.per_node * memory_of_rank(npb_class, ranks)
    if memory is not None and needed > memory:
        raise SizingError(
            f"class {npb_class} takes {needed} bytes of memory on each node with {ranks} ranks on "
            f"{where.nodes} of them; a node has {memory}"
        )


def rank_counts(partitions: Iterable[Any]) -> list[int]:
    """Square numbers of ranks that fit on at least one storage partition of the site."""
    most = 1
    for partition in partitions:
        if "storage" not in partition.features:
            continue
        nodes = _nodes(partition.features, partition.extras)
        processor = partition.processor
        cores = processor.num_cores or processor.num_cpus or 1
        most = max(most, nodes if nodes >= NODES_OF_A_CURVE else cores)
    return [root**2 for root in range(1, math.isqrt(min(most, MOST_RANKS)) + 1)]


def _nodes(features: Iterable[str], extras: Mapping[str, Any]) -> int:
    """Number of nodes that see the same directory."""
    return int(extras.get("nodes", 1)) if "shared" in set(features) else 1
