"""OSU Micro-Benchmarks over a chosen transport: the C programs, and the Python ports of mpi4py."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reframe.core.builtins import run_after, run_before, variable

import assay.node
from assay.declared import Figure
from assay.judge import Peak
from assay.parse import Parsed, Quantity, osu, osu_py
from assay.prove import links, transports
from assay.run.mpi import MpiTransportCheck
from assay.run.options import COUNT, kind
from assay.run.site import link_peaks
from assay.workloads import osu as programs
from assay.workloads.osu import BENCHMARKS, COLLECTIVE, MIB, WINDOW

#: Passes arguments to a port.
PORT_RUNNER = Path(assay.node.__file__).with_name("osu_port.py")

#: What the smoke profile does between nodes, where the usual numbers take minutes on a slow link:
#: iterations and those to warm up, for sizes up to :data:`SMALL` [B] and above. The first warm-up
#: uses each receive buffer once (``judge/curves.yaml``).
SMALL = 8192
SMOKE_SMALL, SMOKE_LARGE = (200, 256), (10, 2)

#: What a site may change of it: iterations of a C program, which takes one number for all sizes;
#: messages in flight; first size of a C program that prints rates [B].
SHORT = {"iterations": 100, "window": 16, "rates_from": 1}
IN_SHORT = kind(
    f"numbers of {', '.join(SHORT)}, such as {{iterations: 20}}",
    lambda v: (
        isinstance(v, dict)
        and {*v} <= {*SHORT}
        and all(isinstance(number, COUNT) for number in v.values())
    ),
)


class OsuBase(MpiTransportCheck):
    """Needs the attribute or parameter ``benchmark``."""

    #: What a short run asks for otherwise than :data:`SHORT`.
    short = variable(IN_SHORT, value={})

    kind = "network"
    time_limit = "10m"
    tags = {"smoke", "network"}
    #: The benchmark, a key of :data:`assay.workloads.osu.BENCHMARKS`.
    benchmark: Any

    @run_after("init")
    def _declare_metrics(self) -> None:
        self.declares = programs.metrics(self.benchmark)
        self.figures = [Figure("collective")] * (self.benchmark in COLLECTIVE)
        self.descr = f"OSU {self.benchmark} over {self.transport}"
        if self.benchmark not in ("latency", "bw", "bibw"):
            self.nodes_taken = None

    def ranks_on(self, cores: int) -> int:
        return BENCHMARKS[self.benchmark].ranks(cores)

    @property
    def _is_short(self) -> bool:
        """Whether the test asks for fewer iterations than the default of the programs."""
        return self.between_nodes and self.profile == "smoke"

    def _asked(self, what: str) -> int:
        """A number of :data:`SHORT`, as the site has it."""
        return int({**SHORT, **self.short}[what])

    @property
    def _first_size(self) -> int:
        """First size of a C program that prints rates, in a short run [B]; 0: that of the program.

        It prints them in MB/s with two digits, so the rate of 1 B on a slow link is 0.00.
        """
        rates = self._is_short and BENCHMARKS[self.benchmark].column == "bandwidth"
        first = self._asked("rates_from")
        return first if rates and first > SHORT["rates_from"] else 0

    def payload(self, parsed: Parsed) -> float:
        """The bytes of the fewest iterations that the program does."""
        window = WINDOW.get(self.benchmark, 1)
        least = programs.FEWEST
        if self._is_short:
            window = min(window, self._asked("window"))
            least = min(SMOKE_LARGE[0], self._asked("iterations"))
        of_one = links.message_bytes(self.benchmark, self._layout, window)
        return least * of_one * sum(float(row["size"]) for row in parsed.rows)

    @property
    def curve(self) -> str:  # type: ignore[override]
        """The pattern of communication, a key of ``judge/curves.yaml``."""
        if self.benchmark in COLLECTIVE:
            return transports.TRANSPORTS[self.transport].collective_curve
        return "point-to-point"

    def counted(self, row: Mapping[str, Any]) -> tuple[int, int] | None:
        """As a short run asked for, with all messages in flight."""
        if not self._is_short:
            return None
        window = self._asked("window") if self.benchmark in WINDOW else 1
        iterations, before = self._short_loop(int(row["size"]))
        return iterations * window, before * window

    def _short_loop(self, size: int) -> tuple[int, int]:
        """Iterations of a size in a short run, and those to warm up."""
        return self._asked("iterations"), SMOKE_LARGE[1]

    def requested(self) -> Mapping[str, Any]:
        # A program for GPUs has the same name, and a title of its own.
        asked: dict[str, Any] = {"program": f"osu_{self.benchmark}", "accelerator": None}
        if self.benchmark == "mbw_mr":  # the only one that prints it
            asked["window_size"] = (
                self._asked("window") if self._is_short else WINDOW[self.benchmark]
            )
        return asked

    def examine(self, parsed: Parsed | None) -> list[str]:
        return super().examine(parsed) + programs.sizes_missing(parsed, self._first_size)

    def measure(self, parsed: Parsed) -> Mapping[str, Quantity]:
        return programs.values(self.benchmark, parsed)

    def peaks(self, parsed: Parsed) -> Mapping[str, Peak]:
        """The bandwidth of the link, for a benchmark that measures bandwidth."""
        if BENCHMARKS[self.benchmark].column != "bandwidth":
            return {}
        # osu_bibw.py counts the bytes of one direction only; osu_bibw counts both directions.
        both = 2 if self.benchmark == "bibw" and "osu" in self.current_environ.features else 1
        return link_peaks(self, self.declares, both)


class OsuC(OsuBase):
    """The C programs, with their own validation from OSU 5.9 on."""

    valid_prog_environs = ["+osu"]

    @run_before("run")
    def _command(self) -> None:
        self.executable = f"osu_{self.benchmark}"
        version = programs.numbers(self.current_environ.extras.get("osu_version"))
        self.executable_opts = programs.validating(self.benchmark, version)
        if self.profile == "smoke":
            # Larger sizes take half of the time, and no metric uses them.
            self.executable_opts += ["-m", f"{self._first_size or ''}:{MIB}"]
        if self._is_short:
            # -i sets one number of iterations for all sizes.
            iterations, before = self._short_loop(0)
            self.executable_opts += ["-i", str(iterations), "-x", str(before)]
            if self.benchmark in WINDOW:
                self.executable_opts += ["-W", str(self._asked("window"))]

    def read(self) -> Parsed:
        return osu.parse(self.stdout_text(), last_size=MIB if self.profile == "smoke" else None)

    def examine(self, parsed: Parsed | None) -> list[str]:
        """Adds a run that validated nothing, and another version of the programs."""
        stated = self.current_environ.extras.get("osu_version")
        return [
            *super().examine(parsed),
            *(programs.not_validated(parsed, stated) or programs.other_version(parsed, stated)),
        ]


class OsuPort(OsuBase):
    """The Python ports, only on stacks without the C programs."""

    valid_prog_environs = ["+osu-py -osu"]

    @run_before("run")
    def _command(self) -> None:
        command = self.stack_extra("osu_py_command").format(benchmark=self.benchmark)
        words = list(map(shlex.quote, shlex.split(command)))
        if self._is_short:
            shutil.copy(PORT_RUNNER, self.stagedir)
            words[-1:] = [
                PORT_RUNNER.name,
                words[-1],
                *(f"{k}={v}" for k, v in self._arguments().items()),
            ]
        self.executable, *self.executable_opts = words

    def _arguments(self) -> dict[str, int]:
        """Arguments of the port's function for a short run."""
        small = "_small" if self.benchmark == "multi_lat" else ""
        windows = ("window_size", "window_size_large") if self.benchmark in WINDOW else ()
        return {
            **dict(zip((f"loop{small}", f"skip{small}"), SMOKE_SMALL)),
            **dict(zip(("loop_large", "skip_large"), SMOKE_LARGE)),
            "MAX_MSG_SIZE": MIB,
            **dict.fromkeys(windows, self._asked("window")),
        }

    def _short_loop(self, size: int) -> tuple[int, int]:
        return SMOKE_SMALL if size <= SMALL else SMOKE_LARGE

    def read(self) -> Parsed:
        return osu_py.parse(self.stdout_text(), last_size=MIB if self._is_short else None)
