"""NetPIPE over MPI: a ping-pong with sizes off the powers of two, where protocols switch.

Tests:     NetPipe
Cases:     transport posix, sysv, cma, tcp, rc_mlx5, rc_verbs, ud_verbs, dc_mlx5
Runs:      NPmpi or NPopenmpi
Where:     +intra-node +<transport>, or +inter-node +<transport>
Stacks:    +netpipe
Proves:    exit code 0 and a complete output; the transport that carried the bytes, by the log of
           UCX; one world of the ranks asked for; a pass clears latency and rate
Judged by: references of latency_8B [us], latency_1MiB [us], bandwidth_1MiB [MB/s]; the shape of
           the curve
Takes:     up to 3 s a case (smoke, 4 emulated nodes); 9 to 16 s a case (full, 2 cores); at most
           10 min for a launch; in the smoke profile: 8 of 8 cases
"""

import reframe as rfm
from reframe.core.builtins import run_before

from assay.declared import OF_NETWORK
from assay.opinions.parse import netpipe
from assay.prove.links import message_bytes
from assay.run import MpiCheck, TransportMixin
from assay.run.site import hardware_peak
from assay.run.ucx import text

MIB = 1 << 20
#: Ping-pongs of each size in one trial, more than there are receive buffers (judge/curves.yaml).
#: NetPIPE makes three trials and prints the least time, and only the first one pays for them.
REPEATS = 300
#: Between nodes, all trials together take about so long at the rate of the link [s], by profile.
SECONDS = {"smoke": 3, "full": 12}
#: What NetPIPE sends in each direction with one ping-pong in each trial [B].
ONCE_EACH = 3 * 11 * MIB

#: Before the program, on each rank: starts it without its standard output.
ROWS_ONLY = ("sh", "-c", """'exec "$0" "$@" >/dev/null'""")


@rfm.simple_test
class NetPipe(TransportMixin, MpiCheck):
    """Latency and bandwidth of a ping-pong up to 1 MiB."""

    kind = "network"
    proves = OF_NETWORK
    descr = "NetPIPE ping-pong"
    time_limit = "10m"
    tags = {"smoke", "network"}
    valid_prog_environs = ["+netpipe"]
    declares = {"latency_8B": "us", "latency_1MiB": "us", "bandwidth_1MiB": "MB/s"}

    @run_before("run")
    def command(self):
        self.executable = self.current_environ.extras.get("netpipe_command", "NPmpi")
        # The default perturbation stays: -p 0 leaves only the sizes between the protocol switches.
        self.repeats = self._repeats() if self.between_nodes else REPEATS
        self.executable_opts = ["-l", "1", "-u", str(MIB), "-n", str(self.repeats)]

    def _repeats(self):
        """The ping-pongs of a trial between nodes: fewer on a slow link."""
        # A link that the site does not name may be that of an old network, 1 Gbit/s.
        rate = hardware_peak(self, "link", "bandwidth") or 125
        possible = SECONDS[self.profile] * rate * 1e6 / (2 * ONCE_EACH)
        return min(REPEATS, max(5, int(possible)))

    @run_before("run", always_last=True)
    def drop_its_standard_output(self):
        # mpirun of Open MPI 5.0.7 puts pieces of a line of standard error onto standard output
        # when a rank writes to both at the same time (8 of 40 launches). Only the rows are needed.
        self.job.launcher.options = [*self.job.launcher.options, *ROWS_ONLY]

    def payload(self, parsed):
        # A lower bound: it counts one of the trials only.
        there_and_back = message_bytes("latency", self._layout)
        return self.repeats * there_and_back * sum(row["size"] for row in parsed.rows)

    def requested(self):
        return {"program": netpipe.PROGRAM, "first_size": 1, "repeats": self.repeats}

    def read(self):
        # The rows are on standard error. Standard output, with the host names, is dropped.
        return netpipe.parse_netpipe(text(self.stderr), last_size=MIB)

    def counted(self, row):
        return row["repeats"], row["repeats"]  # one trial, after another one

    def measure(self, parsed):
        return {
            "latency_8B": parsed.quantity("latency", size=8),
            "latency_1MiB": parsed.quantity("latency", size=MIB),
            "bandwidth_1MiB": parsed.quantity("bandwidth", size=MIB),
        }
