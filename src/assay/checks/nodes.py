"""Tests over all nodes of a partition: one process per node joins a meeting with a log."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from reframe.core.builtins import run_after, run_before

import assay.onnode.meeting
from assay.accused import Against, How
from assay.checks.strict import StrictCheck
from assay.checks.ucx import text
from assay.evidence import node_state
from assay.outputs import Parsed, coordinator_log

#: How long the processes of a job wait for each other [s].
PATIENCE = 60

#: Number of error lines of the launcher that are repeated.
ERRORS = 2


class AllNodesCheck(StrictCheck):
    """A script of :mod:`assay.onnode` on each node that the partition provides (``nodes``)."""

    parallel = True

    #: File name of the script in :mod:`assay.onnode`.
    script = ""

    #: Fewest nodes for the test. With fewer nodes there is nothing to compare. A test that compares
    #: parts of one node takes one, also where the partition does not say how many there are.
    least_nodes = 2

    def plan(self) -> Mapping[str, Any]:
        """The plan for the script, in addition to the keys that every meeting needs."""
        raise NotImplementedError

    def slow(self) -> tuple[list[str], list[str]]:
        """What is worse than its population, one line each: accused, and undecided.

        Runs after :meth:`read`. See :mod:`assay.judge.population`.
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

    def silent(self, measured: Container[str]) -> list[str]:
        """A line for each node that came and is not among those that measured."""
        hosts = self._coordinator_log.hosts.values()
        return [
            Against(f"{name} measured nothing", [name], How.FAILED)
            for name in hosts
            if name not in measured
        ]

    def no_second_look(self) -> list[str]:
        """A line for each time that a second look was not possible."""
        return [
            f"no second look: {entry['no_second_look']}"
            for entry in self._coordinator_log.entries
            if "no_second_look" in entry
        ]

    @run_after("setup")
    def _one_process_on_each_node(self) -> None:
        partition = self.current_partition
        wanted = partition.extras.get("nodes", int(self.least_nodes == 1))
        self.leave_out(
            "too-small",
            wanted < self.least_nodes,
            f"{partition.fullname} has {wanted} nodes on offer (extra `nodes`); "
            f"{self.identity()['test']} takes {self.least_nodes} or more",
        )
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
        script = Path(assay.onnode.__file__).with_name(self.script)
        self.executable = shlex.quote(sys.executable)
        self.executable_opts = [shlex.quote(str(script)), "plan.json"]
        # The file may be left from an earlier launch in this directory.
        self.prerun_cmds.append(f"rm -f {assay.onnode.meeting.ADDRESS}")
        self.keep_files += ["plan.json", assay.onnode.meeting.LOG_FILE]

    def coordinator_log(self) -> coordinator_log.CoordinatorLog:
        """The log of the coordinator of the meeting. Runs in the stage directory.

        :raises assay.outputs.ParseError: there is no such log.
        """
        path = Path(assay.onnode.meeting.LOG_FILE)
        self._coordinator_log = coordinator_log.parse(path.read_text(encoding="utf-8"))
        return self._coordinator_log

    def examine(self, parsed: Parsed | None) -> list[str]:
        """Adds absent or lost nodes; adds launcher errors if the meeting was cut short."""
        problems = self._absent + super().examine(parsed)
        if parsed is not None:
            problems += self._coordinator_log.problems
        if parsed is None or not parsed.complete:
            problems = self._errors() + problems
        return problems

    def _errors(self) -> list[str]:
        """The first error lines of the launcher, which knows the node that it could not reach."""
        lines = text(self.stderr).splitlines()
        return [line.strip() for line in lines if "error" in line.lower()][:ERRORS]
