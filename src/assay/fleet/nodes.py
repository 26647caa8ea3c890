"""Tests over all nodes of a partition: one process per node joins a meeting with a log."""

from __future__ import annotations

import json
import shlex
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reframe.core.builtins import run_after, run_before, variable

import assay.fleet.node
from assay.accused import Against, How
from assay.fleet import advise, coordinator_log
from assay.fleet.sweep import Sweep
from assay.metrics import lower_is_better
from assay.parse import Parsed
from assay.prove import node_state
from assay.run.options import COUNT, NONE, SHARE
from assay.run.strict import StrictCheck
from assay.run.ucx import text

#: Files of a meeting, as ``node/meeting.py`` names them; a test compares both.
ADDRESS, LOG_FILE = "meeting.json", "coordinator_log.jsonl"

#: The folder of the scripts.
SCRIPTS = Path(assay.fleet.node.__file__).parent

#: How long the processes of a job wait for each other [s].
PATIENCE = 60

#: Number of error lines of the launcher that are repeated.
ERRORS = 2


class AllNodesCheck(StrictCheck):
    """A script of :mod:`assay.fleet.node` on each node that the partition provides (``nodes``)."""

    parallel = True
    _hurries = ("smoke", "full")

    #: File name of the script in :data:`SCRIPTS`.
    script = ""

    #: Fewest nodes for the test. One that compares parts of a node takes one, also where the
    #: partition does not say how many there are.
    least_nodes = 2

    def plan(self) -> Mapping[str, Any]:
        """The plan for the script, in addition to the keys that every meeting needs."""
        raise NotImplementedError

    def slow(self) -> tuple[list[str], list[str]]:
        """What is worse than its population, one line each: accused, and undecided.

        Runs after :meth:`read`. See :mod:`assay.fleet.population`.
        """
        return [], []

    def accused(self, parsed: Parsed) -> list[str]:
        """The accused of :meth:`slow`, and with them the undecided."""
        accused, undecided = self.slow()
        return [*accused, *undecided] if accused else []

    def missed(self) -> str:
        """The undecided of :meth:`slow`, if nobody is accused."""
        accused, undecided = self.slow()
        return "" if accused else "; ".join(undecided)

    def place_ranks(self) -> None:
        """One process on each node."""
        partition = self.current_partition
        wanted = partition.extras.get("nodes", int(self.least_nodes == 1))
        there = f"{partition.fullname} has {wanted} nodes on offer (extra `nodes`); "
        there += f"{self.identity()['test']} takes {self.least_nodes} or more"
        self.leave_out("too-small", wanted < self.least_nodes, there)
        # A node that is out of service fails the test. The other nodes are measured all the same.
        self.num_tasks, why = node_state.in_service(partition.scheduler, self.job, wanted)
        self._absent = why if self.num_tasks < wanted else []
        if self.num_tasks < self.least_nodes:
            self._refuse(self._absent)
        self.num_tasks_per_node = 1

    @run_before("run")
    def _write_plan(self) -> None:
        plan = {"nodes": self.num_tasks, "patience": PATIENCE, **self.plan()}
        (Path(self.stagedir) / "plan.json").write_text(json.dumps(plan, indent=1) + "\n")
        script = SCRIPTS / self.script
        self.executable = shlex.quote(sys.executable)
        self.executable_opts = [shlex.quote(str(script)), "plan.json"]
        # The file may be left from an earlier launch in this directory.
        self.prerun_cmds.append(f"rm -f {ADDRESS}")
        self.keep_files += ["plan.json", LOG_FILE]

    def coordinator_log(self) -> coordinator_log.CoordinatorLog:
        """The log of the coordinator of the meeting. Runs in the stage directory.

        :raises assay.parse.ParseError: there is no such log.
        """
        self._coordinator_log = coordinator_log.read_coordinator_log(LOG_FILE)
        return self._coordinator_log

    def examine(self, parsed: Parsed | None) -> list[str]:
        """Adds absent or lost nodes; adds launcher errors if the meeting was cut short."""
        problems = self._absent + super().examine(parsed)
        if parsed is not None:
            problems += self._coordinator_log.problems
        if parsed is None or not parsed.complete:
            # The launcher knows the node that it could not reach.
            lines = text(self.stderr).splitlines()
            problems[:0] = [line.strip() for line in lines if "error" in line.lower()][:ERRORS]
        return problems


class SweepCheck(AllNodesCheck):
    """A program on each node in turns, and again on the suspects: :mod:`assay.fleet.sweep`."""

    script = "each.py"

    #: What reads and compares the turns.
    sweep = Sweep()

    #: Name of the table.
    named = ""

    #: How much worse than the others a unit may be, as a share.
    tolerance = variable(SHARE, value=0.3)

    #: How many nodes work at a time; all if None.
    width = variable(COUNT, NONE, value=None)

    #: Turns of each node, and time limit of a turn [s].
    turns, limit = 3, 120

    #: Quantities whose median and worst value are metrics.
    measured: tuple[str, ...] = ()

    #: Key of the record for the criteria of the sweep.
    kept = "population"

    def command(self) -> str:
        """What the shell of a node runs in a turn."""
        raise NotImplementedError

    def table(self) -> Iterable[Mapping[str, Any]]:
        """The rows of the result, from ``_turns``."""
        raise NotImplementedError

    #: Column of the rows -> its unit.
    columns: Mapping[str, str] = {}

    def few(self, parsed: Parsed) -> list[str]:
        """What was not measured, one line each."""
        return []

    def on_node(self, script: str | Path, *arguments: object) -> str:
        """The command that starts a script of :mod:`assay.fleet.node`, or one of another folder."""
        return "exec " + shlex.join([sys.executable, *map(str, (SCRIPTS / script, *arguments))])

    @run_after("setup")
    def _reserve_time(self) -> None:
        self._groups = -(-self.num_tasks // (self.width or self.num_tasks))
        self.time_limit = f"{300 + 2 * self.turns * self._groups * self.limit}s"

    def plan(self) -> Mapping[str, Any]:
        return {
            "command": ["sh", "-c", self.command()], "limit": self.limit, "width": self.width,
            "turns": self.turns, "turns_again": type(self).turns,
            "advice": advise.advice_command(self.sweep, LOG_FILE, str(self.tolerance)),
        }  # fmt: skip

    def read(self) -> Parsed:
        log = self.coordinator_log()
        self._turns, self._failed = self.sweep.turns(log)
        rows = tuple(self.table())
        return Parsed("assay", self.named, None, log.complete, rows, self.columns)

    def examine(self, parsed: Parsed | None) -> list[str]:
        problems = super().examine(parsed)
        if parsed is None:
            return problems
        self.record.more[self.kept] = self.sweep.criteria(self._turns, self.tolerance)
        self.record.second_look = (*sorted({t.node for t in self._turns if t.look == 2}),)
        log = self._coordinator_log
        heard = {turn.node for turn in self._turns}
        heard |= {n for line in self._failed if isinstance(line, Against) for n in line.nodes}
        silent = (name for name in log.hosts.values() if name not in heard)
        unlooked = (e["no_second_look"] for e in log.entries if "no_second_look" in e)
        return [
            *self._failed,
            *(f"no second look: {why}" for why in unlooked),
            *self.sweep.unlike(self._turns),
            *self.few(parsed),
            *(Against(f"{name} measured nothing", [name], How.FAILED) for name in silent),
            *problems,
        ]

    def slow(self) -> tuple[list[str], list[str]]:
        return self.sweep.slow(self._turns, self.tolerance)

    def values(self, parsed: Parsed) -> Mapping[str, Sequence[Any]]:
        """Quantity -> its values, of which the median and the worst are metrics."""
        return {what: parsed.cells(what) for what in self.measured}

    def measure(self, parsed: Parsed) -> dict[str, float]:
        return of_all(self.values(parsed), self.declares)


def of_all(values: Mapping[str, Sequence[float]], units: Mapping[str, str]) -> dict[str, float]:
    """The metrics that :func:`median_and_worst` declares; none of a quantity without values."""
    found: dict[str, float] = {}
    for what, its in values.items():
        if its:
            worst = max if lower_is_better(units[f"{what}_worst"]) else min
            found |= {f"{what}_median": statistics.median(its), f"{what}_worst": worst(its)}
    return found


def median_and_worst(units: Mapping[str, str]) -> dict[str, str]:
    """The metrics of these quantities, as a test declares them.

    :param units: quantity -> its unit.
    """
    return {
        f"{what}_{which}": unit for what, unit in units.items() for which in ("median", "worst")
    }
