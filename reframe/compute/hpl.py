"""HPL alone (xhpl), sized from the memory. The test also checks its residuals."""

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
