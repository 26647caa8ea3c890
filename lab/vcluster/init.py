#!/usr/bin/env python3
"""First process of an emulated machine: makes its world, starts its daemons, reaps its orphans.

``init.py NAME`` runs as root in new network, host name, process, mount and IPC namespaces.
"""

import contextlib
import os
import shutil
import signal
import socket
import sys
import time
import uuid
from pathlib import Path

import accounting
import cgroups
import clock
import etc
import gluster
import kinds
import machine
import munge
import slurm
from commands import daemon, run
from layout import ACCOUNT, CHECKOUT, DISK_MIB, NAME, SCRATCH, STATE, Cluster

#: How often a machine looks for packages that were installed on the host [s].
FOLLOW_S = 5


def mount(*words):
    run("mount", *words)


def covered(path):
    """The topmost directory that hides `path` from an ordinary user, or None."""
    for parent in reversed(path.parents):
        if not parent.stat().st_mode & 0o001:
            return parent
    return None


def show(paths):
    """Gives the machine a /tmp of its own, and ordinary users a way to `paths`.

    Other users cannot pass through a directory such as /root. It is covered by an empty directory
    that they can pass, with only the needed paths in it.
    """
    paths = sorted({path.resolve() for path in paths if path.exists()})
    paths = [p for p in paths if not any(other in p.parents for other in paths)]
    covers = {Path("/tmp")}  # noqa: S108 - the machine's own
    covers |= {cover for cover in map(covered, paths) if cover is not None}
    covers = [c for c in covers if not any(other in c.parents for other in covers)]
    hidden = [p for p in paths if any(cover in p.parents for cover in covers)]

    keep = Path("/dev/shm/keep")  # noqa: S108 - the machine's own, and empty again below
    for number, path in enumerate(hidden):
        (keep / str(number)).mkdir(parents=True)
        mount("--rbind", path, keep / str(number))
    for cover in covers:
        mode = "1777" if str(cover) == "/tmp" else "755"  # noqa: S108
        mount("-t", "tmpfs", "-o", f"mode={mode}", NAME, cover)
    for number, path in enumerate(hidden):
        path.mkdir(parents=True)
        mount("--move", keep / str(number), path)
    shutil.rmtree(keep, ignore_errors=True)


def make_world(name, cluster):
    """Makes the machine's own mounts. All of them vanish with its last process."""
    socket.sethostname(name)
    mount("--make-rprivate", "/")
    host = STATE / "run/etc"
    host.mkdir(exist_ok=True)  # the machine may boot a second time
    mount("--rbind", "/etc", host)
    mount("-t", "tmpfs", "-o", "mode=755", NAME, "/etc")
    etc.fill(Path("/etc"), STATE / "etc", host)
    mount("-t", "tmpfs", "-o", "mode=1777", NAME, "/dev/shm")  # noqa: S108
    # The interpreter of an environment is where the Python that made the environment is.
    python = (CHECKOUT / ".venv/bin/python").resolve().parents[1]
    needed = [STATE, CHECKOUT, python, *map(Path, cluster.expose)]
    if cluster.kernel:
        needed += [Path(cluster.kernel), Path(sys.executable).resolve().parents[1]]
    show(needed)

    # A container that a user starts mounts a /proc of its own. The kernel allows that only if the
    # machine has one of which nothing is covered, and the next lines cover a file of /proc.
    whole = STATE / "run" / f"proc.{name}"
    whole.mkdir(exist_ok=True)
    mount("-t", "proc", NAME, whole)
    # By this number UCX knows whether two processes are on one machine (cuda_ipc).
    boot = STATE / "run" / f"boot_id.{name}"
    boot.write_text(f"{uuid.uuid4()}\n")
    mount("--bind", boot, "/proc/sys/kernel/random/boot_id")

    # The machine's own network devices, and its own control groups only.
    tops = {group: str(group.parents[1]) for group in cgroups.groups(name)}
    keep = STATE / "run" / f"cgroups.{name}"
    for number, group in enumerate(tops):
        (keep / str(number)).mkdir(parents=True, exist_ok=True)
        mount("--bind", group, keep / str(number))
    # Jobs read here what the whole cluster takes of the host.
    mount("--bind", cgroups.account(), ACCOUNT)
    mount("-o", "remount,bind,ro", ACCOUNT)
    mount("-t", "sysfs", "-o", "ro", NAME, "/sys")
    if not cgroups.unified():
        mount("-t", "tmpfs", "-o", "mode=755", NAME, "/sys/fs/cgroup")
    for number, top in enumerate(tops.values()):
        Path(top).mkdir(exist_ok=True)
        mount("--move", keep / str(number), top)

    if name != "login":
        make_disk(name)


def make_disk(name):
    """A file system for this node alone: XFS on a file. `mount` frees the loop device by itself."""
    image = STATE / "disks" / f"{name}.xfs"
    if not image.exists():
        with image.open("wb") as file:
            file.truncate(DISK_MIB << 20)
        run("mkfs.xfs", "-q", image)
    mount("-o", "loop,nodev,nosuid", image, SCRATCH)
    SCRATCH.chmod(0o1777)


def start_daemons(name, cluster):
    """Starts slurmd on a node, or on the login machine munged, slurmctld and perhaps a database.

    Returns the process with which the machine ends: a kernel of its own; None if there is none.
    """
    if cluster.has_kernel(name):
        kernel = kinds.KINDS[cluster.machines].start(cluster, name)
        clock.match(cluster.number(name), name)
        return kernel
    if name != "login":
        if cluster.shared:
            gluster.serve(name)
        slurm.start_slurmd(name)
        return None
    munge.start()
    if cluster.accounting:
        accounting.start()
    daemon(["slurmctld", "-D"], log="slurmctld.out")
    return None


def reap(kernel):
    """Collects orphans for ever. If a daemon dies, its machine stays up, as on a real cluster.

    :param kernel: the process with which the machine ends, or None.

    From time to time it looks for packages that were added to the host or removed from it.
    """
    host = STATE / "run/etc"

    def follow(*_):
        with contextlib.suppress(OSError):  # the host may be changing it now; try next time
            etc.follow(Path("/etc"), host)

    signal.signal(signal.SIGALRM, follow)
    signal.setitimer(signal.ITIMER_REAL, FOLLOW_S, FOLLOW_S)
    while True:
        try:
            pid, _ = os.waitpid(-1, 0)
            if kernel and pid == kernel.pid:
                return
        except ChildProcessError:
            time.sleep(0.2)


def main(name):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    cluster = Cluster.load()
    make_world(name, cluster)
    kernel = start_daemons(name, cluster)
    machine.ready(name).touch()
    reap(kernel)


if __name__ == "__main__":
    main(*sys.argv[1:])
