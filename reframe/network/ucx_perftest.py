"""ucx_perftest: UCX alone, without MPI, over each transport of the partition.

Tests:     MemoryCopy, UcxPerftest, SharedMemoryAgainstTcp, OsuAgainstUcx
Cases:     transport posix, sysv, cma, tcp, rc_mlx5, rc_verbs, ud_verbs, dc_mlx5; operation
           tag_lat, tag_bw, tag_mr; faster posix, sysv
Runs:      ucx_info -M; ucx_perftest; no program: it compares other cases
Where:     +intra-node, or +intra-node +<transport>, or +intra-node +<faster> +tcp
Stacks:    +ucx, or +ucx-perftest +ucx, or +osu +ucx-perftest +ucx
Proves:    exit code 0 and a complete output; the transport that carried the bytes, by the log of
           UCX
Judged by: references of bandwidth [MB/s], latency_8B [us], bandwidth_1MiB [MB/s],
           bandwidth_per_memory_copy [1], messages_8B [1/s], and 4 more; the peak of each
Takes:     under 1 s a case (smoke, 4 emulated nodes); up to 21 s a case (full, 2 cores); at most
           2 or 5 min for a launch; in the smoke profile: 30 of 30 cases

The test divides the bandwidth of messages by the bandwidth of a memory copy (`ucx_info -M`) on the
same machine. This ratio has a meaning on any machine.
"""

from pathlib import Path

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before
from reframe.utility import import_module_from_file, udeps

from assay.opinions import pair, perftest
from assay.opinions.parse import ucx_info, ucx_perftest
from assay.run import Peak, StrictCheck
from assay.run.mpi import TransportMixin
from assay.run.relation import Relation, variant

#: The tests of OSU, as ReFrame itself loads them.
osu = import_module_from_file(str(Path(__file__).with_name("osu.py")), load_parents=True)

MIB = 1 << 20
#: operation -> message size [B], iterations, metric -> (column, unit); latencies are medians
TESTS = {
    "tag_lat": (8, 20000, {"latency_8B": ("p50", "us")}),
    "tag_bw": (MIB, 500, {"bandwidth_1MiB": ("bandwidth", "MB/s")}),
    "tag_mr": (8, 20000, {"messages_8B": ("messages_per_s", "1/s")}),
}


@rfm.simple_test
class MemoryCopy(StrictCheck):
    """Bandwidth of a memory copy on this node, measured by UCX: the reference of UcxPerftest."""

    kind = "network"
    descr = "memory copy bandwidth (ucx_info -M)"
    time_limit = "2m"
    tags = {"smoke", "network"}
    valid_systems = ["+intra-node"]
    valid_prog_environs = ["+ucx"]
    executable = "ucx_info"
    executable_opts = ["-M"]
    declares = {"bandwidth": "MB/s"}

    def read(self):
        return ucx_info.parse_ucx_info(self.stdout_text())

    def measure(self, parsed):
        """The value at 1 MiB, the size of the messages that are compared with it."""
        return {"bandwidth": parsed.quantity("bandwidth", size=MIB)}


@rfm.simple_test
class UcxPerftest(TransportMixin, StrictCheck):
    """Latency, bandwidth and message rate of tagged messages between two processes."""

    operation = parameter(list(TESTS))
    kind = "network"
    time_limit = "5m"
    tags = {"smoke", "network"}
    valid_prog_environs = ["+ucx-perftest +ucx"]

    @run_after("init")
    def declare(self):
        self.size, self.iterations, self._wanted = TESTS[self.operation]
        self.declares = {name: unit for name, (_, unit) in self._wanted.items()}
        if self.operation == "tag_bw":
            self.declares["bandwidth_per_memory_copy"] = "1"
            self.depends_on("MemoryCopy", udeps.by_case)
        self.descr = f"ucx_perftest {self.operation}, {self.size} B, over {self.transport}"

    @run_after("setup")
    def only_what_it_carries(self):
        lack = pair.too_small(self.current_partition)
        self.leave_out("incomplete", bool(lack), lack)
        self.leave_out(
            "no-case",
            self.transport == "cma" and self.size < MIB,
            "UCX sends small messages over posix even if cma is requested: cma cannot be measured",
        )

    @run_before("run")
    def command(self):
        self.executable = perftest.COMMAND
        # ucx_perftest has no test tag_mr. The rate of small messages is a column of tag_bw.
        name = "tag_bw" if self.operation == "tag_mr" else self.operation
        self.executable_opts = perftest.client(name, self.size, self.iterations)
        self.prerun_cmds += perftest.server()
        self.postrun_cmds += pair.END_OF_SERVER
        self.keep_files.append(pair.SERVER_FILE)

    def read(self):
        return ucx_perftest.parse_ucx_perftest(self.stdout_text())

    def examine(self, parsed):
        return super().examine(parsed) + perftest.not_requested(parsed, self.size)

    def requested(self):
        return {"program": ucx_perftest.PROGRAM, "iterations": self.iterations}

    def sizes(self, parsed):
        return [self.size]

    def measure(self, parsed):
        values = {name: parsed.quantity(column) for name, (column, _) in self._wanted.items()}
        if self.operation == "tag_bw":
            copied = self._memory_copy()
            values["bandwidth_per_memory_copy"] = values["bandwidth_1MiB"].value / copied
        return values

    def peaks(self, parsed):
        if self.operation != "tag_bw":
            return {}
        return {"bandwidth_1MiB": Peak("memory copy of 1 MiB, same run", self._memory_copy())}

    def _memory_copy(self):
        return self.getdep("MemoryCopy").value("bandwidth")


@rfm.simple_test
class SharedMemoryAgainstTcp(Relation):
    """Shared memory answers sooner than TCP on the same node in one run.

    A message of TCP needs calls of the kernel on both sides, one in shared memory none. If it does
    not answer sooner, one of the two did not take the path that its name states, or both ranks
    share a core. Bandwidths show neither: on shared cores, copies through shared memory may be the
    slower ones (0.3 to 6 times the rate of TCP on one healthy machine).
    """

    faster = parameter(["posix", "sysv"])
    kind = "network"
    tags = {"smoke", "network"}
    valid_prog_environs = ["+ucx-perftest +ucx"]
    declares = {"latency_tcp_per_shared": "1"}

    @run_after("init")
    def operands(self):
        self.valid_systems = [f"+intra-node +{self.faster} +tcp"]
        self.descr = f"{self.faster} against tcp, same run"
        shared, tcp = (
            variant(UcxPerftest, operation="tag_lat", transport=name)
            for name in (self.faster, "tcp")
        )
        self.compare(shared=(shared, "latency_8B"), tcp=(tcp, "latency_8B"))

    def measure(self, parsed):
        return {"latency_tcp_per_shared": self.ratio(parsed, "tcp", "shared")}


@rfm.simple_test
class OsuAgainstUcx(Relation):
    """OSU through MPI has about the latency and the bandwidth of UCX alone on the same path.

    MPI adds a fraction of a microsecond to a message, and nothing to a long one. OSU has at most a
    window of messages on their way, so it cannot send more of them in the time of one.
    """

    transport = parameter(["posix", "sysv", "tcp"])
    kind = "network"
    tags = {"smoke", "network"}
    valid_prog_environs = ["+osu +ucx-perftest +ucx"]
    declares = dict.fromkeys(("latency_per_ucx", "bandwidth_per_ucx", "messages_in_flight"), "1")

    @run_after("init")
    def operands(self):
        self.valid_systems = [f"+intra-node +{self.transport}"]
        self.descr = f"OSU against UCX over {self.transport}, same run"
        of_osu, of_ucx = (
            [variant(test, transport=self.transport, **{name: one}) for one in both]
            for test, name, both in (
                (osu.Osu, "benchmark", ("latency", "bw")),
                (UcxPerftest, "operation", ("tag_lat", "tag_bw")),
            )
        )
        self.compare(
            latency=(of_osu[0], "latency_8B"),
            latency_of_ucx=(of_ucx[0], "latency_8B"),
            rate_8B=(of_osu[1], "bandwidth_8B"),
            bandwidth=(of_osu[1], "bandwidth_1MiB"),
            bandwidth_of_ucx=(of_ucx[1], "bandwidth_1MiB"),
        )

    def measure(self, parsed):
        latency, rate = (parsed.quantity("value", operand=n).value for n in ("latency", "rate_8B"))
        return {
            "latency_per_ucx": self.ratio(parsed, "latency", "latency_of_ucx"),
            "bandwidth_per_ucx": self.ratio(parsed, "bandwidth", "bandwidth_of_ucx"),
            "messages_in_flight": latency * rate / 8,  # us times MB/s are B
        }
