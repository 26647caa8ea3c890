"""nvbandwidth of NVIDIA: copies between the host and each GPU of a node, and between its GPUs.

Tests:     Nvbandwidth
Runs:      nvbandwidth -t ...
Where:     +gpu +intra-node
Stacks:    +nvbandwidth
Proves:    exit code 0 and a complete output; the health of each GPU; a pass clears GPU link
Judged by: references of host_to_device_median [GB/s], host_to_device_worst [GB/s],
           device_to_host_median [GB/s], device_to_host_worst [GB/s], between_gpus_median [GB/s],
           and 1 more; the peak of each
Takes:     at most 10 min for a launch; in the smoke profile: 1 of 1 cases

Not yet run on hardware. These are the numbers of the tool that NVIDIA's support asks for. `EachGpu`
compares the same copies over all nodes, and needs no reference.
"""

from collections import Counter

import reframe as rfm
from reframe.core.builtins import run_after, run_before

from assay.fleet.nodes import median_and_worst, of_all
from assay.gpu.bases import GpuState
from assay.gpu.parse import nvbandwidth
from assay.run import StrictCheck
from assay.run.site import hardware_peaks, link_peaks

#: Test of the program -> the beginning of its metrics.
TESTS = {
    "host_to_device_memcpy_ce": "host_to_device",
    "device_to_host_memcpy_ce": "device_to_host",
    "device_to_device_memcpy_read_ce": "between_gpus",
}
BETWEEN = "between_gpus"


@rfm.simple_test
class Nvbandwidth(GpuState, StrictCheck):
    """Median and worst rate of the copies of all GPUs of a node, by their copy engines."""

    kind = "network"
    proves = {"GPU link": "(host_to_device|device_to_host)_worst"}
    descr = "nvbandwidth, copies of all GPUs of a node"
    time_limit = "10m"
    tags = {"smoke", "network", "gpu"}
    valid_systems = ["+gpu +intra-node"]
    valid_prog_environs = ["+nvbandwidth"]
    executable = "nvbandwidth"
    declares = median_and_worst(dict.fromkeys(TESTS.values(), "GB/s"))

    @run_after("setup")
    def take_all_gpus(self):
        self._gpus = self.gpus_of_a_node()
        self.take_gpus(self._gpus)
        # The program leaves out pairs without access to each other; NVLink promises it.
        nvlink = self._gpus > 1 and "nvlink" in self.current_partition.features
        self._tests = {name: what for name, what in TESTS.items() if nvlink or what != BETWEEN}
        self.declares = median_and_worst(dict.fromkeys(self._tests.values(), "GB/s"))

    @run_before("run")
    def command(self):
        self.executable_opts = ["-t", *self._tests]

    def read(self):
        return nvbandwidth.parse_nvbandwidth(self.stdout_text())

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed is None:
            return problems
        found = Counter(row["test"] for row in parsed.rows)
        for name, what in self._tests.items():
            copies = self._gpus * (self._gpus - 1 if what == BETWEEN else 1)
            if found[name] != copies:
                problems.append(
                    f"{name}: {found[name]} copies were measured, {self._gpus} GPUs have {copies}"
                )
        return problems

    def measure(self, parsed):
        rates = {what: parsed.cells("bandwidth", test=name) for name, what in self._tests.items()}
        return of_all(rates, self.declares)

    def peaks(self, parsed):
        between = [name for name in self.declares if name.startswith(BETWEEN)]
        host = [name for name in self.declares if not name.startswith(BETWEEN)]
        return {**link_peaks(self, between), **hardware_peaks(self, host, "pcie.bandwidth")}
