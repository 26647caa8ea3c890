"""Processor time that other work takes on a shared machine during a launch.

Load averages lag behind, and they also count processes that wait for a disk. This module compares
the processor time used on the whole machine with our own. Interrupts do not count, because the
benchmark causes them, too. Time that a hypervisor gave to other machines counts. Kernel threads
count as ours if single processes are read. A control group does not contain them, so they count as
other work there.

The extra ``others`` of a partition states what is ours. ``processes`` means the job's own
processes: the machine of a person, who does other work on it. Any other value is a file with the
processor time of a control group that holds everything of ours. Without the extra, other work is
not an excuse: on the nodes of a cluster it is a fault of the node.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

import assay.node

#: Value of the extra ``others`` if no control group holds everything of ours.
PROCESSES = "processes"

#: Shortest launch that is examined [s]. In a shorter one the kernel's clock of 10 ms is too coarse.
SHORTEST = 0.1

#: Name of the shell function that prints a reading in the job script.
COMMAND = "assay_processors"

#: What computes a reading, in the job script.
PROGRAM = Path(assay.node.__file__).with_name("processors.awk").read_text(encoding="utf-8")

_READING = re.compile(r"at=([\d.]+) cores=(\d+) used=([\d.]+) stolen=([\d.]+) ours=([\d.]+)")


def script(ours: str) -> list[str]:
    """Lines that define :data:`COMMAND` in a job script.

    :param ours: the extra ``others`` of the partition.
    """
    files = "/proc/[0-9]*/stat" if ours == PROCESSES else f"'{ours}'"
    return [
        f"{COMMAND}() {{",
        # A process that ends between the listing and the reading is not an error.
        f"cat /proc/uptime /proc/stat {files} 2>/dev/null |",
        f"""awk -v shell=$$ -v hz="$(getconf CLK_TCK)" '{PROGRAM}'""",
        "}",
    ]


@dataclass(frozen=True)
class Reading:
    """The state of the machine at one moment; all times are in seconds of one processor.

    :ivar at: time of the reading, on a clock with an arbitrary origin [s].
    :ivar used: time used by processes, and by other machines on the same host.
    :ivar stolen: time used by these other machines alone.
    :ivar ours: time used by our processes, and by the kernel's threads as far as they are visible.
    """

    at: float
    cores: int
    used: float
    stolen: float
    ours: float

    @classmethod
    def parse(cls, line: str) -> Reading | None:
        """Parses the output of :data:`COMMAND`; None if the command found no times."""
        match = _READING.fullmatch(line.strip())
        if match is None or not int(match[2]):
            return None
        return cls(float(match[1]), int(match[2]), *map(float, match.group(3, 4, 5)))


class Others(msgspec.Struct, frozen=True):
    """Processors that other work took during some time.

    :ivar processors: average number; 1.5 means one and a half processors all the time.
    :ivar stolen: the part of that number that a hypervisor gave to other machines.
    :ivar ours: processors that our own processes used meanwhile.
    """

    processors: float
    cores: int
    stolen: float = 0.0
    ours: float = 0.0

    def __str__(self) -> str:
        stolen = f", {self.stolen:.1f} of them other machines" if self.stolen >= 0.05 else ""
        return f"{self.processors:.1f} of {self.cores} cores{stolen}"


def between(before: Reading | None, behind: Reading | None) -> Others | None:
    """Other work between two readings; None if it cannot be determined."""
    if before is None or behind is None or behind.at - before.at < SHORTEST:
        return None
    seconds = behind.at - before.at
    ours = behind.ours - before.ours
    others = (behind.used - before.used) - ours
    stolen = behind.stolen - before.stolen
    processors, taken, own = (max(time, 0.0) / seconds for time in (others, stolen, ours))
    return Others(processors, behind.cores, taken, own)


@cache
def limit(site: Path) -> float:
    """The number of processors that other work may take, ``other_work`` in ``tolerances.yaml``.

    :param site: folder of the site, whose own file of this name overrides it.
    :raises reframe.core.exceptions.ConfigError: a file is not valid.
    """
    # A certificate is also checked on machines without ReFrame.
    from reframe.core.exceptions import ConfigError  # noqa: PLC0415

    from assay.tolerances import tolerances_of  # noqa: PLC0415 - only where others work, too

    return tolerances_of(site, ConfigError).other_work
