"""HPCC over the number of ranks: what the network carries when nodes are added."""

from functools import partial

import reframe as rfm
from reframe.core.builtins import parameter, run_after, variable
from reframe.core.runtime import runtime

from assay.parse import Parsed
from assay.reframe_compat import testcase
from assay.run import Figure, StrictCheck
from assay.run.options import COUNT, NONE

from .. import growth, suite
from . import counts

suite_hpcc = suite.module("compute/hpcc.py")

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
class HpccStudy(suite_hpcc.HpccBase):
    """HPCC on `nodes` nodes, with a rank on each core and a small matrix."""

    nodes = parameter(NODES)
    tags = {"compute"}
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
        and counts.runs_over(nodes, cores, where.features, where.extras, suite_hpcc.ranks_on)
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
    tags = {"compute"}
    valid_systems = ["+inter-node"]
    valid_prog_environs = ["+hpcc"]
    executable = "true"
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
