"""What this machine has: programs, transports, memory, file systems.

For the sites that describe themselves (``local``). Everything is read from the programs and the
kernel; what is not there is left out, never guessed.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay import catalogue
from assay.catalogue import BTIO_CLASSES, BTIO_SUBTYPES, PROGRAMS
from assay.onnode import provenance

#: How long a program may take to say what it is [s].
LIMIT = 30


def programs(has: Callable[[str], object] = shutil.which) -> dict[str, str]:
    """The programs that are there: feature word -> name of the program.

    :param has: whether there is a program of a name; by default on PATH.
    """
    found = {}
    for word, program in PROGRAMS.items():
        if program.detected and (name := next(filter(has, program.executables), None)):
            found[word] = name
    return found


def btio(has: Callable[[str], object] = shutil.which) -> tuple[list[str], list[str]]:
    """Classes and subtypes of BT-IO for which every combination is there."""
    built = {
        (cls, sub) for cls in BTIO_CLASSES for sub in BTIO_SUBTYPES if has(catalogue.btio(cls, sub))
    }
    subtypes = [s for s in BTIO_SUBTYPES if any(sub == s for _, sub in built)]
    classes = [c for c in BTIO_CLASSES if subtypes and all((c, s) in built for s in subtypes)]
    return classes, subtypes if classes else []


def output(*command: str) -> str:
    """Standard output and error of a short command, empty where it cannot be run.

    Of one that hangs a warning names it, for its silence would be taken for an absence.
    """
    asked = command[0] in provenance.hung
    try:
        code, said = provenance.bounded(list(command), LIMIT)
    except OSError:
        return ""
    if code is None and not asked:
        what = f"{provenance.hung[command[0]]}; what it would have said is missing"
        print(f"assay: {what}", file=sys.stderr)
    return str(said.decode(errors="replace"))


def version(extra: str, said: Callable[..., str] = output) -> str | None:
    """The version that an extra of a stack holds, None where the program's answer has none.

    :param said: what a command prints; by default the one on PATH.
    """
    asked = catalogue.VERSIONS[extra]
    match = re.search(asked.pattern, said(*asked.command))
    return match[1] if match else None


def ucx_version() -> str | None:
    """Version of the UCX on PATH, None where there is no ``ucx_info``."""
    return version("ucx_version")


def described(
    programs: Mapping[str, str],
    btio: tuple[Sequence[str], Sequence[str]],
    said: Callable[..., str] = output,
) -> tuple[list[str], dict[str, Any]]:
    """Features and extras of a stack that has these programs.

    :param programs: as :func:`programs` finds them.
    :param btio: as :func:`btio` finds it.
    :param said: see :func:`version`.
    """
    features = list(programs)
    extras: dict[str, Any] = {}
    for word in programs:
        asked = PROGRAMS[word].version
        if asked and (found := version(asked.extra, said)):
            extras[asked.extra] = found
    if "netpipe" in programs:
        extras["netpipe_command"] = programs["netpipe"]
    # What this machine has no driver for, UCX does not list.
    if "ucx" in programs and "cuda_copy" in transports(said("ucx_info", "-d")):
        features.append("ucx-cuda")
    classes, subtypes = btio
    if classes:
        features.append("btio")
        extras.update(btio_classes=classes, btio_subtypes=subtypes)
    return features, extras


def ucx_transports() -> list[str]:
    """Transports that UCX could open here (``ucx_info -d``), each once, in UCX's order."""
    return transports(output("ucx_info", "-d"))


def transports(listing: str) -> list[str]:
    """The transports in an output of ``ucx_info -d``, likewise."""
    return list(dict.fromkeys(re.findall(r"Transport: (\S+)", listing)))


def release(said: str | None = None) -> str:
    """The distribution and its release, such as ``debian 12``; ``an unknown distribution``.

    :param said: by default the text of ``/etc/os-release``.
    """
    text = provenance.read("/etc/os-release") if said is None else said
    words = dict(re.findall(r"^(ID|VERSION_ID)=['\"]?([^'\"\n]*)", text or "", re.MULTILINE))
    named = f"{words.get('ID', '')} {words.get('VERSION_ID', '')}".strip()
    return named or "an unknown distribution"


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
