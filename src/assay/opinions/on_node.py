"""Whether a run of STREAM, HPL or HPCG measured a whole node, and what that node can do.

A low value is a fault of the node only if the run used all of it: a run on few cores, or of a small
problem, is slow on a healthy node, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from assay import metrics
from assay.judge import Peak, peaks
from assay.opinions.stated import Node
from assay.parse import Parsed

#: Tests of a node's processors.
OF_NODES = ("Stream", "BabelStream", "Hpl", "Hpcg")

#: The least that memory must hold, so that the caches do not: a multiple of the last level, and a
#: size [B] where that is not known. HPL fills at least this share of the memory.
BEYOND_CACHES, BEYOND_ANY_CACHE, FILLS = 4, 1 << 32, 0.4

#: What a text lacks that is to say how fast a node should be.
_SHOW = (
    "put what lscpu, free and dmidecode -t memory print on that node into the same text, or say "
    "--hardware processor=NAME --hardware memory=NAME --case sockets=2 --case cores=64"
)


@dataclass(frozen=True)
class NodeRun:
    """An output, the node that its text states, and the parts of that node by role."""

    parsed: Parsed
    node: Node
    parts: Mapping[str, str]
    site: Path

    def peak(self, of: str, unit: str) -> Peak | None:
        """What the memory of the node carries, or its cores compute; None if it is not known."""
        name, node = self.parts.get("processor", ""), self.node
        known = peaks.hardware(self.site, "processor", "memory")
        if not (name and node.sockets):
            return None
        its, memory = known["processor"][name], known["memory"].get(self.parts.get("memory", ""))
        if of == "memory.bandwidth":
            value, own = peaks.memory_bandwidth(its, node.sockets, memory), "MB/s"
            what = f"the memory of {node.sockets} {name}"
        else:
            cores = node.cores * self._nodes()
            value, own = peaks.processor_fp64(its, cores, node.clock or None), "GFLOP/s"
            what = f"{cores} cores of {name}"
        # The memory of HPCG allows so many FLOP for each byte.
        scale = metrics.factor(own, "GB/s" if self.parsed.family == "hpcg" else unit)
        return Peak(what, value * scale, of=of) if value and scale else None

    def _used(self) -> int:
        """The cores that the program says that it took, at least."""
        facts, rows = self.parsed.facts, self.parsed.rows
        grids = [int(row["p"]) * int(row["q"]) for row in rows if "p" in row]
        ranks = facts.get("ranks") or max(grids, default=1)
        return int(ranks) * int(facts.get("threads") or 1)

    def _nodes(self) -> int:
        """At least so many nodes: ranks beyond the hardware threads of one were on others."""
        return max(1, self._used() // (self.node.cpus or self.node.cores or 1))

    def lacks(self, test: str) -> dict[str, str]:
        """What a low value needs to be a fault of the node, and nothing shows -> the next step."""
        node, name = self.node, self.parts.get("processor", "")
        if test not in OF_NODES:
            return {}
        if not (name and node.sockets and node.cores):
            return {"the processor, its sockets and cores": _SHOW}
        doubts = {}
        if test == "BabelStream" or self._used() < node.cores:
            used = "how many" if test == "BabelStream" else f"only {self._used()}"
            doubts[f"a run on the whole node: {used} of its {node.cores} cores were used"] = (
                "run it on all cores of the node, each with one rank or thread"
            )
        if test == "Hpl" and not self.fills():
            doubts["whether the matrix fills the memory"] = _SHOW
        if test == "Hpcg" and not self.fills():
            doubts["a problem that the caches do not hold"] = "run it with --nx=104 or more"
        if test != "Hpl":
            known = peaks.hardware(self.site, "processor")["processor"][name]
            channels = int(known.channels or 0) * node.sockets
            if channels and "memory" not in self.parts:
                doubts["the modules of the memory"] = _SHOW
            if channels and 0 < node.modules < channels:
                doubts[f"a full memory: {node.modules} modules are in {channels} channels"] = (
                    "compare it with a node of the same modules"
                )
            # EPYC 7002 and 7003 with less cache for each socket have half the fabric (floors.yaml).
            half = node.cache < (128 << 20) * node.sockets
            if name in ("epyc-rome", "epyc-milan") and half:
                doubts["whether this model has the whole fabric: one of few dies has half"] = _SHOW
        return doubts

    def caveat(self, test: str) -> str:
        """What a good value of a node rests on, if nothing shows it."""
        if test in ("Hpl", "Hpcg") or "ranks" in self.parsed.facts:
            return "its ranks used one node alone"
        return "" if self.fills() else "the caches do not hold its arrays"

    def fills(self) -> bool:
        """Whether the problem is as large as a measurement of the node needs."""
        facts, node = self.parsed.facts, self.node
        least = BEYOND_CACHES * node.cache or BEYOND_ANY_CACHE
        if self.parsed.family == "hpl":
            order = max((int(row["n"]) for row in self.parsed.rows), default=0)
            return 0 < FILLS * node.memory * self._nodes() <= 8 * order**2
        if self.parsed.family == "hpcg":
            # A point has 27 nonzeros of 12 B.
            return bool(27 * 12 * math.prod(facts["size"]) >= least)
        array = facts.get("array", 0)
        array *= facts.get("element", 8) if self.parsed.family == "stream" else 1
        return bool(array >= least)
