"""The servers of a parallel file system: files on each of them, written and read by every node.

Tests:     EachServer
Runs:      servers.py of src/assay/fleet/node
Where:     +storage +shared
Stacks:    any
Proves:    exit code 0 and a complete output; an answer of every node
Judged by: references of write_median [KiB/s], write_worst [KiB/s], read_median [KiB/s],
           read_worst [KiB/s]; the other nodes, of which none may be 30 % better
Takes:     as long as its size needs; in the smoke profile: 1 of 1 cases

The test names a server whose files are slow, and says whether its network is the reason.
"""

import os
import statistics

import reframe as rfm
from reframe.core.builtins import run_after

from assay.fleet.nodes import SweepCheck, median_and_worst
from assay.fleet.storage import MEASURED, SERVERS

#: File systems that name the server of a file to an ordinary user.
KNOWN = ("fuse.glusterfs",)


@rfm.simple_test
class EachServer(SweepCheck):
    """Write and read throughput of the files on each server; names the slow server."""

    kind = "storage"
    descr = "files on each server, from each node in turn"
    tags = {"smoke", "storage"}
    valid_systems = ["+storage +shared"]
    valid_prog_environs = ["*"]
    least_nodes = 3
    # Nodes that write at the same time would measure how they share the servers.
    width, turns = 1, 2
    sweep = SERVERS
    named = "each_server"
    declares = median_and_worst(SERVERS.measured)
    columns = {"look": "1", **SERVERS.measured}

    @run_after("setup")
    def only_where_servers_are_known(self):
        kind = self.current_partition.extras.get("file_system", "not stated")
        known = ", ".join(KNOWN)
        self.leave_out(
            "not-here",
            kind not in KNOWN,
            f"the server of a file is known on {known}; this directory is {kind}",
        )

    def command(self):
        name = f"assay-each-server-{os.getpid()}-{self.unique_name}"
        script = self.on_node("servers.py", self.partition_extra("directory"))
        return f"{script} {name}.$(uname -n)"

    def table(self):
        for turn in self._turns:
            for server in turn.values["write"]:
                rates = {what: turn.values[what][server] for what in MEASURED}
                yield {"node": turn.node, "look": turn.look, "server": server, **rates}

    def few(self, parsed):
        alone = len({row["server"] for row in parsed.rows}) < self.least_nodes
        return ["files are on fewer than 3 servers: nothing can be compared"] if alone else []

    def values(self, parsed):
        found = {}
        for what in MEASURED:
            of_server = {}
            for row, value in zip(parsed.rows, parsed.cells(what)):
                if row["node"] != row["server"]:
                    of_server.setdefault(row["server"], []).append(value)
            found[what] = [statistics.median(its) for its in of_server.values()]
        return found
