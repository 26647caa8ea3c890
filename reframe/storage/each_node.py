"""The file system of each node: the same short IOzone on every node. It names the slowest node.

The test uses direct I/O if the file system supports it. Otherwise every write is synchronous,
because caches would hide the disk. All nodes have several turns. A node that seems slow is measured
again before the test names it (:mod:`assay.fleet.sweep`).
"""

import os
import shlex
import statistics
import sys
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import run_after, variable

from assay.checks.nodes import AllNodesCheck
from assay.checks.options import COUNT, NONE, SHARE
from assay.fleet import sweep
from assay.fleet.sweep import MEASURED
from assay.outputs import Parsed

#: File and record size [KiB], turns of each node, and time limit of one turn [s].
FILE, RECORD, TURNS, LIMIT = 65536, 1024, 3, 120

#: A node may be slower than the median of the others by this share. Disks of one model differ by a
#: few percent, emulated or busy disks by more.
TOLERANCE = 0.3

# The script tries on the file system itself whether O_DIRECT works.
SCRIPT = """\
file={file}.$(uname -n)
trap 'rm -f "$file"' EXIT
trap 'exit 143' TERM
how=-o
dd if=/dev/zero of="$file" bs=4096 count=1 oflag=direct 2>/dev/null && how=-I
iozone -i 0 -i 1 -e -c $how -s {size}k -r {record}k -f "$file"
"""


@rfm.simple_test
class EachNode(AllNodesCheck):
    """Write and read throughput of each node's file system; names the slow node."""

    #: Number of nodes that write at the same time; all if None.
    width = variable(COUNT, NONE, value=1)
    tolerance = variable(SHARE, value=TOLERANCE)

    kind = "storage"
    descr = "IOzone on each node in turn"
    tags = {"smoke", "storage"}
    valid_systems = ["+storage"]
    valid_prog_environs = ["+iozone"]
    script = "each.py"
    judges_itself = True
    declares = {
        f"{operation}_{which}": "KiB/s" for operation in MEASURED for which in ("median", "worst")
    }

    @run_after("setup")
    def reserve_time(self):
        turns = TURNS * -(-self.num_tasks // (self.width or self.num_tasks))
        self.time_limit = f"{300 + 2 * turns * LIMIT}s"

    def plan(self):
        directory = Path(self.partition_extra("directory"))
        file = directory / f"assay-each-node-{os.getpid()}-{self.unique_name}"
        script = SCRIPT.format(file=shlex.quote(str(file)), size=FILE, record=RECORD)
        return {
            "command": ["sh", "-c", script],
            "limit": LIMIT,
            "width": self.width,
            "turns": TURNS,
            "advice": [
                sys.executable, "-m", sweep.__name__, "coordinator_log.jsonl", str(self.tolerance)
            ],
        }  # fmt: skip

    def read(self):
        log = self.coordinator_log()
        self._turns, self._failed = sweep.turns(log)
        of_nodes = {}
        for turn in self._turns:
            of_nodes.setdefault(turn.node, []).append(turn)
        rows = tuple(
            {
                "node": name,
                **{m: statistics.median(turn.rates[m] for turn in of_node) for m in MEASURED},
                "turns": len(of_node),
                "mode": "direct" if of_node[-1].direct else "synchronous",
            }
            for name, of_node in of_nodes.items()
        )
        units = {**dict.fromkeys(MEASURED, "KiB/s"), "turns": "1"}
        return Parsed("assay", "each_node", None, log.complete, rows, units)

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed is None:
            return problems
        self._record["population"] = sweep.criteria(self._turns, self.tolerance)
        self._record["second_look"] = sorted({t.node for t in self._turns if t.look == 2})
        found = list(dict.fromkeys(self._failed))
        found += self.no_second_look()
        modes = {row["node"]: row["mode"] for row in parsed.rows}
        if len(set(modes.values())) > 1:
            said = ", ".join(f"{name}: {mode}" for name, mode in modes.items())
            found.append(f"nodes cannot be compared, their writes differ in kind: {said}")
        return [*found, *self.silent({row["node"] for row in parsed.rows}), *problems]

    def slow(self):
        return sweep.slow(self._turns, self.tolerance)

    def measure(self, parsed):
        return {
            f"{operation}_{which}": of(row[operation] for row in parsed.rows)
            for operation in MEASURED
            for which, of in (("median", statistics.median), ("worst", min))
        }
