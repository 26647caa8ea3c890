"""NPB, the NAS Parallel Benchmarks: eight programs that compute and communicate as codes do.

`NpbKernel` runs one on more and more ranks, of one node or of two. `NpbOverRanks` compares the
rates of one run: all ranks together must not compute less when ranks are added. BT-IO, which also
writes, is a test of storage (`BtIo`).
"""

from functools import partial

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import parameter, run_after, run_before, variable
from reframe.core.exceptions import ConfigError
from reframe.core.runtime import runtime

from assay import catalogue
from assay.catalogue import NPB_CLASSES, NPB_KERNELS
from assay.checks import Figure, StrictCheck
from assay.checks.mpi import MpiCheck
from assay.judge import growth
from assay.outputs import Parsed, npb
from assay.reframe_compat import testcase
from assay.workloads import btio
from assay.workloads import npb as kernels
from assay.workloads.many_cores import place_of
from assay.workloads.sizing import SizingError


def chosen(extras, said, smoke=False):
    """The class to run; see :func:`assay.workloads.btio.chosen`.

    :param extras: of the stack.
    :param said: the class that the site sets for the partition, or None.
    """
    classes, _ = catalogue.built("npb", extras)
    return btio.chosen(classes, said, smoke, "npb", usual=kernels.DEFAULT)


@rfm.simple_test
class NpbKernel(MpiCheck):
    """One kernel with `per_node` ranks on the node, or on each of two nodes."""

    kernel = parameter(NPB_KERNELS)
    per_node = parameter(kernels.PER_NODE)

    #: The class; if it is empty, that of the profile.
    npb_class = variable(typ.Str["|".join(("", *NPB_CLASSES))], value="")
    #: The class of the full profile; the largest one up to B that the stack has if it is empty.
    full_class = variable(typ.Str["|".join(("", *NPB_CLASSES))], value="")

    kind = "compute"
    tags = {"compute", "doc-002"}
    valid_systems = ["+intra-node", "+inter-node"]
    valid_prog_environs = ["+npb"]
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
        extras = self.current_environ.extras
        self.leave_out(
            "not-here",
            self.kernel not in catalogue.built("npb", extras)[1],
            f"this stack has no NPB {self.kernel}",
        )
        said = self.npb_class or self.full_class or None
        smoke = self.profile == "smoke" and not self.npb_class
        try:
            self.npb_class = chosen(extras, said, smoke)
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
        return npb.parse(self.stdout_text())

    def payload(self, parsed):
        return kernels.least_bytes(self.kernel, self.npb_class)

    def requested(self):
        # A file such as inputlu.data can change the problem.
        return {"program": catalogue.npb(self.kernel, self.npb_class), "input_file": None}

    def measure(self, parsed):
        return {metric: parsed.quantity(metric) for metric in self.declares}


def measured_here(kernel, per_node, case, other):
    """Whether NpbKernel measures a number of ranks at a place, which is that of the comparison."""
    where = next(p for p in runtime().system.partitions if p.name == case[0])
    stack = next(e for e in where.environs if e.name == case[1])
    return case == other and per_node in counts(kernel, where, stack)


def counts(kernel, partition, stack):
    """The numbers of ranks on a node with which a kernel runs at a place.

    The class is that of the full profile. The short one has a class that is not judged.
    """
    try:
        said = partition.extras.get("options", {}).get("NpbKernel.full_class")
        npb_class = chosen(stack.extras, said)
    except (SizingError, ConfigError):
        return []  # NpbKernel says why
    return kernels.counts(kernel, npb_class, *place_of(partition))


@rfm.simple_test
class NpbOverRanks(StrictCheck):
    """One kernel over the ranks of a run: more of them must not compute less.

    On one node the first doubling must add something. Between nodes the link may be the limit. The
    classes S and W are too small to judge.
    """

    kernel = parameter(NPB_KERNELS)
    kind = "compute"
    tags = {"compute", "doc-002"}
    valid_systems = ["+intra-node", "+inter-node"]
    valid_prog_environs = ["+npb"]
    executable = "true"
    judges_itself = True
    declares = {"mops_most_ranks": "Mop/s"}

    @run_after("init")
    def operands(self):
        self.descr = f"NPB {self.kernel.upper()} over the number of ranks"
        self.figures = [
            Figure("lines", "kernels of NPB over ranks", "many cores", "mops_total", over="ranks")
        ]
        for per_node in kernels.PER_NODE:
            (variant,) = NpbKernel.get_variant_nums(kernel=self.kernel, per_node=per_node)
            self.depends_on(
                NpbKernel.variant_name(variant), partial(measured_here, self.kernel, per_node)
            )

    @run_after("setup")
    def several(self):
        there = counts(self.kernel, self.current_partition, self.current_environ)
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
