"""OSU Micro-Benchmarks: point-to-point and collective, over each transport of the partition.

There are two families, which are never mixed. `Osu` runs the C programs. `OsuPy` runs the Python
ports that mpi4py ships, on stacks without the C programs.
"""

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from assay.declared import HOSTS
from assay.run.osu import OsuC, OsuPort
from assay.workloads.osu import BENCHMARKS, COLLECTIVE, figures

#: Numbers of ranks of the collectives whose latency is plotted over the message size.
RANKS = (2, 3, 4)

#: The benchmarks that have a port: mpi4py 4.1.2, demo/osu_*.py.
PORTED = [n for n in BENCHMARKS if n not in ("mbw_mr", "reduce", "allreduce")]


@rfm.simple_test
class Osu(OsuC):
    """On two ranks, or on all ranks if a program takes more than two."""

    benchmark = parameter(list(BENCHMARKS))
    tags = {"smoke", "network", "paper", "doc-002"}

    @run_after("init")
    def draw(self):
        self.figures = figures(self.benchmark, HOSTS)


@rfm.simple_test
class OsuCollective(OsuC):
    """Collectives on few ranks: on the cores of one node, or one rank on each of several nodes."""

    benchmark = parameter(list(COLLECTIVE))
    ranks = parameter(RANKS)
    tags = {"network", "paper"}

    @run_after("init")
    def few(self):
        self.descr = f"OSU {self.benchmark} on {self.ranks} ranks over {self.transport}"
        self.nodes_taken = self.ranks
        self.figures = figures(self.benchmark, HOSTS)

    def ranks_on(self, cores):
        return self.ranks


@rfm.simple_test
class OsuPy(OsuPort):
    """On two ranks, or on all ranks if a program takes more than two."""

    benchmark = parameter(PORTED)
    tags = {"smoke", "network", "paper", "doc-002"}
