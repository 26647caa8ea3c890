"""Every GPU of every node: copies with the host, and copies with each other GPU of its node.

Tests:     EachGpu
Runs:      gpus.py of src/assay/gpu/node
Where:     +intra-node +gpu +cuda, or +inter-node +gpu +cuda
Stacks:    any
Proves:    exit code 0 and a complete output; an answer of every node; a pass clears GPU link
Judged by: references of host_to_device_median [GB/s], host_to_device_worst [GB/s],
           device_to_host_median [GB/s], device_to_host_worst [GB/s], between_gpus_median [GB/s],
           and 1 more; the peak of each; the other nodes, of which none may be 20 % better
Takes:     as long as its size needs; in the smoke profile: 1 of 1 cases

Not yet run on hardware. A slow GPU, a slow pair of GPUs and a pair without access to each other's
memory are named with their node, without any reference: the same copy on the other nodes and the
other copies of the node are the criterion (:mod:`assay.gpu.gpu_ways`). Data that arrives wrong
is named, too. The driver of NVIDIA makes the copies; nothing of the stack is measured.
"""

import statistics

import reframe as rfm
from reframe.core.builtins import run_after, variable

from assay.accused import Against, How
from assay.fleet.nodes import SweepCheck, median_and_worst
from assay.gpu import gpu_ways
from assay.gpu.bases import SCRIPTS, GpusOfNode
from assay.gpu.gpus import GPUS
from assay.gpu.parse.each_gpu import BETWEEN, TO_DEVICE, TO_HOST
from assay.run.options import COUNT
from assay.run.site import hardware_peaks, link_peaks

#: The script that copies.
SCRIPT = SCRIPTS / "gpus.py"

#: Size of a copy [B], and repeats of each way in a turn.
SIZE, REPEATS = 64 << 20, 5

#: Kind of a copy -> the beginning of its metrics.
KINDS = {TO_DEVICE: "host_to_device", TO_HOST: "device_to_host", BETWEEN: "between_gpus"}


@rfm.simple_test
class EachGpu(GpusOfNode, SweepCheck):
    """Rate of each copy of each GPU of each node; names the slow GPU or pair with its node."""

    #: Size of a copy [B].
    size = variable(COUNT, value=SIZE)

    kind = "network"
    proves = {"GPU link": "(host_to_device|device_to_host)_worst"}
    descr = "every GPU of all nodes, with the host and with each other"
    tags = {"smoke", "network", "gpu"}
    valid_systems = ["+intra-node +gpu +cuda", "+inter-node +gpu +cuda"]
    valid_prog_environs = ["*"]
    least_nodes = 1
    sweep = GPUS
    named = "each_gpu"
    kept = "gpus"
    # A link that lost half of its lanes is far below. Not yet compared with healthy GPUs.
    tolerance = 0.2
    limit = 300
    declares = median_and_worst(dict.fromkeys(KINDS.values(), "GB/s"))
    columns = {"rate": "GB/s", "access": "1"}

    @run_after("setup")
    def take_all_gpus(self):
        self._gpus = self.gpus_of_a_node()
        self.take_gpus(self._gpus)
        if self._gpus == 1:
            pairs = KINDS[BETWEEN]
            self.declares = {m: u for m, u in self.declares.items() if not m.startswith(pairs)}

    def command(self):
        return self.on_node(SCRIPT, self.size, REPEATS)

    def table(self):
        rates = {}
        for turn in self._turns:
            for copy in turn.copies:
                ends = [turn.gpus.get(end, end) for end in (copy.source, copy.target)]
                key = (turn.node, copy.direction, *ends)
                rates.setdefault(key, []).append((copy.rate, int(copy.access)))
        for key, found in rates.items():
            yield {
                **dict(zip(("node", "copy", "from", "to"), key)),
                "rate": statistics.median(rate for rate, _ in found),
                "access": min(access for _, access in found),
            }

    def few(self, parsed):
        number = {turn.node: len(turn.gpus) for turn in self._turns}
        return [
            Against(f"{node}: {its} of {self._gpus} GPUs were measured", [node], How.DIFFERS)
            for node, its in number.items()
            if its != self._gpus
        ]

    def missed(self):
        lines = gpu_ways.clocks(self._turns)
        return "; ".join(filter(None, [super().missed(), *lines]))

    def values(self, parsed):
        found = {}
        for copy, rate in zip(parsed.column("copy"), parsed.cells("rate")):
            found.setdefault(KINDS[copy], []).append(rate)
        return found

    def peaks(self, parsed):
        between = [name for name in self.declares if name.startswith(KINDS[BETWEEN])]
        host = [name for name in self.declares if name not in between]
        found = hardware_peaks(self, host, "pcie.bandwidth")
        # The link of a partition between nodes is not that between the GPUs of a node.
        if "intra-node" in self.current_partition.features:
            found |= link_peaks(self, between)
        return found
