"""BT-IO: how many bytes and how much time a class takes, how many ranks, and who did its MPI-IO.

Sources: NPB 3.4.3, NPB3.4-MPI: sys/setparams.c (points, steps, interval), BT/bt.f90 (40 bytes for
each point, operations), BT/bt_data.f90 (arrays), BT/make_set.f90 (least size of a cell); Open MPI,
ompi/mca/io/base/io_base_file_select.c.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.catalogue import BTIO_CLASSES
from assay.workloads.sizing import Layout, SizingError, square_ranks

#: Steps between two writes, and bytes that each point takes in a write: five doubles.
INTERVAL, POINT = 5, 40

#: Class -> points in each direction, time steps.
PROBLEMS: Mapping[str, tuple[int, int]] = {
    "S": (12, 60),
    "W": (24, 200),
    "A": (64, 200),
    "B": (102, 200),
    "C": (162, 200),
    "D": (408, 250),
    "E": (1020, 250),
}

#: The largest class that is run where the site chooses none: a minute on one rank.
DEFAULT = "A"

#: BT divides the points of each direction among the root of P cells, of at least so many.
LEAST_CELL = 3

#: More ranks than these are not tried.
MOST_RANKS = 64

#: A node shares a file system; from so many nodes on a curve over P has one rank on each.
NODES_OF_A_CURVE = 4

#: What a run is given time for: a slow core [op/s], and a slow file system [B/s].
SLOW_CORE, SLOW_STORAGE = 1e9, 50e6

#: Value of the parameter mpi_io -> what makes Open MPI take it.
MPI_IO: Mapping[str, Mapping[str, str]] = {
    "ompio": {"OMPI_MCA_io": "ompio"},
    # Its component is called by version, romio321 or romio341, and is the only other one.
    "romio": {"OMPI_MCA_io": "^ompio"},
    "none": {},
}

#: At this level each process names the module that it took for a file.
VERBOSE = {"OMPI_MCA_io_base_verbose": "10"}

_SELECTED = re.compile(
    r"\[([^\s\[\]:]+:\d{1,9})\] io:base:file_select: Selected io module (\w+)", re.ASCII
)


def bytes_written(npb_class: str) -> int:
    """Size of all files of a run [B]."""
    points, steps = PROBLEMS[npb_class]
    return points**3 * POINT * (steps // INTERVAL)


def memory_of_rank(npb_class: str, ranks: int) -> int:
    """What the arrays of one of so many ranks take [B]."""
    points, _ = PROBLEMS[npb_class]
    cells = math.isqrt(ranks)
    edge = points // cells + 1
    doubles = 5 * edge**3 + 5 * (edge + 4) ** 3 + 30 * (edge + 1) ** 3 + 6 * (edge + 2) ** 3
    return 8 * cells * doubles


def seconds_at_most(npb_class: str, ranks: int) -> int:
    """How long a run may last [s]."""
    points, steps = PROBLEMS[npb_class]
    operations = steps * (3478.8 * points**3 - 17655.7 * points**2 + 28023.7 * points)
    # What was written is read again.
    moved = 2 * bytes_written(npb_class)
    return int(600 + operations / (ranks * SLOW_CORE) + moved / SLOW_STORAGE)


def chosen(built: Sequence[str], said: str | None, smoke: bool) -> str:
    """The class to be run: never by what is free today, or references would be of another.

    :param built: the classes that the stack has, in ascending order.
    :param said: what the site says of the partition.
    :param smoke: whether as little as possible is to be run.
    :raises ValueError: the site says what is no class.
    :raises SizingError: the stack does not have that class.
    """
    if said is not None and said not in PROBLEMS:
        raise ValueError(f"{said!r} is no class; there are {', '.join(BTIO_CLASSES)}")
    if smoke:
        return built[0]
    if said is None:
        usual = BTIO_CLASSES[: BTIO_CLASSES.index(DEFAULT) + 1]
        return next((c for c in reversed(built) if c in usual), built[0])
    if said not in built:
        raise SizingError(f"this stack has no btio class {said}; it has {', '.join(built)}")
    return said


def layout(ranks: int, features: Iterable[str], extras: Mapping[str, Any]) -> Layout:
    """Where so many ranks are: never on one node for some P of a curve, and on many for others.

    :raises SizingError: the partition has fewer nodes for us.
    """
    nodes = _nodes(features, extras)
    if nodes < NODES_OF_A_CURVE:
        return Layout(1, ranks)
    if ranks > nodes:
        raise SizingError(f"{ranks} nodes are needed, one for each rank; there are {nodes} for us")
    return Layout(ranks, 1)


def fits(npb_class: str, where: Layout, memory: int | None) -> None:
    """Refuses ranks that a class is too small for, and nodes that are too small for the class.

    :param memory: of one node [B]; None where the site does not say.
    :raises SizingError: it does not fit.
    """
    points, _ = PROBLEMS[npb_class]
    ranks = where.ranks
    if points // math.isqrt(ranks) < LEAST_CELL:
        most = (points // LEAST_CELL) ** 2
        raise SizingError(f"class {npb_class} is too small for {ranks} ranks; {most} at most")
    needed = where.per_node * memory_of_rank(npb_class, ranks)
    if memory is not None and needed > memory:
        raise SizingError(
            f"class {npb_class} takes {needed} bytes of memory on each node with {ranks} ranks on "
            f"{where.nodes} of them; a node has {memory}"
        )


def rank_counts(partitions: Iterable[Any]) -> list[int]:
    """Square numbers of ranks for which any storage partition of the site has room.

    :param partitions: ReFrame's, of the site's system.
    """
    most = 1
    for partition in partitions:
        if "storage" not in partition.features:
            continue
        nodes = _nodes(partition.features, partition.extras)
        processor = partition.processor
        cores = processor.num_cores or processor.num_cpus or 1
        most = max(most, nodes if nodes >= NODES_OF_A_CURVE else cores)
    return [root**2 for root in range(1, math.isqrt(square_ranks(min(most, MOST_RANKS))) + 1)]


def _nodes(features: Iterable[str], extras: Mapping[str, Any]) -> int:
    """Nodes that see the same directory."""
    return int(extras.get("nodes", 1)) if "shared" in set(features) else 1


@dataclass(frozen=True)
class MpiIo:
    """Which library of MPI-IO did the work.

    :ivar modules: of Open MPI, each once.
    :ivar processes: how many named theirs.
    """

    modules: tuple[str, ...]
    processes: int

    @classmethod
    def said(cls, text: str) -> MpiIo:
        """From the standard error of a run, with :data:`VERBOSE`."""
        found = _SELECTED.findall(text.replace("\0", ""))
        return cls(tuple(sorted({name for _, name in found})), len({who for who, _ in found}))

    def problems(self, asked: str, ranks: int) -> list[str]:
        """What contradicts that all ranks wrote by the library that was asked for."""
        if asked == "none":
            names = ", ".join(self.modules)
            return [f"MPI-IO by {names}, where there was to be none"] if names else []
        if not self.modules:
            return [f"no process opened a file by MPI-IO: does this Open MPI have {asked}?"]
        others = [name for name in self.modules if not name.startswith(asked)]
        if others:
            return [f"MPI-IO was done by {', '.join(others)}; {asked} was asked for"]
        if self.processes != ranks:
            return [f"{self.processes} of {ranks} ranks named their library of MPI-IO"]
        return []
