"""Limits of one machine: a control group for each, in hierarchies of version 1 or 2.

The part for version 2 was written from the kernel's documentation
(Documentation/admin-guide/cgroup-v2.rst) and has not been run yet. It needs its controllers in the
root group.
"""

import contextlib
import errno
import os
import time
from pathlib import Path

from layout import NAME, Refusal

ROOT = Path("/sys/fs/cgroup")

#: Version 1: controllers in which a machine gets a group. Jobs do not need the kernel's others.
CONTROLLERS = ("cpu", "cpuacct", "memory", "blkio", "freezer", "pids")

#: Weight of the whole cluster against the rest of the host: a measurement must not wait for a
#: compiler. 262144 and 10000 are the largest values that the kernel allows.
SHARES, WEIGHT = 262144, 10000

PERIOD_US = 100_000


def unified():
    """Whether the host has version 2 only."""
    return (ROOT / "cgroup.controllers").is_file()


def hierarchies():
    """Directories below which groups are made: one for each controller, or the unified one."""
    if unified():
        return [ROOT]
    found = [ROOT / name for name in CONTROLLERS if (ROOT / name / "cgroup.procs").is_file()]
    if ROOT / "cpu" not in found:
        raise Refusal(f"{ROOT} has no controller cpu; mount the cgroup hierarchies first")
    return found


def groups(name=None):
    """The groups of a machine, or of the whole cluster."""
    return [top / NAME / (name or "") for top in hierarchies()]


def _group(controller, name):
    return (ROOT if unified() else ROOT / controller) / NAME / name


def create(names):
    """Makes groups for all machines. Their weight keeps other work away from them."""
    for top in hierarchies():
        (top / NAME).mkdir(exist_ok=True)
        if unified():
            for parent in (top, top / NAME):
                wanted = "+cpu +memory +io +pids"
                (parent / "cgroup.subtree_control").write_text(wanted)
        for name in names:
            (top / NAME / name).mkdir(exist_ok=True)
    if unified():
        (ROOT / NAME / "cpu.weight").write_text(str(WEIGHT))
    else:
        (ROOT / "cpu" / NAME / "cpu.shares").write_text(str(SHARES))


def enter(name):
    """Moves the calling process into a machine's groups."""
    for group in groups(name):
        (group / "cgroup.procs").write_text(str(os.getpid()))


def account():
    """The directory where the processor time of the whole cluster is counted."""
    return ROOT / NAME if unified() else ROOT / "cpuacct" / NAME


def count():
    """Counts the calling process, which stays outside of the machines, as part of the cluster."""
    # If the hierarchy also limits processors, the group may refuse a real-time process.
    with contextlib.suppress(OSError):
        (account() / "login" / "cgroup.procs").write_text(str(os.getpid()))


def remove():
    """Removes all groups. Their processes must be gone or about to end."""
    end = time.monotonic() + 10
    for top in hierarchies():
        while (top / NAME).exists():
            try:
                for folder, _, _ in os.walk(top / NAME, topdown=False):
                    Path(folder).rmdir()
            except OSError as error:
                if error.errno not in (errno.EBUSY, errno.ENOTEMPTY) or time.monotonic() > end:
                    raise Refusal(f"{top / NAME}: cannot be removed: {error.strerror}") from None
                time.sleep(0.05)


def limit_cpu(name, percent):
    """Processor time of a machine, in percent of one core; None for no limit."""
    quota = None if percent is None else int(PERIOD_US * percent / 100)
    if unified():
        _group("cpu", name).joinpath("cpu.max").write_text(f"{quota or 'max'} {PERIOD_US}")
    else:
        group = _group("cpu", name)
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(quota or -1))


def limit_memory(name, mib):
    """Memory of a machine [MiB]; None for no limit."""
    file, none = ("memory.max", "max") if unified() else ("memory.limit_in_bytes", "-1")
    (_group("memory", name) / file).write_text(none if mib is None else str(mib << 20))


def limit_disk(name, device, mb_per_s):
    """Rate at which a machine reads and writes a device `major:minor` [MB/s]; None for no limit."""
    rate = 0 if mb_per_s is None else int(mb_per_s * 1e6)
    if unified():
        words = f"rbps={rate or 'max'} wbps={rate or 'max'}"
        _group("io", name).joinpath("io.max").write_text(f"{device} {words}")
    else:
        for kind in ("read", "write"):
            file = f"blkio.throttle.{kind}_bps_device"
            _group("blkio", name).joinpath(file).write_text(f"{device} {rate}")
