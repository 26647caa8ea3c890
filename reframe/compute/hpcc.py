"""HPC Challenge: HPL, DGEMM, STREAM, PTRANS, RandomAccess, FFT and ring tests in one MPI world.

N, NB and P x Q follow from the memory and the cores of the partition. The test reports HPL as a
percentage of the DGEMM that the same run measured. This ratio does not depend on other load on the
machine.

`HpccStudy` runs it on more and more nodes. `HpccOverRanks` compares them: the parts of HPCC that
measure the network must not carry less when nodes are added.
"""

from functools import partial
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import parameter, run_after, variable
from reframe.core.runtime import runtime

from assay import metrics
from assay.checks import Figure, Peak, StrictCheck
from assay.checks.linpack import LinpackCheck
from assay.checks.options import COUNT, NONE
from assay.judge import growth
from assay.outputs import Parsed, Quantity, hpcc
from assay.reframe_compat import testcase
from assay.workloads import hpl_input, many_cores
from assay.workloads.sizing import usable_ranks

#: metric -> (name in HPCC's summary, unit)
METRICS = {
    "hpl": ("HPL_Tflops", "GFLOP/s"),
    "dgemm_star": ("StarDGEMM_Gflops", "GFLOP/s"),
    "stream_copy_star": ("StarSTREAM_Copy", "GB/s"),
    "stream_triad_star": ("StarSTREAM_Triad", "GB/s"),
    "ptrans": ("PTRANS_GBs", "GB/s"),
    "random_access": ("MPIRandomAccess_GUPs", "GUP/s"),
    "fft": ("MPIFFT_Gflops", "GFLOP/s"),
    "ring_latency": ("RandomlyOrderedRingLatency_usec", "us"),
    "ring_bandwidth": ("RandomlyOrderedRingBandwidth_GBytes", "GB/s"),
}


class HpccBase(LinpackCheck):
    """All of HPCC, sized from the memory of the nodes."""

    time_limit = "2h"
    valid_prog_environs = ["+hpcc"]
    executable = "hpcc"
    input_name = "hpccinf.txt"
    block = 128
    declares = {
        **{metric: unit for metric, (_, unit) in METRICS.items()},
        "hpl_per_dgemm": "1",
        "ring_bandwidth_per_stream_copy": "1",
    }
    keep_files = ["hpccoutf.txt"]

    def ranks_on(self, cores):
        return ranks_on(cores)

    def input_text(self, orders, grid):
        return hpl_input.hpcc(orders, [self.block], grid)

    def read(self):
        return hpcc.parse(Path("hpccoutf.txt").read_text(errors="replace"))

    def requested(self):
        (problem,) = self.asked
        named = {"n": "HPL_N", "nb": "HPL_NB", "p": "HPL_nprow", "q": "HPL_npcol"}
        return {"program": "hpcc", **{name: problem[key] for key, name in named.items()}}

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed is None:
            return problems
        rows = parsed.facts["hpl"]
        return problems + hpl_input.otherwise(rows) + self.solved_as_asked(rows)

    def measure(self, parsed):
        values = {metric: printed(parsed, name) for metric, (name, _) in METRICS.items()}
        hpl = values["hpl"]  # in TFLOP/s, the other rates are in GFLOP/s
        values["hpl"] = Quantity(hpl.value * metrics.factor(hpl.unit, "GFLOP/s"), "GFLOP/s")
        dgemm = values["dgemm_star"].value * self.num_tasks
        copy = values["stream_copy_star"].value
        return {
            **values,
            "hpl_per_dgemm": values["hpl"].value / dgemm,
            "ring_bandwidth_per_stream_copy": values["ring_bandwidth"].value / copy,
        }

    def peaks(self, parsed):
        def value(name):
            return printed(parsed, name).value

        everywhere, alone = (
            f"on all {self.num_tasks} ranks, same run",
            "on one rank alone, same run",
        )
        # The parts of HPCC run one after the other: 51 runs on a busy machine reached 1.57.
        return {
            name: Peak(what, peak, most=2)
            for name, what, peak in (
                ("hpl", f"DGEMM {everywhere}", value("StarDGEMM_Gflops") * self.num_tasks),
                ("dgemm_star", f"DGEMM {alone}", value("SingleDGEMM_Gflops")),
                ("stream_copy_star", f"STREAM copy {alone}", value("SingleSTREAM_Copy")),
            )
        }


@rfm.simple_test
class Hpcc(HpccBase):
    """On all nodes of the partition."""

    descr = "HPC Challenge"
    tags = {"smoke", "compute"}


def printed(parsed, name):
    """A metric of HPCC's summary, with the unit that the summary gives."""
    return Quantity(parsed.at("value", metric=name), parsed.at("unit", metric=name))


def ranks_on(cores):
    return max(2, usable_ranks(cores))  # a single rank would measure no network


# --- over the number of ranks ---------------------------------------------------------------------

#: Numbers of nodes. A partition runs those up to its extra `nodes`.
NODES = (1, 2, 4, 8, 16, 32)

#: Share of the memory for the matrix of the study. The sizes of PTRANS and RandomAccess follow from
#: it. HPL, which the study does not need, is then short.
SHARE = 0.02

#: figure -> column of the rows, metric, unit
OVER_RANKS = {
    "ring latency over ranks": ("latency", "ring_latency", "us"),
    "ring bandwidth over ranks": ("bandwidth", "ring_bandwidth", "GB/s"),
    "PTRANS over ranks": ("ptrans", "ptrans", "GB/s"),
    "RandomAccess over ranks": ("random_access", "random_access", "GUP/s"),
}

#: How far a rate of more nodes may be below that of fewer, as a part of it. Not measured.
FALL = 0.2


@rfm.simple_test
class HpccStudy(HpccBase):
    """HPCC on `nodes` nodes, with a rank on each core and a small matrix."""

    nodes = parameter(NODES)
    tags = {"compute", "doc-002"}
    over_all_nodes = False
    fills_nodes = True
    valid_systems = ["+inter-node"]

    @run_after("init")
    def describe(self):
        self.descr = f"HPC Challenge on {self.nodes} nodes, small"
        self.nodes_taken = self.nodes

    def memory(self):
        memory, fraction = super().memory()
        return memory, min(fraction, SHARE)


def studied(nodes, case, other):
    """Whether HpccStudy on `nodes` nodes runs at a place, which is that of the comparison."""
    where = next(p for p in runtime().system.partitions if p.name == case[0])
    cores = min(where.processor.num_cores or (1 << 30), where.processor.num_cpus or 0)
    return (
        case == other
        and cores > 0
        and many_cores.runs_over(nodes, cores, where.features, where.extras, ranks_on)
    )


@rfm.simple_test
class HpccOverRanks(StrictCheck):
    """Ring latency and bandwidth, PTRANS and RandomAccess over the ranks of a run's studies.

    What all ranks together move must not fall when nodes are added, from two nodes on.
    """

    #: Cores that all nodes share, if they are emulated.
    host_cores = variable(COUNT, NONE, value=None)

    kind = "compute"
    descr = "the network parts of HPCC over the number of ranks"
    tags = {"compute", "doc-002"}
    valid_systems = ["+inter-node"]
    valid_prog_environs = ["+hpcc"]
    executable = "true"
    judges_itself = True
    declares = {f"{metric}_most_ranks": unit for _, metric, unit in OVER_RANKS.values()}
    figures = [
        Figure("lines", name, "many cores", column, over="ranks")
        for name, (column, _, _) in OVER_RANKS.items()
    ]

    @run_after("init")
    def operands(self):
        for nodes in NODES:
            (variant,) = HpccStudy.get_variant_nums(nodes=nodes)
            self.depends_on(HpccStudy.variant_name(variant), partial(studied, nodes))

    def read(self):
        studies = sorted(testcase.compared(self), key=lambda study: study.num_tasks)
        rows = tuple(
            {
                "line": self.current_partition.name,
                "nodes": study.nodes,
                "ranks": study.num_tasks,
                **{column: study.value(metric) for column, metric, _ in OVER_RANKS.values()},
            }
            for study in studies
        )
        units = {"nodes": "1", "ranks": "1", **{c: unit for c, _, unit in OVER_RANKS.values()}}
        return Parsed("assay", "hpcc over ranks", None, bool(rows), rows, units)

    def accused(self, parsed):
        # Ranks that share a core wait for each other, and not for the network.
        cores = self.host_cores or float("inf")
        several = [row for row in parsed.rows if row["nodes"] > 1 and row["ranks"] <= cores]
        lines = []
        # The ring's bandwidth is that of one rank.
        for column, unit in (("bandwidth", "GB/s"), ("ptrans", "GB/s"), ("random_access", "GUP/s")):
            rates = {
                row["ranks"]: row[column] * (row["ranks"] if column == "bandwidth" else 1)
                for row in several
            }
            lines += [f"{column}: {line}" for line in growth.falls(rates, "ranks", unit, FALL)]
        return lines

    def measure(self, parsed):
        most = max(row["ranks"] for row in parsed.rows)
        return {
            f"{metric}_most_ranks": parsed.quantity(column, ranks=most)
            for column, metric, _ in OVER_RANKS.values()
        }
