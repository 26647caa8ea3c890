"""BabelStream on each GPU of a node, one after the other: the bandwidth of the memory of GPUs.

Tests:     BabelStreamGpu
Runs:      cuda-stream, or others of its kind
Where:     +gpu +intra-node
Stacks:    +babelstream
Proves:    exit code 0 and a complete output; the health of each GPU; a pass clears GPU
Judged by: references of copy_median [MB/s], copy_worst [MB/s], mul_median [MB/s], mul_worst
           [MB/s], add_median [MB/s], and 5 more; the peak of each
Takes:     at most 10 min for a launch; in the smoke profile: 1 of 1 cases

Not yet run on hardware.
"""

from dataclasses import replace
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import run_after, run_before

from assay.fleet.nodes import median_and_worst, of_all
from assay.gpu.bases import GpuState
from assay.parse import ParseError, babelstream
from assay.run import StrictCheck
from assay.run.site import hardware_peaks
from assay.run.ucx import text

#: Elements of an array [8 B]: three arrays of 1 GiB are beyond the caches of any GPU of today.
ELEMENTS = 1 << 27

REPETITIONS = {"smoke": 20, "full": 100}
KERNELS = [name.lower() for name in babelstream.KERNELS if name != "Nstream"]

#: Vendor of the GPUs -> program, and what it says of itself.
PROGRAMS = {"cuda": ("cuda-stream", "CUDA"), "rocm": ("hip-stream", "HIP")}

#: The function of the job script that measures one GPU after the other.
EACH = "each_gpu"


@rfm.simple_test
class BabelStreamGpu(GpuState, StrictCheck):
    """Median and worst bandwidth of the memory of all GPUs of a node."""

    kind = "compute"
    proves = {"GPU": "copy_worst"}
    descr = "BabelStream, memory bandwidth of each GPU of a node"
    time_limit = "10m"
    tags = {"smoke", "compute", "gpu"}
    valid_systems = ["+gpu +intra-node"]
    valid_prog_environs = ["+babelstream"]
    declares = median_and_worst(dict.fromkeys(KERNELS, "MB/s"))

    @run_after("setup")
    def take_all_gpus(self):
        self._gpus = self.gpus_of_a_node()
        self.take_gpus(self._gpus)

    @run_before("run")
    def command(self):
        word = "rocm" if "rocm" in self.current_partition.features else "cuda"
        program, self.implementation = PROGRAMS[word]
        self.repetitions = REPETITIONS[self.profile]
        sizes = f"-s {ELEMENTS} -n {self.repetitions}"
        self.prerun_cmds += [
            f"{EACH}() {{",
            f"  for gpu in $(seq 0 {self._gpus - 1}); do",
            f"    {program} --device $gpu {sizes} >gpu.$gpu.out || return",
            "  done",
            "}",
        ]
        self.executable = EACH
        self.keep_files.append("gpu.*.out")

    def read(self):
        parts = []
        for gpu in range(self._gpus):
            try:
                parts.append(babelstream.parse_babelstream(text(Path(f"gpu.{gpu}.out"))))
            except ParseError as error:
                raise ParseError(f"GPU {gpu}: {error}") from None
        self._parts = parts
        return replace(
            parts[0],
            complete=all(part.complete for part in parts),
            rows=tuple({"gpu": n, **row} for n, part in enumerate(parts) for row in part.rows),
            problems=tuple(f"GPU {n}: {p}" for n, part in enumerate(parts) for p in part.problems),
        )

    def examine(self, parsed):
        problems = super().examine(parsed)
        asked = {"implementation": self.implementation, "precision": "double"}
        asked["repetitions"] = self.repetitions
        for gpu, part in enumerate(self._parts if parsed else ()):
            for name, wanted in asked.items():
                if (said := part.facts.get(name, "not stated")) != wanted:
                    problems.append(f"GPU {gpu}: {name} is {said}, {wanted} was asked for")
            # The program rounds the size of an array to 0.1 MB.
            array, wanted = part.facts.get("array"), 8 * ELEMENTS
            if array is None or abs(array - wanted) > 1e5:
                said = "not stated" if array is None else f"{array:g} B"
                problems.append(
                    f"GPU {gpu}: the size of an array is {said}, {wanted} B were asked for"
                )
        return problems

    def measure(self, parsed):
        rates = {k: parsed.cells("bandwidth", kernel=k.capitalize()) for k in KERNELS}
        return of_all(rates, self.declares)

    def peaks(self, parsed):
        return hardware_peaks(self, self.declares, "gpu.memory_bandwidth")
