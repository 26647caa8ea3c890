"""Intel MPI Benchmarks: PingPong, Biband and Bcast, over each transport of the partition.

Tests:     Imb
Cases:     transport posix, sysv, cma, tcp, rc_mlx5, rc_verbs, ud_verbs, dc_mlx5; benchmark
           PingPong, Biband, Bcast
Runs:      IMB-MPI1 -iter <repetitions>,<repetitions> -iter_policy dynamic -time <seconds> -msglog
           0:<top> ... -npmin <tasks> -window_size <window> <benchmark>
Where:     +intra-node +<transport>, or +inter-node +<transport>
Stacks:    +imb
Proves:    exit code 0 and a complete output; the transport that carried the bytes, by the log of
           UCX; one world of the ranks asked for; a pass clears latency and rate
Judged by: references of latency_8B [us], bandwidth_64KiB [MB/s], bandwidth_1MiB [MB/s],
           messages_8B [1/s], latency_64KiB [us], and 1 more; the shape of the curve; the peak of
           each
Takes:     at most 10 min for a launch; in the smoke profile: 24 of 24 cases

They measure what OSU measures, by other code. IMB checks the received data only if it was built
with ``-DCHECK``. Otherwise the evidence is that IMB repeats its command line, reports every size,
and that the numbers of a row agree. On a slow link, IMB repeats large sizes less often. The record
names these sizes.
"""

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before

from assay.declared import OF_NETWORK
from assay.opinions.parse import imb
from assay.prove import links, transports
from assay.run import MpiCheck, TransportMixin
from assay.run.site import link_peaks
from assay.workloads.sizing import usable_ranks

MIB = 1 << 20
#: The largest message is 2 to this power, if no test chooses another.
TOP = 20

#: benchmark -> OSU's name of the pattern, repetitions by profile, metric -> (column, unit, size)
BENCHMARKS = {
    "PingPong": (
        "latency",
        {"smoke": 100, "full": 1000},
        {
            "latency_8B": ("latency", "us", 8),
            "bandwidth_64KiB": ("bandwidth", "MB/s", 64 << 10),
            "bandwidth_1MiB": ("bandwidth", "MB/s", MIB),
        },
    ),
    "Biband": (
        "bibw",
        {"smoke": 5, "full": 20},
        {
            "messages_8B": ("messages_per_s", "1/s", 8),
            "bandwidth_64KiB": ("bandwidth", "MB/s", 64 << 10),
            "bandwidth_1MiB": ("bandwidth", "MB/s", MIB),
        },
    ),
    "Bcast": (
        "bcast",
        {"smoke": 100, "full": 1000},
        {
            "latency_8B": ("latency", "us", 8),
            "latency_64KiB": ("latency", "us", 64 << 10),
            "latency_1MiB": ("latency", "us", MIB),
        },
    ),
}

#: Messages in flight in each direction of Biband: as many as in OSU's bibw.
WINDOW = 64

#: Longest time of the repetitions of one size [s], an option of IMB. IMB also gives up if all sizes
#: together take 19 times as long, within the time limit of the test.
SECONDS = 10


class ImbBase(TransportMixin, MpiCheck):
    """Needs the attribute or parameter ``benchmark``."""

    top = TOP
    #: Further options of the program.
    more = ()
    kind = "network"
    proves = OF_NETWORK
    time_limit = "10m"
    tags = {"smoke", "network"}
    valid_prog_environs = ["+imb"]

    @run_after("init")
    def declare(self):
        self.pattern, self._repetitions, self._wanted = BENCHMARKS[self.benchmark]
        self.declares = {name: unit for name, (_, unit, _) in self._wanted.items()}
        self.descr = f"IMB {self.benchmark} over {self.transport}"
        if self.benchmark == "Bcast":
            self.nodes_taken = None

    def ranks_on(self, cores):
        return max(2, usable_ranks(cores)) if self.benchmark == "Bcast" else 2

    @run_before("run")
    def command(self):
        self.repetitions = self._repetitions[self.profile]
        self.executable = "IMB-MPI1"
        self.executable_opts = [
            # The second number [MiB] permits as many repetitions of 1 MiB. Only -time reduces them.
            "-iter", f"{self.repetitions},{self.repetitions}", "-iter_policy", "dynamic",
            "-time", str(SECONDS), "-msglog", f"0:{self.top}", *self.more,
            # Without it, IMB also runs on 2, 4, ... ranks.
            "-npmin", str(self.num_tasks), "-window_size", str(WINDOW), self.benchmark,
        ]  # fmt: skip

    @property
    def sweeps_twice(self):
        return self.benchmark == "Bcast"

    def read(self):
        return self.parse_sweep(self.stdout_text())

    def parse_sweep(self, text):
        return imb.parse_imb(text)

    def payload(self, parsed):
        of_one = links.message_bytes(self.pattern, self._layout, WINDOW)
        return of_one * sum(row["size"] * row["repetitions"] for row in parsed.rows)

    def counted(self, row):
        return row["repetitions"] * (WINDOW if self.benchmark == "Biband" else 1), 0

    @property
    def curve(self):
        if self.benchmark == "Bcast":
            return transports.TRANSPORTS[self.transport].collective_curve
        return "point-to-point"

    def requested(self):
        words = " ".join(self.executable_opts)
        sizes = [0, *(1 << k for k in range(self.top + 1))]
        return {"program": f"IMB-MPI1 {self.benchmark}", "command_line": words, "sizes": sizes}

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed is None:
            return problems
        fewer, unexplained = imb.cut(parsed, self.repetitions, SECONDS, WINDOW)
        if fewer:
            self.record.proof["fewer_repetitions"] = {str(k): n for k, n in fewer.items()}
        return problems + unexplained

    def measure(self, parsed):
        return {
            name: parsed.quantity(column, size=size)
            for name, (column, _, size) in self._wanted.items()
        }

    def peaks(self, parsed):
        rates = [name for name, unit in self.declares.items() if unit == "MB/s"]
        return link_peaks(self, rates, 2 if self.benchmark == "Biband" else 1)


@rfm.simple_test
class Imb(ImbBase):
    """On two ranks, or on all ranks for the broadcast."""

    benchmark = parameter(list(BENCHMARKS))
