"""OSU Micro-Benchmarks: point-to-point and collective, over each transport of the partition.

Tests:     Osu, OsuCollective, OsuPy
Cases:     transport posix, sysv, cma, tcp, rc_mlx5, rc_verbs, ud_verbs, dc_mlx5; benchmark
           latency, bw, bibw, multi_lat, mbw_mr, bcast, gather, reduce, allreduce, alltoall; ranks
           2, 3, 4
Runs:      osu_<benchmark> ...; what the stack's osu_py_command says
Where:     +intra-node +<transport>, or +inter-node +<transport>
Stacks:    +osu, or +osu-py -osu
Proves:    exit code 0 and a complete output; the transport that carried the bytes, by the log of
           UCX; one world of the ranks asked for; a pass clears latency and rate
Judged by: references of latency_8B [us], latency_8KiB [us], latency_64KiB [us], latency_1MiB
           [us], bandwidth_8B [MB/s], and 7 more; the shape of the curve; the peak of each
Takes:     up to 18 s a case (smoke, 2 cores); up to 12 s a case (full, 2 cores); at most 10 min
           for a launch; in the smoke profile: 136 of 256 cases

There are two families, which are never mixed. `Osu` runs the C programs. `OsuPy` runs the Python
ports that mpi4py ships, on stacks without the C programs.
"""

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before

from assay.run.osu import OsuBase, OsuPort
from assay.run.site import link_peaks
from assay.workloads.osu import BENCHMARKS, COLLECTIVE, PAIR, osu_figures, osu_metrics

#: Numbers of ranks of the collectives whose latency is plotted over the message size.
RANKS = (2, 3, 4)

#: The benchmarks that have a port: mpi4py 4.1.2, demo/osu_*.py.
PORTED = [n for n in BENCHMARKS if n not in ("mbw_mr", "reduce", "allreduce")]


@rfm.simple_test
class Osu(OsuBase):
    """On two ranks, or on all ranks if a program takes more than two."""

    benchmark = parameter(list(BENCHMARKS))
    partitions = ("+intra-node", "+inter-node")
    valid_prog_environs = ["+osu"]

    @run_after("init")
    def declare(self):
        self.descr = f"OSU {self.benchmark} over {self.transport}"
        self.declares = osu_metrics(self.benchmark)  # latency or rate of 8 B, 8 KiB, 64 KiB, 1 MiB
        self.figures = osu_figures(self.benchmark)
        self.nodes_taken = 2 if self.benchmark in PAIR else None

    @run_before("run")
    def command(self):
        self.executable = f"osu_{self.benchmark}"
        self.executable_opts = self.options()

    def peaks(self, parsed):
        """The rate of the link, of which osu_bibw counts both directions."""
        ways = 2 if self.benchmark == "bibw" else 1
        return link_peaks(self, self.declares, ways) if "bandwidth_8B" in self.declares else {}


@rfm.simple_test
class OsuCollective(Osu):
    """Collectives on few ranks: on the cores of one node, or one rank on each of several nodes."""

    benchmark = parameter(list(COLLECTIVE))
    ranks = parameter(RANKS)
    tags = {"network"}

    @run_after("init")
    def few(self):
        self.descr = f"OSU {self.benchmark} on {self.ranks} ranks over {self.transport}"
        self.nodes_taken = self.ranks

    def ranks_on(self, cores):
        return self.ranks


@rfm.simple_test
class OsuPy(OsuPort):
    """On two ranks, or on all ranks if a program takes more than two."""

    benchmark = parameter(PORTED)
    partitions = ("+intra-node", "+inter-node")
    valid_prog_environs = ["+osu-py -osu"]

    @run_after("init")
    def declare(self):
        self.descr = f"OSU {self.benchmark} over {self.transport}"
        self.declares = osu_metrics(self.benchmark)
        self.figures = osu_figures(self.benchmark)
        self.nodes_taken = 2 if self.benchmark in PAIR else None

    @run_before("run")
    def command(self):
        self.executable, *self.executable_opts = self.port_command()

    def peaks(self, parsed):
        """The rate of the link; osu_bibw.py counts the bytes of one direction only."""
        return link_peaks(self, self.declares) if "bandwidth_8B" in self.declares else {}
