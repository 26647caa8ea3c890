#!/usr/bin/env python3
"""First process of a node that has a kernel of its own: mounts, network, daemons, agent.

``kernel_init.py NAME`` is started by the kernel (uml.py, vm.py) and runs as its root user.
"""

import contextlib
import os
import resource
import signal
import socket
import sys
from pathlib import Path

import agent
import guest
import munge
import slurm
import vm_init
from commands import run, wait
from layout import CHECKOUT, STATE, Cluster

CGROUP = Path("/sys/fs/cgroup")

#: Controllers that Slurm and jobs may use, as far as the kernel has them.
CONTROLLERS = ("cpu", "io", "memory", "pids", "cpuset")


def mount(kind, where, options="defaults"):
    run("mount", "-t", kind, "-o", options, kind, where)


def make_world(name, cluster):
    """Mounts what the files of the host cannot give: devices, and files in memory."""
    socket.sethostname(name)
    mount("proc", "/proc")
    mount("sysfs", "/sys")
    mount("devtmpfs", "/dev")
    if cluster.machines == "vm":
        vm_init.share(cluster)
    for folder in ("pts", "shm"):
        Path("/dev", folder).mkdir()
    mount("devpts", "/dev/pts", "mode=620,ptmxmode=666")
    # Sockets, and memory that processes share, belong to one kernel.
    mount("tmpfs", "/dev/shm", "mode=1777")  # noqa: S108
    temporary = Path("/tmp")  # noqa: S108
    if not any(temporary in path.parents for path in (STATE, CHECKOUT, *map(Path, cluster.expose))):
        mount("tmpfs", temporary, "mode=1777")
    for folder in (munge.FOLDER, STATE / "spool"):  # the same mounts on all nodes
        mount("tmpfs", folder, "mode=755")
    (STATE / "spool" / name).mkdir()
    for link, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1")):
        Path("/dev", link).symlink_to(target)
    Path("/dev/stderr").symlink_to("fd/2")


def state_clock(host):
    """Adds the clock of the processor to /proc/cpuinfo, where perftest looks for it.

    :param host: /proc/cpuinfo of the host.
    """
    clock = next((line for line in host.splitlines() if line.startswith("cpu MHz")), None)
    own = Path("/proc/cpuinfo")
    text = own.read_text()
    if clock and "cpu MHz" not in text:
        file = Path("/dev/shm/cpuinfo")  # noqa: S108 - the node's own, and nobody else is there yet
        file.write_text(text.rstrip() + "\n" + clock + "\n\n")
        run("mount", "--bind", file, own)


def make_groups():
    """Control groups of version 2, and the one in which Slurm makes its own without systemd."""
    mount("cgroup2", CGROUP)
    below = CGROUP / "system.slice"
    below.mkdir()
    there = (CGROUP / "cgroup.controllers").read_text().split()
    wanted = " ".join(f"+{name}" for name in CONTROLLERS if name in there)
    for group in (CGROUP, below):
        (group / "cgroup.subtree_control").write_text(wanted)


def connect(name, cluster):
    """eth0, and rxe0 on it; so for each rail. The first GID is the link-local IPv6 address."""
    run("ip", "link", "set", "lo", "up")
    virtual = cluster.machines == "vm"
    if virtual:
        vm_init.name_cards(cluster.number(name), cluster.rails)
    for rail in range(cluster.rails):
        if not virtual:
            run("ip", "link", "set", f"vec{rail}", "name", f"eth{rail}")
        Path(f"/proc/sys/net/ipv6/conf/eth{rail}/accept_dad").write_text("0")
        lines = [f"link set eth{rail} up"]
        if rail < cluster.networks:
            lines.append(f"address add {cluster.address(name, rail)}/16 dev eth{rail}")
        run("ip", "-batch", "-", given="\n".join([*lines, ""]))
        await_address(f"eth{rail}", 5 * cluster.patience)
        run("rdma", "link", "add", f"rxe{rail}", "type", "rxe", "netdev", f"eth{rail}")
    if virtual:
        vm_init.slow_far(cluster.rails)
    for device in Path("/dev/infiniband").iterdir():
        device.chmod(0o666)
    # Verbs lock the memory that they send from. srun must not bring the limit of the login machine.
    infinite = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, infinite)


def await_address(card, seconds):
    """Waits for the link-local IPv6 address of a network card."""
    addresses = Path("/proc/net/if_inet6")
    late = f"{card} has no IPv6 address: is IPv6 disabled on the host?"
    wait(lambda: card in addresses.read_text(), seconds, lambda: late)


def prefer_packets():
    """Lets the kernel's thread for packets interrupt any rank.

    A rank that polls for a message makes no system call. The thread would wait for the next tick of
    the clock: 10 ms for each message over verbs instead of 0.1 ms.
    """
    for comm in Path("/proc").glob("[0-9]*/comm"):
        if comm.read_text().startswith("ksoftirqd"):
            os.sched_setscheduler(int(comm.parent.name), os.SCHED_FIFO, os.sched_param(1))


def reap(*_):
    """Collects all children that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def main(name, *_):  # the kernel adds an argument of its own for its console
    os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    cluster = Cluster.load()
    # The node's own /dev hides these files.
    key, ready, cpus = guest.KEY.read_bytes(), guest.READY.open("w"), guest.CPUS.read_text()
    make_world(name, cluster)
    state_clock(cpus)
    make_groups()
    connect(name, cluster)
    prefer_packets()
    munge.start(key, log=f"munged.{name}")
    slurm.start_slurmd(name)
    signal.signal(signal.SIGCHLD, reap)
    reap()

    def started():
        ready.write("ready")
        ready.flush()
        os.fsync(ready.fileno())  # the host may not see it otherwise
        ready.close()

    agent.serve(cluster.number(name), started)


if __name__ == "__main__":
    main(*sys.argv[1:])
