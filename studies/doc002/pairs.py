"""Pairs of ranks of OSU, more and more of them, until each core of the nodes has a rank.

`OsuPairs` and `OsuPyPairs` run within a node or between two nodes. `MorePairs` and `MorePyPairs`
compare the numbers of pairs.
"""

from functools import partial

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before
from reframe.core.runtime import runtime

from assay.parse import Parsed
from assay.prove import transports
from assay.reframe_compat import testcase
from assay.run import Figure, StrictCheck
from assay.run.osu import OsuBase, OsuPort
from assay.run.site import hardware_peak
from assay.workloads.osu import osu_metrics

from .. import growth
from . import counts

#: Shared memory within a node, and each network.
MANY = [n for n in transports.TESTED if n == "posix" or transports.TRANSPORTS[n].network]

#: Sizes of the messages [B] whose values are drawn over the number of pairs.
OVER_PAIRS = (8, 1024, 64 << 10)

#: benchmark -> figure, column, unit
PAIR_FIGURES = {
    "multi_lat": ("multi-pair latency over pairs", "latency", "us"),
    "mbw_mr": ("message rate over pairs", "messages_per_s", "1/s"),
}


class PairsMixin(rfm.RegressionTestPlugin):
    """A number of pairs of ranks, with a core for each rank. Needs the parameter ``pairs``."""

    @run_after("init")
    def number_of_pairs(self):
        self.declares = osu_metrics(self.benchmark)
        said = "all cores" if self.pairs == counts.ALL else f"{self.pairs} pairs"
        self.descr = f"OSU {self.benchmark} with {said} over {self.transport}"

    @run_after("setup")
    def no_number_twice(self):
        most = counts.most_pairs(*counts.place_of(self.current_partition))
        self.leave_out(
            "no-case",
            self.pairs == counts.ALL and most in counts.PAIRS,
            f"all cores of {self.current_partition.fullname} are {most} pairs, a case of its own",
        )

    def ranks_on(self, cores):
        return counts.ranks_of(self.pairs, cores)


@rfm.simple_test
class OsuPairs(PairsMixin, OsuBase):
    """Latency, and message rate, of pairs of ranks that send at the same time."""

    benchmark = parameter(list(PAIR_FIGURES))
    pairs = parameter(counts.PAIRS)
    transport = parameter(MANY)
    valid_prog_environs = ["+osu"]
    tags = {"network"}

    @run_before("run")
    def command(self):
        self.executable = f"osu_{self.benchmark}"
        self.executable_opts = self.options()


@rfm.simple_test
class OsuPyPairs(PairsMixin, OsuPort):
    """The same by the Python ports, which have the latency only."""

    benchmark = parameter(["multi_lat"])
    pairs = parameter(counts.PAIRS)
    transport = parameter(MANY)
    tags = {"network"}

    @run_before("run")
    def command(self):
        self.executable, *self.executable_opts = self.port_command()


def measured_here(pairs, case, other):
    """Whether a number of pairs is measured at a place, which is that of the comparison."""
    where = next(p for p in runtime().system.partitions if p.name == case[0])
    return case == other and counts.pairs_here(pairs, *counts.place_of(where)) > 0


class MorePairsBase(StrictCheck):
    """Compares the numbers of pairs of one run; starts no program. Needs ``of``, a test."""

    transport = parameter(MANY)
    kind = "network"
    tags = {"network"}
    executable = "true"

    @run_after("init")
    def operands(self):
        name, column, unit = PAIR_FIGURES[self.benchmark]
        self.descr = f"{name} over {self.transport}"
        self.declares = {f"{column}_8B_most_pairs": unit}
        self.figures = [Figure("lines", name, "many cores", column, over="pairs")]
        network = transports.TRANSPORTS[self.transport].network
        places = ["intra-node", *(["inter-node"] if network else [])]
        self.valid_systems = [f"+{place} +{self.transport}" for place in places]
        for pairs in counts.PAIRS:
            (variant,) = self.of.get_variant_nums(
                benchmark=self.benchmark, pairs=pairs, transport=self.transport
            )
            self.depends_on(self.of.variant_name(variant), partial(measured_here, pairs))

    @run_after("setup")
    def several(self):
        most = counts.most_pairs(*counts.place_of(self.current_partition))
        where = self.current_partition.fullname
        self.leave_out(
            "too-small", most < 2, f"4 ranks are needed; {where} has cores for {2 * most}"
        )

    def read(self):
        _, column, unit = PAIR_FIGURES[self.benchmark]
        here = counts.place_of(self.current_partition)
        rows = tuple(
            {"line": f"{size} B", "message_size": size, "pairs": pairs, column: row[column]}
            for size in OVER_PAIRS
            for pairs, row in sorted(
                (counts.pairs_here(of.pairs, *here), row)
                for of in testcase.compared(self)
                for row in of.rows()
                if row["size"] == size
            )
        )
        units = {"message_size": "B", "pairs": "1", column: unit}
        return Parsed("assay", "pairs", None, True, rows, units)

    def accused(self, parsed):
        rates = counts.message_rates(parsed.rows, 8)
        return [
            *growth.falls(rates, "pairs", "messages/s"),
            *growth.stalls(rates, "pairs", "messages/s"),
            *self.of_the_link(parsed),
        ]

    def of_the_link(self, parsed):
        """Whether long messages of more pairs fill the link, if it is named.

        Pairs that wait for each answer need not fill it: if all send at once, the way back is idle.
        """
        link = hardware_peak(self, "link", "bandwidth")
        between = "inter-node" in self.current_partition.features
        if link is None or not between or self.benchmark == "multi_lat":
            return []
        size = OVER_PAIRS[-1]
        rates = counts.message_rates(parsed.rows, size)
        megabytes = {pairs: rate * size / 1e6 for pairs, rate in rates.items()}
        found = [
            *growth.falls(megabytes, "pairs", "MB/s"),
            *growth.stalls(megabytes, "pairs", "MB/s", link),
        ]
        return [f"messages of {size} B: {line}" for line in found]

    def measure(self, parsed):
        _, column, _ = PAIR_FIGURES[self.benchmark]
        most = max(row["pairs"] for row in parsed.rows)
        return {f"{column}_8B_most_pairs": parsed.quantity(column, message_size=8, pairs=most)}


@rfm.simple_test
class MorePairs(MorePairsBase):
    """More pairs of the C programs: the message rate must grow until cores or link limit it."""

    of = OsuPairs
    benchmark = parameter(list(PAIR_FIGURES))
    valid_prog_environs = ["+osu"]


@rfm.simple_test
class MorePyPairs(MorePairsBase):
    """The same for the Python ports."""

    of = OsuPyPairs
    benchmark = parameter(["multi_lat"])
    valid_prog_environs = ["+osu-py -osu"]
