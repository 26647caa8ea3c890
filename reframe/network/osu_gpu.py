"""OSU Micro-Benchmarks between GPUs, over each combination of CUDA IPC, gdrcopy and GPUDirect RDMA.

Tests:     OsuGpu, OsuGpuCollective, OsuGpuRelation
Cases:     benchmark latency, bw, bcast, gather, reduce, allreduce, alltoall; buffers DD, DH, HD,
           HH; configuration all, no-gdrcopy, no-ipc, no-ipc-no-gdrcopy, no-rdma,
           no-rdma-no-gdrcopy; gpus 2, 3, 4; relation gdrcopy-small-intra, gdrcopy-small-inter,
           gdrcopy-large, ipc-large, rdma-large, medium-of-large-intra, small-of-large-inter,
           gpu-of-host-inter
Runs:      osu_<benchmark> ...; no program: it compares other cases
Where:     +gpu +intra-node, or +gpu +inter-node
Stacks:    +osu-cuda +ucx +mpi, or +osu-rocm +ucx +mpi
Proves:    exit code 0 and a complete output; the path of the bytes between GPUs; the health of
           each GPU; one world of the ranks asked for; a pass clears latency and rate
Judged by: references of latency_8B [us], latency_8KiB [us], latency_64KiB [us], latency_1MiB
           [us], bandwidth_8B [MB/s], and 4 more; the shape of the curve; the peak of each
Takes:     at most 15 min for a launch; in the smoke profile: 0 of 136 cases

Not yet run on hardware. These are the measurements of a cluster's validation: point-to-point within
one node and between two nodes, with each buffer in GPU or host memory, and collectives over 2, 3
and 4 GPUs of one node, or over one GPU of each node. :mod:`assay.gpu.gpu_paths` describes how
the paths are switched and proven.
"""

from dataclasses import dataclass

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before

from assay.declared import OF_NETWORK
from assay.gpu import accelerator, gpu_health, gpu_paths
from assay.gpu.bases import GpuMixin
from assay.parse import osu
from assay.prove import links
from assay.run import relation
from assay.run.mpi import MpiCheck
from assay.run.site import link_peaks, site_file
from assay.run.ucx import text
from assay.workloads import osu as programs

#: Buffers of the two ranks of a point-to-point test: D is GPU memory, H is host memory.
BUFFERS = ("DD", "DH", "HD", "HH")

#: Numbers of ranks of a collective: one GPU each in one node, or one rank on each of several nodes.
GPUS = (2, 3, 4)


class OsuGpuBase(GpuMixin, MpiCheck):
    """Needs the parameters ``benchmark`` and ``configuration``."""

    kind = "network"
    proves = OF_NETWORK
    time_limit = "15m"
    tags = {"network", "gpu"}
    built = "osu"
    curve = "gpu"

    @run_after("init")
    def declare(self):
        self.on_stacks_with("ucx", "mpi")
        self.declares = programs.osu_metrics(self.benchmark)
        self.figures = programs.osu_figures(self.benchmark)
        places = gpu_paths.CONFIGURATIONS[self.configuration].places
        self.valid_systems = [f"+gpu +{place}" for place in places]

    @property
    def way(self):
        place = gpu_paths.INTER if self.between_nodes else gpu_paths.INTRA
        return gpu_paths.Way(self.configuration, place, self.accelerator, self.over)

    @run_after("setup")
    def one_gpu_for_each_rank(self):
        self.take_gpus(self.num_tasks_per_node)

    @run_before("run")
    def choose_the_way(self):
        self.choose_the_path(self.partition_extra("network_device") if self.between_nodes else None)

    @run_before("run")
    def command(self):
        self.executable = f"osu_{self.benchmark}"
        version = programs.numbers(self.current_environ.extras.get("osu_version"))
        self.executable_opts = [
            *programs.validating(self.benchmark, version),
            *("-d", self.accelerator.word),
            *getattr(self, "buffers", ""),
        ]

    @run_before("run", always_last=True)
    def start_the_ranks_by_gpu(self):
        self.give_each_rank_its_gpu()

    def payload(self, parsed):
        of_one = links.message_bytes(
            self.benchmark, self._layout, programs.WINDOW.get(self.benchmark, 1)
        )
        return programs.FEWEST * of_one * sum(row["size"] for row in parsed.rows)

    def read(self):
        return osu.parse_osu(self.stdout_text())

    def sent(self, parsed):
        """The messages between the ranks, as :func:`gpu_paths.prove_gpu_paths` takes them."""
        raise NotImplementedError

    def examine(self, parsed):
        problems = super().examine(parsed)
        stack, gpu = self.current_environ.extras, self.accelerator
        path = self.path_problems(self.sent(parsed), text(self.stderr), self.num_tasks)
        ranks = self._taken
        if not ranks:
            problems.append(f"no rank took a GPU of its own, {self.num_tasks} started")
        problems += gpu_health.shared(ranks)
        if any(rank.uuid == "unknown" for rank in ranks):
            problems.append(f"which GPU a rank took is not known: {gpu.silence}")
        validation = programs.not_validated(parsed, stack.get("osu_version"))
        return [
            *self.of_other_gpus(parsed), *problems, *path, *validation,
            *programs.sizes_missing(parsed),
        ]  # fmt: skip

    def requested(self):
        return {"program": f"osu_{self.benchmark}"}

    def of_other_gpus(self, parsed):
        """A problem if OSU was built for no GPU, or for those of another vendor."""
        word, built = self.accelerator.word, parsed.facts.get("accelerator") if parsed else None
        if parsed is None or built == word:
            return []
        without = f"for GPUs of {built}" if built else "without GPUs"
        return [
            f"osu_{self.benchmark} was built {without}: build it for {word}, or take osu-{word} "
            f"out of the features of the stack {self.current_environ.name} "
            f"({site_file()})"
        ]

    def measure(self, parsed):
        return programs.values(self.benchmark, parsed)

    def peaks(self, parsed):
        rate = programs.BENCHMARKS[self.benchmark].column == "bandwidth"
        return link_peaks(self, self.declares) if rate else {}


@rfm.simple_test
class OsuGpu(OsuGpuBase):
    """Two ranks, blocking (latency) or with a window of non-blocking messages (bw)."""

    benchmark = parameter(["latency", "bw"])
    buffers = parameter(BUFFERS)
    configuration = parameter(list(gpu_paths.CONFIGURATIONS))

    @run_after("init")
    def describe(self):
        self.descr = f"OSU {self.benchmark}, buffers {self.buffers}, {self.configuration}"
        # Messages from host memory take none of the paths that the configurations switch.
        if self.buffers == "HH" and self.configuration != "all":
            self.valid_systems = []

    def sent(self, parsed):
        sizes = [int(row["size"]) for row in parsed.rows] if parsed else []
        return gpu_paths.of_pair(self.benchmark, self.buffers, sizes)

    def examine(self, parsed):
        problems = super().examine(parsed)
        # From 7.4 on, OSU does not print the buffers. Then UCX shows them.
        said = parsed.facts.get("buffers") if parsed else None
        names = {"D": "device", "H": "host"}
        asked = {"send": names[self.buffers[0]], "receive": names[self.buffers[1]]}
        if said and dict(said) != asked:
            problems.append(f"the buffers were {dict(said)}, {asked} was asked for")
        if not said and not self.shows_buffers():
            problems.append("neither OSU nor this UCX says where the buffers were: UCX 1.16 does")
        return problems


@rfm.simple_test
class OsuGpuCollective(OsuGpuBase):
    """All ranks, each with one GPU and its buffers in the memory of that GPU."""

    benchmark = parameter(list(programs.COLLECTIVE))
    gpus = parameter(GPUS)
    configuration = parameter(list(gpu_paths.CONFIGURATIONS))

    @run_after("init")
    def describe(self):
        self.descr = f"OSU {self.benchmark} over {self.gpus} GPUs, {self.configuration}"
        self.nodes_taken = self.gpus

    def ranks_on(self, cores):
        return self.gpus

    @run_after("setup")
    def only_what_the_mpi_can_reduce(self):
        version = self.current_environ.extras.get("openmpi_version")
        why = accelerator.cannot_reduce(version, self.accelerator)
        kind = "not-here" if version else "undescribed"
        self.leave_out(kind, self.benchmark in gpu_paths.REDUCTIONS and why, why)

    def sent(self, parsed):
        return gpu_paths.of_collective(self.benchmark, self.gpus)


@dataclass(frozen=True)
class Relation:
    """The ratio of a metric of one case to a metric of another case, both of OSU between GPUs.

    :ivar above, below: configuration, buffers and message size.
    """

    place: str
    benchmark: str
    above: tuple[str, str, str]
    below: tuple[str, str, str]


INTRA, INTER = gpu_paths.INTRA, gpu_paths.INTER

#: Statements of a validation about two measurements, not about one.
RELATIONS = {
    "gdrcopy-small-intra": Relation(
        INTRA, "latency", ("no-gdrcopy", "DD", "8B"), ("all", "DD", "8B")
    ),
    "gdrcopy-small-inter": Relation(
        INTER, "latency", ("no-gdrcopy", "DD", "8B"), ("all", "DD", "8B")
    ),
    "gdrcopy-large": Relation(INTRA, "bw", ("no-gdrcopy", "DD", "1MiB"), ("all", "DD", "1MiB")),
    "ipc-large": Relation(INTRA, "bw", ("all", "DD", "1MiB"), ("no-ipc", "DD", "1MiB")),
    "rdma-large": Relation(INTER, "bw", ("all", "DD", "1MiB"), ("no-rdma", "DD", "1MiB")),
    "medium-of-large-intra": Relation(INTRA, "bw", ("all", "DD", "64KiB"), ("all", "DD", "1MiB")),
    "small-of-large-inter": Relation(INTER, "bw", ("all", "DD", "8KiB"), ("all", "DD", "1MiB")),
    "gpu-of-host-inter": Relation(INTER, "bw", ("all", "DD", "1MiB"), ("all", "HH", "1MiB")),
}


@rfm.simple_test
class OsuGpuRelation(relation.Relation):
    """The ratio of two measurements of one run: a bound on it holds on any machine."""

    relation = parameter(list(RELATIONS))
    kind = "network"
    tags = {"network", "gpu"}
    declares = {"ratio": "1"}

    @run_after("init")
    def operands(self):
        chosen = RELATIONS[self.relation]
        self.valid_systems = [f"+gpu +{chosen.place}"]
        self.descr = f"{self.relation}, same run"
        column = programs.BENCHMARKS[chosen.benchmark].column
        operands = {}
        for side in ("above", "below"):
            configuration, buffers, size = getattr(chosen, side)
            asked = {"benchmark": chosen.benchmark, "buffers": buffers}
            case = relation.variant(OsuGpu, **asked, configuration=configuration)
            operands[side] = (case, f"{column}_{size}")
        self.compare(**operands)
        # Only stacks that have both operands.
        self.valid_prog_environs = [
            f"+osu-{gpu.word} +ucx +mpi"
            for gpu in gpu_paths.with_configuration(chosen.above[0])
            if gpu in gpu_paths.with_configuration(chosen.below[0])
        ]

    def measure(self, parsed):
        return {"ratio": self.ratio(parsed, "above", "below")}
