"""Every core of every node: matrices, copies and reads of memory, and the clock under load.

Tests:     EachCore
Runs:      cores.py of src/assay/fleet/node
Where:     +inter-node
Stacks:    any
Proves:    exit code 0 and a complete output; an answer of every node; a pass clears processor and
           memory
Judged by: references of dgemm_median [GFLOP/s], dgemm_worst [GFLOP/s], copy_median [GB/s],
           copy_worst [GB/s], latency_median [ns], and 1 more; the other nodes, of which none may
           be 20 % better
Takes:     as long as its size needs; in the smoke profile: 1 of 1 cases

All cores of all nodes work at the same time, and each is compared with all others. A slow core, a
slow memory and a low clock are named with their node, without any reference
(:mod:`assay.fleet.cores`). With the option `hours` the same goes on for that long, and what
changed meanwhile is kept.
"""

import math
import statistics

import reframe as rfm
from reframe.core.builtins import run_after, variable

from assay.fleet import cores
from assay.fleet.cores import CORES, UNITS
from assay.fleet.nodes import SweepCheck, median_and_worst
from assay.run.options import NONE, POSITIVE

#: Length of one window [s], and windows of a turn.
SECONDS, WINDOWS = 0.3, 3

#: Turns of a long run. They bound the size of the log; the windows become longer instead.
TURNS_OF_HOURS = 120


@rfm.simple_test
class EachCore(SweepCheck):
    """DGEMM, copy and latency of each core of each node; names the slow one with its node."""

    #: Length of one window [s].
    seconds = variable(POSITIVE, value=SECONDS)
    #: How long the cores work; a few windows if None.
    hours = variable(POSITIVE, NONE, value=None)

    kind = "compute"
    proves = {"processor": "dgemm_worst", "memory": "copy_worst"}
    descr = "every core of all nodes at once"
    tags = {"smoke", "compute"}
    valid_systems = ["+inter-node"]
    valid_prog_environs = ["*"]
    sweep = CORES
    named = "each_core"
    # Processors of one model differ by some percent. Not yet compared with a healthy cluster of
    # real nodes.
    tolerance = 0.2
    measured = tuple(UNITS)
    declares = median_and_worst(UNITS)

    @run_after("setup")
    def length_of_the_windows(self):
        self._seconds, hours = self.seconds, self.hours
        if hours:
            self._hurries = ()
            self.turns = TURNS_OF_HOURS
            of_turn = len(UNITS) * (WINDOWS + 0.25)  # each quantity warms up for a quarter
            self._seconds = hours * 3600 / (self.turns * self._groups * of_turn)
        again = type(self).turns
        self.limit = type(self).limit + math.ceil(2 * len(UNITS) * WINDOWS * self._seconds)
        # The limit of a turn has a reserve for a slow start, which 120 turns do not all need.
        first = 1.25 * hours * 3600 if hours else again * self._groups * self.limit
        self.time_limit = f"{math.ceil(300 + first + again * self._groups * self.limit)}s"

    def command(self):
        return self.on_node("cores.py", self._seconds, WINDOWS)

    def table(self):
        units = CORES.quantities(self._turns)
        self.columns = {quantity: unit for quantity, (unit, _) in units.items()}
        of_cores = {}
        for turn in self._turns:
            for name in turn.values["dgemm"]:
                of_cores.setdefault((turn.node, name), []).append(turn.values)
        for (node, name), found in of_cores.items():
            values = {q: statistics.median(its[q][name] for its in found) for q in units}
            yield {"node": node, "cpu": name.rpartition("cpu")[2], **values}

    def few(self, parsed):
        self.record.more["drift"] = cores.drift(self._turns)
        part = self.current_partition
        wanted = part.extras.get("cores_per_node", part.processor.num_cores) or 0
        number = {turn.node: len(turn.values["dgemm"]) for turn in self._turns}
        return [
            f"{node}: {its} of {wanted} cores were measured: the job may not use the others; mend "
            "that, or state the extra cores_per_node"
            for node, its in number.items()
            if its < wanted
        ]

    def slow(self):
        slow, worse = super().slow(), cores.worse(self._turns, self.tolerance)
        return [*slow[0], *worse[0]], [*slow[1], *worse[1]]
