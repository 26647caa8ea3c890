"""The servers of a parallel file system: files on each of them, written and read by every node.

The test names a server whose files are slow, and says whether its network is the reason.
"""

import os
import shlex
import statistics
import sys
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import run_after, variable

import assay.onnode
from assay.checks.nodes import AllNodesCheck
from assay.checks.options import SHARE
from assay.fleet import servers
from assay.outputs import Parsed

#: Turns of each node, and time limit of one turn [s].
TURNS, LIMIT = 2, 120

#: The files on a server may be slower than those on the others by this share.
TOLERANCE = 0.3

#: File systems that name the server of a file to an ordinary user.
KNOWN = ("fuse.glusterfs",)


@rfm.simple_test
class EachServer(AllNodesCheck):
    """Write and read throughput of the files on each server; names the slow server."""

    tolerance = variable(SHARE, value=TOLERANCE)

    kind = "storage"
    descr = "files on each server, from each node in turn"
    tags = {"smoke", "storage"}
    valid_systems = ["+storage +shared"]
    valid_prog_environs = ["*"]
    script = "each.py"
    least_nodes = 3
    judges_itself = True
    declares = {
        f"{operation}_{which}": "KiB/s"
        for operation in servers.MEASURED
        for which in ("median", "worst")
    }

    @run_after("setup")
    def only_where_servers_are_known(self):
        kind = self.current_partition.extras.get("file_system", "not stated")
        known = ", ".join(KNOWN)
        self.leave_out(
            "not-here",
            kind not in KNOWN,
            f"the server of a file is known on {known}; this directory is {kind}",
        )
        self.time_limit = f"{300 + 2 * TURNS * self.num_tasks * LIMIT}s"

    def plan(self):
        script = Path(assay.onnode.__file__).with_name("servers.py")
        directory = str(Path(self.partition_extra("directory")))
        words = [shlex.quote(word) for word in (sys.executable, str(script), directory)]
        name = f"assay-each-server-{os.getpid()}-{self.unique_name}"
        return {
            "command": ["sh", "-c", f"exec {' '.join(words)} {name}.$(uname -n)"],
            "limit": LIMIT,
            "width": 1,
            "turns": TURNS,
            "advice": [
                sys.executable, "-m", servers.__name__, "coordinator_log.jsonl",
                str(self.tolerance),
            ],
        }  # fmt: skip

    def read(self):
        log = self.coordinator_log()
        self._turns, self._failed = servers.turns(log)
        rows = tuple(
            {"node": turn.node, "look": turn.look, "server": server, **rates}
            for turn in self._turns
            for server, rates in turn.rates.items()
        )
        units = {"look": "1", **dict.fromkeys(servers.MEASURED, "KiB/s")}
        return Parsed("assay", "each_server", None, log.complete, rows, units)

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed is None:
            return problems
        self._record["population"] = servers.criteria(self._turns, self.tolerance)
        self._record["second_look"] = any(turn.look == 2 for turn in self._turns)
        alone = len({row["server"] for row in parsed.rows}) < self.least_nodes
        few = ["files are on fewer than 3 servers: nothing can be compared"] if alone else []
        found = [*dict.fromkeys(self._failed), *self.no_second_look()]
        return [*found, *self.silent({turn.node for turn in self._turns}), *few, *problems]

    def slow(self):
        return servers.slow(self._turns, self.tolerance)

    def measure(self, parsed):
        values = {}
        for operation in servers.MEASURED:
            of_server = {}
            for row in parsed.rows:
                if row["node"] != row["server"]:
                    of_server.setdefault(row["server"], []).append(row[operation])
            rates = [statistics.median(values_) for values_ in of_server.values()]
            values[f"{operation}_median"] = statistics.median(rates)
            values[f"{operation}_worst"] = min(rates)
        return values
