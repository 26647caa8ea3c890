"""The file system of each node: the same short IOzone on every node. It names the slowest node.

Tests:     EachNode
Runs:      iozone
Where:     +storage
Stacks:    +iozone
Proves:    exit code 0 and a complete output; an answer of every node; a pass clears write and
           read
Judged by: references of write_median [KiB/s], write_worst [KiB/s], read_median [KiB/s],
           read_worst [KiB/s]; the other nodes, of which none may be 30 % better
Takes:     as long as its size needs; in the smoke profile: 1 of 1 cases

The test uses direct I/O if the file system supports it. Otherwise every write is synchronous,
because caches would hide the disk. All nodes have several turns. A node that seems slow is measured
again before the test names it (:mod:`assay.fleet.sweep`).
"""

import os
import shlex
import statistics
from pathlib import Path

import reframe as rfm

from assay.fleet.nodes import SweepCheck, median_and_worst
from assay.fleet.storage import DISKS, MEASURED

#: File and record size [KiB].
FILE, RECORD = 65536, 1024

# The script tries on the file system itself whether O_DIRECT works.
SCRIPT = """\
file={file}.$(uname -n)
trap 'rm -f "$file"' EXIT
trap 'exit 143' TERM
how=-o
dd if=/dev/zero of="$file" bs=4096 count=1 oflag=direct 2>/dev/null && how=-I
iozone -i 0 -i 1 -e -c $how -s {size}k -r {record}k -f "$file"
"""


@rfm.simple_test
class EachNode(SweepCheck):
    """Write and read throughput of each node's file system; names the slow node."""

    kind = "storage"
    proves = {"write": "write_worst", "read": "read_worst"}
    descr = "IOzone on each node in turn"
    tags = {"smoke", "storage"}
    valid_systems = ["+storage"]
    valid_prog_environs = ["+iozone"]
    sweep = DISKS
    named = "each_node"
    # Disks of one model differ by a few percent, emulated or busy disks by more.
    tolerance = 0.3
    width = 1
    measured = MEASURED
    declares = median_and_worst(DISKS.measured)
    columns = {**DISKS.measured, "turns": "1"}

    def command(self):
        directory = Path(self.partition_extra("directory"))
        file = directory / f"assay-each-node-{os.getpid()}-{self.unique_name}"
        return SCRIPT.format(file=shlex.quote(str(file)), size=FILE, record=RECORD)

    def table(self):
        for node in dict.fromkeys(turn.node for turn in self._turns):
            own = [turn for turn in self._turns if turn.node == node]
            rates = {m: statistics.median(turn.values[m][node] for turn in own) for m in MEASURED}
            yield {"node": node, **rates, "turns": len(own), "mode": own[-1].kind}
