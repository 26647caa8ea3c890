"""HPL over the number of nodes P and the order N: how a cluster scales, and its share of the peak.

Three quantities follow from the time T(P, N):

- the speed-up S(P, N) = T(1, N) / T(P, N)
- the sustained performance SP(P, N)
- the share of the peak SPF(P, N) = SP(P, N) / PP(P)

The peak PP(P) of P nodes counts one operation per clock cycle for each core of the GPUs and of the
processors: PP(P) = P (GPUs x cores x clock + cores x clock). The validation that this study is
taken from defines it so. Vendors state a higher peak, because a core of today does more than one
operation per cycle.

On the host, the study runs xhpl of the stack. On GPUs, it runs NVIDIA's HPL, installed outside of
the stack or in its own container, with one rank for each GPU. The release must fit the GPUs:
current releases need compute capability 8.0 or above, V100 needs 21.4 (`hpc-benchmarks:21.4-hpl`).
The GPU part has not yet been run on hardware.

Where two groups of nodes share a link, `LinkFromHpl` looks for the bandwidth of the link in the
times of the study, and predicts the speed-up on a wider link.
"""

import shlex
from dataclasses import asdict
from functools import partial

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before, variable
from reframe.core.exceptions import ConfigError
from reframe.core.runtime import runtime

from assay.checks import Figure, Peak, StrictCheck
from assay.checks.linpack import HplCheck
from assay.checks.options import COUNT, NONE
from assay.evidence import accelerator
from assay.judge import link_fit, shared_link
from assay.outputs import Parsed, ParseError, hpl
from assay.reframe_compat import testcase
from assay.workloads.sizing import Grid, matrix_order, study_orders

#: Numbers of nodes. A partition runs those up to its extra `nodes`.
NODES = (1, 2, 3, 4, 8, 16, 32)

#: Share of a GPU's memory that the matrix may take. The program needs the rest.
GPU_FRACTION = 0.85


class HplStudyBase(HplCheck):
    """Several orders N in one run on `nodes` nodes."""

    nodes = parameter(NODES)
    time_limit = "8h"
    tags = {"compute", "paper"}
    over_all_nodes = False
    fills_nodes = True
    #: Order of a problem across two groups whose time LinkFromHpl leaves out; 0: there is none.
    warm_up = 0

    def on_partitions(self, *features):
        """Selects the partitions that can have this many nodes: for one node also intra-node."""
        self.nodes_taken = self.nodes
        kinds = ["inter-node"] if self.nodes > 1 else ["intra-node", "inter-node"]
        self.valid_systems = [" ".join(["+" + kind, *features]) for kind in kinds]

    def orders(self, grid):
        memory, fraction = self.memory()
        one_node = self.shortened(matrix_order(memory, fraction, self.block, Grid(1, 1)))
        orders = study_orders(one_node, self.nodes, self.block)
        if self.crosses_the_groups:
            # TCP starts slowly, and the first problem bears it.
            self.warm_up = orders[0] - self.block
        return [*([self.warm_up] if self.warm_up else []), *orders]

    def peaks(self, parsed):
        part = self.node_peak()
        if part is None:
            return {}
        words, value = part
        # One operation per cycle, see above: this is not an upper limit.
        return {"performance": Peak(f"{self.nodes} x {words}", self.nodes * value, most=None)}

    def node_peak(self):
        """Peak of the used cores of a node, in words and in [GFLOP/s]; None if it is unknown."""
        clock = self.current_partition.extras.get("clock_hz")
        if clock is None:
            return None
        cores = self.cores_used()
        return f"{cores} cores of {clock / 1e9:g} GHz", cores * clock / 1e9

    def cores_used(self):
        return self._layout.per_node


@rfm.simple_test
class HplStudy(HplStudyBase):
    """xhpl of the stack, with one rank for each core."""

    valid_prog_environs = ["+hpl"]
    executable = "xhpl"
    figures = [Figure("scaling", "HPL over nodes", at="HPL")]

    @run_after("init")
    def describe(self):
        self.descr = f"HPL on {self.nodes} nodes"
        self.on_partitions()


@rfm.simple_test
class GpuHplStudy(HplStudyBase):
    """NVIDIA's HPL, with one rank for each GPU. Not yet run on hardware."""

    valid_prog_environs = ["+hpl-gpu"]
    reports = hpl.NVIDIA
    figures = [Figure("scaling", "HPL over nodes", at="GPU HPL")]

    @run_after("init")
    def describe(self):
        self.descr = f"HPL on the GPUs of {self.nodes} nodes"
        self.on_partitions("+gpu")

    @run_after("setup")
    def an_hpl_for_these_gpus(self):
        partition, stack = self.current_partition, self.current_environ
        there, built = accelerator.named(partition.features), accelerator.built(stack.features)
        gpus = [gpu for gpu in built or there or [accelerator.CUDA] if gpu in (there or [gpu])]
        self.leave_out(
            "not-here",
            not gpus,
            accelerator.of_others(stack.name, built, partition.fullname, there),
        )
        vendors = " and ".join(gpu.vendor for gpu in gpus)
        if len(gpus) > 1:
            raise ConfigError(
                f"{partition.fullname}: the HPL of the stack {stack.name} may be for GPUs of "
                f"{vendors}: describe the GPUs of each vendor as a partition, with its own stack"
            )
        self.program = gpus[0].hpl
        if not self.program:
            raise ConfigError(
                f"{partition.fullname}: no HPL for GPUs of {vendors} is known: take hpl-gpu out of "
                f"the features of the stack {stack.name}, or the stack out of the environs of the "
                "partition"
            )

    @run_after("setup")
    def gpus_of_the_node(self):
        self.num_gpus_per_node = self.gpus_of_a_node()
        # The cores of a node are shared out among the ranks of its GPUs.
        self.num_cpus_per_task = max(1, self._cores // self.gpus_of_a_node())
        self.env_vars["OMP_NUM_THREADS"] = self.num_cpus_per_task

    def places(self, cores):
        return self.gpus_of_a_node()

    def ranks_on(self, cores):
        return cores if self.between_nodes else self.gpus_of_a_node()

    def memory(self):
        gigabytes = self.hardware_peak("gpu", "memory")
        if gigabytes is None:
            raise ConfigError(
                f"{self.current_partition.fullname}: extras: hardware: the GPU is not named, "
                "and the matrix is sized by its memory"
            )
        return int(self.gpus_of_a_node() * gigabytes * 2**30), GPU_FRACTION

    @run_after("setup")
    def block_of_the_program(self):
        self.block = self.current_environ.extras["hpl_gpu_block"]

    @run_before("run")
    def command(self):
        words = shlex.split(self.current_environ.extras["hpl_gpu_command"])
        self.executable, *self.executable_opts = map(shlex.quote, words)
        self.executable_opts += ["--dat", self.input_name]
        self.executable_opts += ["--gpu-affinity", ":".join(map(str, range(self.gpus_of_a_node())))]

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed and parsed.program != self.program:
            problems.append(f"{parsed.program} ran, which computes on the host's cores")
        return problems

    def node_peak(self):
        cores, clock = self.hardware_peak("gpu", "cores"), self.hardware_peak("gpu", "clock")
        if cores is None or clock is None:
            return None
        words = f"{self.gpus_of_a_node()} GPUs of {cores:.0f} cores and {clock:g} GHz"
        value = self.gpus_of_a_node() * cores * clock
        processor = super().node_peak()
        if processor is None:
            return f"{words} (the processor's clock is not stated)", value
        return f"{words} and {processor[0]}", value + processor[1]

    def cores_used(self):
        return self._cores


def solved(number, case, other):
    """Whether HplStudy on `number` nodes can run at a place and belongs to the model of another.

    :param case: partition and stack of the model; `other`: those of the study.
    """
    partition = next(p for p in runtime().system.partitions if p.name == other[0])
    words, nodes = partition.features, partition.extras.get("nodes", 2)
    # Ranks that share a core of the host wait for each other, and not for the link.
    nodes = min(nodes, partition.extras.get("options", {}).get("LinkFromHpl.host_cores", nodes))
    if case[1] != other[1] or number > nodes:
        return False
    return number % 2 == 0 and case[0] == other[0] if "across" in words else "group" in words


@rfm.simple_test
class LinkFromHpl(StrictCheck):
    """Bandwidth of the link between two groups of nodes, as HPL feels it.

    On few ranks HPL sends few messages, and its times do not show the latency. The model then has
    the latency that the site states, which `CrossingPairs` compares with a ping-pong.
    :mod:`assay.judge.link_fit` has the model. A fit to all times but those of the largest order
    across must predict these.
    """

    #: Cores that all nodes share, if they are emulated.
    host_cores = variable(COUNT, NONE, value=None)

    kind = "compute"
    descr = "the link that two groups of nodes share, from the times of HPL"
    tags = {"compute", "doc-003"}
    valid_systems = ["+inter-node +across"]
    valid_prog_environs = ["+hpl"]
    executable = "true"
    judges_itself = True
    declares = {"bandwidth": "MB/s", "improvement_2x": "%", "improvement_10x": "%"}
    figures = [
        Figure("lines", name, "two clusters", "speed_up", over="processes")
        for name in link_fit.FIGURES
    ]

    @run_after("init")
    def operands(self):
        for number in NODES:
            (variant,) = HplStudy.get_variant_nums(nodes=number)
            self.depends_on(HplStudy.variant_name(variant), partial(solved, number))

    def read(self):
        studies = [
            (study, row)
            for study in testcase.compared(self)
            for row in study.rows()
            if row["n"] != study.warm_up
        ]
        self._runs = [
            link_fit.Run(
                row["p"] * row["q"],
                row["n"],
                # HPL rounds the time to 0.01 s, and the rate to five digits.
                hpl.operations(row["n"]) / (row["performance"] * 1e9),
                "across" in study.current_partition.features,
            )
            for study, row in studies
        ]
        self._law = shared_link.of_hpl(max((row["nb"] for _, row in studies), default=1))
        try:
            self._fit, self._stated = link_fit.best(
                self._runs, self._law, self.between.latency / 1e6
            )
        except shared_link.FitError as error:
            raise ParseError(str(error)) from None
        rows = tuple(link_fit.speed_ups(self._runs, self._fit))
        units = {"processes": "1", "speed_up": "1"}
        return Parsed("assay", "HPL", None, True, rows, units)

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed is not None:
            self._record["model"] = {
                "terms": {name: asdict(term) for name, term in self._fit.terms.items()},
                "spread": {
                    "across" if across else "within": value
                    for across, value in self._fit.spread.items()
                },
                "latency": "of the times" if self._stated is None else "of the site",
                "times": len(self._runs),
            }
        return problems

    def accused(self, parsed):
        try:
            return link_fit.unpredicted(self._runs, self._law, self._stated)
        except shared_link.FitError as error:
            return [f"without the largest order across, {error}"]

    def measure(self, parsed):
        runs = [run for run in self._runs if run.across]
        run, link = max(runs, key=lambda run: (run.order, run.processes)), self._fit
        rate = {n: link.speed_up(run.processes, run.order, True, n) for n in (1, 2, 10)}
        return {
            "bandwidth": link.bandwidth.value / 1e6,
            "improvement_2x": 100 * (rate[2] / rate[1] - 1),
            "improvement_10x": 100 * (rate[10] / rate[1] - 1),
        }

    def peaks(self, parsed):
        return {"bandwidth": Peak("the link, extra `between`", self.between.bandwidth)}
