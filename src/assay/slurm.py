"""What Slurm says of its partitions and nodes: from the texts of ``scontrol`` to rows.

Nothing here asks Slurm. Recorded texts are in ``tests/data/site-new``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

#: The queries, by the name that :class:`Answers` gives to what they print.
QUERIES = {
    "partitions": ("scontrol", "show", "partition", "--oneliner"),
    "nodes": ("scontrol", "show", "node", "--oneliner"),
    "config": ("scontrol", "show", "config"),
    "mpi": ("srun", "--mpi=list"),
}

#: States of a node, alone or with others, in which it takes no job (``scontrol`` of Slurm 22.05,
#: ``NODE STATE CODES`` of sinfo(1)). A node that is asleep, or in maintenance, takes jobs.
OUT = {
    *("DOWN", "DRAIN", "DRAINED", "DRAINING", "ERROR", "FAIL", "FAILING", "FUTURE", "INVAL"),
    *("NOT_RESPONDING", "NO_RESPOND", "UNKNOWN"),
}

#: Below this, the memory that Slurm states is no size of a node [B]: its default is 1 MiB.
CONFIGURED = 64 << 20

#: ReFrame's names of schedulers that are Slurm.
SCHEDULERS = ("slurm", "squeue")

#: Characters that Slurm appends to a state: ``DOWN*`` does not respond, ``IDLE~`` is asleep.
FLAGS = "*~#!%$@^+-"


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
class Node:
    """A node of Slurm.

    :ivar shape: None where a number is not stated, as of a node of a cloud that never was up.
    :ivar partitions: names of the partitions that it is in.
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


def is_name(text: str) -> bool:
    """Whether a text can be the name of one node, and not a list of them, or ``ALL``."""
    return bool(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", text)) and text.upper() != "ALL"


def _fields(line: str) -> dict[str, str]:
    """The words ``Key=value``, cut at a blank. Of equal keys the first counts: texts come last."""
    found: dict[str, str] = {}
    for key, value in re.findall(r"(?:^|\s)([A-Z]\w*)=(\S*)", line):
        found.setdefault(key, "" if value == "(null)" else value)
    return found


def partitions(listing: str) -> list[Partition]:
    """The partitions in an output of ``scontrol show partition --oneliner``, the default first."""
    found = []
    for line in listing.splitlines():
        if not line.startswith("PartitionName="):
            continue
        said = _fields(line)
        keys = ("AllowGroups", "AllowAccounts", "AllowQos")
        limits = tuple(f"{k}={said[k]}" for k in keys if said.get(k, "ALL") != "ALL")
        up = said.get("State", "UP") == "UP" and said.get("RootOnly", "NO") == "NO"
        found.append(Partition(said["PartitionName"], said.get("Default") == "YES", up, limits))
    return sorted(found, key=lambda partition: not partition.default)


def node(line: str) -> Node:
    """The node that a line of ``scontrol show node --oneliner`` describes.

    :raises ValueError: the line does not name a node.
    """
    said = _fields(line)
    if not line.startswith("NodeName="):
        raise ValueError(f"no node: {line[:60]!r}")
    keys = ("Sockets", "CoresPerSocket", "ThreadsPerCore", "RealMemory")
    numbers = [int(said[key]) for key in keys if said.get(key, "").isdigit()]
    shape = None
    if len(numbers) == len(keys):
        sockets, cores, threads, memory = numbers
        shape = Shape(sockets, cores, threads, memory, said.get("Gres", ""))
    name, state = said["NodeName"], said.get("State") or "UNKNOWN"
    address = said.get("NodeAddr") or name
    lists = (said.get(key, "").split(",") for key in ("Partitions", "AvailableFeatures"))
    its, features = (tuple(filter(None, words)) for words in lists)
    return Node(name, address, shape, its, features, state, _out(state, line))


def _out(state: str, line: str) -> str:
    if "*" not in state and not OUT & {word.rstrip(FLAGS) for word in state.split("+")}:
        return ""
    # The author and the time are in brackets, at the end of the reason.
    reason = re.search(r" Reason=(.*?)(?: \[[^\]]*\]| \w+=|$)", line)
    return state + (f" ({reason[1]})" if reason else "")


def nodes(listing: str) -> list[Node]:
    """The nodes in an output of ``scontrol show node --oneliner`` whose numbers are stated."""
    found = [node(line) for line in listing.splitlines() if line.startswith("NodeName=")]
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
    said = f"{named(nodes)}: {', '.join(filter(None, has))}"
    return said + (f"; features {features}" if features else "")


def named(nodes: Sequence[Node]) -> str:
    """The names of nodes; the first and the last of many."""
    names = [node.name for node in nodes]
    return ", ".join(names) if len(names) < 4 else f"{names[0]} to {names[-1]} ({len(names)} nodes)"
