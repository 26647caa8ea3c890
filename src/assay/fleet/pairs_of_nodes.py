"""Base classes of tests that measure pairs of nodes, in rounds within one job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reframe.core.builtins import parameter, run_after, run_before, variable

from assay.accused import Against, How
from assay.fleet import advise
from assay.fleet.nodes import LOG_FILE, AllNodesCheck
from assay.fleet.topology import sources
from assay.fleet.topology.fabric import Fabric
from assay.fleet.tournament import measured, schedule
from assay.fleet.tournament.again import PARTNERS
from assay.fleet.tournament.measured import Pair
from assay.parse import Parsed, ParseError
from assay.prove import counters, transports
from assay.run.options import COUNT, NONE, POSITIVE, SHARE, kind
from assay.run.site import misdescribed, site_directory
from assay.run.ucx import UcxMixin

#: Time for one test of one pair [s], and the most that start and end of a launch add to it [s].
SECONDS, OVERHEAD = 1, 2

#: The most times that all pairs are measured. They are repeated while noise could hide a fault.
REPEATS = 3

#: A pair has failed if it takes longer than this multiple of the expected time.
PATIENCE = 20

#: Pairs that share a link are measured so many times as long: programs start 0.1 s apart.
TOGETHER = 12

CPUS = kind(
    "the processor of the server and that of the client, such as [0, 0]",
    lambda v: isinstance(v, list) and len(v) == 2 and all(type(cpu) is int for cpu in v),
)
TOLERANCES = kind(
    f"shares of {', '.join(measured.TOLERANCES)}, such as {{bandwidth: 0.3}}",
    lambda v: (
        isinstance(v, dict)
        and {*v} <= {*measured.TOLERANCES}
        and all(isinstance(share, SHARE) for share in v.values())
    ),
)
ROUNDS = kind("all or sparse", lambda v: v in ("all", "sparse"))


class PairsOfNodes(UcxMixin, AllNodesCheck):
    """ucx_perftest between pairs of nodes, in rounds that :mod:`assay.fleet.node.pairs` plays."""

    #: The data path between the nodes.
    transport = parameter([t for t in transports.TESTED if transports.TRANSPORTS[t].network])
    #: Number of pairs that are measured at the same time; all that can if None.
    width = variable(COUNT, NONE, value=None)
    #: Processors of the server and of the client; any if None.
    cpus = variable(CPUS, NONE, value=None)
    #: Time for one test of one pair [s].
    seconds = variable(POSITIVE, value=SECONDS)
    #: How much worse than the others a pair may be, by metric.
    tolerances = variable(TOLERANCES, value={})
    #: Whether each node meets all others.
    rounds = variable(ROUNDS, value="all")
    #: The source of the switches; see :mod:`assay.fleet.topology.sources`.
    topology = variable(str, NONE, value=None)

    kind = "network"
    tags = {"smoke", "network"}
    valid_prog_environs = ["+ucx-perftest +ucx"]
    script = "pairs.py"

    @run_after("setup")
    def only_where_the_path_is_known(self) -> None:
        device = self.partition_extra("network_device")
        why = f"{self.current_partition.fullname} has several network devices ({device}): pairs of "
        self.leave_out("not-here", "," in device, f"{why}nodes are measured over one")
        self._version = self._ucx_version()
        self._variables = self._variables_of(self.transport, device)

    @run_before("run")
    def reserve_time(self) -> None:
        plan, turns = self.plan(), self.turns()
        # The second pass has some rounds for one suspect, and pairs that run into their limit.
        turns += 3 * PARTNERS
        each = sum(
            test.get("seconds", plan["seconds"]) + test["launches"] * OVERHEAD
            for test in plan["tests"].values()
        )
        self.time_limit = f"{int(600 + plan['repeats'] * turns * each)}s"

    def fabric(self) -> Fabric | None:
        """The network that the site states; None if it states none, or in a dry run only Slurm.

        :raises reframe.core.exceptions.ConfigError: it cannot be read.
        """
        where = self.topology
        if where is None or (where == sources.SLURM and self.is_dry_run()):
            return None
        try:
            return sources.read_topology(where, site_directory())
        except ValueError as error:
            raise misdescribed(self.current_partition, f"options: topology: {error}") from None

    def turns(self) -> int:
        """How many pairs are measured one after the other."""
        raise NotImplementedError

    def plan(self) -> dict[str, Any]:
        device = self.partition_extra("network_device")
        return {
            "device": device,
            "resent": counters.rows()["packets_resent"].names,
            "rounds": schedule.rounds(self.num_tasks),
            "width": self.width,
            "cpus": self.cpus,
            "tests": {
                name: {
                    "options": ["-f", "-t", name, "-s", str(test.size)],
                    "launches": test.launches,
                    "iterations": test.trial,
                }
                for name, test in measured.TESTS.items()
            },
            "seconds": self.seconds,
            # A launch needs a minimum of time, even if it measures little.
            "limit": PATIENCE * max(self.seconds, SECONDS),
            "environment": self._variables,
            "repeats": REPEATS,
            "advice": advise.advice_command(measured.advice, "plan.json", LOG_FILE),
            "tolerances": self.tolerances,
            "topology": None,
            "transport": self.transport,
            "ucx_version": self._version,
        }  # fmt: skip

    def lossy(self, pairs: Sequence[Pair]) -> list[str]:
        """Links that lose data, one line each."""
        extras = self.current_partition.extras
        return measured.lossy(pairs, extras["network_device"], extras.get("health", {}))

    def read(self) -> Parsed:
        log = self.coordinator_log()
        asked = {**self._machine.variables, **self._requested_variables(), **self._variables}
        stated = None if self._of_modules else self._version
        self.pairs = list(measured.proven_pairs(log, self.transport, stated, asked))
        rows: tuple[Mapping[str, str | int | float], ...] = tuple(
            {"a": pair.a, "b": pair.b, "pass": pair.number, **pair.values}
            for pair in self.pairs
            if pair.values
        )
        units = {test.metric: test.unit for test in measured.TESTS.values()}
        facts = {"nodes": list(log.nodes)}
        return Parsed("assay", "tournament", None, log.complete, rows, units, (), facts)


class SimultaneousPairs(PairsOfNodes):
    """Pairs that begin at the same time, in rounds that are drawn when the nodes are known."""

    least_nodes = 4

    #: What Python runs to print the rounds: ``-m`` and a module with its argument, or a file.
    drawn_by: tuple[str, ...] = ()

    #: The pairs that had the network for themselves; :meth:`read` fills it.
    _alone: Sequence[Pair] = ()

    def plan(self) -> dict[str, Any]:
        plan = super().plan()
        # The first iterations are chosen on the slow path: first and last rank are far apart.
        plan["rounds"] = [[(0, self.num_tasks - 1)]]
        plan["together"] = True
        plan["tests"]["tag_bw"]["seconds"] = TOGETHER * plan["seconds"]
        plan["limit"] *= self.num_tasks  # which share the link
        plan["repeats"] = 1
        plan["advice"][1:4] = self.drawn_by
        return plan

    def drawn(self) -> tuple[list[Pair], list[Mapping[str, Any]]]:
        """The pairs of the drawn rounds, and what the nodes wrote of each.

        :raises assay.parse.ParseError: no rounds were drawn.
        """
        log = self._coordinator_log
        if unmeasured := [e["no_second_pass"] for e in log.entries if "no_second_pass" in e]:
            raise ParseError(f"no pairs were chosen: {unmeasured[0]}")
        entries = [entry for entry in log.entries if "runs" in entry]
        both = [(p, e) for p, e in zip(self.pairs, entries) if p.number == 2]
        return [pair for pair, _ in both], [entry for _, entry in both]

    def examine(self, parsed: Parsed | None) -> list[str]:
        problems = super().examine(parsed)
        if parsed is None:
            return problems
        astray = [problem for pair in self.pairs for problem in pair.problems]
        # The drawn rounds report their own failures.
        early = [
            Against(pair.error, pair.at, How.FAILED)
            for pair in self.pairs
            if pair.error and pair.number < 2
        ]
        return [*dict.fromkeys([*early, *astray]), *self.impossible(), *problems]

    def slow(self) -> tuple[list[str], list[str]]:
        """Links that lose data. Pairs that share a full link lose packets without a fault."""
        return self.lossy(self._alone), []

    def impossible(self) -> list[str]:
        """What no such link can do, one line each."""
        raise NotImplementedError
