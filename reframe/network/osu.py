"""OSU Micro-Benchmarks: point-to-point and collective, over each transport of the partition.

Two families, never mixed: `Osu` runs the C programs, `OsuPy` the Python ports that mpi4py ships,
where a stack has no C programs. The whole curve is kept; the metrics are the sizes that matter:
8 B (latency of the path), 8 KiB (around the switch to rendezvous), 64 KiB and 1 MiB (its
bandwidth).
"""

import shlex
import shutil
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before

from assay.checks import links
from assay.checks.mpi import MpiTransportCheck
from assay.checks.sizing import even_ranks, usable_ranks
from assay.checks.strict import Peak
from assay.outputs import osu, osu_py

KIB, MIB = 1 << 10, 1 << 20
SIZES = {8: "8B", 8 * KIB: "8KiB", 64 * KIB: "64KiB", MIB: "1MiB"}

#: benchmark -> column that is measured, unit, ranks as a function of the cores
PT2PT = {
    "latency": ("latency", "us", lambda cores: 2),
    "bw": ("bandwidth", "MB/s", lambda cores: 2),
    "bibw": ("bandwidth", "MB/s", lambda cores: 2),
    "multi_lat": ("latency", "us", even_ranks),
    "mbw_mr": ("messages_per_s", "1/s", even_ranks),
}
COLLECTIVE = {
    name: ("latency", "us", lambda cores: max(2, usable_ranks(cores)))
    for name in ("bcast", "gather", "reduce", "allreduce", "alltoall")
}
BENCHMARKS = {**PT2PT, **COLLECTIVE}
#: The ports that exist: mpi4py 4.1.2, demo/osu_*.py.
PORTED = [n for n in BENCHMARKS if n not in ("mbw_mr", "reduce", "allreduce")]

#: Gives a port its arguments.
PORT_RUNNER = Path(links.__file__).with_name("osu_port.py")

#: Messages in flight, the default of the C programs and the ports alike.
WINDOW = {"bw": 64, "bibw": 64, "mbw_mr": 64}
#: The fewest iterations that any program of either family does of any size, unless it is told
#: (BW_LOOP_LARGE, util/osu_util.h of OSU 5.7; loop_large, osu_bw.py of mpi4py 4.1.2).
FEWEST = 20
#: What the smoke profile does between nodes, where the usual number takes minutes on a slow link:
#: iterations up to 8 KiB and above it, uncounted ones before each, messages in flight; and of the
#: C programs, which take one number for all sizes.
SMOKE_SMALL, SMOKE_LARGE, SMOKE_WARM_UP, SMOKE_WINDOW = 200, 10, 2, 16
SMOKE_C = 100


#: The first version that compares what it received (-c), and the first with a choice of type (-T).
VALIDATES, TYPES = (5, 9), (7, 1)


def numbers(version):
    """A version as numbers, which can be compared; of an unknown one, none."""
    return tuple(map(int, version.split("."))) if version else ()


class OsuBase(MpiTransportCheck):
    kind = "network"
    time_limit = "10m"
    tags = {"smoke", "network"}

    @run_after("init")
    def declare(self):
        column, unit, self._ranks = BENCHMARKS[self.benchmark]
        self._column = column
        self.declares = {f"{column}_{label}": unit for label in SIZES.values()}
        self.descr = f"OSU {self.benchmark} over {self.transport}"
        self.over_all_nodes = self.benchmark not in ("latency", "bw", "bibw")

    def ranks(self, cores):
        return self._ranks(cores)

    @property
    def short(self):
        """Whether fewer iterations are asked for than the programs would do."""
        return self.between_nodes and self.profile == "smoke"

    def payload(self, parsed):
        window = WINDOW.get(self.benchmark, 1)
        least = FEWEST
        if self.short:
            window, least = min(window, SMOKE_WINDOW), SMOKE_LARGE
        of_one = links.message_bytes(self.benchmark, self._layout, window)
        return least * of_one * sum(row["size"] for row in parsed.rows)

    def sizes(self, parsed):
        return [] if self.benchmark in COLLECTIVE else super().sizes(parsed)

    def measure(self, parsed):
        return {
            f"{self._column}_{label}": parsed.quantity(self._column, size=size)
            for size, label in SIZES.items()
        }

    def peaks(self, parsed):
        link = self.hardware_peak("link", "bandwidth")
        if link is None or self._column != "bandwidth":
            return {}
        # osu_bibw.py counts the bytes of one direction only, osu_bibw those of both.
        both = 2 if self.benchmark == "bibw" and "osu" in self.current_environ.features else 1
        return {metric: Peak("link, hardware.yaml", both * link) for metric in self.declares}


@rfm.simple_test
class Osu(OsuBase):
    """The C programs, with their own validation from OSU 5.9 on."""

    benchmark = parameter(list(BENCHMARKS))
    valid_prog_environs = ["+osu"]

    @run_before("run")
    def command(self):
        self.executable = f"osu_{self.benchmark}"
        version = numbers(self.current_environ.extras.get("osu_version"))
        if version >= VALIDATES:
            self.executable_opts = ["-c"]
        if version >= TYPES and self.benchmark in ("reduce", "allreduce"):
            # Open MPI saturates sums of 8-bit integers (open-mpi/ompi issue 8045), and OSU 7.4
            # would rightly call that a failure.
            self.executable_opts += ["-T", "mpi_int"]
        if self.profile == "smoke":
            # What lies above is half of the time, and no metric.
            self.executable_opts += ["-m", f":{MIB}"]
        if self.short:
            # One number for all sizes.
            self.executable_opts += ["-i", str(SMOKE_C), "-x", str(SMOKE_WARM_UP)]
            if self.benchmark in WINDOW:
                self.executable_opts += ["-W", str(SMOKE_WINDOW)]

    def read(self):
        return osu.parse(self.stdout_text(), last_size=MIB if self.profile == "smoke" else None)

    def examine(self, parsed):
        problems = super().examine(parsed)
        stated = self.current_environ.extras.get("osu_version")
        if parsed and numbers(parsed.version) >= VALIDATES > numbers(stated):
            problems.append(
                f"OSU {parsed.version} was not asked to validate what it received: the stack "
                f"states osu_version {stated or 'not at all'}"
            )
        return problems


@rfm.simple_test
class OsuPy(OsuBase):
    """The Python ports, only where the C programs are absent."""

    benchmark = parameter(PORTED)
    valid_prog_environs = ["+osu-py -osu"]

    @run_before("run")
    def command(self):
        command = self.current_environ.extras["osu_py_command"].format(benchmark=self.benchmark)
        words = list(map(shlex.quote, shlex.split(command)))
        if self.short:
            shutil.copy(PORT_RUNNER, self.stagedir)
            words[-1:] = [
                PORT_RUNNER.name,
                words[-1],
                *(f"{k}={v}" for k, v in self.arguments().items()),
            ]
        self.executable, *self.executable_opts = words

    def arguments(self):
        """Arguments of the port's function for a short run."""
        small = "_small" if self.benchmark == "multi_lat" else ""
        windows = ("window_size", "window_size_large") if self.benchmark in WINDOW else ()
        return {
            f"loop{small}": SMOKE_SMALL,
            f"skip{small}": SMOKE_WARM_UP,
            "loop_large": SMOKE_LARGE,
            "skip_large": SMOKE_WARM_UP,
            "MAX_MSG_SIZE": MIB,
            **dict.fromkeys(windows, SMOKE_WINDOW),
        }

    def read(self):
        return osu_py.parse(self.stdout_text(), last_size=MIB if self.short else None)
