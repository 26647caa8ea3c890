"""What nodes with a kernel of their own have in common (uml.py, vm.py).

The kernel is a process of the node's machine. It reads and writes the files that this machine sees
as the user who runs jobs: what this user may not write, nobody on the node may. In the kernel,
kernel_init.py is the first process.
"""

import os
import shutil
import stat
from pathlib import Path

import munge
from commands import daemon, run, wait
from layout import STATE, Refusal

#: Packets that wait for a node; the tap's own limit is 500.
QUEUE = 8192

#: How long a node may take to start, on a busy host [s]; longer if the cluster is slow.
BOOT_S = 60

#: The machine's own directory, in memory: here the kernel keeps its memory and its names.
SHM = Path("/dev/shm")  # noqa: S108

#: What the host says of its processors: User-Mode Linux does not say how fast their clock is.
CPUS = SHM / "cpuinfo"

#: The key of munge, which an ordinary user cannot read in its place; and the file into which the
#: kernel's first process writes once the node is ready.
KEY, READY = SHM / "munge.key", SHM / "ready"


def start(cluster, name, words):
    """Starts the kernel of a node, in its machine. Returns the process once the node is ready.

    :param words: the command line of the kernel.
    :raises Refusal: the node does not start.
    """
    # /dev/net/tun may be for root only. The tap belongs to the user, the device file does not.
    device = SHM / "tun"
    os.mknod(device, stat.S_IFCHR | 0o600, os.makedev(10, 200))
    run("mount", "--bind", device, "/dev/net/tun")
    shutil.copyfile("/proc/cpuinfo", CPUS)
    KEY.touch(0o600)
    shutil.copyfile(munge.FOLDER / "key", KEY)
    READY.touch()
    # The cluster's folders are root's. Only these files of the daemons are the user's.
    logs = [STATE / "log" / f for f in (f"slurmd.{name}", f"slurmd.{name}.out", f"munged.{name}")]
    for file in (device, KEY, READY, STATE / "run" / f"slurmd.{name}.pid", *logs):
        file.touch()
        os.chown(file, cluster.uid, cluster.gid)
    process = daemon(
        [
            *("setpriv", f"--reuid={cluster.uid}", f"--regid={cluster.gid}", "--clear-groups"),
            *words,
        ],
        log=f"kernel.{name}",
    )
    log = STATE / "log" / f"kernel.{name}"

    def late():
        lines = log.read_text(errors="replace").splitlines()
        said = f"its kernel said first: {lines[0]}" if lines else "its kernel said nothing"
        return f"{name} does not start: {said}; see {log}"

    ready = lambda: process.poll() is not None or READY.stat().st_size  # noqa: E731
    wait(ready, BOOT_S * cluster.patience, late)
    if process.poll() is not None:
        raise Refusal(late())
    return process
