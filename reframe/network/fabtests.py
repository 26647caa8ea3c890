"""fi_rma_bw of fabtests: one-sided transfers of libfabric, without MPI, between two processes.

Tests:     FabtestsRma
Cases:     operation read, write, writedata; provider tcp, shm
Runs:      fi_rma_bw, or others of its kind
Where:     +intra-node
Stacks:    +fabtests
Proves:    exit code 0 and a complete output
Judged by: references of bandwidth_4KiB [MB/s], bandwidth_64KiB [MB/s], bandwidth_1MiB [MB/s]; the
           shape of the curve
Takes:     at most 5 min for a launch; in the smoke profile: 6 of 6 cases

The two processes share a node. Between nodes nothing starts a server and its client yet.
"""

from pathlib import Path

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before

from assay.opinions import libfabric, pair
from assay.opinions.parse import fabtests
from assay.parse import ParseError
from assay.run import StrictCheck
from assay.run.outputs import not_as_requested
from assay.run.ucx import text

#: metric -> size [B]
METRICS = {"bandwidth_4KiB": 4 << 10, "bandwidth_64KiB": 64 << 10, "bandwidth_1MiB": 1 << 20}

#: Transfers of each size, by profile; and in the run that checks the data, and measures nothing.
ITERATIONS, CHECKED = {"smoke": 200, "full": 1000}, 100

#: The processes of both runs, beside the client that is measured. Each has two files.
OTHERS = ("server", "checked-server", "checked-client")


@rfm.simple_test
class FabtestsRma(StrictCheck):
    """Bandwidth of reads and writes in the memory of another process, over one provider.

    A first pair of processes checks what it transfers (``-v``), a second pair is measured. Server
    and client read or write at the same time; the metric is the rate of the client's transfers.
    """

    operation = parameter(["read", "write", "writedata"])
    provider = parameter(libfabric.PROVIDERS)
    kind = "network"
    curve = "one-sided"
    time_limit = "5m"
    tags = {"smoke", "network"}
    valid_systems = ["+intra-node"]
    valid_prog_environs = ["+fabtests"]
    declares = dict.fromkeys(METRICS, "MB/s")

    @run_after("init")
    def describe(self):
        self.descr = f"fi_rma_bw {self.operation} over {self.provider}"

    @run_after("setup")
    def needs_two_cores(self):
        lack = pair.too_small(self.current_partition)
        self.leave_out("incomplete", bool(lack), lack)

    @run_before("run")
    def command(self):
        self.iterations = ITERATIONS[self.profile]
        self.env_vars.update(libfabric.provider_variables(self.provider))
        measured, checked = self.options(self.iterations), [*self.options(CHECKED), "-v"]
        self.executable, self.executable_opts = fabtests.PROGRAM, [*measured, *self.client()]
        self.prerun_cmds += [
            *pair.server(self.line([*checked, "--pin-core", "$1"], "checked-server")),
            self.line([*checked, *self.client()], "checked-client"),
            "assay_rc=$?",
            *pair.END_OF_SERVER,
            *pair.server(self.line([*measured, "--pin-core", "$1"], "server")),
        ]
        self.postrun_cmds += pair.END_OF_SERVER
        self.keep_files += [f"{name}.{stream}" for name in OTHERS for stream in ("out", "err")]

    def options(self, iterations):
        # The server listens on the port for the addresses of the provider.
        return ["-p", self.provider, "-o", self.operation, "-m", "-I", str(iterations), "-E=$port"]

    def client(self):
        return ["--pin-core", "$2", "127.0.0.1"]

    def line(self, options, name):
        return " ".join([fabtests.PROGRAM, *options, f">{name}.out", f"2>{name}.err"])

    def read(self):
        return fabtests.parse_fabtests(text(self.stderr) + self.stdout_text())

    def examine(self, parsed):
        logs = [text(self.stderr), *(text(Path(f"{name}.err")) for name in OTHERS)]
        providers, unproven = libfabric.prove_provider(self.provider, logs)
        self.record.proof = {"providers": providers}
        self.record.transport = self.provider
        problems = [*super().examine(parsed), *unproven]
        for name, log in zip(OTHERS, logs[1:]):
            try:
                other = fabtests.parse_fabtests(log + text(Path(f"{name}.out")))
            except ParseError as error:
                problems.append(f"{name}: {error}")
                continue
            checked = name.startswith("checked")
            said = [*other.problems]
            said += not_as_requested(other, self.asked(checked))
            if other.facts["checked"] != checked:
                said.append("the data were to be checked in the first run, and only there")
            problems += [f"{name}: {problem}" for problem in said]
        return problems

    def requested(self):
        return self.asked(checked=False)

    def asked(self, checked):
        """What both processes of a run must repeat; the first run checks the data."""
        return {
            "operation": self.operation,
            "provider": self.provider,
            "iterations": CHECKED if checked else self.iterations,
            "sizes": fabtests.DEFAULT_SIZES,
        }

    def measure(self, parsed):
        return {name: parsed.quantity("bandwidth", size=size) for name, size in METRICS.items()}
