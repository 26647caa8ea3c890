"""NPB, the NAS Parallel Benchmarks: eight programs that compute and communicate as codes do.

`NpbKernel` runs one on more and more ranks, of one node or of two. `NpbOverRanks` compares the
rates of one run: all ranks together must not compute less when ranks are added. BT-IO, which also
writes, is a test of storage (`BtIo`).
"""

from functools import partial

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import parameter, run_after, run_before, variable
from reframe.core.runtime import runtime

from assay import catalogue
from assay.catalogue import NPB_CLASSES
from assay.parse import Parsed, npb
from assay.reframe_compat import testcase
from assay.run import Figure, StrictCheck
from assay.run.mpi import MpiCheck
from assay.workloads.sizing import SizingError

from .. import growth
from . import kernels
from .counts import place_of


class BuiltMixin(rfm.RegressionTestPlugin):
    """What the stack has of NPB. Needs the parameter ``kernel``; without its program, no case."""

    #: The programs on PATH, such as cg.B.x,ft.B.x.
    npb_programs = variable(typ.List[str], value=[])

    #: The class. If it is empty, the largest one up to B; in the short profile, the smallest.
    npb_class = variable(typ.Str["|".join(("", *NPB_CLASSES))], value="")

    @run_after("init")
    def only_what_is_built(self):
        self.built = [c for c in NPB_CLASSES if catalogue.npb(self.kernel, c) in self.npb_programs]
        if not self.built:
            self.valid_systems = []


@rfm.simple_test
class NpbKernel(BuiltMixin, MpiCheck):
    """One kernel with `per_node` ranks on the node, or on each of two nodes."""

    kernel = parameter(npb.KERNELS)
    per_node = parameter(kernels.PER_NODE)

    kind = "compute"
    tags = {"compute"}
    valid_systems = ["+intra-node", "+inter-node"]
    valid_prog_environs = ["+mpi"]
    declares = {"mops_total": "Mop/s", "time": "s"}

    @run_after("init")
    def describe(self):
        self.descr = f"NPB {self.kernel.upper()}, {self.per_node} ranks on a node"

    def layout(self, cores):
        if self.between_nodes:
            self._spread(cores)  # refuses a partition that is described wrongly
        partition = self.current_partition
        return kernels.layout(self.per_node, cores, partition.features, partition.extras)

    def identity(self):
        return {**super().identity(), "npb_class": self.npb_class}

    @run_after("setup")
    def choose_class(self):
        try:
            self.npb_class = kernels.chosen(self.built, self.npb_class, self.profile == "smoke")
            memory = self.current_partition.extras.get("memory_bytes")
            kernels.fits(self.kernel, self.npb_class, self._layout, memory)
        except SizingError as error:
            self.leave_out(error.kind, True, str(error))
        self.descr += f", class {self.npb_class}"
        limit = kernels.seconds_at_most(self.kernel, self.npb_class, self._layout.ranks)
        self.time_limit = f"{limit}s"

    @run_before("run")
    def command(self):
        self.executable = catalogue.npb(self.kernel, self.npb_class)

    def read(self):
        return npb.parse_npb(self.stdout_text())

    def payload(self, parsed):
        return kernels.least_bytes(self.kernel, self.npb_class)

    def requested(self):
        # A file such as inputlu.data can change the problem.
        return {"program": catalogue.npb(self.kernel, self.npb_class), "input_file": None}

    def measure(self, parsed):
        return {metric: parsed.quantity(metric) for metric in self.declares}


def measured_here(counted, per_node, case, other):
    """Whether NpbKernel measures a number of ranks at a place, which is that of the comparison.

    :param counted: :func:`counts` of a partition.
    """
    where = next(p for p in runtime().system.partitions if p.name == case[0])
    return case == other and per_node in counted(where)


def counts(kernel, built, npb_class, partition):
    """The numbers of ranks on a node with which a kernel runs on a partition.

    The class is that of the full profile. The short one has a class that is not judged.
    """
    try:
        npb_class = kernels.chosen(built, npb_class)
    except SizingError:
        return []  # NpbKernel says why
    return kernels.counts(kernel, npb_class, *place_of(partition))


@rfm.simple_test
class NpbOverRanks(BuiltMixin, StrictCheck):
    """One kernel over the ranks of a run: more of them must not compute less.

    On one node the first doubling must add something. Between nodes the link may be the limit. The
    classes S and W are too small to judge.
    """

    kernel = parameter(npb.KERNELS)
    kind = "compute"
    tags = {"compute"}
    valid_systems = ["+intra-node", "+inter-node"]
    valid_prog_environs = ["+mpi"]
    executable = "true"
    declares = {"mops_most_ranks": "Mop/s"}

    @run_after("init")
    def operands(self):
        self.descr = f"NPB {self.kernel.upper()} over the number of ranks"
        self.figures = [
            Figure("lines", "kernels of NPB over ranks", "many cores", "mops_total", over="ranks")
        ]
        counted = partial(counts, self.kernel, self.built, self.npb_class)
        for per_node in kernels.PER_NODE:
            (variant,) = NpbKernel.get_variant_nums(kernel=self.kernel, per_node=per_node)
            self.depends_on(
                NpbKernel.variant_name(variant),
                partial(measured_here, counted, per_node),
            )

    @run_after("setup")
    def several(self):
        there = counts(self.kernel, self.built, self.npb_class, self.current_partition)
        self.leave_out(
            "too-small",
            len(there) < 2,
            f"two numbers of ranks are needed; NPB {self.kernel} runs with {len(there)} on a "
            f"node of {self.current_partition.fullname}",
        )

    def read(self):
        runs = sorted(testcase.compared(self), key=lambda of: of.num_tasks)
        rows = tuple(
            {
                "line": f"{self.kernel.upper()} class {of.npb_class}",
                "class": of.npb_class,
                "ranks": of.num_tasks,
                "mops_total": of.value("mops_total"),
            }
            for of in runs
        )
        units = {"ranks": "1", "mops_total": "Mop/s"}
        return Parsed("assay", "npb over ranks", None, bool(rows), rows, units)

    def accused(self, parsed):
        rates = {
            row["ranks"]: row["mops_total"]
            for row in parsed.rows
            if row["class"] not in kernels.TINY
        }
        found = growth.falls(rates, "ranks", "Mop/s", kernels.FALL)
        if "inter-node" not in self.current_partition.features:
            found += growth.stalls(rates, "ranks", "Mop/s")
        return [f"{self.kernel.upper()}: {line}" for line in found]

    def measure(self, parsed):
        most = max(row["ranks"] for row in parsed.rows)
        return {"mops_most_ranks": parsed.quantity("mops_total", ranks=most)}
