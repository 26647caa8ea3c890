"""What is known of a site that is not written yet, and what could not be found out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay import catalogue
from assay.catalogue import (
    BTIO_CLASSES,
    BTIO_SUBTYPES,
    PROGRAMS,
    VERSIONS,
)
from assay.evidence.accelerator import ACCELERATORS
from assay.onnode import inventory
from assay.sites import detect
from assay.sites.new.slurm import Pool

#: Share of the memory that a matrix may take: of a node that is ours alone, and of one that shares
#: its machine with other nodes.
ALONE, TOGETHER = 0.8, 0.1

#: Kernels of two nodes that began in the same second, and whose switches differ by less than this
#: share, are one kernel.
SAME_KERNEL = 0.02

#: Below this, the memory that Slurm states is no size of a node [B]: its default is 1 MiB.
CONFIGURED = 64 << 20

#: What to do about hardware without a known peak.
ADD_PEAK = "add it to hardware.yaml of the site, and name it in the extra hardware"


@dataclass(frozen=True)
class Gap:
    """What could not be found out.

    :ivar where: the part of the site.
    :ivar what: what is not known, and why.
    :ivar do: what to do, an imperative.
    """

    where: str
    what: str
    do: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}; {self.do}"


@dataclass(frozen=True)
class Place:
    """The nodes of one partition of Slurm, and what was found on some of them.

    :ivar here: what :mod:`assay.onnode.inventory` printed on the first node.
    :ivar there: the same of another node; None if only one was asked.
    """

    pool: Pool
    here: Mapping[str, Any]
    there: Mapping[str, Any] | None = None

    @property
    def host(self) -> str:
        """The node that was asked."""
        return str(self.here["host"])

    @property
    def together(self) -> bool:
        """Whether the nodes are parts of one machine, as those of an emulated cluster are."""
        if self.there is None:
            return False
        one, other = self.here["kernel"], self.there["kernel"]
        if None in (*one.values(), *other.values()) or one["started"] != other["started"]:
            return False
        least, most = sorted((one["switches"], other["switches"]))
        return bool(most - least <= SAME_KERNEL * most)

    @property
    def transports(self) -> dict[str, set[str]]:
        """The transports that UCX opens on the node, each with its devices."""
        found: dict[str, set[str]] = {}
        for pair in self.here["ucx_devices"]:
            name, _, device = pair.partition("/")
            found.setdefault(name, set()).add(device)
        return found

    @property
    def ports(self) -> Mapping[str, Mapping[str, str | None]]:
        """The ports of InfiniBand and RoCE, as :mod:`assay.onnode.provenance` describes them."""
        found: Mapping[str, Mapping[str, str | None]] = self.here["network"]["infiniband"]
        return found

    @property
    def extras(self) -> dict[str, Any]:
        """The extras that all partitions of these nodes have."""
        sizes = [size for size in (self.pool.shape.memory, self.here["memory"]) if size]
        clock = detect.clock(self.here["clock"]["cpuinfo"], self.here["clock"]["base_frequency"])
        return {
            "memory_bytes": min((size for size in sizes if size > CONFIGURED), default=0),
            "memory_fraction": TOGETHER if self.together else ALONE,
            **({"clock_hz": clock} if clock else {}),
            # As assay.sites.detect.pml: what Open MPI chooses where there is no adapter.
            **({} if self.ports else {"pml": "ob1"}),
        }


def questions(peer: str | None) -> str:
    """What :mod:`assay.onnode.inventory` is asked on a node, as its argument.

    :param peer: address of another node.
    """
    built = [catalogue.btio(cls, sub) for cls in BTIO_CLASSES for sub in BTIO_SUBTYPES]
    names = [name for p in PROGRAMS.values() if p.detected for name in p.executables]
    commands = [list(version.command) for version in VERSIONS.values()]
    listings = [list(gpu.listing) for gpu in ACCELERATORS.values() if gpu.word != "cuda"]
    return json.dumps(
        {
            "programs": [*names, *built],
            "commands": [
                *commands,
                ["ucx_info", "-d"],
                list(detect.HEADER),
                list(detect.UCX_OF_MPI),
                *listings,
            ],
            "peer": peer,
        }
    )


def answers(text: str) -> list[dict[str, Any]]:
    """The answers of the nodes in the output of a job, in the order of the nodes' names.

    :raises ValueError: a line of an answer is cut.
    """
    # srun passes a line on in pieces of 1 KiB, which mix with those of the other node. Its option
    # --label says whose piece it is.
    tasks: dict[str, str] = {}
    for line in text.splitlines():
        if piece := re.match(r" *(\d+): (.*)", line):
            tasks[piece[1]] = tasks.get(piece[1], "") + piece[2]
    parts = [part for said in tasks.values() for part in said.split(inventory.MARK)[1:]]
    found = [json.JSONDecoder().raw_decode(part)[0] for part in parts]
    return sorted(found, key=lambda answer: str(answer["host"]))
