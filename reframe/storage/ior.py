"""IOR by the rules of IO500: all ranks write for a time, then read what another node wrote.

Tests:     Ior
Cases:     pattern easy, hard
Runs:      ior -f "$assay_stage"/<script>
Where:     +storage
Stacks:    +ior
Proves:    exit code 0 and a complete output; the file system, and how the file was open; one
           world of the ranks asked for; a pass clears write and read
Judged by: references of write [MiB/s], read [MiB/s]; the peak of each
Takes:     at most 120 min for a launch; in the smoke profile: 2 of 2 cases

`easy` is the pattern that a file system likes: a file for each rank, in transfers of 2 MiB. `hard`
is one file for all ranks, in turns of 47008 bytes.
"""

from pathlib import Path

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before, variable

from assay.opinions import io500
from assay.opinions.io500_check import Io500Check
from assay.opinions.parse import ior
from assay.quantities import number, size
from assay.run.options import SIZE
from assay.run.storage import FASTEST, disk_peaks, from_memory
from assay.workloads.sizing import SizingError

#: File with the phases, in the stage directory.
SCRIPT = "phases.ior"


@rfm.simple_test
class Ior(Io500Check):
    """Rate at which all nodes that share a directory write into it, and read from it."""

    pattern = parameter(io500.PATTERNS)

    #: The most that the ranks of a node write in the full profile.
    bytes = variable(SIZE, value="4x-memory")

    executable = "ior"
    proves = {"write": "write", "read": "read"}
    declares = {"write": "MiB/s", "read": "MiB/s"}

    @run_after("setup")
    def choose_sizes(self):
        if self.profile == "smoke":
            least = self._layout.per_node * io500.TRANSFER[self.pattern]
            self._bytes = max(io500.SMOKE_BYTES, least)
        else:
            self._bytes = self.size_of(self.bytes)
        try:
            self._block, self._segments = io500.block(
                self.pattern, self._bytes, self._layout.per_node
            )
        except SizingError as error:
            self.leave_out(error.kind, True, str(error))

    def room(self):
        return self._layout.ranks * self._block * self._segments

    def largest_file(self):
        return self.room() // (self._layout.ranks if self.pattern == io500.EASY else 1)

    @run_before("run")
    def command(self):
        lines = io500.phases_of_ior(self.pattern, self._seconds, self._block, self._segments)
        (Path(self.stagedir) / SCRIPT).write_text("\n".join([*lines, ""]), encoding="utf-8")
        self.executable_opts = ["-f", f'"$assay_stage"/{SCRIPT}']
        self.keep_files.append(SCRIPT)

    def read(self):
        return ior.parse_ior(self.stdout_text())

    def requested(self):
        return {"program": "ior", "nodes": self._layout.nodes}

    def settings(self):
        """What each phase must repeat."""
        return {
            "api": "POSIX",
            "ranks_per_node": self._layout.per_node,
            "file_per_rank": int(self.pattern == io500.EASY),
            "transfer": io500.TRANSFER[self.pattern],
            "block": self._block,
            "segments": self._segments,
            "shifted": 1,
            "shift": 1,
        }

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed is None:
            return problems
        # A repetition would be a row more, and which one counts would be chance.
        did = [row["operation"] for row in parsed.rows]
        if did != ["write", "read"]:
            return [*problems, f"IOR did {', '.join(did) or 'nothing'}, not write and read"]
        done = dict(zip(did, parsed.rows))
        problems += [
            f"{operation}: {name} was {row[name]}, {asked} was asked for"
            for operation, row in done.items()
            for name, asked in self.settings().items()
            if row[name] != asked
        ]
        written, read = (done[name]["moved"] for name in ("write", "read"))
        if written != read:
            problems.append(f"{read} bytes were read of the {written} bytes that were written")
        took = done["write"]["limited_after"]
        self.record.proof["rule"] = {"seconds": self._seconds, "written_for": took}
        fastest = FASTEST / 1024 * self._layout.nodes
        problems += [
            f"{name}: {number(row['bandwidth'], 3)} MiB/s: the memory of {self._layout.nodes} "
            f"nodes carries at most {number(fastest, 3)}"
            for name, row in done.items()
            if row["bandwidth"] > fastest
        ]
        return problems

    def from_memory(self, parsed):
        """Why the reads say nothing of the file system; empty where another node had written."""
        if self._layout.nodes > 1:
            return ""
        rate = parsed.at("bandwidth", operation="read") * 2**20 / self._layout.per_node
        return from_memory(rate, self.record.proof["storage"]["memory_copy_bytes_per_s"])

    def unjudged(self, parsed):
        if self.profile == "smoke":
            why = self.from_memory(parsed)
            return {"read": why} if why else {}
        took = parsed.at("limited_after", operation="write")
        if took >= self._seconds:
            return {}
        # A fast file system is no fault of it; IO500 would not count the run.
        written = parsed.at("moved", operation="write")
        needed = written / max(took, 1e-3) * self._seconds * 1.5 / self._layout.nodes
        why = (
            f"the ranks wrote all {size(written)} in {took:.1f} s, and the rule is "
            f"{self._seconds} s: set the option Ior.bytes to {needed:.0f} or more"
        )
        return dict.fromkeys(self.declares, why)

    def missed(self):
        why = self.from_memory(self._parsed) if self.profile == "full" else ""
        more = "; set the option Ior.bytes so that they exceed the memory of the node"
        return super().missed() or (why and why + more)

    def peaks(self, parsed):
        return disk_peaks(self, ["write"], ["read"], cached=True)

    def measure(self, parsed):
        return {name: parsed.quantity("bandwidth", operation=name) for name in self.declares}
