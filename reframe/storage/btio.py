"""NPB BT-IO: an application that writes its state through MPI-IO while it computes.

Tests:     BtIo
Cases:     subtype epio, full, simple; mpi_io none, ompio, romio; ranks as the machine has room
Runs:      bt.S.x.mpi_io_full, or others of its kind
Where:     +storage
Stacks:    +btio
Proves:    exit code 0 and a complete output; the file system, and how the file was open; one
           world of the ranks asked for; a pass clears write
Judged by: references of time [s], io_time [s], io_share [%], mops_total [Mop/s], io_rate [MB/s]
Takes:     as long as its size needs; in the smoke profile: 3 of 5 cases

The subtypes differ in how the ranks write. With `simple`, every rank writes its own scattered
cells. `full` gathers the cells by collective buffering. With `epio`, every rank writes a file of
its own.
"""

import reframe as rfm
import reframe.core.runtime as rt
import reframe.utility.typecheck as typ
from reframe.core.builtins import parameter, run_after, run_before, variable

from assay import catalogue
from assay.catalogue import BTIO_CLASSES, BTIO_SUBTYPES
from assay.parse import npb, openmpi
from assay.prove import mpi
from assay.run import Figure
from assay.run.mpi import MpiCheck
from assay.run.storage import StorageMixin
from assay.run.ucx import text
from assay.workloads import btio
from assay.workloads.sizing import SizingError


@rfm.simple_test
class BtIo(StorageMixin, MpiCheck):
    """One class on several numbers of ranks; one rank on each node if nodes share the directory."""

    subtype = parameter(sorted(BTIO_SUBTYPES))

    #: Open MPI's own library, or the one of MPICH that it includes. `epio` writes without MPI-IO.
    mpi_io = parameter(list(mpi.MPI_IO))

    #: Only numbers of ranks for which some partition of the site has room.
    ranks = parameter(btio.rank_counts(rt.runtime().system.partitions))

    #: The parameters that have more values on a larger machine.
    grows = ("ranks",)

    #: The class; if it is empty, that of the profile.
    npb_class = variable(typ.Str["|".join(("", *BTIO_CLASSES))], value="")
    #: The class of the full profile; A, if the stack has it, if it is empty.
    full_class = variable(typ.Str["|".join(("", *BTIO_CLASSES))], value="")

    kind = "storage"
    proves = {"write": "io_rate"}
    tags = {"storage"}
    valid_systems = ["+storage"]
    valid_prog_environs = ["+btio"]
    declares = {
        "time": "s",
        "io_time": "s",
        "io_share": "%",
        "mops_total": "Mop/s",
        "io_rate": "MB/s",
    }
    figures = [Figure("runs", "BT-IO")]

    @run_after("init")
    def select(self):
        self.descr = f"BT-IO {self.subtype}"
        if (self.subtype == "epio") != (self.mpi_io == "none"):
            self.valid_systems = []  # this combination does not exist
        if self.mpi_io != "romio" and self.ranks in (1, 4):
            self.tags.add("smoke")

    def layout(self, cores):
        return btio.layout(
            self.ranks, self.current_partition.features, self.current_partition.extras
        )

    def identity(self):
        return {**super().identity(), "npb_class": self.npb_class}

    @run_after("setup")
    def choose_class(self):
        built = self.stack_extra("btio_built")
        classes, subtypes = built["classes"], built["subtypes"]
        self.leave_out(
            "not-here",
            self.subtype not in subtypes,
            f"this stack has no btio {self.subtype}",
        )
        partition = self.current_partition
        said = self.npb_class or self.full_class or None
        smoke = self.profile == "smoke" and not self.npb_class
        try:
            self.npb_class = btio.chosen(classes, said, smoke)
            btio.fits(self.npb_class, self._layout, partition.extras.get("memory_bytes"))
        except SizingError as error:
            self.leave_out(error.kind, True, str(error))
        self.descr += f" class {self.npb_class}"
        self.time_limit = f"{btio.seconds_at_most(self.npb_class, self.ranks)}s"

    def room(self):
        return btio.bytes_written(self.npb_class)

    def largest_file(self):
        return self.room() // (self.ranks if self.subtype == "epio" else 1)

    @run_before("run")
    def command(self):
        # BT-IO writes into its working directory. In another directory it would run as well, but
        # measure another file system.
        self.prerun_cmds.append('cd "$work" || exit 1')
        self.executable = catalogue.btio(self.npb_class, self.subtype)
        library = self.mpi_library
        self.leave_out("not-here", self.mpi_io not in library.io, self._no_such_io())
        self.env_vars.update({**library.report_io, **library.io[self.mpi_io]})

    def _no_such_io(self):
        return f"the MPI {self.mpi_library.word} has no {self.mpi_io}"

    def read(self):
        return npb.parse_npb(self.stdout_text())

    def requested(self):
        return {
            "program": catalogue.btio(self.npb_class, self.subtype),
            "write_interval": btio.INTERVAL,
            # A file inputbt.data can change the steps, and make BT read what it wrote each time.
            "input_file": None,
            "reads_between_writes": False,
        }

    def examine(self, parsed):
        problems = super().examine(parsed)
        library = self.mpi_library
        self.leave_out("not-here", self.mpi_io not in library.io, self._no_such_io())
        if library.reports:
            world = openmpi.parse_openmpi(text(self.stderr))
            self.record.proof["mpi_io"] = sorted({module for _, module in world.io})
            problems += library.other_io(world, self.mpi_io, self.ranks)
        if parsed and parsed.rows and parsed.rows[0]["class"] != self.npb_class:
            ran = parsed.rows[0]["class"]
            problems.append(f"class {ran} was solved, {self.npb_class} was asked for")
        return problems

    def measure(self, parsed):
        return {metric: parsed.quantity(metric) for metric in self.declares}
