"""IOzone: write, rewrite, read and reread, file size x record size, with and without caches.

Tests:     Iozone, IozoneLargest
Cases:     sync cached, o_sync, direct
Runs:      iozone -i 0 -i 1 -e -c ... -f "$work"/file
Where:     +storage
Stacks:    +iozone
Proves:    exit code 0 and a complete output; the file system, and how the file was open; a pass
           clears write and read
Judged by: references of write [KiB/s], rewrite [KiB/s], read [KiB/s], reread [KiB/s]; the peak of
           each
Takes:     under 1 s a case (smoke, 2 cores); 5 to 43 s a case (full, 2 cores); at most 60 min for
           a launch; in the smoke profile: 2 of 4 cases

One stream writes and reads in the directory of a storage partition. docs/storage.md describes the
effect of caches on the numbers.
"""

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before, variable

from assay.parse import iozone
from assay.run import StrictCheck
from assay.run.options import NONE, SIZE
from assay.run.storage import (
    StorageMixin,
    bytes_asked_for,
    disk_peaks,
    in_another_mode,
    too_fast,
)

OPERATIONS = ("write", "rewrite", "read", "reread")

#: sync -> options of IOzone
MODES = {"cached": [], "o_sync": ["-o"], "direct": ["-I"]}


def doubled(least, most):
    """Sizes from the least to the most, each twice the one before: axes in powers of two."""
    return [least << step for step in range((most // least).bit_length())]


#: profile, sync -> file sizes [KiB], record sizes [KiB]. A write past the caches can take as long
#: as one rotation of a disk. Therefore no cell past the caches has more than 4096 writes.
SMOKE = ([1024, 4096, 16384], [64, 256, 1024])
BY_THE_DEVICE = (doubled(1024, 262144), doubled(64, 16384))
SWEEP = {
    **{("smoke", sync): SMOKE for sync in MODES},
    ("full", "cached"): (doubled(1024, 262144), doubled(4, 16384)),
    ("full", "o_sync"): BY_THE_DEVICE,
    ("full", "direct"): BY_THE_DEVICE,
}

#: The file beyond the caches: record size [KiB], and the rate that the time limit assumes [B/s].
RECORD, SLOW = 1024, 50e6


class IozoneBase(StorageMixin, StrictCheck):
    """The cells of a table: all must be there, in the mode that was asked for."""

    kind = "storage"
    proves = {"write": "write", "read": "read"}
    valid_systems = ["+storage"]
    valid_prog_environs = ["+iozone"]
    executable = "iozone"
    declares = dict.fromkeys(OPERATIONS, "KiB/s")

    def grid(self):
        """File sizes and record sizes [KiB], in ascending order."""
        raise NotImplementedError

    def room(self):
        return self.grid()[0][-1] * 1024

    @run_before("run")
    def command(self):
        files, records = self.grid()
        self.cells = [(f, r) for f in files for r in records if r <= f]
        self.executable_opts = [
            "-i", "0", "-i", "1", "-e", "-c", *MODES[self.sync],
            *(option for size in files for option in ("-s", f"{size}k")),
            *(option for size in records for option in ("-r", f"{size}k")),
            "-f", '"$work"/file',
        ]  # fmt: skip

    def read(self):
        return iozone.parse_iozone(self.stdout_text())

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
        problems += too_fast(parsed.rows, OPERATIONS)
        facts = parsed.facts
        asked = self.executable_opts[:-1]  # the last one is the file
        repeated = (facts.get("command") or "").split()[1 : len(asked) + 1]
        if repeated != asked:
            problems.append(f"iozone ran with {' '.join(repeated)!r}, not {' '.join(asked)!r}")
        modes = {"o_sync": facts.get("o_sync"), "direct": facts.get("o_direct")}
        if any(bool(on) != (mode == self.sync) for mode, on in modes.items()):
            problems.append(f"iozone did not run {self.sync}: its header says otherwise")
        files = self.record.proof.get("storage", {}).get("files", [])
        problems += in_another_mode(files, self.sync == "direct", self.sync == "o_sync")
        counted = {name: facts.get(name) for name in ("fsync_timed", "close_timed")}
        self.record.proof["mode"] = {"sync": self.sync, **counted}
        if not all(counted.values()):
            problems.append("iozone did not count flush and close into writes (-e -c)")
        return problems

    def claimed(self, parsed):
        return sum(
            row["file_size"] / row[operation] for row in parsed.rows for operation in OPERATIONS
        )

    def peaks(self, parsed):
        return disk_peaks(self, OPERATIONS[:2], OPERATIONS[2:], cached=self.sync != "direct")

    def measure(self, parsed):
        """The largest file with the largest record: caches help it least."""
        size, record = self.cells[-1]
        return {
            operation: parsed.quantity(operation, file_size=size, record_size=record)
            for operation in OPERATIONS
        }


@rfm.simple_test
class Iozone(IozoneBase):
    """Throughput of one stream over file size and record size."""

    #: ``o_sync``: every write reaches the device before it returns; ``direct``: writes and reads
    #: bypass the page cache; ``cached``: neither.
    sync = parameter(list(MODES))
    time_limit = "1h"
    tags = {"storage"}

    @run_after("init")
    def select(self):
        self.descr = f"IOzone {self.sync}"
        self.o_direct = self.sync == "direct"
        if not self.o_direct:
            self.tags.add("smoke")

    def grid(self):
        return SWEEP[self.profile, self.sync]


@rfm.simple_test
class IozoneLargest(IozoneBase):
    """One file that does not fit into the memory of the node, where the site states its size."""

    sync = "cached"
    descr = "IOzone, one file beyond the caches"
    tags = {"storage"}

    #: The file beyond the caches; none if None.
    largest = variable(SIZE, NONE, value=None)

    @run_after("setup")
    def size_of_the_site(self):
        where = self.current_partition.fullname
        self.leave_out(
            "not-asked",
            self.largest is None,
            f"{where} asks for no file beyond the caches (option IozoneLargest.largest)",
        )
        memory = self.partition_extra("memory_bytes")
        self._kib = bytes_asked_for(self.largest, memory) // 1024 // RECORD * RECORD
        self.time_limit = f"{int(600 + len(OPERATIONS) * self._kib * 1024 / SLOW)}s"

    def grid(self):
        return [self._kib], [RECORD]

    def examine(self, parsed):
        problems = super().examine(parsed)
        said = self.partition_extra("memory_bytes")
        there = self.record.proof.get("storage", {}).get("memory_bytes") or 0
        if isinstance(self.largest, str) and there > 1.1 * said:
            problems.append(f"the node has {there} bytes of memory, memory_bytes says {said}")
        if there >= self.largest_file():
            problems.append(
                f"the file of {self.largest_file()} bytes fits into the memory of the node "
                f"({there} bytes): set the option IozoneLargest.largest to 2x-memory"
            )
        files = self.record.proof.get("storage", {}).get("files", [])
        seen = max((file["bytes"] for file in files), default=0)
        if seen < self.largest_file():
            problems.append(
                f"the largest file that was seen open has {seen} bytes, {self.largest_file()} "
                "were asked for"
            )
        return problems
