"""Pairs of nodes at the same time: within two groups, and more and more across their link."""

from dataclasses import replace
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import run_after

from assay.fleet import bisection
from assay.fleet.pairs_of_nodes import SimultaneousPairs
from assay.fleet.tournament import measured
from assay.parse import ParseError
from assay.run import Figure, Peak

from . import crossing


@rfm.simple_test
class CrossingPairs(SimultaneousPairs):
    """Latency, and the rates of 1, 2, 4, ... pairs at once, within two groups and across a link."""

    drawn_by = (str(Path(crossing.__file__).resolve()),)
    tags = {"smoke", "network"}
    figures = [
        Figure("lines", "rates of simultaneous pairs", "two clusters", "together", over="pairs")
    ]
    declares = {
        "latency_within": "us",
        "latency_across": "us",
        "bandwidth_within": "MB/s",
        "bandwidth_across": "MB/s",
        "bandwidth_all_across": "MB/s",
    }

    @run_after("init")
    def select(self):
        self.valid_systems = [f"+inter-node +across +{self.transport}"]
        self.descr = f"simultaneous pairs across a link over {self.transport}"

    @run_after("setup")
    def half_on_each_side(self):
        if self._absent:
            self._refuse(self._absent)
        self.job.options += self._halves(self.num_tasks)

    def turns(self):
        # A round of k pairs across takes k times as long; all rounds take less than twice the last.
        return 4 * self.num_tasks

    def plan(self):
        plan = {**super().plan(), "between": self.partition_extra("between")}
        size = measured.TESTS["tag_bw"].size
        most = crossing.trials(size, plan["seconds"], self.between)
        for name, iterations in zip(("tag_lat", "tag_bw"), most):
            test = plan["tests"][name]
            test["iterations"] = min(iterations, test["iterations"])
        return plan

    def read(self):
        parsed = super().read()
        second, _ = self.drawn()
        try:
            played = crossing.rounds(self._coordinator_log.nodes, self.between)
            self._found = list(bisection.in_rounds(played, second))
            self._alone = bisection.alone(played, second)
        except ValueError as error:
            raise ParseError(str(error)) from None
        rows = tuple(
            {
                "line": one.where,
                "pairs": len(one.rates),
                "together": one.together,
                "slowest": min(one.rates),
                "latency": min(one.latencies),
            }
            for one in self._found
        )
        units = {"pairs": "1", "together": "MB/s", "slowest": "MB/s", "latency": "us"}
        return replace(parsed, program="crossing", rows=rows, units=units)

    def impossible(self):
        return crossing.impossible(self._found, self.between)

    def accused(self, parsed):
        faults = crossing.faults(self._found, self.between) if parsed.complete else []
        return [*super().accused(parsed), *faults]

    def measure(self, parsed):
        one = {
            f"{column}_{where}": parsed.quantity(source, line=where, pairs=1)
            for where in (crossing.WITHIN, crossing.ACROSS)
            for column, source in (("latency", "latency"), ("bandwidth", "together"))
        }
        most = max(len(found.rates) for found in self._found if found.where == crossing.ACROSS)
        every = parsed.quantity("together", line=crossing.ACROSS, pairs=most)
        return {**one, "bandwidth_all_across": every}

    def peaks(self, parsed):
        link = Peak("the link, extra `between`", self.between.bandwidth)
        return dict.fromkeys(("bandwidth_across", "bandwidth_all_across"), link)
