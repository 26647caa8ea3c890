"""A file system of each node's own: the same short IOzone on every node, and the slowest is named.

Direct I/O where the file system can, else every write synchronous: caches would hide the disk. All
nodes have several turns, so that what disturbs one turn does not name a node.
"""

import os
import shlex
import statistics
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import run_before
from reframe.core.exceptions import ConfigError

from assay import census
from assay.checks.nodes import AllNodesCheck
from assay.outputs import Parsed, ParseError, iozone

#: File and record size [KiB], turns of each node, and the longest that one turn may last [s].
FILE, RECORD, TURNS, LIMIT = 65536, 1024, 3, 120

#: A node may be so much slower than the median of the others; disks of one model differ by a few
#: percent, an emulated or a busy one by more.
TOLERANCE = 0.3

#: What a site may say in the extra `each_node` of a partition.
OPTIONS = ("width", "tolerance")

MEASURED = ("write", "read")

# Whether O_DIRECT works is asked of the file system itself.
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
    """Write and read throughput of each node's file system; names the node that is slow."""

    kind = "storage"
    descr = "IOzone on each node in turn"
    tags = {"smoke", "storage"}
    valid_systems = ["+storage"]
    valid_prog_environs = ["+iozone"]
    script = "each.py"
    declares = {
        f"{operation}_{which}": "KiB/s" for operation in MEASURED for which in ("median", "worst")
    }

    @run_before("run")
    def options_of_the_site(self):
        options = self.options("each_node", OPTIONS)
        self._tolerance = options.get("tolerance", TOLERANCE)
        if not (isinstance(self._tolerance, (int, float)) and 0 < self._tolerance < 1):
            raise ConfigError(
                f"{self.current_partition.fullname}: extras: each_node: tolerance is "
                f"{self._tolerance}; 0.3, for instance, allows a node to be 30 % slower"
            )
        turns = TURNS * -(-self.num_tasks // (options.get("width", 1) or self.num_tasks))
        self.time_limit = f"{300 + turns * LIMIT}s"

    def plan(self):
        directory = Path(self.partition_extra("directory"))
        file = directory / f"assay-each-node-{os.getpid()}-{self.unique_name}"
        script = SCRIPT.format(file=shlex.quote(str(file)), size=FILE, record=RECORD)
        return {
            "command": ["sh", "-c", script],
            "limit": LIMIT,
            "width": self.options("each_node", OPTIONS).get("width", 1),
            "turns": TURNS,
        }

    def read(self):
        minutes = self.minutes()
        self._failed, modes = [], {}
        samples = {name: [] for name in minutes.nodes}
        for entry in minutes.entries:
            if "out" not in entry:
                continue
            name = minutes.nodes[entry["node"]]
            try:
                parsed = iozone.parse(entry["out"])
                if entry["rc"] or not parsed.sound:
                    raise ParseError("; ".join(parsed.problems) or "it did not end well")
                samples[name].append([parsed.quantity(m).value for m in MEASURED])
                modes[name] = "direct" if parsed.facts.get("o_direct") else "synchronous"
            except ParseError as error:
                how = {None: " (out of time)", 0: ""}.get(
                    entry["rc"], f" (exit code {entry['rc']})"
                )
                self._failed.append(f"{name}: iozone{how}: {error}")
        rows = tuple(
            {
                "node": name,
                **{m: statistics.median(t[i] for t in turns) for i, m in enumerate(MEASURED)},
                "turns": len(turns),
                "mode": modes[name],
            }
            for name, turns in samples.items()
            if turns
        )
        units = {**dict.fromkeys(MEASURED, "KiB/s"), "turns": "1"}
        return Parsed("assay", "each_node", None, minutes.complete, rows, units)

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed is None:
            return problems
        found = [
            problem
            for operation in MEASURED
            for problem in census.slow(
                operation,
                {row["node"]: row[operation] for row in parsed.rows},
                "KiB/s",
                self._tolerance,
            )
        ]
        found += dict.fromkeys(self._failed)
        modes = {row["node"]: row["mode"] for row in parsed.rows}
        if len(set(modes.values())) > 1:
            said = ", ".join(f"{name}: {mode}" for name, mode in modes.items())
            found.append(f"nodes cannot be compared, their writes are not of one kind: {said}")
        measured = {row["node"] for row in parsed.rows}
        found += [
            f"{name} measured nothing"
            for name in self._minutes.hosts.values()
            if name not in measured
        ]
        return found + problems

    def measure(self, parsed):
        return {
            f"{operation}_{which}": of(row[operation] for row in parsed.rows)
            for operation in MEASURED
            for which, of in (("median", statistics.median), ("worst", min))
        }
