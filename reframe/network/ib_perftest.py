"""perftest: RDMA writes and sends between nodes, without MPI and without UCX.

Tests:     IbPerftest
Cases:     program ib_write_bw, ib_send_lat
Runs:      pairs.py of src/assay/fleet/node
Where:     +inter-node +rc_verbs
Stacks:    +ib-perftest
Proves:    exit code 0 and a complete output; an answer of every node; a pass clears latency and
           rate
Judged by: references of bandwidth_1MiB [MB/s], latency_8B [us]; the peak of each
Takes:     as long as its size needs; in the smoke profile: 2 of 2 cases

A number of OSU that is too low comes from the adapter, from UCX or from MPI. This test measures the
adapter and the link alone. Each node is measured with its neighbour, over each port of the link in
turn, in both directions. A rail (a port of two neighbours) that is worse than the others is named.
The programs do not compare what they received with what was sent: the proof is what they repeat of
the request, and the bytes on the counters of both ports.
"""

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from assay import metrics
from assay.declared import OF_NETWORK
from assay.fleet.nodes import AllNodesCheck
from assay.fleet.sweep import slow_rails
from assay.fleet.tournament import measured
from assay.fleet.tournament.measured import Pair
from assay.opinions.parse import ib_perftest
from assay.parse import Parsed, ParseError
from assay.prove import counters
from assay.run.outputs import not_as_requested
from assay.run.site import link_peaks, misdescribed

KIB, MIB = 1 << 10, 1 << 20

#: program -> measured column, its unit, message sizes [B], iterations by profile, and the size that
#: is a metric, with the metric
PROGRAMS = {
    "ib_write_bw": (
        "bandwidth", "MB/s", (4 * KIB, 64 * KIB, MIB), {"smoke": 100, "full": 1000},
        (MIB, "bandwidth_1MiB"),
    ),
    "ib_send_lat": (
        "latency", "us", (8, 4 * KIB, 64 * KIB), {"smoke": 200, "full": 2000}, (8, "latency_8B")
    ),
}  # fmt: skip

#: The nodes of a pair take turns as the server: two launches of a size measure both directions. So
#: a rail is looked at twice. LIMIT: time limit of a launch [s].
DIRECTIONS, LOOKS, LIMIT = 2, 2, 120
LAUNCHES = DIRECTIONS * LOOKS

#: How the programs say that they cannot tell the clock of the processor: a process was interrupted
#: while it compared the counter of cycles with the time of day. Its numbers are then 0 or inf. So
#: were 3 of 72 outputs on a busy host (2026-11-23).
NO_CLOCK = "Correlation coefficient r^2"

#: Time after which an unacknowledged packet is sent again [4.096 us * 2^n]: 1.1 s, about as
#: UCX. With 67 ms, the default, busy nodes repeated 1.3 % of the packets of a healthy link
#: (2026-11-23).
TIMEOUT = 18

#: The programs compare nothing, so the record says it.
FACTS = {"validates": False, "validates_why": "perftest compares nothing that it received"}


@rfm.simple_test
class IbPerftest(AllNodesCheck):
    """Bandwidth of RDMA writes, and latency of sends, of each node with its neighbour.

    The metric is that of the worst pair: for each pair the lower of its launches counts.
    """

    program = parameter(list(PROGRAMS))
    kind = "network"
    proves = OF_NETWORK
    tags = {"smoke", "network"}
    valid_systems = ["+inter-node +rc_verbs"]
    valid_prog_environs = ["+ib-perftest"]
    script = "pairs.py"

    @run_after("init")
    def declare(self):
        self.column, self.unit, self.sizes, self._counts, chosen = PROGRAMS[self.program]
        self.metric_size, self.metric = chosen
        self.declares = {self.metric: self.unit}
        self.descr = f"perftest, {self.program} of each node with its neighbour"

    @run_after("setup")
    def reserve_time(self):
        self.iterations = self._counts[self.profile]
        self.devices = self.partition_extra("network_device").split(",")
        for device in self.devices:
            if ":" not in device:
                raise misdescribed(
                    self.current_partition,
                    f"extras: network_device: {device!r} has no port; write a device of verbs like "
                    "mlx5_0:1",
                )
        launches = LAUNCHES * len(self.sizes) * len(self.devices) * self.num_tasks
        self.time_limit = f"{300 + 10 * launches}s"

    def plan(self):
        ring = [[rank, (rank + 1) % self.num_tasks] for rank in range(self.num_tasks)]
        pairs = ring[0::2] if self.num_tasks % 2 == 0 else [*ring[0:-1:2], ring[-1]]
        gid = self.current_partition.extras.get("gid_index")
        tests = {}
        for device in self.devices:
            name, port = device.split(":")
            for size in self.sizes:
                options = ["-d", name, "-i", port, "-s", str(size), "-F", "-u", str(TIMEOUT)]
                tests[f"{device} {size}"] = {
                    "program": self.program,
                    "device": device,
                    "options": [*options, *(["-x", str(gid)] if gid is not None else [])],
                    "launches": LAUNCHES,
                    "iterations": self.iterations,
                    "unmeasured": [NO_CLOCK],
                }
        return {
            "rounds": [[pair] for pair in pairs],
            "width": 1,
            "tests": tests,
            "resent": counters.rows()["packets_resent"].names,
            "seconds": None,
            "limit": LIMIT,
            "environment": {},
            "cpus": None,
            "advice": None,
            "repeats": 1,
        }

    def read(self):
        log = self.coordinator_log()
        self._values, self._wrong, self._pairs, self._rails = {}, [], [], {}
        for entry in (entry for entry in log.entries if "runs" in entry):
            ends = log.nodes[entry["a"]], log.nodes[entry["b"]]
            if entry["error"]:
                self._wrong.append(f"{ends[0]} did not meet {ends[1]}: {entry['error']}")
                continue
            self._pairs.append(Pair(*ends, {}, "", 1, (), *measured.counted(entry["runs"])))
            for run in entry["runs"]:
                self._take(ends, run)
        worst = min if self.column == "bandwidth" else max
        rows = []
        for size in self.sizes:
            of_size = {where: value for where, value in self._values.items() if where[1] == size}
            if of_size:
                where = worst(of_size, key=of_size.get)
                rows.append(
                    {"size": size, self.column: of_size[where], "where": " ".join(where[::2])}
                )
        units = {"size": "B", self.column: self.unit}
        whole = log.complete and len(rows) == len(self.sizes)
        return Parsed("ib-perftest", self.program, None, whole, tuple(rows), units, (), FACTS)

    def _take(self, ends, run):
        """The value of one run, and what is wrong with it."""
        device, size = run["test"].split()
        pair = " - ".join(ends)
        gid = self.current_partition.extras.get("gid_index")
        asked = {
            "program": self.program,
            "device": device.split(":")[0],
            "connection": "RC",
            "iterations": run["iterations"],
            "sizes": [int(size)],
            **({"gid_index": gid} if gid is not None else {}),
        }
        problems = list(measured.uncrossed(int(size), run))
        for role in ("server", "client"):
            try:
                parsed = ib_perftest.parse_ib_perftest(run[role]["out"])
            except ParseError as error:
                problems.append(f"{role}: {error}")
                continue
            said = [*parsed.problems, *not_as_requested(parsed, asked)]
            problems += [f"{role}: {problem}" for problem in said]
            if not parsed.complete:
                problems.append(f"{role}: the output is incomplete")
            elif role == "client":
                key = (pair, int(size), device)
                value = parsed.rows[-1][self.column]
                self._values[key] = min(value, self._values.get(key, value))
                if int(size) == self.metric_size:
                    self._rails.setdefault((*ends, device), []).append(value)
        self._wrong += [f"{pair}: {run['test']} B: {problem}" for problem in problems]

    def slow(self):
        # A fault of one direction is in each look: the lower value of both, as in the metric.
        looks = {
            rail: [min(of_look) for of_look in zip(*[iter(values)] * DIRECTIONS)]
            for rail, values in self._rails.items()
        }
        accused, undecided = slow_rails(looks, self.unit, metrics.fault(self.unit))
        # Where other work takes the cores, a healthy link sends packets again.
        health = self.current_partition.extras.get("health", {})
        return [*measured.lossy(self._pairs, self.devices[0], health), *accused], undecided

    def requested(self):
        return {"program": self.program, "sizes": list(self.sizes)}

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed is None:
            return problems
        self.record.transport = "rc_verbs"
        silent = [f"{pair.a} - {pair.b}" for pair in self._pairs if pair.uncounted]
        self.record.proof = {
            "worst": {f"{row['size']} B": row["where"] for row in parsed.rows},
            **({"unavailable": f"counters of the ports of {', '.join(silent)}"} if silent else {}),
        }
        return [*dict.fromkeys(self._wrong), *problems]

    def measure(self, parsed):
        return {self.metric: parsed.quantity(self.column, size=self.metric_size)}

    def peaks(self, parsed):
        return link_peaks(self, [self.metric]) if self.column == "bandwidth" else {}
