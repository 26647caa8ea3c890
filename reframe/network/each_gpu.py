"""Every GPU of every node: copies with the host, and copies with each other GPU of its node.

Not yet run on hardware. A slow GPU, a slow pair of GPUs and a pair without access to each other's
memory are named with their node, without any reference: the same copy on the other nodes and the
other copies of the node are the criterion (:mod:`assay.fleet.gpu_ways`). Data that arrives wrong is
named, too. The driver of NVIDIA makes the copies; nothing of the stack is measured.
"""

import math
import shlex
import statistics
import sys
from dataclasses import replace
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import run_after, variable

import assay.onnode
from assay.accused import Against, How
from assay.checks.nodes import AllNodesCheck
from assay.checks.options import COUNT, NONE, SHARE
from assay.fleet import gpu_ways, gpus
from assay.outputs import Parsed
from assay.outputs.each_gpu import BETWEEN, TO_DEVICE, TO_HOST

#: Size of a copy [B], repeats of each way in a turn, turns of each node, and time limit of one turn
#: [s].
SIZE, REPEATS, TURNS, LIMIT = 64 << 20, 5, 3, 300

#: A copy may be slower than those of the others by this share; a link that lost half of its lanes
#: is far below. Not yet compared with healthy GPUs.
TOLERANCE = 0.2

#: Kind of a copy -> the beginning of its metrics.
KINDS = {TO_DEVICE: "host_to_device", TO_HOST: "device_to_host", BETWEEN: "between_gpus"}


@rfm.simple_test
class EachGpu(AllNodesCheck):
    """Rate of each copy of each GPU of each node; names the slow GPU or pair with its node."""

    #: Number of nodes that measure at the same time; all if None.
    width = variable(COUNT, NONE, value=None)
    tolerance = variable(SHARE, value=TOLERANCE)
    #: Size of a copy [B].
    size = variable(COUNT, value=SIZE)

    kind = "network"
    descr = "every GPU of all nodes, with the host and with each other"
    tags = {"smoke", "network", "gpu"}
    valid_systems = ["+gpu +cuda"]
    valid_prog_environs = ["*"]
    script = "each.py"
    least_nodes = 1
    judges_itself = True
    declares = {
        f"{name}_{which}": "GB/s" for name in KINDS.values() for which in ("median", "worst")
    }

    @run_after("setup")
    def take_all_gpus(self):
        self._gpus = self.gpus_of_a_node()
        self.take_gpus(self._gpus)
        if self._gpus == 1:
            pairs = KINDS[BETWEEN]
            self.declares = {m: u for m, u in self.declares.items() if not m.startswith(pairs)}
        groups = -(-self.num_tasks // (self.width or self.num_tasks))
        self.time_limit = f"{math.ceil(300 + 2 * TURNS * groups * LIMIT)}s"

    def plan(self):
        script = Path(assay.onnode.__file__).with_name("gpus.py")
        words = [sys.executable, str(script), str(self.size), str(REPEATS)]
        return {
            "command": ["sh", "-c", "exec " + " ".join(map(shlex.quote, words))],
            "limit": LIMIT,
            "width": self.width,
            "turns": TURNS,
            "advice": [
                sys.executable, "-m", gpus.__name__, "coordinator_log.jsonl", str(self.tolerance)
            ],
        }  # fmt: skip

    def read(self):
        log = self.coordinator_log()
        self._turns, self._failed = gpu_ways.turns(log)
        rates = {}
        for turn in self._turns:
            for copy in turn.copies:
                ends = [turn.gpus.get(end, end) for end in (copy.source, copy.target)]
                key = (turn.node, copy.direction, *ends)
                rates.setdefault(key, []).append((copy.rate, int(copy.access)))
        rows = tuple(
            {
                **dict(zip(("node", "copy", "from", "to"), key)),
                "rate": statistics.median(rate for rate, _ in found),
                "access": min(access for _, access in found),
            }
            for key, found in rates.items()
        )
        units = {"rate": "GB/s", "access": "1"}
        return Parsed("assay", "each_gpu", None, log.complete, rows, units)

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed is None:
            return problems
        self._record["gpus"] = gpus.summary(self._turns, self.tolerance)
        self._record["second_look"] = sorted({t.node for t in self._turns if t.look == 2})
        number = {turn.node: len(turn.gpus) for turn in self._turns}
        few = [
            Against(f"{node}: {its} of {self._gpus} GPUs were measured", [node], How.DIFFERS)
            for node, its in number.items()
            if its != self._gpus
        ]
        found = [*self._failed, *self.no_second_look(), *few]
        accusing = [line for line in self._failed if isinstance(line, Against)]
        said = {node for failed in accusing for node in failed.nodes}
        return [*found, *self.silent({*number, *said}), *problems]

    def missed(self):
        lines = gpu_ways.clocks(self._turns)
        return "; ".join(filter(None, [super().missed(), *lines]))

    def slow(self):
        return gpus.slow(self._turns, self.tolerance)

    def measure(self, parsed):
        found = {}
        for kind, name in KINDS.items():
            rates = [row["rate"] for row in parsed.rows if row["copy"] == kind]
            if rates:
                found[f"{name}_median"] = statistics.median(rates)
                found[f"{name}_worst"] = min(rates)
        return found

    def peaks(self, parsed):
        # The link of a partition between nodes is not that between the GPUs of a node.
        if "intra-node" not in self.current_partition.features:
            return {}
        between = [metric for metric in self.declares if metric.startswith(KINDS[BETWEEN])]
        return {
            metric: replace(peak, value=peak.value / 1000)  # the metric is in GB/s
            for metric, peak in self.link_peaks(between).items()
        }
