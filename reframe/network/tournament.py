"""Pairs of nodes in rounds within one job: all of them, and those between two switches.

Tests:     Tournament, Bisection
Cases:     transport tcp, rc_mlx5, rc_verbs, ud_verbs, dc_mlx5
Runs:      ucx_perftest
Where:     +inter-node -across +<transport>
Stacks:    +ucx-perftest +ucx
Proves:    exit code 0 and a complete output; an answer of every node; a pass clears latency and
           rate
Judged by: references of latency_median [us], bandwidth_median [MB/s], bandwidth_bisection [MB/s],
           congestion_factor [1]
Takes:     12 s a case (smoke, 4 emulated nodes); as long as its size needs; in the smoke profile:
           5 of 10 cases

`Tournament`: every node meets every other. It names the node that is slow.
A benchmark on two nodes shows only that something between them is slow. A benchmark on all nodes
shows only that something among them is slow. The tournament measures all pairs, in rounds within
one job. A slow node slows down all of its pairs, a slow link only one: this tells them apart. In a
second pass of the same job, suspects meet good nodes.

`Bisection`: between two switches, all pairs at the same time.
"""

import statistics
from dataclasses import asdict, replace

import reframe as rfm
from reframe.core.builtins import run_after, variable
from reframe.core.exceptions import PerformanceError

from assay import files
from assay.accused import Against, How
from assay.declared import OF_NETWORK
from assay.fleet import advise, bisection
from assay.fleet.pairs_of_nodes import PairsOfNodes, SimultaneousPairs
from assay.fleet.tournament import measured, schedule
from assay.fleet.tournament.diagnosis import conclude, diagnose
from assay.fleet.tournament.model import Fault
from assay.judge import Verdict
from assay.parse import ParseError
from assay.prove.launch import short_name
from assay.run.options import NONE, POSITIVE
from assay.run.site import hardware_peak

#: Faults of speed.
SLOW = (Fault.SLOW_NODE, Fault.SLOW_PAIR, Fault.SLOW_SWITCH, Fault.SLOW_TRUNK)

#: Key in the log of the coordinator -> what there was not, for the reason that the log has.
UNPLANNED = {"no_draw": "no rounds by switches", "no_second_pass": "no second pass"}


@rfm.simple_test
class Tournament(PairsOfNodes):
    """Latency and bandwidth of all pairs of nodes; names the slow node or the slow link."""

    _diagnosis = None
    proves = OF_NETWORK
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
        self._fabric = self.fabric()

    def plan(self):
        plan = super().plan()
        plan["topology"] = self._fabric and self._fabric.said()
        if self.rounds == "all":
            return plan
        limit = plan["sparse"] = schedule.sparse(self.num_tasks)
        plan["rounds"] = schedule.rounds(self.num_tasks, limit)
        if self._fabric:
            plan["draw"] = advise.advice_command(measured.draw, *plan["advice"][4:])
        return plan

    def turns(self):
        plan = self.plan()
        pairs = [len(pairs) for pairs in plan["rounds"]]
        return sum(-(-n // (plan["width"] or n)) for n in pairs)

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed is None or not self.pairs:
            return problems
        passes = [[p for p in self.pairs if p.number == n] for n in (1, 2)]
        metrics = measured.pair_metrics(self.tolerances)
        names = self._coordinator_log.nodes
        if len(set(names)) < len(names):
            return problems  # nodes of one name cannot be told apart; this is reported already
        fabric = measured.known_fabric(self._fabric and self._fabric.said(), names)
        first = diagnose(names, metrics, passes[0], fabric)
        diagnosis = self._diagnosis = conclude(first, passes[1], fabric)
        self._doubts = list(diagnosis.doubts)
        failed = [pair.error for pair in self.pairs if pair.error]
        self.record.more["tournament"] = {**asdict(diagnosis), "failed": failed}
        if uncounted := sorted({f"{p.a} - {p.b}" for p in self.pairs if p.uncounted}):
            nothing = "their network device counts neither bytes nor packets"
            self.record.proof = {"unavailable": [f"{ends}: {nothing}" for ends in uncounted]}
        # A failed program is not noise, even if it does better in the second pass.
        everybody = any(finding.fault is Fault.ALL_DEAD for finding in diagnosis.findings)
        gone = [finding for finding in diagnosis.findings if finding.fault not in SLOW]
        failing = set(names) if everybody else {node for f in gone for node in f.nodes}
        dead = {part for finding in gone for part in finding.parts}
        unexplained = [
            Against(p.error, p.at, How.FAILED)
            for p in self.pairs
            if p.error
            and failing.isdisjoint((p.a, p.b))
            and (not dead or dead.isdisjoint(fabric.path(p.a, p.b).parts))
        ]
        # If bytes took another path between two nodes, their speed proves nothing.
        astray = [problem for pair in self.pairs for problem in pair.problems]
        came = self._coordinator_log.hosts.values()
        if self._fabric and (lacking := self._fabric.lacking(map(short_name, came))):
            problems.append(
                f"the topology has no switch for {', '.join(lacking)}: switches and trunks were "
                "not judged; correct the source that the option topology names"
            )
        unplanned = [
            f"{what}: {entry[key]}"
            for key, what in UNPLANNED.items()
            for entry in self._coordinator_log.entries
            if key in entry
        ]
        return [
            *(Against(f.reason, f.nodes, How.FAILED, f.part) for f in gone),
            *dict.fromkeys(unexplained),
            *dict.fromkeys(astray),
            *unplanned,
            *problems,
        ]

    def accused(self, parsed):
        if self._diagnosis is None:
            return []
        findings = [f for f in self._diagnosis.findings if f.fault in SLOW]
        slow = [Against(f.reason, f.nodes, How.SLOW, f.part) for f in findings]
        # Where other work takes the cores, a healthy link sends packets again.
        return [*self.lossy(self.pairs), *slow]

    def measure(self, parsed):
        values = {}
        pairs = [(row["a"], row["b"]) for row in parsed.rows if row["pass"] == 1]
        for test in measured.TESTS.values():
            runs = {}
            for pair, value in zip(pairs, parsed.cells(test.metric, **{"pass": 1})):
                runs.setdefault(pair, []).append(value)
            found = [statistics.median(of_pair) for of_pair in runs.values()]
            values[f"{test.metric}_median"] = statistics.median(found)
        return values

    @run_after("performance")
    def no_pass_in_doubt(self):
        """INCONCLUSIVE if noise could hide a fault. The test is repeated, within the budget."""
        doubts = getattr(self, "_doubts", [])
        if doubts and not self.is_dry_run():
            self._conclude(Verdict.INCONCLUSIVE, doubts)
            self._write_record()
            raise PerformanceError(files.clean(f"INCONCLUSIVE: {'; '.join(doubts)}"))


@rfm.simple_test
class Bisection(SimultaneousPairs):
    """All pairs of two switches at once against the theoretical bisection; latency under load."""

    #: What all paths between two switches carry in one direction [MB/s]; not known if None.
    trunk = variable(POSITIVE, NONE, value=None)

    drawn_by = tuple(advise.advice_command(bisection.advice)[1:])
    tags = {"network"}
    declares = {"bandwidth_bisection": "MB/s", "congestion_factor": "1"}
    _against = ((), ())

    @run_after("init")
    def select(self):
        self.valid_systems = [f"+inter-node -across +{self.transport}"]
        self.descr = f"all pairs between two switches at once over {self.transport}"

    @run_after("setup")
    def two_switches(self):
        name = self.current_partition.fullname
        self.leave_out(
            "not-asked",
            self.topology is None,
            f"{name} does not state its switches (option topology); Bisection measures between "
            "them",
        )
        self._fabric = self.fabric()
        there = self._fabric and bisection.possible(self._fabric)
        self.leave_out(
            "too-small",
            self._fabric and len(there) < 2,
            f"{name}: {there and bisection.few(there)}",
        )
        needed = bisection.nodes_needed(self._fabric) if self._fabric else 0
        self.leave_out(
            "too-small",
            self.num_tasks < needed,
            f"{name}: the nodes of a job may be on one switch: Bisection needs {needed} or more "
            f"nodes (extra `nodes`: {self.num_tasks})",
        )
        self._stated = bisection.Stated(hardware_peak(self, "link", "bandwidth"), self.trunk)

    def turns(self):
        # Each node is in one or two pairs of switches. All pairs at once may take as long as one
        # after the other, and they are measured four times.
        return 5 * self.num_tasks

    def plan(self):
        return {**super().plan(), "topology": self._fabric and self._fabric.said()}

    def read(self):
        parsed = super().read()
        second, entries = self.drawn()
        nodes = self._coordinator_log.nodes
        try:
            self._network = measured.fabric_of(self._fabric.said(), nodes)
            chosen = bisection.sides(self._network, nodes)
            self._found = bisection.bisection_findings(chosen, entries, second)
        except ValueError as error:
            raise ParseError(str(error)) from None
        every = [round_ for one in chosen for _, round_ in one.rounds()]
        self._alone = bisection.alone(every, second)
        rows = tuple(
            {
                "line": str(one.sides),
                "pairs": len(one.alone),
                "together": max(one.moved(self._stated)),
                "theoretical": one.theoretical(self._stated)[0],
                "slowest_alone": min(one.alone),
                "latency": one.latency,
                "latency_loaded": one.latency_loaded,
            }
            for one in self._found
        )
        units = {"pairs": "1", "latency": "us", "latency_loaded": "us"}
        units.update(dict.fromkeys(("together", "theoretical", "slowest_alone"), "MB/s"))
        self._against = bisection.slow(self._found, self._stated, self._network)
        return replace(parsed, program="bisection", rows=rows, units=units)

    def impossible(self):
        return bisection.impossible(self._found, self._stated)

    def slow(self):
        accused, undecided = self._against
        return [*super().slow()[0], *accused], undecided

    def missed(self):
        accused, _ = self.slow()
        return (
            ""
            if accused
            else "; ".join(filter(None, [super().missed(), *bisection.unseen(self._found)]))
        )

    def measure(self, parsed):
        return {
            "bandwidth_bisection": min(parsed.cells("together")),
            "congestion_factor": max(one.congestion for one in self._found),
        }
