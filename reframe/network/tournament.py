"""Pairs of nodes in rounds within one job: the tournament, and pairs across a link.

`Tournament`: every node meets every other. It names the node that is slow.
A benchmark on two nodes shows only that something between them is slow. A benchmark on all nodes
shows only that something among them is slow. The tournament measures all pairs, in rounds within
one job. A slow node slows down all of its pairs, a slow link only one: this tells them apart. In a
second pass of the same job, suspects meet good nodes.

`CrossingPairs`: between two groups of nodes, more and more pairs at the same time.
"""

import statistics
import sys
from dataclasses import asdict, replace

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before
from reframe.core.exceptions import ConfigError, PerformanceError

from assay.accused import Against, How
from assay.checks import Figure, Peak
from assay.checks.nodes import AllNodesCheck
from assay.checks.site import site_directory
from assay.checks.ucx import UcxMixin
from assay.evidence import links, transports
from assay.evidence.launch import short_name
from assay.fleet import crossing
from assay.fleet.topology import sources
from assay.fleet.tournament import draw, measured, schedule
from assay.fleet.tournament.diagnosis import conclude, diagnose
from assay.fleet.tournament.model import Fault
from assay.judge import Verdict
from assay.outputs import Parsed, ParseError

#: Time for one test of one pair [s], and the most that start and end of a launch add to it [s].
SECONDS, OVERHEAD = 1, 2

#: The most times that all pairs are measured. They are repeated while noise could hide a fault.
REPEATS = 3

#: A pair has failed if it takes longer than this multiple of the expected time.
PATIENCE = 20

#: The rates of pairs that share a link are measured so many times as long, because one program
#: starts about 0.1 s later than another.
TOGETHER = 12

#: Faults of speed.
SLOW = (
    Fault.SLOW_NODE,
    Fault.SLOW_PAIR,
    Fault.ALL_SLOW,
    Fault.SLOW_SWITCH,
    Fault.SLOW_TRUNK,
)

#: The options that a site may give in the extra `tournament` of a partition.
OPTIONS = ("width", "cpus", "seconds", "tolerances", "resent", "rounds", "topology")

#: The word for few rounds in the option `rounds`.
SPARSE = "sparse"


class PairsOfNodes(UcxMixin, AllNodesCheck):
    """ucx_perftest between pairs of nodes, in rounds that :mod:`assay.onnode.pairs` plays."""

    #: The data path between the nodes.
    transport = parameter([t for t in transports.TESTED if transports.TRANSPORTS[t].network])
    kind = "network"
    tags = {"smoke", "network"}
    valid_prog_environs = ["+ucx-perftest +ucx"]
    script = "pairs.py"
    judges_itself = True

    @run_after("setup")
    def only_where_the_path_is_known(self):
        self._version = self.ucx_version()
        self._variables = self.variables_of(self.transport, self.partition_extra("network_device"))

    @run_before("run")
    def reserve_time(self):
        plan, turns = self.plan(), self.turns()
        # The second pass has a few rounds, and suspects that run into their limit.
        each = sum(
            test.get("seconds", plan["seconds"]) + test["launches"] * OVERHEAD
            for test in plan["tests"].values()
        )
        self.time_limit = f"{int(600 + plan['repeats'] * turns * each)}s"

    def turns(self):
        """How many pairs are measured one after the other."""
        raise NotImplementedError

    def plan(self):
        options = self.options("tournament", OPTIONS)
        self._tolerances = options.get("tolerances", {})
        unknown = sorted(set(self._tolerances) - set(measured.TOLERANCES))
        try:
            if unknown:
                raise ValueError(f"there is no {unknown[0]!r}")
            measured.metrics(self._tolerances)
        except (TypeError, ValueError) as error:
            where = self.current_partition.fullname
            raise ConfigError(f"{where}: extras: tournament: tolerances: {error}") from None
        self._resent = options.get("resent", links.RESENT)
        if not isinstance(self._resent, (int, float)) or not 0 <= self._resent < 1:
            where = self.current_partition.fullname
            raise ConfigError(
                f"{where}: extras: tournament: resent: {self._resent!r} is not a share from 0 to 1"
            )
        device = self.partition_extra("network_device")
        seconds = options.get("seconds", SECONDS)
        return {
            "device": device,
            "rounds": schedule.rounds(self.num_tasks),
            "width": options.get("width"),
            "cpus": options.get("cpus"),
            "tests": {
                name: {
                    "options": ["-f", "-t", name, "-s", str(test.size)],
                    "launches": test.launches,
                    "iterations": test.trial,
                }
                for name, test in measured.TESTS.items()
            },
            "seconds": seconds,
            # A launch needs a minimum of time, even if it measures little.
            "limit": PATIENCE * max(seconds, SECONDS),
            "environment": self._variables,
            "repeats": REPEATS,
            "advice": [
                sys.executable, "-m", measured.__name__, "plan.json", "coordinator_log.jsonl"
            ],
            "tolerances": self._tolerances,
            "topology": None,
            "transport": self.transport,
            "ucx_version": self._version,
        }  # fmt: skip

    def read(self):
        log = self.coordinator_log()
        allowed = self.current_environ.extras.get("ucx", {})
        asked = {**allowed, **self.requested_variables(), **self._variables}
        self.pairs = list(measured.pairs(log, self.transport, self._version, asked))
        rows = tuple(
            {"a": pair.a, "b": pair.b, "pass": pair.number, **pair.values}
            for pair in self.pairs
            if pair.values
        )
        units = {test.metric: test.unit for test in measured.TESTS.values()}
        facts = {"nodes": list(log.nodes)}
        return Parsed("assay", "tournament", None, log.complete, rows, units, (), facts)


@rfm.simple_test
class Tournament(PairsOfNodes):
    """Latency and bandwidth of all pairs of nodes; names the slow node or the slow link."""

    _diagnosis = None
    least_nodes = 3  # with two nodes, a slow node looks like a slow link
    #: Medians over all pairs. A single pair is judged by the rounds and the second pass.
    declares = {f"{test.metric}_median": test.unit for test in measured.TESTS.values()}

    @run_after("init")
    def select(self):
        # Pairs across a link between two groups are slower than others without a fault.
        self.valid_systems = [f"+inter-node -across +{self.transport}"]
        self.descr = f"all pairs of nodes over {self.transport}"

    @run_after("setup")
    def read_the_topology(self):
        source = self.options("tournament", OPTIONS).get("topology")
        self._fabric = None
        if source is None or (source == sources.SLURM and self.is_dry_run()):
            return
        try:
            self._fabric = sources.read(str(source), site_directory())
        except ValueError as error:
            raise self.misdescribed(f"extras: tournament: topology: {error}") from None

    def plan(self):
        plan = super().plan()
        plan["topology"] = self._fabric and self._fabric.said()
        said = self.options("tournament", OPTIONS).get("rounds", "all")
        if said == "all":
            return plan
        limit = schedule.sparse(self.num_tasks) if said == SPARSE else said
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 2:
            raise self.misdescribed(
                f"extras: tournament: rounds: {said!r} is not all, sparse, or a number from 2 on"
            )
        plan["sparse"] = limit
        plan["rounds"] = schedule.rounds(self.num_tasks, limit)
        if self._fabric:
            plan["draw"] = [sys.executable, "-m", draw.__name__, *plan["advice"][3:]]
        return plan

    def turns(self):
        plan = self.plan()
        pairs = [len(pairs) for pairs in plan["rounds"]]
        return sum(-(-n // (plan["width"] or n)) for n in pairs)

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed is None or not self.pairs:
            return problems
        passes = [[p.measurement for p in self.pairs if p.number == n] for n in (1, 2)]
        metrics = measured.metrics(self._tolerances)
        names = self._coordinator_log.nodes
        if len(set(names)) < len(names):
            return problems  # nodes of one name cannot be told apart; this is reported already
        fabric = measured.known_fabric(self._fabric and self._fabric.said(), names)
        first = diagnose(names, metrics, passes[0], fabric)
        diagnosis = self._diagnosis = conclude(first, passes[1], fabric)
        self._doubts = list(diagnosis.doubts)
        failed = [pair.error for pair in self.pairs if pair.error]
        self._record["tournament"] = {**asdict(diagnosis), "failed": failed}
        if uncounted := sorted({f"{p.a} - {p.b}" for p in self.pairs if p.uncounted}):
            nothing = "their network device counts neither bytes nor packets"
            self._record["proof"] = {"unavailable": [f"{ends}: {nothing}" for ends in uncounted]}
        # A failed program is not noise, even if it does better in the second pass.
        everybody = any(finding.fault is Fault.ALL_DEAD for finding in diagnosis.findings)
        blamed = set(names) if everybody else set(diagnosis.suspects)
        dead = {part for f in diagnosis.findings if f.fault not in SLOW for part in f.parts}

        def over_dead_part(pair):
            return dead and not dead.isdisjoint(fabric.path(pair.a, pair.b).parts)

        unexplained = [
            Against(p.error, p.at, How.FAILED)
            for p in self.pairs
            if p.error and blamed.isdisjoint((p.a, p.b)) and not over_dead_part(p)
        ]
        # If bytes took another path between two nodes, their speed proves nothing.
        astray = [problem for pair in self.pairs for problem in pair.problems]
        came = self._coordinator_log.hosts.values()
        if self._fabric and (lacking := self._fabric.lacking(map(short_name, came))):
            problems.append(
                f"the topology has no switch for {', '.join(lacking)}: switches and trunks were "
                "not judged; correct the source that extras: tournament: topology names"
            )
        undrawn = [
            f"no rounds by switches: {entry['no_draw']}"
            for entry in self._coordinator_log.entries
            if "no_draw" in entry
        ]
        second = [
            f"no second pass: {entry['no_second_pass']}"
            for entry in self._coordinator_log.entries
            if "no_second_pass" in entry
        ]
        return [
            *(
                Against(f.reason, f.nodes, How.FAILED, f.part)
                for f in diagnosis.findings
                if f.fault not in SLOW
            ),
            *dict.fromkeys(unexplained),
            *measured.lossy(self.pairs, self._resent),
            *dict.fromkeys(astray),
            *undrawn,
            *second,
            *problems,
        ]

    def accused(self, parsed):
        if self._diagnosis is None:
            return []
        findings = [f for f in self._diagnosis.findings if f.fault in SLOW]
        return [Against(f.reason, f.nodes, How.SLOW, f.part) for f in findings]

    def measure(self, parsed):
        values = {}
        first = [row for row in parsed.rows if row["pass"] == 1]
        for test in measured.TESTS.values():
            runs = {}
            for row in first:
                runs.setdefault((row["a"], row["b"]), []).append(row[test.metric])
            found = [statistics.median(of_pair) for of_pair in runs.values()]
            values[f"{test.metric}_median"] = statistics.median(found)
        return values

    @run_after("performance")
    def no_pass_in_doubt(self):
        """INCONCLUSIVE if noise could hide a fault. The test is repeated, within the budget."""
        doubts = getattr(self, "_doubts", [])
        if doubts and not self.is_dry_run():
            self._close_record(Verdict.INCONCLUSIVE, doubts)
            raise PerformanceError(f"INCONCLUSIVE: {'; '.join(doubts)}")


@rfm.simple_test
class CrossingPairs(PairsOfNodes):
    """Latency, and the rates of 1, 2, 4, ... pairs at once, within two groups and across a link."""

    least_nodes = 4
    tags = {"smoke", "network", "doc-003"}
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
        self.job.options += self.halves(self.num_tasks)

    def turns(self):
        # A round of k pairs across takes k times as long; all rounds take less than twice the last.
        return 4 * self.num_tasks

    def plan(self):
        plan = super().plan()
        # The iterations are chosen on the slow path: first and last rank are on different sides.
        plan["rounds"] = [[(0, self.num_tasks - 1)]]
        plan["together"] = True
        plan["tests"]["tag_bw"]["seconds"] = TOGETHER * plan["seconds"]
        plan["limit"] *= self.num_tasks  # which share the link
        plan["repeats"] = 1
        plan["between"] = self.partition_extra("between")
        plan["advice"][2] = crossing.__name__
        return plan

    def read(self):
        parsed = super().read()
        log = self._coordinator_log
        if unmeasured := [e["no_second_pass"] for e in log.entries if "no_second_pass" in e]:
            raise ParseError(f"no pairs were chosen: {unmeasured[0]}")
        second = [pair for pair in self.pairs if pair.number == 2]
        try:
            played = crossing.rounds(log.nodes, self.between)
            self._found = list(crossing.measured(played, second))
            self._alone = crossing.alone(played, second)
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

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed is None:
            return problems
        astray = [problem for pair in self.pairs for problem in pair.problems]
        lossy = measured.lossy(self._alone, self._resent)
        impossible = crossing.impossible(self._found, self.between)
        return [*dict.fromkeys(astray), *lossy, *impossible, *problems]

    def accused(self, parsed):
        return crossing.faults(self._found, self.between) if parsed.complete else []

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
