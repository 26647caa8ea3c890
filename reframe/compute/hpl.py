"""HPL alone (xhpl), sized from the memory. The test also checks its residuals.

Tests:     Hpl, HplAgainstDgemm
Runs:      xhpl; no program: it compares other cases
Where:     +intra-node, or +inter-node
Stacks:    +hpl, or +hpl +hpcc
Proves:    exit code 0 and a complete output; one world of the ranks asked for; a pass clears
           processor
Judged by: references of performance [GFLOP/s], hpl_per_dgemm [1]; the peak of each
Takes:     at most 240 min for a launch; in the smoke profile: 2 of 2 cases
"""

import reframe as rfm
from reframe.core.builtins import run_after

from assay.run.linpack import HplCheck
from assay.run.relation import Relation
from assay.workloads.sizing import usable_ranks


@rfm.simple_test
class Hpl(HplCheck):
    """One problem that fills the partition's share of the memory."""

    descr = "HPL"
    time_limit = "4h"
    tags = {"smoke", "compute"}
    valid_prog_environs = ["+hpl"]
    executable = "xhpl"


@rfm.simple_test
class HplAgainstDgemm(Relation):
    """HPL has most of the rate of the DGEMM that HPCC measured on the same cores in the same run.

    HPL is DGEMM with panels and swaps. With another BLAS, or ranks that share a core, it has less.
    """

    kind = "compute"
    descr = "HPL against the DGEMM of HPCC, same run"
    tags = {"smoke", "compute"}
    valid_systems = ["+intra-node"]
    valid_prog_environs = ["+hpl +hpcc"]
    declares = {"hpl_per_dgemm": "1"}

    @run_after("init")
    def operands(self):
        self.compare(hpl=("Hpl", "performance"), dgemm=("Hpcc", "dgemm_star"))

    def measure(self, parsed):
        ranks = usable_ranks(self._cores_of_a_node())
        return {"hpl_per_dgemm": self.ratio(parsed, "hpl", "dgemm") / ranks}
