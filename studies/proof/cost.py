"""What the proof costs: the same launch with all that proves its path, and without it."""

import re
from dataclasses import replace

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before

from assay.gpu import gpu_health, gpu_paths
from assay.gpu.bases import GpuMixin
from assay.parse import openmpi
from assay.prove import steering
from assay.run.ucx import LOG_FILES, said, text

from .. import paired
from ..paired import MIB, of_netpipe, of_osu, settings
from ..paired_check import Paired, PairedCheck

BARE, PROVEN = "bare", "proven"

#: What makes UCX say what it did, beside the reports of the MPI.
LOGS = ("UCX_LOG_LEVEL", "UCX_LOG_FILE", "UCX_PROTO_INFO")

#: Part of a metric's name -> message size [B]: short, at the change of protocols, and long.
SIZES = {"8B": 8, "8KiB": 8 << 10, "1MiB": MIB}

#: Benchmark -> its program of OSU, and the iterations of each size.
BENCHMARKS = {"latency": ("latency", 300), "bandwidth": ("bw", 100)}


class BareAndProven(rfm.RegressionTestPlugin):
    """The ratio with / without the proof for three message sizes.

    This is a mixin. Name it before :class:`studies.paired_check.Paired`.
    """

    ways = (BARE, PROVEN)
    # Both launches are forced onto the path by the same variables; only one says that it took it.
    proven = (PROVEN,)

    @run_after("init")
    def compare(self):
        self.declares = {f"ratio_{name}": "1" for name in SIZES}
        self.compared = {f"ratio_{name}": (self.benchmark, at) for name, at in SIZES.items()}

    def bare_and_proven(self, logs=LOGS):
        """Puts the launches of the program into the job.

        :param logs: names of the variables that make the software write logs.
        """
        program = self.program.command(self.current_environ.extras)
        launch = self.launch_command()
        # mpirun complains about a variable that it is to pass on and that is not set.
        bare = re.sub(rf" -x ({'|'.join(logs)})(?= )", "", launch)
        silence = settings(dict.fromkeys([*self.mpi_library.report, *logs], ""))
        self.take_turns({
            BARE: [*silence, f"{bare} {program}"],
            PROVEN: [f'{launch} "$assay_stage"/{steering.WITNESS.name} rank {program}'],
        })  # fmt: skip

    def examine(self, parsed):
        problems = super().examine(parsed)
        for way, number, folder in paired.launches((BARE,), self.rounds):
            world = openmpi.parse_openmpi(text(folder / "stderr"))
            if any(folder.glob(LOG_FILES)) or world.selected:
                # The ratio of two launches that both log is 1, whatever the logs cost.
                problems.append(
                    f"{way}, round {number}: it wrote logs, though it was to write none"
                )
                break
        return problems


@rfm.simple_test
class ProofCost(BareAndProven, PairedCheck):
    """What the proof costs over one transport."""

    benchmark = parameter(list(BENCHMARKS))

    tags = {"network", "equivalence"}
    valid_prog_environs = ["+osu", "+netpipe -osu"]

    @run_after("init")
    def describe(self):
        self.descr = f"what the proof costs: {self.benchmark} over {self.transport}"

    @run_before("run")
    def command(self):
        name, iterations = BENCHMARKS[self.benchmark]
        if "osu" in self.current_environ.features:
            self.program = of_osu(name, min(SIZES.values()), MIB, iterations)
        else:
            # 4 B is the warm-up of NetPIPE.
            self.program = of_netpipe(4, MIB, iterations)
        self.bare_and_proven()


@rfm.simple_test
class ProofCostGpu(BareAndProven, GpuMixin, Paired):
    """What the proof costs between two GPUs of a node, by OSU."""

    benchmark = parameter(list(BENCHMARKS))
    configuration = parameter(list(gpu_paths.CONFIGURATIONS))

    tags = {"network", "gpu", "equivalence"}
    built = "osu"

    @run_after("init")
    def describe(self):
        self.descr = f"what the proof costs: {self.benchmark} between GPUs, {self.configuration}"
        self.on_stacks_with("ucx", "mpi")
        inside = gpu_paths.INTRA in gpu_paths.CONFIGURATIONS[self.configuration].places
        self.valid_systems = ["+gpu +intra-node"] if inside else []

    @property
    def way(self):
        return gpu_paths.Way(self.configuration, gpu_paths.INTRA, self.accelerator, self.over)

    @run_after("setup")
    def one_gpu_for_each_rank(self):
        self.take_gpus(self.num_tasks_per_node)

    @run_before("run")
    def command(self):
        self.choose_the_path()
        name, iterations = BENCHMARKS[self.benchmark]
        options = f"-d {self.accelerator.word} D D"
        self.program = of_osu(name, min(SIZES.values()), MIB, iterations, options)
        self.give_each_rank_its_gpu()
        self.bare_and_proven([*LOGS, *self.accelerator.log])

    def proof_of(self, way, folder, world, parsed):
        gpu, log = self.accelerator, said(folder)
        sizes = [int(row["size"]) for row in parsed.rows] if parsed else []
        sent = gpu_paths.of_pair(BENCHMARKS[self.benchmark][0], "DD", sizes)
        proof = gpu_paths.prove_gpu_paths(self.way, log, sent, self._ucx_version(), self.num_tasks)
        ranks = [gpu_health.taken(text(path)) for path in folder.glob(gpu_health.OF_RANKS)]
        ranks = [rank for rank in ranks if rank]
        problems = gpu_health.shared(ranks) + gpu_health.others(gpu, log, ranks)
        problems += gpu_health.without(ranks, self.num_tasks)
        if gpu.small:
            problems += gpu_paths.gdrcopy(self.way, text(folder / "stderr"))[1]
        return replace(proof, problems=(*proof.problems, *problems))
