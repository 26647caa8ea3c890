"""HPL over the number of nodes P and the order N: how a cluster scales, and its share of the peak.

Tests:     HplStudy, GpuHplStudy
Cases:     nodes 1, 2, 3, 4, 8, 16, 32
Runs:      xhpl; what the stack's hpl_gpu_command says
Where:     +intra-node, or +inter-node, or +intra-node +gpu, or +inter-node +gpu
Stacks:    +hpl, or +hpl-gpu
Proves:    exit code 0 and a complete output; one world of the ranks asked for; the health of each
           GPU; a pass clears processor and GPU
Judged by: references of performance [GFLOP/s]; the peak of each
Takes:     at most 480 min for a launch; in the smoke profile: 0 of 14 cases

Three quantities follow from the time T(P, N):

- the speed-up S(P, N) = T(1, N) / T(P, N)
- the sustained performance SP(P, N)
- the share of the peak SPF(P, N) = SP(P, N) / PP(P)

The peak PP(P) of P nodes counts one operation per clock cycle for each core of the GPUs and of the
processors: PP(P) = P (GPUs x cores x clock + cores x clock). The validation that this study is
taken from defines it so. Vendors state a higher peak, because a core of today does more than one
operation per cycle. The metric is a share of that one, where the partition names its hardware.

On the host, the study runs xhpl of the stack. On GPUs, it runs NVIDIA's HPL, installed outside of
the stack or in its own container, with one rank for each GPU, bound near it. The container has its
own MPI and libraries. The release must fit the GPUs (`src/assay/gpu/accelerators.yaml`): V100 needs
21.4 (`hpc-benchmarks:21.4-hpl`). The GPU part has not yet been run on hardware.
"""

import shlex

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before
from reframe.core.exceptions import ConfigError

from assay.gpu import accelerator, gpu_health
from assay.gpu.bases import GpuState
from assay.parse import hpl
from assay.run import Figure, Peak
from assay.run.linpack import HplCheck
from assay.run.site import hardware_peak, hardware_peaks
from assay.workloads.hpl_input import matrix_order, study_orders
from assay.workloads.sizing import Grid, Layout

#: Numbers of nodes. A partition runs those up to its extra `nodes`.
NODES = (1, 2, 3, 4, 8, 16, 32)

#: How the names of files with an image of a container end.
IMAGES = (".sif", ".simg", ".sqsh")

#: Share of a GPU's memory that the matrix may take. The program needs the rest.
GPU_FRACTION = 0.85


class HplStudyBase(HplCheck):
    """Several orders N in one run on `nodes` nodes."""

    nodes = parameter(NODES)
    time_limit = "8h"
    tags = {"compute"}
    #: Order of a problem across two groups whose time says nothing of the link; 0: there is none.
    warm_up = 0

    def on_partitions(self, *features):
        """Selects the partitions that can have this many nodes: for one node also intra-node."""
        self.nodes_taken = self.nodes
        kinds = ["inter-node"] if self.nodes > 1 else ["intra-node", "inter-node"]
        self.valid_systems = [" ".join(["+" + kind, *features]) for kind in kinds]

    def orders(self, grid):
        memory, fraction = self.memory()
        one_node = self.shortened(matrix_order(memory, fraction, self.block, Grid(1, 1)))
        orders = study_orders(one_node, self.nodes, self.block)
        if self.between:
            # TCP starts slowly, and the first problem bears it.
            self.warm_up = orders[0] - self.block
        return [*([self.warm_up] if self.warm_up else []), *orders]

    def peaks(self, parsed):
        part = self.node_peak()
        if part is None:
            return self.peaks_by_vendor()
        words, value = part
        self.record.proof["study_peak"] = self.nodes * value
        # One operation per cycle, see above: this is not an upper limit.
        by_study = Peak(f"{self.nodes} x {words}", self.nodes * value, most=None)
        return {"performance": by_study, **self.peaks_by_vendor()}

    def peaks_by_vendor(self):
        """What the vendors state of the hardware, if the partition names it."""
        return hardware_peaks(self, self.declares, "processor.fp64", self.num_tasks)

    def node_peak(self):
        """Peak of the used cores of a node, in words and in [GFLOP/s]; None if it is unknown."""
        clock = self.current_partition.extras.get("clock_hz")
        if clock is None:
            return None
        cores = self.cores_used()
        return f"{cores} cores of {clock / 1e9:g} GHz", cores * clock / 1e9

    def cores_used(self):
        return self._layout.per_node


@rfm.simple_test
class HplStudy(HplStudyBase):
    """xhpl of the stack, with one rank for each core."""

    valid_prog_environs = ["+hpl"]
    executable = "xhpl"
    figures = [Figure("scaling", at="HPL")]

    @run_after("init")
    def describe(self):
        self.descr = f"HPL on {self.nodes} nodes"
        self.on_partitions()


@rfm.simple_test
class GpuHplStudy(GpuState, HplStudyBase):
    """NVIDIA's HPL, with one rank for each GPU. Not yet run on hardware."""

    valid_prog_environs = ["+hpl-gpu"]
    proves = {"GPU": "performance"}
    reports = hpl.NVIDIA
    figures = [Figure("scaling", at="GPU HPL")]

    @run_after("init")
    def describe(self):
        self.descr = f"HPL on the GPUs of {self.nodes} nodes"
        self.on_partitions("+gpu")

    @property
    def accelerator(self):
        # Where the GPUs are those of another vendor, the case has ended.
        return accelerator.CUDA

    @run_after("setup")
    def an_hpl_for_these_gpus(self):
        partition, stack = self.current_partition, self.current_environ
        there, built = accelerator.vendors_of(partition.features), accelerator.built(stack.features)
        gpus = [gpu for gpu in built or there or [accelerator.CUDA] if gpu in (there or [gpu])]
        self.leave_out(
            "not-here",
            not gpus,
            accelerator.of_others(stack.name, built, partition.fullname, there),
        )
        vendors = " and ".join(gpu.vendor for gpu in gpus)
        if len(gpus) > 1:
            raise ConfigError(
                f"{partition.fullname}: the HPL of the stack {stack.name} may be for GPUs of "
                f"{vendors}: describe the GPUs of each vendor as a partition, with its own stack"
            )
        self.program = gpus[0].hpl
        if not self.program:
            raise ConfigError(
                f"{partition.fullname}: no HPL for GPUs of {vendors} is known: take hpl-gpu out of "
                f"the features of the stack {stack.name}, or the stack out of the environs of the "
                "partition"
            )

    @run_after("setup")
    def gpus_of_the_node(self):
        self.num_gpus_per_node = self.gpus_of_a_node()
        # The cores of a node are shared out among the ranks of its GPUs.
        self.num_cpus_per_task = max(1, self._cores_of_a_node() // self.gpus_of_a_node())
        self.env_vars["OMP_NUM_THREADS"] = self.num_cpus_per_task

    def layout(self, cores):
        gpus = self.gpus_of_a_node()
        return self._spread(gpus) if self.between_nodes else Layout(1, gpus)

    def ranks_on(self, cores):
        return cores

    def memory(self):
        gigabytes = hardware_peak(self, "gpu", "memory")
        why = "extras: hardware: it names no GPU, by whose memory the matrix is sized"
        self.leave_out("undescribed", gigabytes is None, why)
        return int(self.gpus_of_a_node() * gigabytes * 2**30), GPU_FRACTION

    @run_after("setup")
    def release_of_the_program(self):
        stack = self.current_environ
        gpu = self.current_partition.extras.get("hardware", {}).get("gpu", "")
        if why := self.accelerator.hpl_does_not_run(gpu, stack.extras.get("hpl_gpu_release", "")):
            raise ConfigError(f"the stack {stack.name}: hpl_gpu_release: {why}")
        its = self.accelerator.releases_of(gpu)
        stated = "hpl_gpu_block" in stack.extras or its is None
        self.block = self.stack_extra("hpl_gpu_block") if stated else its.block

    @run_before("run")
    def command(self):
        stack, words = self.current_environ, shlex.split(self.stack_extra("hpl_gpu_command"))
        images = [word for word in words if word.endswith(IMAGES)]
        for path in filter(None, (stack.extras.get("image"), *images)):
            if not path.startswith("/"):
                why = "jobs run in their stage directories: write the whole path"
                raise ConfigError(f"the stack {stack.name}: {path} is no absolute path, and {why}")
        if images and "image" not in stack.extras:
            why = "name it as the extra image, too: its MPI and its libraries are then its own"
            raise ConfigError(f"the stack {stack.name}: hpl_gpu_command starts {images[0]}: {why}")
        self.give_each_rank_its_gpu()
        self.executable, *self.executable_opts = map(shlex.quote, words)
        # The script may work in a directory of its own.
        self.executable_opts += ["--dat", f'"$assay_stage"/{self.input_name}']
        self.executable_opts += ["--gpu-affinity", ":".join(map(str, range(self.gpus_of_a_node())))]

    def examine(self, parsed):
        problems = super().examine(parsed) + gpu_health.shared(self._taken)
        if parsed and parsed.program != self.program:
            problems.append(f"{parsed.program} ran, which computes on the host's cores")
        return problems

    def node_peak(self):
        cores, clock = hardware_peak(self, "gpu", "cores"), hardware_peak(self, "gpu", "clock")
        if cores is None or clock is None:
            return None
        words = f"{self.gpus_of_a_node()} GPUs of {cores:.0f} cores and {clock:g} GHz"
        value = self.gpus_of_a_node() * cores * clock
        processor = super().node_peak()
        if processor is None:
            return f"{words} (the processor's clock is not stated)", value
        return f"{words} and {processor[0]}", value + processor[1]

    def cores_used(self):
        return self._cores

    def peaks_by_vendor(self):
        gpus = self.nodes * self.gpus_of_a_node()
        found = {}
        for quantity in ("gpu.fp64", "gpu.fp64_matrix"):  # older GPUs have no matrices in FP64
            found |= hardware_peaks(self, self.declares, quantity, gpus)
        return found
