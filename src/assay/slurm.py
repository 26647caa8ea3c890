"""What Slurm says of a node: from a text of ``scontrol`` to a row.

Nothing here asks Slurm. Recorded texts are in ``tests/data/site-new``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

#: States of a node, alone or with others, in which it takes no job (``scontrol`` of Slurm 22.05,
#: ``NODE STATE CODES`` of sinfo(1)). A node that is asleep, or in maintenance, takes jobs.
OUT = {
    *("DOWN", "DRAIN", "DRAINED", "DRAINING", "ERROR", "FAIL", "FAILING", "FUTURE", "INVAL"),
    *("NOT_RESPONDING", "NO_RESPOND", "UNKNOWN"),
}

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


def is_name(text: str) -> bool:
    """Whether a text can be the name of one node, and not a list of them, or ``ALL``."""
    return bool(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", text)) and text.upper() != "ALL"


def fields(line: str) -> dict[str, str]:
    """The words ``Key=value``, cut at a blank. Of equal keys the first counts: texts come last."""
    found: dict[str, str] = {}
    for key, value in re.findall(r"(?:^|\s)([A-Z]\w*)=(\S*)", line):
        found.setdefault(key, "" if value == "(null)" else value)
    return found


def node(line: str) -> Node:
    """The node that a line of ``scontrol show node --oneliner`` describes.

    :raises ValueError: the line does not name a node.
    """
    said = fields(line)
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
