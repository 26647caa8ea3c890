"""What this machine has: programs, transports, memory, file systems.

For the sites that describe themselves (``local``). Everything is read from the programs and the
kernel; what is not there is left out, never guessed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from assay import provenance

#: Feature word of a stack -> names that its program has, in the order of preference.
PROGRAMS = {
    "mpi": ("mpirun",),
    "ucx": ("ucx_info",),
    "osu": ("osu_latency",),
    "netpipe": ("NPmpi", "NPopenmpi"),
    "ucx-perftest": ("ucx_perftest",),
    "hpcc": ("hpcc",),
    "hpl": ("xhpl",),
    "iozone": ("iozone",),
}

#: Feature word -> its program, where how that was built makes the word: no name on PATH shows it.
BUILDS = {"osu-cuda": "osu_latency", "ucx-stats": "ucx_info"}

#: Classes and subtypes under which BT-IO is built: ``bt.<class>.x.<subtype>``.
BTIO_CLASSES = ("S", "W", "A", "B", "C", "D", "E")
BTIO_SUBTYPES = {"simple": "mpi_io_simple", "full": "mpi_io_full", "epio": "ep_io"}


def programs() -> dict[str, str]:
    """The programs on PATH: feature word -> name of the program."""
    found = {}
    for word, names in PROGRAMS.items():
        for name in names:
            if shutil.which(name):
                found[word] = name
                break
    return found


def btio() -> tuple[list[str], list[str]]:
    """Classes and subtypes of BT-IO for which every combination is on PATH."""
    built = {
        (cls, sub)
        for cls in BTIO_CLASSES
        for sub, suffix in BTIO_SUBTYPES.items()
        if shutil.which(f"bt.{cls}.x.{suffix}")
    }
    subtypes = [s for s in BTIO_SUBTYPES if any(sub == s for _, sub in built)]
    classes = [c for c in BTIO_CLASSES if subtypes and all((c, s) in built for s in subtypes)]
    return classes, subtypes if classes else []


def _output(*command: str) -> str:
    """Standard output and error of a short command, empty where it cannot be run."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")


def openmpi_version() -> str | None:
    """Version of the Open MPI on PATH, None where mpirun is another MPI or missing."""
    match = re.search(r"\(Open MPI\) (\d+(?:\.\d+)+\S*)", _output("mpirun", "--version"))
    return match.group(1) if match else None


def ucx_version() -> str | None:
    """Version of the UCX on PATH, None where there is no ``ucx_info``."""
    match = re.search(
        r"(?:Library version:|UCT version=|Version) *(\d+\.\d+\.\d+)", _output("ucx_info", "-v")
    )
    return match.group(1) if match else None


def osu_version() -> str | None:
    """Version of the OSU Micro-Benchmarks on PATH, None where there are none."""
    match = re.search(r"v?(\d+\.\d+(?:\.\d+)?)", _output("osu_latency", "--version"))
    return match.group(1) if match else None


def ucx_transports() -> list[str]:
    """Transports that UCX could open here (``ucx_info -d``), each once, in UCX's order."""
    return transports(_output("ucx_info", "-d"))


def transports(listing: str) -> list[str]:
    """The transports in an output of ``ucx_info -d``, likewise."""
    return list(dict.fromkeys(re.findall(r"Transport: (\S+)", listing)))


def memory_bytes() -> int:
    """Memory of this node [B]: the physical one, or what the control group leaves of it."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [physical]
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        path = Path("/sys/fs/cgroup") / name
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            limits.append(int(text))
    return min(limits)


def clock_hz() -> float | None:
    """Nominal clock of a core [Hz]: the name's, or the base frequency; None where neither is known.

    What the kernel calls ``cpu MHz`` is the clock of this moment, but in a virtual machine, which
    is not told any other, the nominal one.
    """
    info = provenance.read("/proc/cpuinfo") or ""
    if match := re.search(r"^model name\s*:.* @ ([\d.]+)GHz", info, re.MULTILINE):
        return float(match[1]) * 1e9
    base = provenance.read("/sys/devices/system/cpu/cpu0/cpufreq/base_frequency")
    if base and base.isdigit():
        return float(base) * 1e3
    virtual = re.search(r"^flags\s*:.*\bhypervisor\b", info, re.MULTILINE)
    clock = re.search(r"^cpu MHz\s*:\s*([\d.]+)", info, re.MULTILINE)
    return float(clock[1]) * 1e6 if virtual and clock else None


def usable_cpus() -> int:
    """Processors that this process may run on."""
    return len(os.sched_getaffinity(0))


def file_system(directory: Path) -> str:
    """Type of the file system that holds `directory`, as the kernel names it."""
    return provenance.file_system(str(directory))["type"] or "unknown"
