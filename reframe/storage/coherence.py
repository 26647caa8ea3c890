"""Files that one node writes and all others read: content, size, time of change, directory.

Tests:     Coherence
Runs:      coherence.py of src/assay/fleet/node
Where:     +storage +shared
Stacks:    any
Proves:    exit code 0 and a complete output; an answer of every node
Judged by: references of seen_after_worst [s]
Takes:     as long as its size needs; in the smoke profile: 1 of 1 cases

Each node writes a file, rewrites it in place, makes it longer and removes it. After each step the
others must see the same: the checksum of the content, so that no stale block of a cache passes.
"""

import os
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import run_after, variable

from assay.fleet import coherence
from assay.fleet.nodes import AllNodesCheck
from assay.parse import Parsed
from assay.run.options import POSITIVE

#: Size of a file [B]: many blocks and a part of one. GlusterFS may spread files over its servers in
#: pieces of 4 MiB or more. Nodes then saw times of change that differed by up to 1.3 s.
BYTES = 2 * 2**20 + 1


@rfm.simple_test
class Coherence(AllNodesCheck):
    """Each node reads what every other node wrote; names the nodes that see something else."""

    #: How long a node may take to see what another one did [s].
    within = variable(POSITIVE, value=5)

    kind = "storage"
    descr = "files of each node, read on all others"
    tags = {"smoke", "storage"}
    valid_systems = ["+storage +shared"]
    valid_prog_environs = ["*"]
    script = "coherence.py"
    declares = {"seen_after_worst": "s"}

    @run_after("setup")
    def reserve_time(self):
        self.time_limit = f"{int(300 + 4 * self.num_tasks * (self.within + 5))}s"

    def plan(self):
        return {
            "directory": str(Path(self.partition_extra("directory"))),
            "name": f"assay-coherence-{os.getpid()}-{self.unique_name}",
            "bytes": BYTES,
            "states": coherence.STATES,
            "within": self.within,
        }

    def read(self):
        log = self.coordinator_log()
        self._looks, self._failed = coherence.looks(log)
        self._places = coherence.places(log)
        rows = tuple(
            {
                "writer": look.writer,
                "reader": look.reader,
                "state": look.state,
                "seen_after": look.after,
                "same": look.same,
            }
            for look in self._looks
        )
        return Parsed("assay", "coherence", None, log.complete, rows, {"seen_after": "s"})

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed is None:
            return problems
        self.record.proof["places"] = self._places
        nodes = tuple(self._coordinator_log.hosts.values())
        stated = self.current_partition.extras.get("file_system")
        return [
            *coherence.misplaced(self._places, stated),
            *self._failed,
            *coherence.differences(self._looks),
            *coherence.missing(self._looks, nodes),
            *problems,
        ]

    def measure(self, parsed):
        return {"seen_after_worst": max(look.after for look in self._looks)}
