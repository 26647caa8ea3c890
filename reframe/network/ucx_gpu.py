"""ucx_perftest between GPUs, or within one: UCX without MPI, with and without CUDA IPC.

Not yet run on hardware. Server and client each take the GPU with their own number, modulo the
number of visible GPUs (src/tools/perf/cuda/cuda_alloc.c and rocm/rocm_alloc.c of UCX 1.18). With
one visible GPU, that GPU is therefore measured against itself. The test shows whether a number of
OSU between GPUs comes from UCX or from Open MPI.
"""

from pathlib import Path

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before

from assay.checks import StrictCheck, pair, perftest, ucx
from assay.checks.gpu import GpuMixin
from assay.checks.ucx import text
from assay.evidence import gpu_paths, gpu_places
from assay.evidence.gpu_ipc import Sent
from assay.evidence.launch import REFUSED_FILE
from assay.outputs import ucx_perftest

MIB = 1 << 20

#: operation -> messages, iterations, metric, its column and unit. From UCX 1.19 on, the receiver of
#: tag_bw sends 1 B from its buffer in return (send_ack in src/tools/perf/lib/ucp_tests.cc).
TESTS = {
    "tag_lat": (Sent("DD", (8,), 2), 2000, "latency_8B", "p50", "us"),
    "tag_bw": (Sent("Dd", (16 * MIB,)), 200, "bandwidth_16MiB", "bandwidth", "MB/s"),
}

#: One GPU with itself, or a pair.
GPUS = (1, 2)


@rfm.simple_test
class UcxGpu(GpuMixin, StrictCheck):
    """Latency and bandwidth of tagged messages from GPU memory to GPU memory in one node."""

    operation = parameter(list(TESTS))
    gpus = parameter(GPUS)
    configuration = parameter(
        [name for name, c in gpu_paths.CONFIGURATIONS.items() if gpu_paths.INTRA in c.places]
    )
    kind = "network"
    time_limit = "5m"
    tags = {"smoke", "network", "gpu"}
    valid_systems = ["+gpu +intra-node"]
    built = "ucx"

    @run_after("init")
    def declare(self):
        self.sent, self.iterations, self.metric, self.column, unit = TESTS[self.operation]
        (self.size,) = self.sent.sizes
        self.declares = {self.metric: unit}
        of = "a GPU with itself" if self.gpus == 1 else "two GPUs"
        self.descr = f"ucx_perftest {self.operation}, {self.size} B, {of}, {self.configuration}"
        self.on_stacks_with("ucx-perftest")

    @property
    def way(self):
        return gpu_paths.Way(self.configuration, gpu_paths.INTRA, self.accelerator)

    @run_after("setup")
    def take_the_gpus(self):
        self.take_gpus(self.gpus)

    @run_before("run")
    def command(self):
        self.choose_the_path()
        memory = self.accelerator.word
        self.keep_files.append(pair.SERVER_FILE)
        self.executable = perftest.COMMAND
        self.executable_opts = perftest.client(
            self.operation, self.size, self.iterations, "-m", f"{memory},{memory}"
        )
        visible = self.accelerator.restricted(self.gpus, REFUSED_FILE)
        self.prerun_cmds += [*visible, *perftest.server(self.near_cores())]
        self.postrun_cmds += pair.END_OF_SERVER

    def read(self):
        # Only the server prints where the buffers are.
        return ucx_perftest.parse(text(Path(pair.SERVER_FILE)) + self.stdout_text())

    def requested(self):
        return {"program": ucx_perftest.PROGRAM, "iterations": self.iterations}

    def examine(self, parsed):
        problems = super().examine(parsed)
        said = self.stderr_text() + text(Path(pair.SERVER_FILE))
        path = self.path_problems(self.sent, said, processes=2)
        memory = {parsed.facts.get(f"{side}_memory") for side in ("send", "recv")} if parsed else ()
        elsewhere = [f"the buffers were in {name or 'no known'} memory" for name in memory
                     if name != self.accelerator.word]  # fmt: skip
        otherwise = perftest.not_requested(parsed, self.size)
        fewer = gpu_places.together(self.accelerator, ucx.said(Path()), self.gpus)
        if self.gpus > 1:
            fewer += gpu_places.shared(self._taken)
        return [*problems, *otherwise, *elsewhere, *fewer, *path]

    def measure(self, parsed):
        return {self.metric: parsed.quantity(self.column)}

    def peaks(self, parsed):
        two = self.operation == "tag_bw" and self.gpus > 1
        return self.link_peaks([self.metric]) if two else {}
