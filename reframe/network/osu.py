"""OSU Micro-Benchmarks: point-to-point and collective, over each transport of the partition.

There are two families, which are never mixed. `Osu` runs the C programs. `OsuPy` runs the Python
ports that mpi4py ships, on stacks without the C programs.

`OsuPairs` and `OsuPyPairs` are for nodes with many cores. They add pairs of ranks until each core
has a rank, within a node or between two nodes. `MorePairs` compares the numbers of pairs.
"""

import shlex
import shutil
from functools import partial
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before
from reframe.core.runtime import runtime

from assay import onnode
from assay.checks import Figure, StrictCheck
from assay.checks.mpi import MpiTransportCheck
from assay.checks.ucx import said
from assay.declared import HOSTS
from assay.evidence import links, transports
from assay.judge import growth
from assay.outputs import Parsed, osu, osu_py
from assay.reframe_compat import testcase
from assay.workloads import many_cores
from assay.workloads import osu as programs
from assay.workloads.osu import BENCHMARKS, COLLECTIVE, MIB, WINDOW

#: Numbers of ranks of the collectives whose latency is plotted over the message size.
RANKS = (2, 3, 4)

#: Numbers of network devices of a node that are used side by side.
RAILS = (1, 2, 4)

#: The benchmarks that have a port: mpi4py 4.1.2, demo/osu_*.py.
PORTED = [n for n in BENCHMARKS if n not in ("mbw_mr", "reduce", "allreduce")]

#: Passes arguments to a port.
PORT_RUNNER = Path(onnode.__file__).with_name("osu_port.py")

#: What the smoke profile does between nodes, where the usual numbers take minutes on a slow link:
#: iterations up to 8 KiB, iterations above 8 KiB, warm-up iterations, and messages in flight.
#: SMOKE_C is the number of iterations of the C programs, which take one number for all sizes.
SMOKE_SMALL, SMOKE_LARGE, SMOKE_WARM_UP, SMOKE_WINDOW = 200, 10, 2, 16
SMOKE_C = 100


class OsuBase(MpiTransportCheck):
    kind = "network"
    time_limit = "10m"
    tags = {"smoke", "network", "paper"}
    figure_at = HOSTS

    @run_after("init")
    def declare(self):
        self.declares = programs.metrics(self.benchmark)
        self.figures = programs.figures(self.benchmark, self.figure_at)
        self.descr = f"OSU {self.benchmark} over {self.transport}"
        self.over_all_nodes = self.benchmark not in ("latency", "bw", "bibw")

    def ranks_on(self, cores):
        return BENCHMARKS[self.benchmark].ranks(cores)

    @property
    def short(self):
        """Whether the test asks for fewer iterations than the default of the programs."""
        return self.between_nodes and self.profile == "smoke"

    def payload(self, parsed):
        window = WINDOW.get(self.benchmark, 1)
        least = programs.FEWEST
        if self.short:
            window, least = min(window, SMOKE_WINDOW), SMOKE_LARGE
        of_one = links.message_bytes(self.benchmark, self._layout, window)
        return least * of_one * sum(row["size"] for row in parsed.rows)

    @property
    def curve(self):
        return self.collective_curve if self.benchmark in COLLECTIVE else "point-to-point"

    def sizes(self, parsed):
        return [] if self.benchmark in COLLECTIVE else super().sizes(parsed)

    def requested(self):
        # A program for GPUs has the same name, and a title of its own.
        asked = {"program": f"osu_{self.benchmark}", "accelerator": None}
        if self.benchmark == "mbw_mr":  # the only one that prints it
            asked["window_size"] = SMOKE_WINDOW if self.short else WINDOW[self.benchmark]
        return asked

    def examine(self, parsed):
        return super().examine(parsed) + programs.sizes_missing(parsed)

    def measure(self, parsed):
        return programs.values(self.benchmark, parsed)

    def peaks(self, parsed):
        if BENCHMARKS[self.benchmark].column != "bandwidth":
            return {}
        # osu_bibw.py counts the bytes of one direction only; osu_bibw counts both directions.
        both = 2 if self.benchmark == "bibw" and "osu" in self.current_environ.features else 1
        return self.link_peaks(self.declares, both)


class OsuC(OsuBase):
    """The C programs, with their own validation from OSU 5.9 on."""

    valid_prog_environs = ["+osu"]

    @run_before("run")
    def command(self):
        self.executable = f"osu_{self.benchmark}"
        version = programs.numbers(self.current_environ.extras.get("osu_version"))
        self.executable_opts = programs.validating(self.benchmark, version)
        if self.profile == "smoke":
            # Larger sizes take half of the time, and no metric uses them.
            self.executable_opts += ["-m", f":{MIB}"]
        if self.short:
            # -i sets one number of iterations for all sizes.
            self.executable_opts += ["-i", str(SMOKE_C), "-x", str(SMOKE_WARM_UP)]
            if self.benchmark in WINDOW:
                self.executable_opts += ["-W", str(SMOKE_WINDOW)]

    def read(self):
        return osu.parse(self.stdout_text(), last_size=MIB if self.profile == "smoke" else None)

    def examine(self, parsed):
        stated = self.current_environ.extras.get("osu_version")
        return [
            *super().examine(parsed),
            *(programs.not_asked(parsed, stated) or programs.other_version(parsed, stated)),
        ]


@rfm.simple_test
class Osu(OsuC):
    """On two ranks, or on all ranks if a program takes more than two."""

    benchmark = parameter(list(BENCHMARKS))
    tags = {"smoke", "network", "paper", "doc-002"}


@rfm.simple_test
class OsuCollective(OsuC):
    """Collectives on few ranks: on the cores of one node, or one rank on each of several nodes."""

    benchmark = parameter(list(COLLECTIVE))
    ranks = parameter(RANKS)
    tags = {"network", "paper"}

    @run_after("init")
    def few(self):
        self.descr = f"OSU {self.benchmark} on {self.ranks} ranks over {self.transport}"
        self.over_all_nodes = False
        self.nodes_taken = self.ranks

    def ranks_on(self, cores):
        return self.ranks


@rfm.simple_test
class OsuRails(OsuC):
    """Bandwidth over several network devices of a node that work side by side, as one, two or four.

    UCX splits long messages over the lanes that UCX_MAX_RNDV_RAILS allows. Each device that is
    asked for must carry its share on both nodes, and the other devices of the link must carry
    nothing.
    """

    benchmark = "bw"
    transport = parameter([n for n in transports.TESTED if transports.TRANSPORTS[n].network])
    rails = parameter(RAILS)
    figure_at = ""

    @run_after("init")
    def several(self):
        self.descr = f"OSU bw over {self.transport} on {self.rails} rails"
        self.valid_systems = [f"+inter-node +rails +{self.transport}"]

    @run_after("setup")
    def devices_of_the_link(self):
        devices = self.partition_extra("network_device").split(",")
        where = self.current_partition.fullname
        self.skip_if(
            self.rails > len(devices),
            f"{self.rails} rails are needed, {where} has {len(devices)} (extra `network_device`)",
        )
        self.devices = devices[: self.rails]

    def path_variables(self):
        chosen = self.variables_of(self.transport, ",".join(self.devices))
        return {**chosen, "UCX_MAX_RNDV_RAILS": str(self.rails)}

    def rail_problems(self, crossing):
        return links.misrouted(crossing, self.devices)

    def examine(self, parsed):
        return [*super().examine(parsed), *transports.rails(said(Path()), self.devices)]

    def peaks(self, parsed):
        return self.link_peaks(self.declares, self.rails)


class OsuPort(OsuBase):
    """The Python ports, only on stacks without the C programs."""

    valid_prog_environs = ["+osu-py -osu"]
    figure_at = ""  # the validation measured with the C programs

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


@rfm.simple_test
class OsuPy(OsuPort):
    """On two ranks, or on all ranks if a program takes more than two."""

    benchmark = parameter(PORTED)
    tags = {"smoke", "network", "paper", "doc-002"}


# --- many cores ----------------------------------------------------------------------------------

#: Shared memory within a node, and each network.
MANY = [n for n in transports.TESTED if n == "posix" or transports.TRANSPORTS[n].network]

#: Sizes of the messages [B] whose values are drawn over the number of pairs.
OVER_PAIRS = (8, 1024, 64 << 10)

#: benchmark -> figure, column, unit
PAIR_FIGURES = {
    "multi_lat": ("multi-pair latency over pairs", "latency", "us"),
    "mbw_mr": ("message rate over pairs", "messages_per_s", "1/s"),
}


def place_of(partition):
    """Cores of a node of a partition (0 if the site does not state them), features, extras."""
    processor = partition.processor
    there = processor.num_cpus or 0
    return min(processor.num_cores or there, there), partition.features, partition.extras


class PairsMixin(rfm.RegressionTestPlugin):
    """A number of pairs of ranks, with a core for each rank. Needs the parameter ``pairs``."""

    @run_after("init")
    def number_of_pairs(self):
        self.over_all_nodes = False
        self.fills_nodes = True
        said = "all cores" if self.pairs == many_cores.ALL else f"{self.pairs} pairs"
        self.descr = f"OSU {self.benchmark} with {said} over {self.transport}"

    @run_after("setup")
    def no_number_twice(self):
        most = many_cores.most_pairs(*place_of(self.current_partition))
        self.skip_if(
            self.pairs == many_cores.ALL and most in many_cores.PAIRS,
            f"all cores of {self.current_partition.fullname} are {most} pairs, a case of its own",
        )

    def ranks_on(self, cores):
        return many_cores.ranks_of(self.pairs, cores)


@rfm.simple_test
class OsuPairs(PairsMixin, OsuC):
    """Latency, and message rate, of pairs of ranks that send at the same time."""

    benchmark = parameter(list(PAIR_FIGURES))
    pairs = parameter(many_cores.PAIRS)
    transport = parameter(MANY)
    tags = {"network", "doc-002"}
    figure_at = ""


@rfm.simple_test
class OsuPyPairs(PairsMixin, OsuPort):
    """The same by the Python ports, which have the latency only."""

    benchmark = parameter(["multi_lat"])
    pairs = parameter(many_cores.PAIRS)
    transport = parameter(MANY)
    tags = {"network", "doc-002"}


def measured_here(pairs, case, other):
    """Whether a number of pairs is measured at a place, which is that of the comparison."""
    where = next(p for p in runtime().system.partitions if p.name == case[0])
    return case == other and many_cores.pairs_here(pairs, *place_of(where)) > 0


class MorePairsBase(StrictCheck):
    """Compares the numbers of pairs of one run; starts no program. Needs ``of``, a test."""

    transport = parameter(MANY)
    kind = "network"
    tags = {"network", "doc-002"}
    executable = "true"
    judges_itself = True

    @run_after("init")
    def operands(self):
        name, column, unit = PAIR_FIGURES[self.benchmark]
        self.descr = f"{name} over {self.transport}"
        self.declares = {f"{column}_8B_most_pairs": unit}
        self.figures = [Figure("lines", name, "many cores", column, over="pairs")]
        network = transports.TRANSPORTS[self.transport].network
        places = ["intra-node", *(["inter-node"] if network else [])]
        self.valid_systems = [f"+{place} +{self.transport}" for place in places]
        for pairs in many_cores.PAIRS:
            (variant,) = self.of.get_variant_nums(
                benchmark=self.benchmark, pairs=pairs, transport=self.transport
            )
            self.depends_on(self.of.variant_name(variant), partial(measured_here, pairs))

    @run_after("setup")
    def several(self):
        most = many_cores.most_pairs(*place_of(self.current_partition))
        where = self.current_partition.fullname
        self.skip_if(most < 2, f"{where} has cores for {most} pairs: nothing can be compared")

    def read(self):
        _, column, unit = PAIR_FIGURES[self.benchmark]
        here = place_of(self.current_partition)
        rows = tuple(
            {"line": f"{size} B", "message_size": size, "pairs": pairs, column: row[column]}
            for size in OVER_PAIRS
            for pairs, row in sorted(
                (many_cores.pairs_here(of.pairs, *here), row)
                for of in testcase.compared(self)
                for row in of.rows()
                if row["size"] == size
            )
        )
        units = {"message_size": "B", "pairs": "1", column: unit}
        return Parsed("assay", "pairs", None, True, rows, units)

    def accused(self, parsed):
        rates = many_cores.message_rates(parsed.rows, 8)
        return [
            *growth.falls(rates, "pairs", "messages/s"),
            *growth.stalls(rates, "pairs", "messages/s"),
            *self.of_the_link(parsed),
        ]

    def of_the_link(self, parsed):
        """Whether long messages of more pairs fill the link, if it is named."""
        link = self.hardware_peak("link", "bandwidth")
        if link is None or "inter-node" not in self.current_partition.features:
            return []
        size = OVER_PAIRS[-1]
        rates = many_cores.message_rates(parsed.rows, size)
        megabytes = {pairs: rate * size / 1e6 for pairs, rate in rates.items()}
        found = [
            *growth.falls(megabytes, "pairs", "MB/s"),
            *growth.stalls(megabytes, "pairs", "MB/s", link),
        ]
        return [f"messages of {size} B: {line}" for line in found]

    def measure(self, parsed):
        _, column, _ = PAIR_FIGURES[self.benchmark]
        most = max(row["pairs"] for row in parsed.rows)
        return {f"{column}_8B_most_pairs": parsed.quantity(column, message_size=8, pairs=most)}


@rfm.simple_test
class MorePairs(MorePairsBase):
    """More pairs of the C programs: the message rate must grow until cores or link limit it."""

    of = OsuPairs
    benchmark = parameter(list(PAIR_FIGURES))
    valid_prog_environs = ["+osu"]


@rfm.simple_test
class MorePyPairs(MorePairsBase):
    """The same for the Python ports."""

    of = OsuPyPairs
    benchmark = parameter(["multi_lat"])
    valid_prog_environs = ["+osu-py -osu"]
