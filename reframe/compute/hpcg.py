"""HPCG: conjugate gradients on all cores, which the memory and the network limit.

Tests:     Hpcg, HpcgAgainstStream
Runs:      xhpcg <points> --rt=<seconds>; no program: it compares other cases
Where:     +intra-node, or +inter-node
Stacks:    +hpcg, or +hpcg +stream
Proves:    exit code 0 and a complete output; one world of the ranks asked for; a pass clears
           memory
Judged by: references of rating [GFLOP/s], spmv [GFLOP/s], mg [GFLOP/s], hpcg_per_triad [1]; the
           peak of each
Takes:     as long as its size needs; in the smoke profile: 2 of 2 cases
"""

from pathlib import Path

import reframe as rfm
from reframe.core.builtins import run_after, run_before, variable

from assay.opinions.parse import hpcg
from assay.parse import Quantity
from assay.run.mpi import MpiCheck
from assay.run.options import POSITIVE
from assay.run.relation import Relation
from assay.run.site import hardware_peaks

#: Points of a rank along each axis in the smoke profile; HPCG takes 16 at least.
SMOKE_POINTS = 16

#: Most points along each axis: 512 GB of the memory of a rank.
MOST_POINTS = 896

#: Memory for each point [B], as HPCG 3.1 states it in its report, rounded up.
BYTES_OF_A_POINT = 800

#: How long and narrow the grid of processes may be (CheckAspectRatio.cpp).
ASPECT = 8


def divisors(number):
    return [d for d in range(1, number + 1) if number % d == 0]


def spreads(ranks):
    """Whether some three-dimensional grid of so many processes is one that HPCG accepts."""
    return any(
        max(x, y, ranks // x // y) <= ASPECT * min(x, y, ranks // x // y)
        for x in divisors(ranks)
        for y in divisors(ranks // x)
    )


@rfm.simple_test
class Hpcg(MpiCheck):
    """One problem, on all cores; the run is valid by the tests of HPCG itself."""

    #: How long HPCG works in the full profile [s]; the list of HPCG asks for 1800.
    seconds = variable(POSITIVE, value=60)

    kind = "compute"
    proves = {"memory": "rating"}
    descr = "HPCG, conjugate gradients"
    tags = {"smoke", "compute"}
    valid_systems = ["+intra-node", "+inter-node"]
    valid_prog_environs = ["+hpcg"]
    executable = "xhpcg"
    nodes_taken = None
    env_vars = {"OMP_NUM_THREADS": 1}
    keep_files = ["HPCG-Benchmark*"]
    declares = {"rating": "GFLOP/s", "spmv": "GFLOP/s", "mg": "GFLOP/s"}

    def ranks_on(self, cores):
        return max(ranks for ranks in range(1, cores + 1) if spreads(ranks))

    @run_after("setup")
    def choose_the_problem(self):
        self._points, self._seconds = SMOKE_POINTS, 1
        if self.profile == "full":
            memory = self.partition_extra("memory_bytes") * self.partition_extra("memory_fraction")
            points = (memory / self._layout.per_node / BYTES_OF_A_POINT) ** (1 / 3)
            self._points = min(max(int(points) // 8 * 8, SMOKE_POINTS), MOST_POINTS)
            self._seconds = int(self.seconds)
        # The setup and the reference run come before the time that is measured.
        self.time_limit = f"{600 + 10 * self._seconds}s"

    @run_before("run")
    def command(self):
        points = f"--nx={self._points}"
        self.executable_opts = [points, f"--rt={self._seconds}"]

    def read(self):
        reports = sorted(Path().glob("HPCG-Benchmark*"))
        return hpcg.parse_hpcg("".join(path.read_text(errors="replace") for path in reports))

    def requested(self):
        return {"program": "hpcg", "ranks": self.num_tasks, "threads": 1}

    def claimed(self, parsed):
        return parsed.at("time", part="raw")

    def payload(self, parsed):
        # Each iteration sums two numbers over all ranks.
        return 16 * self._layout.nodes

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed is not None:
            x, y, z = parsed.facts["size"]
            if x * y * z != self._points**3 * self.num_tasks:
                asked = f"{self.num_tasks} times {self._points}^3 points were asked for"
                problems.append(f"HPCG solved {x:g} x {y:g} x {z:g} points, {asked}")
        return problems

    def accused(self, parsed):
        return [*super().accused(parsed), *self.shares_a_core(parsed)]

    def peaks(self, parsed):
        # It waits for the memory. A problem that fits into the caches does not: no upper limit.
        nodes = self._layout.nodes
        return hardware_peaks(self, self.declares, "memory.bandwidth", nodes, most=None)

    def measure(self, parsed):
        rates = {part.lower(): parsed.quantity("rate", part=part) for part in ("SpMV", "MG")}
        return {"rating": Quantity(parsed.facts["rating"], "GFLOP/s"), **rates}


@rfm.simple_test
class HpcgAgainstStream(Relation):
    """FLOP of HPCG for each byte that STREAM moved on the same cores in the same run."""

    kind = "compute"
    descr = "HPCG against STREAM, same run"
    tags = {"smoke", "compute"}
    valid_systems = ["+intra-node"]
    valid_prog_environs = ["+hpcg +stream"]
    declares = {"hpcg_per_triad": "1"}

    @run_after("init")
    def operands(self):
        self.compare(rating=("Hpcg", "rating"), triad=("Stream", "triad"))

    def measure(self, parsed):
        return {"hpcg_per_triad": self.ratio(parsed, "rating", "triad") * 1000}
