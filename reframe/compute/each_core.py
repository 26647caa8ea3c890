"""Every core of every node: matrices, copies and reads of memory, and the clock under load.

All cores of all nodes work at the same time, and each is compared with all others. A slow core, a
slow memory and a low clock are named with their node, without any reference
(:mod:`assay.fleet.cores`). With the option `hours` the same goes on for that long, and what changed
meanwhile is kept (:mod:`assay.fleet.drift`).
"""

import math
import shlex
import statistics
import sys
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import run_after, variable

import assay.onnode
from assay import metrics
from assay.checks.nodes import AllNodesCheck
from assay.checks.options import COUNT, NONE, POSITIVE, SHARE
from assay.fleet import cores, drift
from assay.outputs import Parsed

#: Length of one window [s], windows of a turn, turns of each node, and time limit of one turn [s].
SECONDS, WINDOWS, TURNS, LIMIT = 0.3, 3, 3, 120

#: Turns of a long run. They bound the size of the log; the windows become longer instead.
TURNS_OF_HOURS = 120

#: A core may be worse than the median of the others by this share. Processors of one model differ
#: by some percent. Not yet compared with a healthy cluster of real nodes.
TOLERANCE = 0.2


@rfm.simple_test
class EachCore(AllNodesCheck):
    """DGEMM, copy and latency of each core of each node; names the slow one with its node."""

    #: Number of nodes that measure at the same time; all if None.
    width = variable(COUNT, NONE, value=None)
    tolerance = variable(SHARE, value=TOLERANCE)
    #: Length of one window [s].
    seconds = variable(POSITIVE, value=SECONDS)
    #: How long the cores work; a few windows if None.
    hours = variable(POSITIVE, NONE, value=None)

    kind = "compute"
    descr = "every core of all nodes at once"
    tags = {"smoke", "compute"}
    valid_systems = ["+inter-node"]
    valid_prog_environs = ["*"]
    script = "each.py"
    judges_itself = True
    declares = {
        f"{quantity}_{which}": unit
        for quantity, unit in cores.UNITS.items()
        for which in ("median", "worst")
    }

    @run_after("setup")
    def length_of_the_windows(self):
        self._seconds, self._number, hours = self.seconds, TURNS, self.hours
        groups = -(-self.num_tasks // (self.width or self.num_tasks))
        if hours:
            self._number = TURNS_OF_HOURS
            of_turn = len(cores.UNITS) * (WINDOWS + 0.25)  # each quantity warms up for a quarter
            self._seconds = hours * 3600 / (self._number * groups * of_turn)
        self._limit = LIMIT + math.ceil(2 * len(cores.UNITS) * WINDOWS * self._seconds)
        # The limit of a turn has a reserve for a slow start, which 120 turns do not all need.
        first = 1.25 * hours * 3600 if hours else self._number * groups * self._limit
        self.time_limit = f"{math.ceil(300 + first + TURNS * groups * self._limit)}s"

    def plan(self):
        script = Path(assay.onnode.__file__).with_name("cores.py")
        words = [sys.executable, str(script), str(self._seconds), str(WINDOWS)]
        return {
            "command": ["sh", "-c", "exec " + " ".join(map(shlex.quote, words))],
            "limit": self._limit,
            "width": self.width,
            "turns": self._number,
            "turns_again": TURNS,
            "advice": [
                sys.executable, "-m", cores.__name__, "coordinator_log.jsonl", str(self.tolerance)
            ],
        }  # fmt: skip

    def read(self):
        log = self.coordinator_log()
        self._turns, self._failed = cores.turns(log)
        of_cores = {}
        for turn in self._turns:
            for cpu, values in turn.cores.items():
                of_cores.setdefault((turn.node, cpu), []).append(values)
        known = cores.quantities(self._turns)
        rows = tuple(
            {
                "node": node,
                "cpu": cpu,
                **{q: statistics.median(values[q] for values in found) for q in known},
            }
            for (node, cpu), found in of_cores.items()
        )
        units = {quantity: unit for quantity, (unit, _) in known.items()}
        return Parsed("assay", "each_core", None, log.complete, rows, units)

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed is None:
            return problems
        self._record["population"] = cores.criteria(self._turns, self.tolerance)
        self._record["drift"] = drift.record(self._turns)
        self._record["second_look"] = sorted({t.node for t in self._turns if t.look == 2})
        part = self.current_partition
        wanted = part.extras.get("cores_per_node", part.processor.num_cores) or 0
        few = {turn.node: len(turn.cores) for turn in self._turns if len(turn.cores) < wanted}
        problems += [
            f"{node}: {number} of {wanted} cores were measured: the job may not use the others"
            for node, number in few.items()
        ]
        found = [*dict.fromkeys(self._failed), *self.no_second_look(), *cores.unlike(self._turns)]
        return [*found, *self.silent({turn.node for turn in self._turns}), *problems]

    def slow(self):
        slow, worse = (of(self._turns, self.tolerance) for of in (cores.slow, drift.worse))
        return [*slow[0], *worse[0]], [*slow[1], *worse[1]]

    def measure(self, parsed):
        return {
            f"{quantity}_{which}": of(row[quantity] for row in parsed.rows)
            for quantity, unit in cores.UNITS.items()
            for which, of in (
                ("median", statistics.median),
                ("worst", max if metrics.lower_is_better(unit) else min),
            )
        }
