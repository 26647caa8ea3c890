"""fio: random reads and writes of 4 KiB past the caches, many at once.

Tests:     Fio
Runs:      fio --output-format=json --eta=never ...
Where:     +storage
Stacks:    +fio
Proves:    exit code 0 and a complete output; the file system, and how the file was open; a pass
           clears write and read
Judged by: references of read_rate [op/s], write_rate [op/s], read_p99 [us], write_p99 [us]; the
           peak of each
Takes:     61 s a case (full, 2 cores); as long as its size needs; in the smoke profile: 1 of 1
           cases

One file is filled, then read and rewritten at random places for a time. docs/storage.md describes
what the numbers leave out.
"""

import reframe as rfm
from reframe.core.builtins import run_after, run_before, variable

from assay.opinions.parse import fio
from assay.run import StrictCheck
from assay.run.options import SIZE
from assay.run.site import hardware_peaks
from assay.run.storage import StorageMixin, in_another_mode, too_fast

#: profile -> size of the file [B], and time of each of both directions [s].
SMOKE, FULL = (16 << 20, 1), (256 << 20, 30)

#: Size of an operation, in the words of fio and in B, and how many are on their way at once.
BLOCK, BYTES, DEPTH = "4k", 4096, 32

#: The rate of writing that the time limit assumes [B/s].
SLOW = 20e6

#: Job -> the direction that it measures.
MEASURED = {"read": "randread", "write": "randwrite"}


@rfm.simple_test
class Fio(StorageMixin, StrictCheck):
    """Rate and tail latency of random reads and writes of one node, past the page cache."""

    kind = "storage"
    proves = {"write": "write_rate", "read": "read_rate"}
    descr = "fio, random reads and writes of 4 KiB"
    tags = {"smoke", "storage"}
    valid_systems = ["+storage"]
    valid_prog_environs = ["+fio"]
    executable = "fio"
    o_direct = True
    declares = {
        **{f"{name}_rate": "op/s" for name in MEASURED},
        **{f"{name}_p99": "us" for name in MEASURED},
    }

    #: Size of the file in the full profile.
    bytes = variable(SIZE, value=FULL[0])

    @run_after("setup")
    def choose_sizes(self):
        self._bytes, self._seconds = SMOKE
        if self.profile == "full":
            self.not_in_memory(FULL[1])
            # Whole MiB, as the file is filled.
            self._bytes, self._seconds = max(self.size_of(self.bytes) >> 20, 1) << 20, FULL[1]
        self.time_limit = f"{int(600 + 2 * self._seconds + self._bytes / SLOW)}s"

    def room(self):
        return self._bytes

    def common(self):
        """Options of all jobs."""
        # A thread is in the session of the job, so the watch sees what it writes elsewhere.
        modes = {"direct": "1", "ioengine": "libaio", "thread": "1"}
        return {"filename": "file", "size": str(self._bytes), **modes}

    def jobs(self):
        """Job -> its own options."""
        random = {"bs": BLOCK, "iodepth": str(DEPTH), "runtime": str(self._seconds)}
        random |= {"stonewall": "1", "time_based": "1"}
        # Reads of a file that was never written do not reach the device.
        fill = {"rw": "write", "bs": "1m", "iodepth": "4", "end_fsync": "1"}
        return {"fill": fill, **{name: {"rw": rw, **random} for name, rw in MEASURED.items()}}

    @run_before("run")
    def command(self):
        # fio takes a colon in a name for the end of it: the name of the file has no directory.
        self.prerun_cmds.append('cd "$work" || exit 1')
        parts = [self.common(), *({"name": name, **own} for name, own in self.jobs().items())]
        self.executable_opts = [
            "--output-format=json",
            "--eta=never",
            *(f"--{key}={value}" for part in parts for key, value in part.items()),
        ]

    def read(self):
        return fio.parse_fio(self.stdout_text())

    def requested(self):
        return {"program": "fio"}

    def examine(self, parsed):
        problems = super().examine(parsed)
        files = self.record.proof.get("storage", {}).get("files", [])
        for written in (True, False):
            problems += in_another_mode(files, o_direct=True, o_sync=False, written=written)
        if parsed is None:
            return problems
        done = [(row["job"], row["operation"]) for row in parsed.rows]
        if parsed.complete and done != [("fill", "write"), ("read", "read"), ("write", "write")]:
            said = ", ".join(f"{operation} in job {job}" for job, operation in done)
            return [*problems, f"fio did {said}; fill, read and write were asked for"]
        for name, own in self.jobs().items():
            asked = {"name": name, **self.common(), **own}
            said = parsed.facts["options"].get(name, {})
            problems += [
                f"job {name}: {key} was {said.get(key)}, {asked.get(key)} was asked for"
                for key in sorted({*asked, *said})
                if said.get(key) != asked.get(key)
            ]
        for row in parsed.rows:
            if row["job"] == "fill" and row["moved"] != self._bytes:
                problems.append(f"{row['moved']} of {self._bytes} B of the file were written")
            # fio stops when the time is over; the clocks of its threads differ a little.
            if row["job"] in MEASURED and row["time"] < 0.99 * self._seconds:
                problems.append(
                    f"job {row['job']} ended after {row['time']:g} s, it was to take "
                    f"{self._seconds} s"
                )
        return problems + too_fast(parsed.rows, ["bandwidth"])

    def peaks(self, parsed):
        read = hardware_peaks(self, ["read_rate"], "disk.read", 1 / BYTES)
        return read | hardware_peaks(self, ["write_rate"], "disk.write", 1 / BYTES)

    def measure(self, parsed):
        return {
            **{f"{name}_rate": parsed.quantity("rate", job=name) for name in MEASURED},
            **{f"{name}_p99": parsed.quantity("p99", job=name) for name in MEASURED},
        }
