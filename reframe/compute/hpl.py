"""HPL alone (xhpl), sized from the memory. The test also checks its residuals."""

import reframe as rfm

from assay.checks.linpack import LinpackCheck
from assay.outputs import hpl
from assay.workloads import hpl_input


@rfm.simple_test
class Hpl(LinpackCheck):
    """One problem that fills the partition's share of the memory."""

    descr = "HPL"
    time_limit = "4h"
    tags = {"smoke", "compute"}
    valid_prog_environs = ["+hpl"]
    executable = "xhpl"
    input_name = "HPL.dat"
    declares = {"performance": "GFLOP/s"}

    def input_text(self, orders, grid):
        return hpl_input.hpl(orders, [self.block], grid)

    def read(self):
        return hpl.parse(self.stdout_text())

    def requested(self):
        return {"program": hpl.HOST, "threshold": hpl.THRESHOLD}

    def examine(self, parsed):
        return super().examine(parsed) + (self.solved_as_asked(parsed.rows) if parsed else [])

    def measure(self, parsed):
        return {"performance": parsed.quantity("performance", n=self.asked[-1]["n"])}
