"""Broadcast for streaming: frames without a pause, with loss, to workers that copy and compute.

The program is our own (`bcast_stream.c`). The job compiles it with the compiler wrapper of
the stack's MPI. Each worker checks each word of each frame. Some frames are dropped on purpose and
repaired in two ways in turn: the worker reads the backup buffer of the source, or the source is
asked and sends them again. The second way is what the first one is compared with.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import run_after, run_before

from assay.declared import OF_NETWORK
from assay.gpu.bases import GpuState
from assay.prove.launch import REFUSED_FILE
from assay.run import Figure, MpiCheck, TransportMixin

from . import bcast_stream, rounds

SOURCE = Path(__file__).with_name("bcast_stream.c")

#: Most frames, and most bytes, of a round, by profile. With 20 000 frames, each worker drops two at
#: an error rate of 0.01 %.
ROUND = {"smoke": (400, 16 << 20), "full": (20_000, 256 << 20)}

COMPILE = f"""\
if ! mpicc -O2 -std=gnu11 -o bcast_stream {SOURCE.name} -ldl >compiler.log 2>&1; then
  echo "mpicc cannot compile {SOURCE.name}: $(grep -m 1 error compiler.log)" >{REFUSED_FILE}
  exit 1
fi""".splitlines()

#: metric -> column, unit, size of the frames [B]
METRICS = {
    "latency_64B": ("latency", "us", 64),
    "bandwidth_64KiB": ("bandwidth", "MB/s", 64 << 10),
    "bandwidth_1MiB": ("bandwidth", "MB/s", 1 << 20),
}


class StreamMixin(rfm.RegressionTestPlugin):
    """What the tests with host memory and with GPUs share."""

    memory = "host"

    @run_after("init")
    def declare(self):
        self.kind = "network"
        self.time_limit = "30m"
        self.nodes_taken = None
        self.executable = "./bcast_stream"
        self.keep_files = ["compiler.log"]
        self.declares = {metric: unit for metric, (_, unit, _) in METRICS.items()}
        self.figures = [
            Figure("lines", name, rounds.AT, column, over=over)
            for name, (column, over) in rounds.FIGURES.items()
        ]

    @run_after("setup")
    def no_image(self):
        stack = self.current_environ
        self.leave_out(
            "not-here",
            "image" in stack.extras,
            f"the programs of the stack {stack.name} are in an image; this one is compiled",
        )

    @run_before("run")
    def command(self):
        shutil.copy(SOURCE, self.stagedir)
        self.prerun_cmds += COMPILE
        frames, volume = ROUND[self.profile]
        self.executable_opts = rounds.options(self.num_tasks, frames, volume, self.memory)

    def ranks_on(self, cores):
        return max(2, cores)

    def places(self, cores):
        return 1  # a worker on each node

    def read(self):
        parsed = bcast_stream.parse(self.stdout_text())
        self._measured = parsed.rows
        rows = tuple(rounds.drawn(parsed.rows))
        return replace(parsed, rows=rows, units={**parsed.units, **rounds.UNITS})

    def claimed(self, parsed):
        # The rows of `parsed` are those of the figures: a round is in several of them.
        return sum(row["time"] for row in self._measured)

    def requested(self):
        return {
            "program": "bcast_stream",
            "ranks": self.num_tasks,
            "buffers": self.memory,
            "window": rounds.WINDOW,
        }

    def payload(self, parsed):
        everywhere = [row for row in self._measured if row["ranks"] == self.num_tasks]
        return sum(row["frame_size"] * (row["frames"] + row["alone"]) for row in everywhere)

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed is None or not parsed.complete:
            return problems
        return problems + self.unmeasured()

    def unmeasured(self):
        return rounds.unmeasured(self._measured, self.num_tasks, *ROUND[self.profile])

    def accused(self, parsed):
        if not parsed.complete or self.unmeasured():
            return []
        return rounds.slowed(self._measured)

    def measure(self, parsed):
        parsed = replace(parsed, rows=tuple(self._measured))
        where = {"ranks": self.num_tasks, "repair": "rma", "error_rate": 0.0}
        found = {
            metric: parsed.quantity(column, frame_size=size, **where)
            for metric, (column, _, size) in METRICS.items()
        }
        # The record has other rows, and none of these cells.
        return {name: replace(one, value=float(one.value)) for name, one in found.items()}


@rfm.simple_test
class BcastStream(StreamMixin, TransportMixin, MpiCheck):
    """Frames between buffers in host memory, over each transport of the partition."""

    proves = OF_NETWORK
    tags = {"network"}
    valid_prog_environs = ["+mpi +mpicc +ucx"]

    @run_after("init")
    def describe(self):
        self.descr = f"broadcast of frames without a pause over {self.transport}"

    @run_before("run")
    def repair_over_the_transport(self):
        # Open MPI would read shared memory within a node, whatever the transport is. Debian's
        # packages exclude ucx (osc = ^ucx,pt2pt), and then have no way between nodes.
        self.env_vars["OMPI_MCA_osc"] = "ucx"


@rfm.simple_test
class BcastStreamGpu(StreamMixin, GpuState, MpiCheck):
    """The same, and each worker copies each frame to its GPU and back. Not yet run on hardware."""

    tags = {"network"}
    valid_systems = ["+intra-node +gpu +cuda", "+inter-node +gpu +cuda"]
    valid_prog_environs = ["+mpi +mpicc"]
    descr = "broadcast of frames without a pause to workers with GPUs"
    memory = "cuda"

    def ranks_on(self, cores):
        return cores if self.between_nodes else self.gpus_of_a_node()

    @run_after("setup")
    def a_gpu_for_each_rank(self):
        self.leave_out("too-small", self.num_tasks < 2, "a source and a worker need 2 GPUs")
        self.take_gpus(self.num_tasks_per_node)

    @run_before("run")
    def beside_its_gpu(self):
        self.give_each_rank_its_gpu()
