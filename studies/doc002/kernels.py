"""The kernels of NPB: class, numbers of ranks, time, and bytes between two nodes.

Sources: NPB 3.4.3, NPB3.4-MPI: ``common/get_active_nprocs.f90`` and ``IS/is.c`` (numbers of ranks),
``BT/make_set.f90``, ``SP/make_set.f90`` and ``LU/subdomain.f90`` (least size of a part).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from assay.catalogue import NPB_CLASSES
from assay.parse.npb import CLASSES, npb_operations
from assay.workloads.sizing import Layout, SizingError

from .counts import places

#: Numbers of ranks on each node.
PER_NODE = (1, 2, 4, 8, 16, 32, 64, 128)

#: Number of nodes of a run between nodes. It must be a power of two.
NODES = 2

#: The largest class that runs if the site chooses none. Class C takes an hour on one rank.
DEFAULT = "B"

#: Classes that are too small to show whether more ranks compute faster: on many ranks, starting and
#: waiting take most of the time.
TINY = ("S", "W")

#: How far the rate of more ranks may be below that of fewer, as a part of it. Chosen, not measured.
FALL = 0.2

#: These need a square number of ranks. The others get a power of two: CG, FT, IS and MG need one.
_SQUARE = ("bt", "sp")

#: Fewest points of a part in each direction, of the programs that refuse smaller ones.
_LEAST_PART = {"bt": 3, "sp": 3, "lu": 3}

#: Fewest ranks of the large classes; all others take 1. With fewer, sizes are beyond an integer of
#: 32 bits (FT/ft_data.f90, MG/mg_data.f90, CG/cg_data.f90, IS/is.c).
_LEAST_RANKS = {
    "cg": {"E": 4},
    "ft": {"D": 2, "E": 16},
    "is": {"D": 4, "E": 64},
    "mg": {"D": 8, "E": 64},
}

#: Most ranks of IS of class S, and of its other classes.
_IS_MOST_S, _IS_MOST = 128, 1024

#: Memory of the largest arrays, all ranks together, for each point [B]: at least so much is needed.
#: FT has three arrays of complex numbers and one of doubles, MG three of doubles on all grids.
_POINT = {"ft": 56, "mg": 27}

#: Operations of a slow core that the time limit assumes [1/s]. EP and IS count other operations. CG
#: waits for memory.
_SLOW_CORE, _SLOW_COUNTS = 5e8, {"ep": 1e7, "is": 1e7, "cg": 1.5e8}


def chosen(built: Sequence[str], said: str = "", smoke: bool = False) -> str:
    """The class to run.

    :param built: the classes that there are, at least one, in ascending order.
    :param said: the class that somebody asks for; "" for the usual one.
    :param smoke: whether to run as little as possible.
    :raises SizingError: there is no such class.
    """
    if said and said not in built:
        raise SizingError(f"there is no class {said} of it; there is {', '.join(built)}")
    small = NPB_CLASSES[: NPB_CLASSES.index(DEFAULT) + 1]
    usual = built[0] if smoke else next((c for c in reversed(built) if c in small), built[0])
    return said or usual


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


def counts(
    kernel: str, npb_class: str, cores: int, features: Collection[str], extras: Mapping[str, Any]
) -> list[int]:
    """The numbers of ranks on each node with which a kernel of a class runs on a partition."""
    if "inter-node" in features and extras.get("nodes", NODES) < NODES:
        return []
    found = []
    for per_node in PER_NODE:
        with contextlib.suppress(SizingError):
            where = layout(per_node, cores, features, extras)
            fits(kernel, npb_class, where, extras.get("memory_bytes"))
            found.append(per_node)
    return found


def fits(kernel: str, npb_class: str, where: Layout, memory: int | None = None) -> None:
    """Refuses ranks for which a kernel stops, or divides its problem too finely; and small nodes.

    :param memory: memory of one node [B]; None if the site does not state it.
    :raises SizingError: the message says what is needed.
    """
    ranks = where.ranks
    name = f"{kernel} class {npb_class}"
    if not suits(kernel, ranks):
        raise SizingError(f"{kernel} needs a square number of ranks; {ranks} is none", "no-case")
    if kernel in _LEAST_PART:
        (edge, *_), _ = CLASSES[kernel][npb_class]
        parts = 2 ** math.ceil(math.log2(ranks) / 2)  # in the direction that has the most
        if edge // parts < _LEAST_PART[kernel]:
            raise SizingError(f"{name} is too small for {ranks} ranks", "no-case")
    least = _LEAST_RANKS.get(kernel, {}).get(npb_class, 1)
    if ranks < least:
        raise SizingError(f"{name} takes {least} ranks or more, not {ranks}", "no-case")
    if kernel == "is" and ranks > (most := _IS_MOST_S if npb_class == "S" else _IS_MOST):
        raise SizingError(f"{name} takes {most} ranks at most, not {ranks}", "no-case")
    size, _ = CLASSES[kernel].get(npb_class, ((1,), 0))
    needed = _POINT.get(kernel, 0) * math.prod(size) // where.nodes
    if memory is not None and needed > memory:
        raise SizingError(
            f"{name} takes {needed} bytes of memory on each node; a node has {memory}"
        )


def seconds_at_most(kernel: str, npb_class: str, ranks: int) -> int:
    """Time limit of a run [s]."""
    size, iterations = CLASSES[kernel].get(npb_class, ((1,), 0))
    counted = npb_operations(kernel, size, iterations, npb_class) or 0.0
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
    size, iterations = CLASSES[kernel].get(npb_class, ((1,), 0))
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
