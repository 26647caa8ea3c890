"""nccl-tests: collectives of GPUs by NCCL, with the path that NCCL's own log shows.

Tests:     Nccl, NcclBetween
Cases:     collective all_reduce default, all_gather default, reduce_scatter default, alltoall
           default, broadcast default, sendrecv default, all_reduce no-nvls, all_reduce no-p2p,
           all_reduce no-shm, all_reduce no-gdr
Runs:      all_reduce_perf, or others of its kind
Where:     +gpu +intra-node, or +gpu +inter-node
Stacks:    +nccl-tests
Proves:    exit code 0 and a complete output; the health of each GPU; one world of the ranks asked
           for; a pass clears latency and rate
Judged by: references of latency_8B [us], bus_bandwidth_1024MiB [GB/s]; the shape of the curve;
           the peak of each
Takes:     at most 15 min for a launch; in the smoke profile: 16 of 16 cases

Not yet run on hardware. One process has one GPU. The log of each process is a file, so that it
cannot tear the table.
"""

import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before

from assay.declared import OF_NETWORK
from assay.gpu.bases import GpuState
from assay.gpu.parse import nccl_tests
from assay.prove.plan import Doubt
from assay.run.mpi import MpiCheck
from assay.run.site import link_peaks

#: Largest message [B], by profile. On the fastest links the rate still grows at 64 MiB.
LARGEST = {"smoke": 64 << 20, "full": 1 << 30}

#: Repetitions of a size.
ITERATIONS = 20

BENCHMARKS = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "sendrecv")


@dataclass(frozen=True)
class Way:
    """The way that data takes between two GPUs.

    :ivar pattern: what NCCL's log calls it.
    :ivar words: what messages call it.
    """

    pattern: str
    words: str


P2P = Way(r"P2P/(?!indirect).*", "P2P")

#: Configuration -> variables of NCCL that force it, and the way that GPUs of one node then take.
CONFIGURATIONS = {
    "default": ({}, P2P),
    "no-nvls": ({"NCCL_NVLS_ENABLE": "0"}, P2P),
    "no-p2p": ({"NCCL_P2P_DISABLE": "1"}, Way("SHM", "shared memory")),
    "no-shm": ({"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}, Way("NET/.*", "the network")),
}

#: The same between nodes, with the way that GPUs of different nodes then take.
BETWEEN = {
    "default": ({}, Way("NET/.*/GDRDMA", "RDMA of the GPUs")),
    "no-gdr": (
        {"NCCL_NET_GDR_LEVEL": "LOC"},
        Way("NET/[^/]*", "the network, without RDMA of the GPUs"),
    ),
}

LOGS = "nccl.*.log"
LOG = {
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,GRAPH,NET",
    "NCCL_DEBUG_FILE": LOGS.replace("*", "%h.%p"),
}


class NcclBase(GpuState, MpiCheck):
    """A program of nccl-tests on all GPUs, with its validation and the path of each pair."""

    kind = "network"
    proves = OF_NETWORK
    time_limit = "15m"
    tags = {"smoke", "network", "gpu"}
    valid_prog_environs = ["+nccl-tests"]
    nodes_taken = None
    configurations = CONFIGURATIONS

    @run_after("init")
    def describe(self):
        name, self.configuration = self.collective
        self.program = f"{name}_perf"
        self.executable = self.program
        self.largest = LARGEST[self.profile]
        self.metric = f"bus_bandwidth_{self.largest >> 20}MiB"
        self.declares = {"latency_8B": "us", self.metric: "GB/s"}
        self.descr = f"nccl-tests {name}, {self.configuration}"

    def ranks_on(self, cores):
        return self.gpus_of_a_node()

    @run_after("setup")
    def take_all_gpus(self):
        gpus = self.gpus_of_a_node()
        self.leave_out("too-small", gpus * self._layout.nodes < 2, "one GPU has no other")
        self.take_gpus(gpus)

    @run_before("run")
    def command(self):
        variables, _ = self.configurations[self.configuration]
        self.env_vars |= {**variables, **LOG}
        self.keep_files.append(LOGS)
        self.executable_opts = ["-b", "8", "-e", str(self.largest), "-f", "2", "-g", "1"]
        self.executable_opts += ["-c", "1", "-n", str(ITERATIONS)]
        self.give_each_rank_its_gpu()

    def read(self):
        logs = [path.read_text(errors="replace") for path in sorted(Path().glob(LOGS))]
        return nccl_tests.parse_nccl_tests("".join([*logs, self.stdout_text()]))

    def requested(self):
        return {
            "program": self.program,
            "ranks": self.num_tasks,
            "iterations": ITERATIONS,
            "validates": True,
        }

    def payload(self, parsed):
        return self.largest * ITERATIONS

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed is None:
            return problems
        if parsed.complete and (last := parsed.rows[-1]["size"]) != self.largest:
            problems.append(f"the table ends at {last} B, {self.largest} B was asked for")
        gpus = Counter((gpu["node"], gpu["gpu"]) for gpu in parsed.facts["gpus"])
        for (node, number), ranks in gpus.items():
            if ranks > 1:
                problems.append(f"{ranks} ranks used GPU {number} of {node}")
        path = parsed.facts.get("path")
        self.record.proof["nccl"] = path
        return problems + (self.astray(path) if path else ["NCCL left no log that shows its path"])

    def astray(self, path):
        """Problems of the ways that NCCL took; each names both GPUs."""
        variables, way = self.configurations[self.configuration]
        problems, seen = [], False
        for pair, ways in path["pairs"].items():
            ends = [path["ranks"].get(rank) for rank in pair.split("->")]
            if None in ends:
                problems.append(f"rank {pair}: the log does not name both GPUs")
            elif (ends[0]["node"] != ends[1]["node"]) == self.between_nodes:
                seen = True
                one, other = (f"{end['node']}, GPU {end['gpu']}" for end in ends)
                problems += [
                    f"from {one} to {other} the data went by {taken}, {way.words} was asked for: "
                    + ("; ".join(path["causes"][:2]) or f"look for a cause in {LOGS}")
                    for taken in ways
                    if self.promised() and not re.fullmatch(way.pattern, taken)
                ]
        for cause in path["causes"]:
            name = cause.partition(": ")[2].partition(" set by environment")[0]
            if name.startswith("NCCL_") and name not in {**variables, **LOG}:
                problems.append(Doubt(f"{cause} outside of the test"))
        return problems if seen else [*problems, "the log of NCCL shows no way between the GPUs"]

    def promised(self):
        """Whether the site promises the way: some GPUs have no P2P, some networks no RDMA."""
        features = self.current_partition.features
        if self.configuration not in ("default", "no-nvls"):
            return True
        return "ethernet" not in features if self.between_nodes else "nvlink" in features

    def at_most(self, share, links=1):
        """The rate of so many links as the peak, of which the bus bandwidth has a share at most."""
        found = link_peaks(self, [self.metric], links)
        return {name: replace(peak, most=share * peak.most) for name, peak in found.items()}

    def measure(self, parsed):
        # Eight GPUs cannot share 8 B: the programs then print 0 B, and 4 B for each GPU.
        least = min((row["size"] for row in parsed.rows if row["size"] >= 8), default=8)
        return {
            "latency_8B": parsed.quantity("time", size=least),
            self.metric: parsed.quantity("bus_bandwidth", size=self.largest),
        }


@rfm.simple_test
class Nccl(NcclBase):
    """Between the GPUs of one node."""

    collective = parameter(
        [(name, "default") for name in BENCHMARKS]
        + [("all_reduce", name) for name in CONFIGURATIONS if name != "default"],
        fmt=":".join,
    )
    valid_systems = ["+gpu +intra-node"]

    def peaks(self, parsed):
        # A GPU may have such a link to each other one. A switch that adds makes one of them all.
        path, others = parsed.facts.get("path") or {}, self.num_tasks - 1
        adds = path.get("channels", {}).get("nvls")
        return self.at_most(2 * others / self.num_tasks if adds else others)


@rfm.simple_test
class NcclBetween(NcclBase):
    """Between the GPUs of all nodes."""

    collective = parameter(
        [(name, "default") for name in BENCHMARKS] + [("all_reduce", "no-gdr")], fmt=":".join
    )
    valid_systems = ["+gpu +inter-node"]
    configurations = BETWEEN

    def peaks(self, parsed):
        # Where a switch adds (SHARP), or a tree joins two nodes, the data leaves a node once, and
        # the bus bandwidth counts it nearly twice. NCCL's log names the adapters.
        adapters = (parsed.facts.get("path") or {}).get("adapters", {}).values()
        used = max(map(len, adapters), default=0)
        return self.at_most(2 * (1 - 1 / self.num_tasks), used) if used else {}
