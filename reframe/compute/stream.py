"""STREAM: the memory bandwidth of one node, with a thread on each core."""

from pathlib import Path

import reframe as rfm
from reframe.core.builtins import run_after, run_before

from assay.parse import stream
from assay.run import StrictCheck

#: A shell line that prints each cache of the node once: level, size [KiB], its processors.
CACHES = (
    "for cache in /sys/devices/system/cpu/cpu[0-9]*/cache/index[0-9]*; do "
    'echo $(cat "$cache/level" "$cache/size" "$cache/shared_cpu_list"); '
    "done 2>/dev/null | sort -u >caches.txt"
)

#: Each array must be so many times as large as all caches of the last level (STREAM's own rule).
TIMES_THE_CACHE = 4


def last_level(text):
    """The sum of the caches of the last level [B]; 0 if the kernel shows none."""
    found = [line.split() for line in text.splitlines()]
    caches = [(int(cache[0]), int(cache[1].rstrip("K"))) for cache in found if len(cache) == 3]
    last = max((level for level, _ in caches), default=0)
    return sum(size for level, size in caches if level == last) * 1024


@rfm.simple_test
class Stream(StrictCheck):
    """Memory bandwidth of one node."""

    kind = "compute"
    descr = "STREAM, memory bandwidth of one node"
    tags = {"smoke", "compute"}
    valid_systems = ["+intra-node"]
    valid_prog_environs = ["+stream"]
    executable = "stream_c.exe"
    time_limit = "10m"
    keep_files = ["caches.txt"]
    declares = {name.lower(): "MB/s" for name in ("Copy", "Scale", "Add", "Triad")}

    @run_after("setup")
    def a_thread_on_each_core(self):
        self.num_cpus_per_task = self._cores_of_a_node()
        self.env_vars = {
            "OMP_NUM_THREADS": self.num_cpus_per_task,
            "OMP_PLACES": "cores",
            "OMP_PROC_BIND": "spread",
        }

    @run_before("run")
    def read_the_caches(self):
        self.prerun_cmds.append(CACHES)

    def read(self):
        return stream.parse(self.stdout_text())

    def requested(self):
        return {"program": "stream", "threads": self.num_cpus_per_task}

    def examine(self, parsed):
        problems = super().examine(parsed)
        caches = last_level(Path("caches.txt").read_text())
        if parsed is not None and "array" in parsed.facts:
            array = parsed.facts["array"] * parsed.facts.get("element", 8)
            if array < TIMES_THE_CACHE * caches:
                problems.append(
                    f"an array has {array >> 20} MiB, the caches of the last level have "
                    f"{caches >> 20} MiB: the caches were measured; build STREAM with "
                    f"-DSTREAM_ARRAY_SIZE={TIMES_THE_CACHE * caches // 8} or more"
                )
        return problems

    def measure(self, parsed):
        return {name: parsed.quantity("rate", function=name.capitalize()) for name in self.declares}
