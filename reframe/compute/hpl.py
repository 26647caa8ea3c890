"""HPL alone (xhpl), sized from the memory. The test also checks its residuals.

Tests:     Hpl
Runs:      xhpl
Where:     +intra-node, or +inter-node
Stacks:    +hpl
Proves:    exit code 0 and a complete output; one world of the ranks asked for; a pass clears
           processor
Judged by: references of performance [GFLOP/s]; the peak of each
Takes:     at most 240 min for a launch; in the smoke profile: 1 of 1 cases
"""

import reframe as rfm

from assay.run.linpack import HplCheck


@rfm.simple_test
class Hpl(HplCheck):
    """One problem that fills the partition's share of the memory."""

    descr = "HPL"
    time_limit = "4h"
    tags = {"smoke", "compute"}
    valid_prog_environs = ["+hpl"]
    executable = "xhpl"
