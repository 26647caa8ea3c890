"""NPB BT-IO: an application that writes its state through MPI-IO while it computes.

The subtypes differ in who writes what: `simple` lets every rank write its scattered cells, `full`
gathers them by collective buffering, `epio` gives every rank a file of its own.
"""

import shlex

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before

from assay.checks.mpi import MpiCheck
from assay.checks.sizing import square_ranks
from assay.detect import BTIO_SUBTYPES
from assay.outputs import npb


@rfm.simple_test
class BtIo(MpiCheck):
    """The smallest class that the stack was built for, on each storage partition."""

    subtype = parameter(sorted(BTIO_SUBTYPES))
    kind = "storage"
    time_limit = "1h"
    tags = {"smoke", "storage"}
    valid_systems = ["+storage"]
    valid_prog_environs = ["+btio"]
    declares = {"time": "s", "io_time": "s", "mops_total": "Mop/s", "io_rate": "MB/s"}

    def ranks_on(self, cores):
        return square_ranks(cores)

    @run_after("setup")
    def built(self):
        self.descr = f"NPB BT-IO {self.subtype}"
        extras = self.current_environ.extras
        self.skip_if(
            self.subtype not in extras.get("btio_subtypes", ()),
            f"this stack has no btio {self.subtype}",
        )

    @run_before("run")
    def command(self):
        # BT-IO writes into its working directory: run it there, with the program found before.
        smallest = self.current_environ.extras["btio_classes"][0]
        program = f"bt.{smallest}.x.{BTIO_SUBTYPES[self.subtype]}"
        quoted = shlex.quote(self.partition_extra("directory"))
        self.prerun_cmds += [
            f"df -P -k {quoted} >file-system.txt",
            # Elsewhere it would run as well, and measure another file system.
            f'work=$(mktemp -d {quoted}/assay-btio.XXXXXX) && cd "$work" || exit 1',
        ]
        self.executable = program
        self.postrun_cmds += ['rm -rf "$work"']

    def read(self):
        return npb.parse(self.stdout_text())

    def measure(self, parsed):
        return {metric: parsed.quantity(metric) for metric in self.declares}
