"""ucx_perftest between GPUs, or within one: UCX without MPI, with and without CUDA IPC.

Tests:     UcxGpu, UcxGpuBetween
Cases:     operation tag_lat, tag_bw; gpus 1, 2; configuration all, no-gdrcopy, no-ipc,
           no-ipc-no-gdrcopy
Runs:      ucx_perftest
Where:     +gpu +intra-node, or +gpu +inter-node +ethernet
Stacks:    +ucx-cuda +ucx-perftest, or +ucx-rocm +ucx-perftest
Proves:    exit code 0 and a complete output; the path of the bytes between GPUs; the health of
           each GPU; a pass clears latency and rate
Judged by: references of latency_8B [us], bandwidth_16MiB [MB/s], bandwidth_1MiB [MB/s]; the peak
           of each
Takes:     at most 5 min for a launch; in the smoke profile: 20 of 20 cases

Not yet run on hardware. Server and client each take the GPU with their own number, modulo the
number of visible GPUs (src/tools/perf/cuda/cuda_alloc.c and rocm/rocm_alloc.c of UCX 1.18). With
one visible GPU, that GPU is therefore measured against itself. The test shows whether a number of
OSU between GPUs comes from UCX or from Open MPI.

Between two nodes that Ethernet joins, the job script starts the server on the first node, and srun
starts the client on the second. UCX copies each message to host memory and sends it over TCP.
"""

import shutil
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before

from assay.declared import OF_NETWORK
from assay.gpu import gpu_health, gpu_paths
from assay.gpu.bases import RANK_GPU, GpuMixin
from assay.gpu.gpu_paths import Sent
from assay.opinions import pair, perftest
from assay.opinions.parse import ucx_perftest
from assay.prove import links
from assay.prove.launch import REFUSED_FILE
from assay.run import StrictCheck, ucx
from assay.run.site import link_peaks
from assay.run.ucx import text
from assay.workloads.sizing import Layout

MIB = 1 << 20

#: operation -> messages, iterations, metric, its column and unit. From UCX 1.19 on, the receiver of
#: tag_bw sends 1 B from its buffer in return (send_ack in src/tools/perf/lib/ucp_tests.cc).
TESTS = {
    "tag_lat": (Sent("DD", (8,), 2), 2000, "latency_8B", "p50", "us"),
    "tag_bw": (Sent("Dd", (16 * MIB,)), 200, "bandwidth_16MiB", "bandwidth", "MB/s"),
}

#: The same between nodes, over a network that may be slow.
BETWEEN = {
    "tag_lat": (Sent("DD", (8,), 2), 500, "latency_8B", "p50", "us"),
    "tag_bw": (Sent("Dd", (MIB,)), 100, "bandwidth_1MiB", "bandwidth", "MB/s"),
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
    proves = OF_NETWORK
    time_limit = "5m"
    tags = {"smoke", "network", "gpu"}
    valid_systems = ["+gpu +intra-node"]
    built = "ucx"
    tests = TESTS

    @run_after("init")
    def declare(self):
        self.sent, self.iterations, self.metric, self.column, unit = self.tests[self.operation]
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
        return ucx_perftest.parse_ucx_perftest(text(Path(pair.SERVER_FILE)) + self.stdout_text())

    def requested(self):
        return {"program": ucx_perftest.PROGRAM, "iterations": self.iterations}

    def examine(self, parsed):
        problems = super().examine(parsed)
        said = text(self.stderr) + text(Path(pair.SERVER_FILE))
        path = self.path_problems(self.sent, said, processes=2)
        memory = {parsed.facts.get(f"{side}_memory") for side in ("send", "recv")} if parsed else ()
        elsewhere = [f"the buffers were in {name or 'no known'} memory" for name in memory
                     if name != self.accelerator.word]  # fmt: skip
        otherwise = perftest.not_requested(parsed, self.size)
        fewer = gpu_health.together(self.accelerator, ucx.said(Path()), self.gpus)
        if self.gpus > 1:
            fewer += gpu_health.shared(self._taken)
        return [*problems, *otherwise, *elsewhere, *fewer, *path]

    def measure(self, parsed):
        return {self.metric: parsed.quantity(self.column)}

    def peaks(self, parsed):
        two = self.operation == "tag_bw" and self.gpus > 1
        return link_peaks(self, [self.metric]) if two else {}


@rfm.simple_test
class UcxGpuBetween(UcxGpu):
    """The same from a GPU of one node to a GPU of another, through the memory of both hosts."""

    gpus = parameter([1])  # of each node
    configuration = parameter(
        [name for name, c in gpu_paths.CONFIGURATIONS.items()
         if gpu_paths.INTER in c.places and c.rdma]
    )  # fmt: skip
    parallel = True
    valid_systems = ["+gpu +inter-node +ethernet"]
    tests = BETWEEN

    @run_after("init")
    def describe(self):
        what = f"ucx_perftest {self.operation}, {self.size} B"
        self.descr = f"{what}, GPUs of two nodes, {self.configuration}"

    @property
    def way(self):
        return gpu_paths.Way(self.configuration, gpu_paths.INTER, self.accelerator, self.over)

    @run_after("setup")
    def one_process_on_each_node(self):
        launcher = self._starter
        self.leave_out(
            "not-here", launcher != "srun", f"{launcher} cannot start the client on the second node"
        )
        self.num_tasks, self.num_tasks_per_node = 2, 1

    @run_before("run")
    def command(self):
        device = self.partition_extra("network_device")
        self.choose_the_path(device)
        shutil.copy(links.WITNESS, self.stagedir)
        self.keep_files += [pair.SERVER_FILE, links.READINGS]
        witness = f'"$assay_stage"/{links.WITNESS.name} {device}'
        memory = self.accelerator.word
        self.executable = perftest.COMMAND
        self.executable_opts = perftest.client(
            self.operation, self.size, self.iterations, "-m", f"{memory},{memory}",
            host="$(uname -n)",
        )  # fmt: skip
        visible = self.accelerator.restricted(self.gpus, REFUSED_FILE)
        # The job script starts the server, as the first rank of its node.
        by_gpu = f'env SLURM_LOCALID=0 "$assay_stage"/{RANK_GPU.name} {witness}'
        self.prerun_cmds += [*visible, *perftest.server(wrapper=by_gpu)]
        launcher = self.job.launcher
        launcher.options = [*launcher.options, "--nodes=1", "--ntasks=1", "--relative=1"]
        self.give_each_rank_its_gpu()
        launcher.options = [*launcher.options, witness]
        self.postrun_cmds += pair.END_OF_SERVER

    def examine(self, parsed):
        problems = super().examine(parsed)
        hosts = sorted({host for host, _ in ucx.said(Path()).processes})
        if len(hosts) == 1:
            problems.append(f"server and client both ran on {hosts[0]}: two nodes were asked for")
        needed = self.sent.senders * self.size * self.iterations
        files = {path.name: text(path) for path in Path().glob(links.READINGS)}
        crossing = links.prove_crossing(files, Layout(2, 1), needed)
        self.record.proof["link"] = {"needed": needed, "moved": crossing.moved}
        return [*problems, *crossing.problems]

    def peaks(self, parsed):
        return link_peaks(self, [self.metric]) if self.operation == "tag_bw" else {}
