"""Processes near their network device: several devices in a node, and what the mapping costs.

`MoreRails` compares the numbers of devices of `OsuRails`. `OsuNear` binds each rank to processors
near the device, or to the others. `AffinityCost` compares the two.
`NearestDevice` binds nothing: it fails if launcher and UCX together map ranks to far devices.
"""

import shutil
from functools import partial
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before
from reframe.core.runtime import runtime
from reframe.utility import udeps

from assay.gpu.bases import UNBOUND
from assay.parse import Parsed
from assay.prove import links, steering, transports
from assay.prove.launch import SKIPPED_FILE
from assay.reframe_compat import testcase
from assay.run import Figure, StrictCheck
from assay.run.osu import OsuBase
from assay.run.site import link_peaks
from assay.run.ucx import said, text
from assay.workloads.osu import BENCHMARKS, osu_metrics

from .. import growth, suite
from . import nearness

suite_rails = suite.module("network/rails.py")

#: Binds a rank near a device or far from it, and writes where the devices are.
NEAR_DEVICE = Path(__file__).with_name("near-device.sh")

#: Transports over devices of verbs, which say on which NUMA node they are.
VERBS = [name for name, transport in transports.TRANSPORTS.items() if transport.gid]

#: Where the figures belong.
AT = "process affinity"

#: benchmark -> size of the messages [B] at which near and far are compared
COMPARED = {"latency": 8, "bw": 1 << 20, "bibw": 1 << 20, "mbw_mr": 8}


def fits(rails, case, other):
    """Whether so many rails are measured at a place, which is that of the comparison."""
    where = next(p for p in runtime().system.partitions if p.name == case[0])
    devices = where.extras.get("network_device", "").split(",")
    return case == other and rails <= len(devices)


@rfm.simple_test
class MoreRails(StrictCheck):
    """Compares the numbers of rails of one run: each rail must add its bandwidth."""

    transport = parameter([n for n in transports.TESTED if transports.TRANSPORTS[n].network])
    kind = "network"
    tags = {"network"}
    executable = "true"
    valid_prog_environs = ["+osu"]
    declares = {"bandwidth_1MiB_most_rails": "MB/s"}
    figures = [Figure("lines", "bandwidth over rails", AT, "bandwidth", over="rails")]

    @run_after("init")
    def operands(self):
        self.descr = f"bandwidth over the number of rails over {self.transport}"
        self.valid_systems = [f"+inter-node +rails +{self.transport}"]
        measured = suite_rails.OsuRails
        for rails in suite_rails.RAILS:
            (variant,) = measured.get_variant_nums(rails=rails, transport=self.transport)
            self.depends_on(measured.variant_name(variant), partial(fits, rails))

    def read(self):
        rows = tuple(
            {"line": "1 MiB", "rails": rails, "bandwidth": rate}
            for rails, rate in sorted(
                (of.rails, of.value("bandwidth_1MiB")) for of in testcase.compared(self)
            )
        )
        units = {"rails": "1", "bandwidth": "MB/s"}
        return Parsed("assay", "rails", None, bool(rows), rows, units)

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed is not None and len(parsed.rows) < 2:
            problems.append(
                "only one number of rails was measured: name all devices in network_device"
            )
        return problems

    def accused(self, parsed):
        rates = {row["rails"]: row["bandwidth"] for row in parsed.rows}
        return growth.stalls(rates, "rails", "MB/s", float("inf"))

    def measure(self, parsed):
        most = max(row["rails"] for row in parsed.rows)
        return {"bandwidth_1MiB_most_rails": parsed.quantity("bandwidth", rails=most)}


# --- near and far ---------------------------------------------------------------------------------


class BoundBase(OsuBase):
    """Between two nodes. Needs ``side``: where each rank runs, near, far, or free as launched."""

    transport = parameter(VERBS)
    partitions = ("+inter-node",)
    valid_prog_environs = ["+osu"]
    tags = {"network"}

    @run_after("init")
    def declare(self):
        self.declares = osu_metrics(self.benchmark)

    @run_before("run")
    def command(self):
        self.executable = f"osu_{self.benchmark}"
        self.executable_opts = self.options()

    @run_before("run")
    def place_the_ranks(self):
        shutil.copy(NEAR_DEVICE, self.stagedir)
        words = f'"$assay_stage"/{NEAR_DEVICE.name} {self.side} {",".join(self.devices())}'
        self.prerun_cmds += [
            f"rm -f {SKIPPED_FILE}",
            f'if ! why=$({words}); then echo "$why" >{SKIPPED_FILE}; exit 1; fi',
        ]
        # Before the witness of the rank, which then reads the processors that were chosen.
        self.job.launcher.options = [*self.job.launcher.options, words]
        self.keep_files.append(nearness.FILES)

    def devices(self):
        return self.partition_extra("network_device").split(",")

    def near_problems(self):
        """What is wrong with the places of the ranks; the ranks by process; the places by host."""
        found, problems = {}, []
        for path in sorted(Path().glob(nearness.FILES)):
            try:
                place = nearness.parse(text(path))
            except ValueError as error:
                problems.append(f"{path.name}: {error}")
            else:
                found[place.host] = place
        ranks = {}
        for path in sorted(Path().glob(steering.RANKS)):
            try:
                rank = steering.rank(text(path))
            except ValueError as error:
                problems.append(f"{path.name}: {error}")
            else:
                ranks.update(dict.fromkeys(steering.processes([path.name]), rank))
        self.record.proof["devices"] = {
            host: {name: sorted(cpus) for name, cpus in place.near.items()}
            for host, place in found.items()
        }
        return [*problems, *nearness.unplaced(ranks.values(), found)], ranks, found


@rfm.simple_test
class OsuNear(BoundBase):
    """Two ranks on processors near the first device of their nodes, or on the others."""

    benchmark = parameter(list(COMPARED))
    side = parameter([nearness.NEAR, nearness.FAR])

    @run_after("init")
    def describe(self):
        self.descr = f"OSU {self.benchmark}, {self.side} the device, over {self.transport}"

    @run_after("setup")
    def bind_nothing_else(self):
        # The launcher would bind each rank to one processor, near or far as it happens.
        self.env_vars |= UNBOUND

    def ranks_on(self, cores):
        return 2

    def devices(self):
        return super().devices()[:1]

    def path_variables(self):
        return super().path_variables(self.devices()[0])

    def peaks(self, parsed):
        ways = {"bw": 1, "bibw": 2}.get(self.benchmark)
        return link_peaks(self, self.declares, ways) if ways else {}

    def examine(self, parsed):
        problems = super().examine(parsed)
        wrong, ranks, found = self.near_problems()
        return [
            *problems,
            *(links.misrouted(self._crossing, self.devices()) if self._crossing else ()),
            *wrong,
            *nearness.wrong_side(ranks.values(), found, self.side),
            *transports.rails(said(Path()), self.devices()),
        ]


@rfm.simple_test
class AffinityCost(StrictCheck):
    """What the far device costs: near against far, of one run, in percent of the far one."""

    transport = parameter(VERBS)
    kind = "network"
    tags = {"network"}
    executable = "true"
    valid_prog_environs = ["+osu"]
    declares = {f"{benchmark}_gain": "%" for benchmark in COMPARED}
    figures = [
        Figure("lines", "far as a part of near over message size", AT, "far", over="message_size")
    ]

    @run_after("init")
    def operands(self):
        self.descr = f"what a far device costs over {self.transport}"
        self.valid_systems = [f"+inter-node +{self.transport}"]
        for benchmark in COMPARED:
            for side in (nearness.NEAR, nearness.FAR):
                (variant,) = OsuNear.get_variant_nums(
                    benchmark=benchmark, side=side, transport=self.transport
                )
                self.depends_on(OsuNear.variant_name(variant), udeps.by_case)

    def read(self):
        sides = {(of.benchmark, of.side): of for of in testcase.compared(self)}
        rows = []
        for benchmark in COMPARED:
            column = BENCHMARKS[benchmark].column
            far = {row["size"]: row[column] for row in sides[benchmark, nearness.FAR].rows()}
            rows += [
                {
                    "line": benchmark,
                    "message_size": row["size"],
                    "near_value": row[column],
                    "far_value": far[row["size"]],
                    "far": 100 * far[row["size"]] / row[column],
                }
                for row in sides[benchmark, nearness.NEAR].rows()
                if row["size"] in far
            ]
        units = {"message_size": "B", "near_value": "1", "far_value": "1", "far": "%"}
        return Parsed("assay", "affinity", None, bool(rows), tuple(rows), units)

    def gains(self, parsed):
        return {
            benchmark: nearness.gain(
                parsed.quantity("near_value", line=benchmark, message_size=size).value,
                parsed.quantity("far_value", line=benchmark, message_size=size).value,
                BENCHMARKS[benchmark].unit,
            )
            for benchmark, size in COMPARED.items()
        }

    def accused(self, parsed):
        return nearness.reversed_(self.gains(parsed))

    def measure(self, parsed):
        return {f"{benchmark}_gain": gain for benchmark, gain in self.gains(parsed).items()}


@rfm.simple_test
class NearestDevice(BoundBase):
    """All cores of two nodes, bound as the launcher does: each rank must use a device near it."""

    benchmark = "mbw_mr"
    partitions = ("+inter-node +rails",)
    side = nearness.FREE

    @run_after("init")
    def all_cores(self):
        self.descr = f"ranks of all cores and their nearest devices over {self.transport}"
        self.valid_systems = [f"+inter-node +rails +{self.transport}"]

    def path_variables(self):
        chosen = super().path_variables(",".join(self.devices()))
        # One device for each rank, which UCX chooses.
        return {**chosen, "UCX_MAX_RNDV_RAILS": "1", "UCX_MAX_EAGER_RAILS": "1"}

    def examine(self, parsed):
        problems, crossing = super().examine(parsed), self._crossing
        if crossing is None:
            return problems
        wrong, ranks, found = self.near_problems()
        mapping = {host: nearness.mapping(place) for host, place in found.items()}
        self.record.more["mapping"] = mapping
        # Without the counters of all devices, nothing shows which one a rank took.
        return [
            *problems,
            *wrong,
            *crossing.unavailable,
            *nearness.misplaced(list(ranks.values()), found, crossing.carried),
            *nearness.far_lanes(ranks, found, transports.devices_to_peers(said(Path()))),
        ]
