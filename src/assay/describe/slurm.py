"""What Slurm says of its partitions and their nodes: from the texts of ``scontrol`` to rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from assay import slurm

#: The queries, by the name that :class:`Answers` gives to what they print.
QUERIES = {
    "partitions": ("scontrol", "show", "partition", "--oneliner"),
    "nodes": ("scontrol", "show", "node", "--oneliner"),
    "config": ("scontrol", "show", "config"),
    "mpi": ("srun", "--mpi=list"),
}

#: Below this, the memory that Slurm states is no size of a node [B]: its default is 1 MiB.
CONFIGURED = 64 << 20


class Shape(NamedTuple):
    """What a node has, as Slurm states it: memory [MiB] and the text of generic resources."""

    sockets: int
    cores: int
    threads: int
    memory: int
    resources: str

    @property
    def memory_bytes(self) -> int:
        """Memory [B]."""
        return self.memory << 20

    @property
    def gpus(self) -> int:
        """The GPUs among the generic resources, such as ``gpu:v100:4(S:0-1)``."""
        found = re.findall(r"\bgpu:(?:[^,:(]+:)?(\d+)", self.resources)
        return sum(map(int, found))

    @property
    def processor(self) -> dict[str, int]:
        """The processor, in the format of ReFrame's configuration."""
        of_socket = self.cores * self.threads
        return {
            "num_cpus": self.sockets * of_socket,
            "num_cpus_per_core": self.threads,
            "num_cpus_per_socket": of_socket,
            "num_sockets": self.sockets,
        }


@dataclass(frozen=True)
class Node:
    """A node of Slurm.

    :ivar shape: None where a number is not stated, as of a node of a cloud that never was up.
    :ivar out: why it takes no job; empty if it does.
    """

    name: str
    address: str
    shape: Shape | None
    partitions: tuple[str, ...]
    features: tuple[str, ...]
    state: str
    out: str


@dataclass(frozen=True)
class Partition:
    """A partition of Slurm.

    :ivar open: an ordinary user may submit to it: it is up, and not only for root.
    :ivar limits: settings that may keep a user away, such as ``AllowAccounts=physics``.
    """

    name: str
    default: bool = False
    open: bool = True
    limits: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pool:
    """The largest group of alike nodes of a partition, on which a site runs; others in words."""

    partition: Partition
    nodes: tuple[Node, ...]
    shape: Shape
    others: tuple[str, ...] = ()

    @property
    def up(self) -> list[Node]:
        """The nodes that take jobs now."""
        return [node for node in self.nodes if not node.out]


@dataclass(frozen=True)
class Answers:
    """The texts that :data:`QUERIES` print; empty if a command is missing."""

    partitions: str = ""
    nodes: str = ""
    config: str = ""
    mpi: str = ""

    @property
    def scheduler(self) -> str:
        """ReFrame's backend: sacct knows ended jobs only if Slurm keeps accounting records."""
        kept = r"^AccountingStorageType\s*=\s*accounting_storage/slurmdbd"
        return "slurm" if re.search(kept, self.config, re.MULTILINE) else "squeue"

    @property
    def launcher(self) -> str:
        """``srun`` if it supports PMIx, else ``mpirun``."""
        pmix = r"^\s*(?:pmix|pmix_v\d+)\s*$"
        return "srun" if re.search(pmix, self.mpi, re.MULTILINE) else "mpirun"


def partitions(listing: str) -> list[Partition]:
    """The partitions in an output of ``scontrol show partition --oneliner``, the default first."""
    found = []
    for line in listing.splitlines():
        if not line.startswith("PartitionName="):
            continue
        said = slurm.fields(line)
        keys = ("AllowGroups", "AllowAccounts", "AllowQos")
        limits = tuple(f"{k}={said[k]}" for k in keys if said.get(k, "ALL") != "ALL")
        up = said.get("State", "UP") == "UP" and said.get("RootOnly", "NO") == "NO"
        found.append(Partition(said["PartitionName"], said.get("Default") == "YES", up, limits))
    return sorted(found, key=lambda partition: not partition.default)


def nodes(listing: str) -> list[Node]:
    """The nodes in an output of ``scontrol show node --oneliner`` whose numbers are stated."""
    found = [_node(line) for line in listing.splitlines() if line.startswith("NodeName=")]
    return [each for each in found if each.shape]


def pool(partition: Partition, every: Sequence[Node]) -> Pool | None:
    """The nodes of a partition; None if no node of it takes jobs."""
    kinds: dict[Shape, list[Node]] = {}
    for each in every:
        if each.shape and partition.name in each.partitions:
            kinds.setdefault(each.shape, []).append(each)
    up = {shape: sum(not each.out for each in kind) for shape, kind in kinds.items()}
    if not any(up.values()):
        return None
    shape = max(up, key=lambda shape: up[shape])
    others = tuple(_kind(other, kind) for other, kind in kinds.items() if other != shape)
    return Pool(partition, tuple(kinds[shape]), shape, others)


def _kind(shape: Shape, nodes: Sequence[Node]) -> str:
    has = [f"{shape.processor['num_cpus']} processors", f"{shape.memory} MiB", shape.resources]
    features = ", ".join(sorted({word for node in nodes for word in node.features}))
    said = f"{node_names(nodes)}: {', '.join(filter(None, has))}"
    return said + (f"; features {features}" if features else "")


def node_names(nodes: Sequence[Node]) -> str:
    """The names of nodes; the first and the last of many."""
    names = [node.name for node in nodes]
    return ", ".join(names) if len(names) < 4 else f"{names[0]} to {names[-1]} ({len(names)} nodes)"


def _node(line: str) -> Node:
    """The node that a line of ``scontrol show node --oneliner`` describes."""
    said, (name, state, out) = slurm.fields(line), slurm.node(line)
    keys = ("Sockets", "CoresPerSocket", "ThreadsPerCore", "RealMemory")
    numbers = [int(said[key]) for key in keys if said.get(key, "").isdigit()]
    shape = None
    if len(numbers) == len(keys):
        sockets, cores, threads, memory = numbers
        shape = Shape(sockets, cores, threads, memory, said.get("Gres", ""))
    lists = (said.get(key, "").split(",") for key in ("Partitions", "AvailableFeatures"))
    its, features = (tuple(filter(None, words)) for words in lists)
    return Node(name, said.get("NodeAddr") or name, shape, its, features, state, out)
