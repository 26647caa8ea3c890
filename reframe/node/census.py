"""The census: it asks every node of a partition what it is, and names those that differ.

Tests:     Census
Runs:      each.py, provenance.py of src/assay/fleet/node
Where:     +inter-node, or +storage
Stacks:    any
Proves:    exit code 0 and a complete output; an answer of every node
Judged by: references of nodes [1]
Takes:     under 1 s a case (smoke, 4 emulated nodes); at most 5 min for a launch; in the smoke
           profile: 1 of 1 cases
"""

import json
import sys

import reframe as rfm
from reframe.core.builtins import run_after

import assay.fleet.node.provenance
from assay.accused import Against, How
from assay.fleet import census, node_limits
from assay.fleet.nodes import AllNodesCheck
from assay.gpu import gpu_health
from assay.gpu.bases import GpusOfNode
from assay.parse import Parsed, ParseError


@rfm.simple_test
class Census(GpusOfNode, AllNodesCheck):
    """Compares kernel, packages, mounts, MTU, memory, clock... of all nodes: a minority report."""

    kind = "node"
    descr = "minority report over all nodes"
    time_limit = "5m"
    tags = {"smoke", "node"}
    valid_systems = ["+inter-node", "+storage"]
    valid_prog_environs = ["*"]
    script = "each.py"
    declares = {"nodes": "1"}

    @run_after("setup")
    def see_the_gpus(self):
        self.take_gpus_to_read()

    def plan(self):
        directory = self.current_partition.extras.get("directory")
        state = (
            ["--gpus", gpu_health.gpu_state_command(gpu)] if (gpu := self.vendor_of_gpus()) else []
        )
        collect = [sys.executable, assay.fleet.node.provenance.__file__, *state, "."]
        return {
            "command": collect + ([directory] if directory else []),
            "limit": 120,
            "width": None,
            "turns": 1,
        }

    def read(self):
        log = self.coordinator_log()
        nodes = log.nodes
        self.found, self.ahead, self.within, self.silent = {}, {}, {}, []
        for entry in log.entries:
            name = nodes[entry["node"]]
            if "ahead" in entry:
                self.ahead[name], self.within[name] = entry["ahead"], entry["within"]
                continue
            try:
                self.found[name] = json.loads(entry["out"])
                node_limits.load_and_memory(self.found[name])
            except (ValueError, LookupError, TypeError, ZeroDivisionError) as error:
                raise ParseError(f"provenance of {name} is unreadable: {error}") from None
        rows = tuple(
            {"node": name, **node_limits.load_and_memory(found), "clock_ahead": self.ahead[name]}
            for name, found in self.found.items()
        )
        self.record.more["nodes_found"] = self.found
        units = {"load_per_cpu": "1", "memory_available": "1", "clock_ahead": "s"}
        return Parsed("assay", "census", None, log.complete, rows, units)

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed is None:
            return problems
        extras = self.current_partition.extras
        limits = extras.get("health", {})
        link = extras.get("network_device"), extras.get("gid_index")
        return [
            *census.differences(self.found),
            *census.clocks(self.ahead, self.within),
            *(
                Against(f"{name}: {problem}", [name], How.DIFFERS)
                for name, found in self.found.items()
                for problem in (
                    *node_limits.limit_problems(found, limits, *link),
                    *self.unfit_gpus(found),
                )
            ),
            *(
                Against(f"{name} said nothing", [name], How.FAILED)
                for name in self._coordinator_log.nodes
                if name not in self.found
            ),
            *problems,
        ]

    def measure(self, parsed):
        return {"nodes": float(len(parsed.rows))}
