"""STREAM and BabelStream: the memory bandwidth of one node, with a thread on each core.

Tests:     Stream, BabelStream
Runs:      stream_c.exe; omp-stream -s "$elements" -n <repetitions>
Where:     +intra-node
Stacks:    +stream, or +babelstream-omp
Proves:    exit code 0 and a complete output; a pass clears memory
Judged by: references of copy [MB/s], scale [MB/s], add [MB/s], triad [MB/s], copy_per_triad [1],
           and 2 more; the peak of each
Takes:     at most 10 min for a launch; in the smoke profile: 2 of 2 cases
"""

import re
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import run_after, run_before

from assay.parse import babelstream, stream
from assay.quantities import number
from assay.run import StrictCheck
from assay.run.site import hardware_peaks
from assay.run.storage import FASTEST
from assay.run.ucx import text

#: A shell line that prints each cache of the node once: level, size [KiB], its processors.
CACHES = (
    "for cache in /sys/devices/system/cpu/cpu[0-9]*/cache/index[0-9]*; do "
    'echo $(cat "$cache/level" "$cache/size" "$cache/shared_cpu_list"); '
    "done 2>/dev/null | sort -u >caches.txt"
)

#: Each array must be so many times as large as all caches of the last level (STREAM's own rule).
TIMES_THE_CACHE = 4

#: What BabelStream takes by default [elements of 8 B], and at least here.
ELEMENTS = 1 << 25

#: A shell line that chooses the elements of an array by the caches.
CHOOSE = (
    "elements=$(awk '$1 > top { top = $1; sum = 0 } $1 == top { sum += $2 } "
    f"END {{ n = sum * {1024 * TIMES_THE_CACHE // 8}; if (n < {ELEMENTS}) n = {ELEMENTS}; "
    """printf "%.0f", n }' caches.txt)"""
)

#: More than a core moves by the count of STREAM [MB/s]: it stores at most 64 B in a cycle, at 7 GHz
#: 448 GB/s, and Triad counts three times what it stores.
FASTEST_CORE = 1.344e6

#: What the runtime of OpenMP says of each thread, in a format of ours.
THREAD = re.compile(r"assay: thread \d+ of (\d+) on (\S+)")


def last_level(text):
    """The sum of the caches of the last level [B]; 0 if the kernel shows none."""
    found = [line.split() for line in text.splitlines()]
    caches = [(int(cache[0]), int(cache[1].rstrip("K"))) for cache in found if len(cache) == 3]
    last = max((level for level, _ in caches), default=0)
    return sum(size for level, size in caches if level == last) * 1024


class ThreadsOnCores(StrictCheck):
    """A program whose threads have a core each, as the runtime of OpenMP reports."""

    kind = "compute"
    tags = {"smoke", "compute"}
    valid_systems = ["+intra-node"]
    time_limit = "10m"
    keep_files = ["caches.txt"]
    column = "rate"

    @run_after("setup")
    def a_thread_on_each_core(self):
        self.num_cpus_per_task = self._cores_of_a_node()
        self.env_vars = {
            "OMP_NUM_THREADS": self.num_cpus_per_task,
            "OMP_PLACES": "cores",
            "OMP_PROC_BIND": "spread",
            "OMP_DISPLAY_AFFINITY": "true",
            "OMP_AFFINITY_FORMAT": '"assay: thread %n of %N on %A"',
        }

    @run_before("run")
    def read_the_caches(self):
        self.prerun_cmds.append(CACHES)

    def peaks(self, parsed):
        return hardware_peaks(self, self.declares, "memory.bandwidth")

    @property
    def least(self):
        """The bytes that an array must have to be beyond the caches."""
        return TIMES_THE_CACHE * last_level(text(Path("caches.txt")))

    def examine(self, parsed):
        threads = THREAD.findall(text(self.stderr) + self.stdout_text())
        wanted, places = self.num_cpus_per_task, {place for _, place in threads}
        self.record.proof = {"threads": sorted(places), "least_array": self.least}
        problems = super().examine(parsed)
        if {number for number, _ in threads} != {str(wanted)} or len(places) != wanted:
            where = ", ".join(sorted(places)) or "no processor that it names"
            problems.append(
                f"OpenMP ran on {where}; {wanted} threads, each on its core, were asked for"
            )
        rate = max((parsed.cells(self.column) if parsed else ()), default=0.0)
        fastest = min(FASTEST_CORE * wanted, FASTEST * 1024 / 1e6)
        if rate > fastest:
            problems.append(f"{number(rate)} MB/s: {wanted} cores move at most {number(fastest)}")
        return problems


@rfm.simple_test
class Stream(ThreadsOnCores):
    """Memory bandwidth of one node."""

    descr = "STREAM, memory bandwidth of one node"
    valid_prog_environs = ["+stream"]
    executable = "stream_c.exe"
    proves = {"memory": "copy"}
    rates = ("copy", "scale", "add", "triad")
    declares = {**dict.fromkeys(rates, "MB/s"), "copy_per_triad": "1"}

    def read(self):
        return stream.parse_stream(self.stdout_text())

    def requested(self):
        return {"program": "stream", "threads": self.num_cpus_per_task}

    def examine(self, parsed):
        problems = super().examine(parsed)
        if parsed is not None and "array" in parsed.facts:
            array = parsed.facts["array"] * parsed.facts.get("element", 8)
            if array < self.least:
                problems.append(
                    f"an array has {array >> 20} MiB, and must have {self.least >> 20} MiB, so "
                    "that the caches do not hold it: build STREAM with -DSTREAM_ARRAY_SIZE="
                    f"{self.least // 8} or more"
                )
        return problems

    def measure(self, parsed):
        rates = {n: parsed.quantity("rate", function=n.capitalize()) for n in self.rates}
        return {**rates, "copy_per_triad": rates["copy"].value / rates["triad"].value}


@rfm.simple_test
class BabelStream(ThreadsOnCores):
    """The same by another program, and the rate of reading alone (Dot).

    The arrays are as large as the caches of the node demand, so the program needs no other build.
    """

    descr = "BabelStream with OpenMP, memory bandwidth of one node"
    valid_prog_environs = ["+babelstream-omp"]
    executable = "omp-stream"
    column = "bandwidth"
    proves = {"memory": "copy"}
    declares = {name.lower(): "MB/s" for name in babelstream.KERNELS if name != "Nstream"}

    @run_before("run")
    def command(self):
        self.repetitions = {"smoke": 10, "full": 100}[self.profile]
        self.prerun_cmds.append(CHOOSE)
        self.executable_opts = ["-s", '"$elements"', "-n", str(self.repetitions)]

    def read(self):
        return babelstream.parse_babelstream(self.stdout_text())

    def requested(self):
        asked = {"program": babelstream.PROGRAM, "implementation": "OpenMP"}
        return {**asked, "repetitions": self.repetitions, "precision": "double"}

    def examine(self, parsed):
        problems = super().examine(parsed)
        array = max(8 * ELEMENTS, self.least)
        said = parsed.facts.get("array", 0) if parsed else array
        if abs(said - array) > 1e5:  # the program says tenths of a MB
            problems.append(
                f"an array has {said / 1e6:.1f} MB, {array / 1e6:.1f} MB were asked for"
            )
        return problems

    def measure(self, parsed):
        return {
            name: parsed.quantity("bandwidth", kernel=name.capitalize()) for name in self.declares
        }
