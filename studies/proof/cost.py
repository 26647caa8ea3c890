"""What the proof costs: the same launch with all that proves its path, and without it."""

import re

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before

from assay.prove import steering
from assay.run.ucx import LOG_FILES, text

from .. import paired
from ..paired import MIB, of_netpipe, of_osu, settings
from ..paired_check import PairedCheck

BARE, PROVEN = "bare", "proven"

#: What makes UCX say what it did, beside the reports of the MPI.
LOGS = ("UCX_LOG_LEVEL", "UCX_LOG_FILE", "UCX_PROTO_INFO")

#: Part of a metric's name -> message size [B]: short, at the change of protocols, and long.
SIZES = {"8B": 8, "8KiB": 8 << 10, "1MiB": MIB}

#: Benchmark -> its program of OSU, and the iterations of each size.
BENCHMARKS = {"latency": ("latency", 300), "bandwidth": ("bw", 100)}


@rfm.simple_test
class ProofCost(PairedCheck):
    """The ratio with / without the proof for three message sizes, and whether it is 1."""

    benchmark = parameter(list(BENCHMARKS))

    tags = {"network", "equivalence"}
    valid_prog_environs = ["+osu", "+netpipe -osu"]
    declares = {f"ratio_{name}": "1" for name in SIZES}
    ways = (BARE, PROVEN)
    # Both launches are forced onto the path by the same variables; only one says that it took it.
    proven = (PROVEN,)

    @run_after("init")
    def describe(self):
        self.descr = f"what the proof costs: {self.benchmark} over {self.transport}"
        self.compared = {f"ratio_{name}": (self.benchmark, at) for name, at in SIZES.items()}

    @run_before("run")
    def command(self):
        name, iterations = BENCHMARKS[self.benchmark]
        if "osu" in self.current_environ.features:
            self.program = of_osu(name, min(SIZES.values()), MIB, iterations)
        else:
            # 4 B is the warm-up of NetPIPE.
            self.program = of_netpipe(4, MIB, iterations)
        program = self.program.command(self.current_environ.extras)
        launch = self.launch_command()
        # mpirun complains about a variable that it is to pass on and that is not set.
        bare = re.sub(rf" -x ({'|'.join(LOGS)})(?= )", "", launch)
        silence = settings(dict.fromkeys([*self.mpi_library.report, *LOGS], ""))
        self.take_turns({
            BARE: [*silence, f"{bare} {program}"],
            PROVEN: [f'{launch} "$assay_stage"/{steering.WITNESS.name} rank {program}'],
        })  # fmt: skip

    def examine(self, parsed):
        problems = super().examine(parsed)
        for way, number, folder in paired.launches((BARE,), self.rounds):
            world = self.mpi_library.world(text(folder / "stderr"))
            if any(folder.glob(LOG_FILES)) or world.selected:
                # The ratio of two launches that both log is 1, whatever the logs cost.
                problems.append(
                    f"{way}, round {number}: it wrote logs, though it was to write none"
                )
                break
        return problems
