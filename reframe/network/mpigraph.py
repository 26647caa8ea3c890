"""mpiGraph of LLNL: bandwidth between all pairs of nodes, while every node sends and receives.

Tests:     MpiGraph
Cases:     transport posix, sysv, cma, tcp, rc_mlx5, rc_verbs, ud_verbs, dc_mlx5
Runs:      mpiGraph <profile>
Where:     +intra-node +<transport>, or +inter-node +<transport>
Stacks:    +mpigraph
Proves:    exit code 0 and a complete output; the transport that carried the bytes, by the log of
           UCX; one world of the ranks asked for; a pass clears rate
Judged by: references of bandwidth_median [MB/s], bandwidth_worst [MB/s]; the peak of each
Takes:     at most 30 min for a launch; in the smoke profile: 8 of 8 cases

Tournament measures each pair alone, and names slow pairs and links. Here all nodes work at the same
time, so the links between switches are under load, too; a slow node is named.
"""

import reframe as rfm
from reframe.core.builtins import run_after, run_before

from assay.fleet.sweep import slow_nodes
from assay.opinions.parse import mpigraph
from assay.prove.links import message_bytes
from assay.run import MpiCheck, TransportMixin
from assay.run.site import link_peaks
from assay.workloads.sizing import Layout

#: profile -> size of a message [B], repetitions, and messages in flight.
WORK = {"smoke": (64 << 10, 10, 16), "full": (1 << 20, 20, 8)}

#: A node that is this much worse than the others with every node is slow.
TOLERANCE = 0.2

#: Most ranks inside one node.
LOCAL = 8


@rfm.simple_test
class MpiGraph(TransportMixin, MpiCheck):
    """Bandwidths of all pairs: the median, and the worst pair. Between nodes, each has one rank."""

    kind = "network"
    proves = {"rate": "bandwidth_worst"}
    time_limit = "30m"
    tags = {"smoke", "network"}
    valid_prog_environs = ["+mpigraph"]
    executable = "mpiGraph"
    nodes_taken = None
    declares = {"bandwidth_median": "MB/s", "bandwidth_worst": "MB/s"}

    @run_after("init")
    def describe(self):
        self.descr = f"mpiGraph over {self.transport}"

    def ranks_on(self, cores):
        return cores if self.between_nodes else max(2, min(cores, LOCAL))

    def layout(self, cores):
        return self._spread(1) if self.between_nodes else Layout(1, self.ranks_on(cores))

    @run_before("run")
    def command(self):
        self.message, self.repetitions, self.window = WORK[self.profile]
        self.executable_opts = [str(n) for n in WORK[self.profile]]

    def payload(self, parsed):
        there_and_back = message_bytes("alltoall", self._layout)
        return self.message * self.repetitions * self.window * there_and_back

    def sizes(self, parsed):
        return [self.message]

    def requested(self):
        asked = {"message": self.message, "repetitions": self.repetitions, "window": self.window}
        return {"program": mpigraph.PROGRAM, **asked}

    def read(self):
        return mpigraph.parse_mpigraph(self.stdout_text())

    def accused(self, parsed):
        return slow_nodes(parsed.rows, TOLERANCE) if self.between_nodes else []

    def measure(self, parsed):
        sent = [row for row in parsed.rows if row["way"] == "send"]
        sent.sort(key=lambda row: row["bandwidth"])
        chosen = {"bandwidth_median": sent[(len(sent) - 1) // 2], "bandwidth_worst": sent[0]}
        return {
            name: parsed.quantity("bandwidth", way="send", rank=row["rank"], peer=row["peer"])
            for name, row in chosen.items()
        }

    def peaks(self, parsed):
        return link_peaks(self, self.declares)
