"""HPL alone (xhpl), sized from the memory, with its residuals counted."""

from pathlib import Path

import reframe as rfm
from reframe.core.builtins import run_before, variable

from assay.checks import hpl_input
from assay.checks.mpi import MpiCheck
from assay.checks.sizing import matrix_order, process_grid, usable_ranks
from assay.outputs import hpl

SMOKE_ORDER = 4000


@rfm.simple_test
class Hpl(MpiCheck):
    """One problem that fills the partition's share of the memory."""

    #: Block size NB.
    block = variable(int, value=192)
    kind = "compute"
    descr = "HPL"
    time_limit = "4h"
    tags = {"smoke", "compute"}
    valid_systems = ["+intra-node"]
    valid_prog_environs = ["+hpl"]
    executable = "xhpl"
    env_vars = {"OMP_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1}
    declares = {"performance": "GFLOP/s"}
    keep_files = ["HPL.dat"]

    def ranks(self, cores):
        return usable_ranks(cores)

    @run_before("run")
    def input_file(self):
        extras = self.current_partition.extras
        grid = process_grid(self.num_tasks)
        order = matrix_order(extras["memory_bytes"], extras["memory_fraction"], self.block, grid)
        if self.profile == "smoke":
            order = min(order, SMOKE_ORDER // self.block * self.block)
        self.asked = {"n": order, "nb": self.block, "p": grid.p, "q": grid.q}
        (Path(self.stagedir) / "HPL.dat").write_text(hpl_input.hpl([order], [self.block], grid))

    def read(self):
        return hpl.parse(self.stdout_text())

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed is not None:
            ran = [{key: row[key] for key in self.asked} for row in parsed.rows]
            if ran != [self.asked]:
                problems.append(f"xhpl solved {ran}, it was asked for {self.asked}")
        return problems

    def measure(self, parsed):
        return {"performance": parsed.at("performance", n=self.asked["n"])}
