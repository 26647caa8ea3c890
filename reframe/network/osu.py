"""OSU Micro-Benchmarks: point-to-point and collective, over each transport of the partition.

Two families, never mixed: `Osu` runs the C programs, `OsuPy` the Python ports that mpi4py ships,
where a stack has no C programs. The whole curve is kept; the metrics are the sizes that matter:
8 B (latency of the path), 8 KiB (around the switch to rendezvous), 64 KiB and 1 MiB (its
bandwidth).
"""

import shlex

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before

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

    def ranks(self, cores):
        return self._ranks(cores)

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

    def read(self):
        return osu.parse(self.stdout_text())

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
        self.executable, *self.executable_opts = map(shlex.quote, shlex.split(command))

    def read(self):
        return osu_py.parse(self.stdout_text())
