"""What Slurm says of its partitions and nodes, for a site that is not written yet.

All functions but :func:`ask` read texts. Recorded ones are in ``tests/data/site-new``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assay.sites import auto, detect

#: The queries, by the part of :class:`Answers` that they fill.
QUERIES = {
    "partitions": ("scontrol", "show", "partition", "--oneliner"),
    "nodes": ("scontrol", "show", "node", "--oneliner"),
    "config": auto.CONFIG,
    "mpi": ("srun", "--mpi=list"),
}

#: States in which a node accepts jobs (NODE STATE CODES of sinfo(1)).
_TAKING = ("ALLOCATED", "COMPLETING", "IDLE", "MIXED", "PLANNED", "RESERVED")

#: What may be added to such a state without keeping jobs away.
_HARMLESS = (*_TAKING, "CLOUD", "DYNAMIC_NORM", "POWERED_UP", "REBOOT_ISSUED")


@dataclass(frozen=True)
class Answers:
    """The texts that Slurm's commands print, by :data:`QUERIES`."""

    partitions: str
    nodes: str
    config: str
    mpi: str


@dataclass(frozen=True)
class Partition:
    """A partition of Slurm.

    :ivar open: an ordinary user may submit to it: it is up, and not only for root.
    :ivar limits: settings that may keep a user away, such as ``AllowAccounts=physics``.
    :ivar longest: longest time of a job as Slurm writes it, such as ``1-00:00:00``.
    """

    name: str
    default: bool
    open: bool
    limits: tuple[str, ...]
    longest: str


@dataclass(frozen=True)
class Node:
    """A node of Slurm.

    :ivar shape: sockets, cores of a socket, threads of a core, memory [MiB], generic resources.
    :ivar partitions: names of the partitions that it is in.
    :ivar takes_jobs: whether its state lets jobs begin on it.
    """

    name: str
    address: str
    shape: tuple[int, int, int, int, str]
    partitions: tuple[str, ...]
    features: tuple[str, ...]
    takes_jobs: bool
    state: str


def ask() -> Answers:
    """What Slurm answers on this machine; a text is empty if its command is missing."""
    return Answers(**{part: detect.output(*command) for part, command in QUERIES.items()})


def _fields(line: str) -> dict[str, str]:
    """The words ``Key=value`` of a line. A value with blanks is cut at the first one.

    Only the first of equal keys counts: texts of people (``Reason``, ``Comment``) are at the end.
    """
    found: dict[str, str] = {}
    for key, value in re.findall(r"(?:^|\s)([A-Z]\w*)=(\S*)", line):
        found.setdefault(key, "" if value == "(null)" else value)
    return found


def _lines(listing: str, key: str) -> Iterable[dict[str, str]]:
    return (_fields(line) for line in listing.splitlines() if line.startswith(f"{key}="))


def partitions(listing: str) -> list[Partition]:
    """The partitions in an output of ``scontrol show partition --oneliner``."""
    found = []
    for said in _lines(listing, "PartitionName"):
        limits = tuple(
            f"{key}={said[key]}"
            for key in ("AllowGroups", "AllowAccounts", "AllowQos")
            if said.get(key, "ALL") != "ALL"
        )
        found.append(
            Partition(
                name=said["PartitionName"],
                default=said.get("Default") == "YES",
                open=said.get("State", "UP") == "UP" and said.get("RootOnly", "NO") == "NO",
                limits=limits,
                longest=said.get("MaxTime", ""),
            )
        )
    return found


def nodes(listing: str) -> list[Node]:
    """The nodes in an output of ``scontrol show node --oneliner``.

    A node without a number that matters (a node of the cloud that never was up) is left out.
    """
    found = []
    for said in _lines(listing, "NodeName"):
        keys = ("Sockets", "CoresPerSocket", "ThreadsPerCore", "RealMemory")
        numbers = [said.get(key, "") for key in keys]
        if not all(number.isdigit() for number in numbers):
            continue
        sockets, cores, threads, memory = map(int, numbers)
        found.append(
            Node(
                name=said["NodeName"],
                address=said.get("NodeAddr") or said["NodeName"],
                shape=(sockets, cores, threads, memory, said.get("Gres", "")),
                partitions=tuple(filter(None, said.get("Partitions", "").split(","))),
                features=tuple(filter(None, said.get("AvailableFeatures", "").split(","))),
                takes_jobs=takes_jobs(said.get("State", "")),
                state=said.get("State", "unknown"),
            )
        )
    return found


def takes_jobs(state: str) -> bool:
    """Whether jobs begin on a node in this state, such as ``MIXED`` or ``IDLE+DRAIN``.

    A ``*`` marks a node that does not respond.
    """
    base, *flags = state.split("+")
    return base in _TAKING and all(flag in _HARMLESS for flag in flags)


@dataclass(frozen=True)
class Pool:
    """The nodes on which a site runs: the largest group of alike nodes of a partition.

    :ivar nodes: the group, some of which take jobs now.
    :ivar shape: the group in the form that the site ``any`` uses, too.
    :ivar others: nodes of the partition that differ, with what they have; one line for each kind.
    """

    partition: Partition
    nodes: tuple[Node, ...]
    shape: auto.Nodes
    others: tuple[str, ...] = ()

    @property
    def up(self) -> list[Node]:
        """The nodes that take jobs now."""
        return [node for node in self.nodes if node.takes_jobs]


def pool(partition: Partition, every: Sequence[Node]) -> Pool | None:
    """The nodes of a partition; None if no node of it takes jobs."""
    kinds: dict[tuple[int, int, int, int, str], list[Node]] = {}
    for node in every:
        if partition.name in node.partitions:
            kinds.setdefault(node.shape, []).append(node)
    usable = [kind for kind in kinds.values() if any(node.takes_jobs for node in kind)]
    if not usable:
        return None
    chosen = max(usable, key=len)
    sockets, cores, threads, memory, resources = chosen[0].shape
    shape = auto.Nodes(
        *(partition.name, len(chosen), sockets, cores, threads, memory << 20),
        auto.gres_gpus(resources),
    )
    others = [_kind(kind) for kind in kinds.values() if kind is not chosen]
    return Pool(partition, tuple(chosen), shape, tuple(others))


def _kind(nodes: Sequence[Node]) -> str:
    sockets, cores, threads, memory, resources = nodes[0].shape
    has = f"{sockets * cores * threads} processors, {memory} MiB"
    features = ", ".join(sorted({word for node in nodes for word in node.features}))
    return (
        f"{named(nodes)}: {has}{', ' + resources if resources else ''}"
        + (f"; features {features}" if features else "")
    )  # fmt: skip


def named(nodes: Sequence[Node]) -> str:
    """The names of nodes; the first and the last of many."""
    names = [node.name for node in nodes]
    return ", ".join(names) if len(names) < 4 else f"{names[0]} to {names[-1]} ({len(names)} nodes)"
