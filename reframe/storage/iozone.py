"""IOzone: write, rewrite, read and reread, file size x record size, with and without O_SYNC.

One stream on the directory of a storage partition. What caches do is part of the result and is
stated with it: files are far smaller than the memory unless the partition says otherwise, so reads
come from the page cache; `-e -c` count flush and close into the time of writes.
"""

import shlex

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before

from assay.checks.strict import StrictCheck
from assay.outputs import iozone

#: profile, sync -> file sizes [KiB], record sizes [KiB]. A synchronous write can take as long as a
#: turn of a disk: there, no cell has more than 1024 of them.
SWEEP = {
    ("smoke", "cached"): ([1024, 4096, 16384], [64, 256, 1024]),
    ("smoke", "o_sync"): ([1024, 4096, 16384], [64, 256, 1024]),
    ("full", "cached"): ([1024, 4096, 16384, 65536, 262144], [4, 16, 64, 256, 1024]),
    ("full", "o_sync"): ([1024, 4096, 16384], [16, 64, 256, 1024]),
}
OPERATIONS = ("write", "rewrite", "read", "reread")


@rfm.simple_test
class Iozone(StrictCheck):
    """Throughput of one stream over file size and record size."""

    #: ``o_sync``: every write reaches the device before it returns; ``cached``: it need not.
    sync = parameter(["cached", "o_sync"])
    kind = "storage"
    time_limit = "20m"
    tags = {"smoke", "storage"}
    valid_systems = ["+storage"]
    valid_prog_environs = ["+iozone"]

    @run_after("init")
    def declare(self):
        self.declares = dict.fromkeys(OPERATIONS, "KiB/s")
        self.descr = f"IOzone {self.sync}"

    @run_before("run")
    def command(self):
        files, records = SWEEP[self.profile, self.sync]
        self.cells = [(f, r) for f in files for r in records if r <= f]
        quoted = shlex.quote(self.partition_extra("directory"))
        sync = ["-o"] if self.sync == "o_sync" else []
        self.executable = "iozone"
        self.executable_opts = [
            "-i", "0", "-i", "1", "-e", "-c", *sync,
            *(option for size in files for option in ("-s", f"{size}k")),
            *(option for size in records for option in ("-r", f"{size}k")),
            "-f", '"$work"/file',
        ]  # fmt: skip
        self.prerun_cmds += [
            f"df -P -k {quoted} >file-system.txt",
            # A name of its own: nodes share the directory, and number their processes alike.
            f"work=$(mktemp -d {quoted}/assay-iozone.XXXXXX) || exit 1",
        ]
        self.postrun_cmds += ['rm -rf "$work"']
        self.keep_files.append("file-system.txt")

    def read(self):
        return iozone.parse(self.stdout_text())

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed is None:
            return problems
        done = {(row["file_size"], row["record_size"]) for row in parsed.rows}
        missing = [cell for cell in self.cells if cell not in done]
        if missing:
            size, record = missing[0]
            problems.append(
                f"{len(missing)} of {len(self.cells)} cells of the table are missing, "
                f"the first is {size} KiB by {record} KiB"
            )
        if parsed.facts.get("o_sync") != (self.sync == "o_sync"):
            problems.append(f"iozone did not run {self.sync}: its header says otherwise")
        return problems

    def measure(self, parsed):
        """The largest file with the largest record: the least helped by caches."""
        size, record = self.cells[-1]
        return {
            operation: parsed.quantity(operation, file_size=size, record_size=record)
            for operation in OPERATIONS
        }
