"""The kernels of NPB: class, numbers of ranks, time, and bytes between two nodes.

Sources: NPB 3.4.3, NPB3.4-MPI: ``common/get_active_nprocs.f90`` and ``IS/is.c`` (numbers of ranks),
``BT/make_set.f90``, ``SP/make_set.f90`` and ``LU/subdomain.f90`` (least size of a part).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from assay.outputs.npb import CUBES, operations, problem
from assay.workloads.many_cores import places
from assay.workloads.sizing import Layout, SizingError

#: Numbers of ranks on each node.
PER_NODE = (1, 2, 4, 8, 16, 32, 64, 128)

#: Number of nodes of a run between nodes. It must be a power of two.
NODES = 2

#: The largest class that runs if the site chooses none. Class C takes an hour on one rank.
DEFAULT = "B"

#: Classes that are too small to show whether more ranks compute faster: a step takes microseconds.
TINY = ("S", "W")

#: How far the rate of more ranks may be below that of fewer, as a part of it. Chosen, not measured.
FALL = 0.2

#: These need a square number of ranks. The others get a power of two: CG, FT, IS and MG need one.
_SQUARE = ("bt", "sp")

#: Fewest points of a part in each direction, of the programs that refuse smaller ones.
_LEAST_PART = {"bt": 3, "sp": 3, "lu": 4}

#: IS: class -> fewest ranks; the others take 1. Most ranks of class S and of the others.
_IS_LEAST, _IS_MOST_S, _IS_MOST = {"D": 4, "E": 64}, 128, 1024

#: Operations of a slow core that the time limit assumes [1/s]. EP and IS count other operations.
_SLOW_CORE, _SLOW_COUNTS = 5e8, {"ep": 1e7, "is": 1e7}


def layout(
    per_node: int, cores: int, features: Collection[str], extras: Mapping[str, Any]
) -> Layout:
    """`per_node` ranks on the node, or on each of two nodes of a partition between nodes.

    :param cores: number of cores of one node.
    :raises SizingError: a node has no places for them.
    """
    there = places(cores, features, extras)
    if per_node > there:
        raise SizingError(f"{per_node} ranks on a node are needed; it has places for {there}")
    return Layout(NODES if "inter-node" in features else 1, per_node)


def suits(kernel: str, ranks: int) -> bool:
    """Whether a kernel takes this number of ranks, a power of two."""
    return kernel not in _SQUARE or math.isqrt(ranks) ** 2 == ranks


def runs_here(
    kernel: str, per_node: int, cores: int, features: Collection[str], extras: Mapping[str, Any]
) -> bool:
    """Whether a kernel runs with so many ranks on each node of a partition."""
    if "inter-node" in features and extras.get("nodes", NODES) < NODES:
        return False
    try:
        return suits(kernel, layout(per_node, cores, features, extras).ranks)
    except SizingError:
        return False


def fits(kernel: str, npb_class: str, ranks: int) -> None:
    """Refuses numbers of ranks for which a kernel stops, or divides its problem too finely.

    :raises SizingError: the message says what is needed.
    """
    name = f"{kernel} class {npb_class}"
    if not suits(kernel, ranks):
        raise SizingError(f"{kernel} needs a square number of ranks; {ranks} is none")
    if kernel in _LEAST_PART:
        edge, _ = CUBES[kernel][npb_class]
        parts = 2 ** math.ceil(math.log2(ranks) / 2)  # in the direction that has the most
        if edge // parts < _LEAST_PART[kernel]:
            raise SizingError(f"{name} is too small for {ranks} ranks")
    if kernel == "is":
        least = _IS_LEAST.get(npb_class, 1)
        most = _IS_MOST_S if npb_class == "S" else _IS_MOST
        if not least <= ranks <= most:
            raise SizingError(f"{name} takes {least} to {most} ranks, not {ranks}")


def seconds_at_most(kernel: str, npb_class: str, ranks: int) -> int:
    """Time limit of a run [s]."""
    size, iterations = problem(kernel, npb_class) or ((1,), 0)
    counted = operations(kernel, size, iterations, npb_class) or 0.0
    return int(600 + counted / (ranks * _SLOW_COUNTS.get(kernel, _SLOW_CORE)))


def least_bytes(kernel: str, npb_class: str) -> float:
    """The fewest bytes that each of two nodes moves in a run, both directions together [B].

    Each node has half of the problem. In each iteration it gets what it needs of the other half,
    and gives as much. Only half of these bytes are counted: the ranks need not be distributed
    evenly. Of the grids, a cut into halves has at least the points of one face.

    ======  ====================================================================================
    kernel  what crosses in each direction and iteration
    ======  ====================================================================================
    BT, SP  five doubles for each point of the cut
    LU      the same
    MG      one double for each point of the cut, on the finest grid alone
    FT      a quarter of the points, 16 B each: half of a node's half goes to the other node
    CG      half of a vector, in each of 25 inner steps
    IS      a quarter of the keys, 4 B each
    EP      three sums at the end
    ======  ====================================================================================
    """
    size, iterations = problem(kernel, npb_class) or ((1,), 0)
    points = float(math.prod(size))
    face = points ** (2 / 3)
    each = {
        "bt": 40 * face,
        "sp": 40 * face,
        "lu": 40 * face,
        "mg": 8 * face,
        "ft": 16 * points / 4,
        "cg": 25 * 8 * points / 2,
        "is": 4 * points / 4,
    }
    # Half of what crosses, two directions.
    return iterations * each[kernel] if kernel in each else 8.0 * 12
