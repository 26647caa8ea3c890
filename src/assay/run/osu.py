"""OSU Micro-Benchmarks over a chosen transport: the C programs, and the Python ports of mpi4py."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reframe.core.builtins import variable

import assay.node
from assay.declared import OF_NETWORK
from assay.parse import Parsed, Quantity, osu, osu_py
from assay.prove import links, transports
from assay.run.mpi import MpiCheck, TransportMixin
from assay.run.options import COUNT
from assay.workloads import osu as programs
from assay.workloads.osu import BENCHMARKS, COLLECTIVE, MIB, WINDOW

#: Passes arguments to a port.
PORT_RUNNER = Path(assay.node.__file__).with_name("osu_port.py")

#: Messages before those that are counted, where a run has few. What a launch pays once is then in
#: the numbers (``judge/curves.yaml``).
WARM_UP = 2

#: Largest size [B] that a port calls small; it takes another number of iterations above.
SMALL = 8192


class OsuBase(TransportMixin, MpiCheck):
    """The C programs, with their own validation from OSU 5.9 on.

    A test states ``benchmark``, a key of :data:`assay.workloads.osu.BENCHMARKS`, its metrics and
    its command.
    """

    #: Iterations of each size, and messages in flight, in the smoke profile between nodes. There,
    #: the usual numbers take minutes on a slow link.
    smoke_iterations = variable(COUNT, value=100)
    smoke_window = variable(COUNT, value=16)

    kind = "network"
    proves = OF_NETWORK
    time_limit = "10m"
    tags = {"smoke", "network"}
    benchmark: Any

    @property
    def sweeps_twice(self) -> bool:  # type: ignore[override]
        """Whether it is a collective."""
        return self.benchmark in COLLECTIVE

    @property
    def quick(self) -> bool:
        """Whether the run has the few iterations of the smoke profile between nodes."""
        return self.between_nodes and self.profile == "smoke"

    def iterations(self, size: int) -> int:
        """The iterations of a size [B], if they are few: C programs take one number for all."""
        return int(self.smoke_iterations)

    @property
    def window(self) -> int:
        """The number of messages in flight."""
        usual = WINDOW.get(self.benchmark, 1)
        return min(usual, self.smoke_window) if self.quick else usual

    def options(self) -> list[str]:
        """The options of the C program."""
        version = programs.numbers(self.current_environ.extras.get("osu_version"))
        options = programs.validating(self.benchmark, version)
        if self.profile == "smoke":
            # Larger sizes take half of the time, and no metric uses them.
            options += ["-m", f"{self._first_size or ''}:{MIB}"]
        if self.quick:
            options += ["-i", str(self.iterations(0)), "-x", str(WARM_UP)]
            options += ["-W", str(self.window)] if self.benchmark in WINDOW else []
        return options

    @property
    def _first_size(self) -> int:
        """The first size that is asked for [B]; 0: that of the program.

        A program prints rates in MB/s with two digits, so the rate of few messages of 1 B on a slow
        link is 0.00.
        """
        return 8 if self.quick and BENCHMARKS[self.benchmark].column == "bandwidth" else 0

    def ranks_on(self, cores: int) -> int:
        return BENCHMARKS[self.benchmark].ranks(cores)

    def payload(self, parsed: Parsed) -> float:
        """The bytes of the fewest iterations that the program does."""
        least = min(programs.FEWEST, self.iterations(MIB)) if self.quick else programs.FEWEST
        of_one = links.message_bytes(self.benchmark, self._layout, self.window)
        return least * of_one * sum(float(row["size"]) for row in parsed.rows)

    @property
    def curve(self) -> str:  # type: ignore[override]
        """The pattern of communication, a key of ``judge/curves.yaml``."""
        if self.benchmark in COLLECTIVE:
            return transports.TRANSPORTS[self.transport].collective_curve
        return "point-to-point"

    def counted(self, row: Mapping[str, Any]) -> tuple[int, int] | None:
        """If they are few, those that were asked for, with all messages in flight."""
        if not self.quick:
            return None
        return self.iterations(int(row["size"])) * self.window, WARM_UP * self.window

    def read(self) -> Parsed:
        return self.parse_sweep(self.stdout_text())

    def parse_sweep(self, text: str) -> Parsed:
        return osu.parse_osu(text, last_size=MIB if self.profile == "smoke" else None)

    def requested(self) -> Mapping[str, Any]:
        # A program for GPUs has the same name, and a title of its own.
        asked: dict[str, Any] = {"program": f"osu_{self.benchmark}", "accelerator": None}
        # The only program that prints it.
        return {**asked, "window_size": self.window} if self.benchmark == "mbw_mr" else asked

    def examine(self, parsed: Parsed | None) -> list[str]:
        """Adds a run that validated nothing, another version, and missing sizes."""
        stated = self.current_environ.extras.get("osu_version")
        return [
            *super().examine(parsed),
            *programs.sizes_missing(parsed, self._first_size),
            *(programs.not_validated(parsed, stated) or programs.other_version(parsed, stated)),
        ]

    def measure(self, parsed: Parsed) -> Mapping[str, Quantity]:
        return programs.values(self.benchmark, parsed)


class OsuPort(OsuBase):
    """The Python ports, only on stacks without the C programs. They validate nothing."""

    valid_prog_environs = ["+osu-py -osu"]

    def iterations(self, size: int) -> int:
        """A tenth of them for long messages, of which a port may take another number."""
        few = int(self.smoke_iterations)
        return few if size <= SMALL else max(1, few // 10)

    def port_command(self) -> list[str]:
        """The words that start the port, by the stack."""
        said = self.stack_extra("osu_py_command").format(benchmark=self.benchmark)
        words = list(map(shlex.quote, shlex.split(said)))
        if not self.quick:
            return words
        shutil.copy(PORT_RUNNER, self.stagedir)
        small = "_small" if self.benchmark == "multi_lat" else ""
        windows = ("window_size", "window_size_large") if self.benchmark in WINDOW else ()
        arguments = {
            f"loop{small}": self.iterations(0), f"skip{small}": WARM_UP,
            "loop_large": self.iterations(MIB), "skip_large": WARM_UP,
            "MAX_MSG_SIZE": MIB, **dict.fromkeys(windows, self.window),
        }  # fmt: skip
        given = [f"{name}={number}" for name, number in arguments.items()]
        return [*words[:-1], PORT_RUNNER.name, words[-1], *given]

    @property
    def _first_size(self) -> int:
        return 0

    def parse_sweep(self, text: str) -> Parsed:
        return osu_py.parse_osu_py(text, last_size=MIB if self.quick else None)
