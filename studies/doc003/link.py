"""The link that two groups of nodes share, from the times of HPL within a group and across.

`LinkFromHpl` looks for the bandwidth of the link in the times of `HplStudy`, and predicts the
speed-up on a wider link.
"""

from dataclasses import asdict
from functools import partial

import reframe as rfm
from reframe.core.builtins import run_after, variable
from reframe.core.runtime import runtime

from assay.parse import Parsed, ParseError, hpl
from assay.reframe_compat import testcase
from assay.run import Figure, Peak, StrictCheck
from assay.run.options import COUNT, NONE

from .. import suite
from . import link_fit

study = suite.module("compute/hpl_study.py")


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
    :mod:`studies.doc003.link_fit` has the model. A fit to all times but those of the largest order
    across must predict these.
    """

    #: Cores that all nodes share, if they are emulated.
    host_cores = variable(COUNT, NONE, value=None)

    kind = "compute"
    descr = "the link that two groups of nodes share, from the times of HPL"
    tags = {"compute"}
    valid_systems = ["+inter-node +across"]
    valid_prog_environs = ["+hpl"]
    executable = "true"
    declares = {"bandwidth": "MB/s", "improvement_2x": "%", "improvement_10x": "%"}
    figures = [
        Figure("lines", name, "two clusters", "speed_up", over="processes")
        for name in link_fit.FIGURES
    ]

    @run_after("init")
    def operands(self):
        for number in study.NODES:
            (variant,) = study.HplStudy.get_variant_nums(nodes=number)
            self.depends_on(study.HplStudy.variant_name(variant), partial(solved, number))

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
                hpl.hpl_operations(row["n"]) / (row["performance"] * 1e9),
                "across" in study.current_partition.features,
            )
            for study, row in studies
        ]
        self._law = link_fit.of_hpl(max((row["nb"] for _, row in studies), default=1))
        try:
            self._fit, self._stated = link_fit.best(
                self._runs, self._law, self.between.latency / 1e6
            )
        except link_fit.FitError as error:
            raise ParseError(str(error)) from None
        rows = tuple(link_fit.speed_ups(self._runs, self._fit))
        units = {"processes": "1", "speed_up": "1"}
        return Parsed("assay", "HPL", None, True, rows, units)

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed is not None:
            self.record.more["model"] = {
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
        except link_fit.FitError as error:
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
