"""Faults that can be injected into a running cluster, and the function that undoes all of them.

Each function is one fault of the command line. `vcluster fault --help` shows its name, its
arguments and the first line of its docstring.
"""

import contextlib
import os
import re
import signal
import sys
import time

import cgroups
import gluster
import gpus
import machine
import network
import slurm
from layout import HERE, SCRATCH, STATE, Refusal, megabytes

#: The injected faults, one line each; and a file that the prolog of tasks looks for.
RECORD, ONE_CORE = STATE / "run/faults", STATE / "run/one-core"

#: How long to wait for a process that can be stopped [s].
PATIENCE_S = 60


def rate(cluster, node, rate):
    """the link of NODE has RATE in both directions, in the words of tc (900mbit)"""
    megabytes(rate)
    _change(cluster, node, rate=rate)


def delay(cluster, node, us, peer=None):
    """packets that arrive at NODE (from PEER only) are held US microseconds longer"""
    extra = _number(us, "a delay in microseconds")
    healthy = cluster.healthy(cluster.node(node))
    if peer is None:
        far = {name: int(held + extra) for name, held in healthy.peers.items()}
        _change(cluster, node, delay=int(healthy.delay + extra), peers=far)
    else:
        held = healthy.peers.get(cluster.node(peer), healthy.delay)
        _change(cluster, node, peers={peer: int(held + extra)})


def loss(cluster, node, percent):
    """PERCENT of the TCP packets that arrive at NODE are lost"""
    share = _number(percent, "a percentage") / 100
    if share >= 1:
        raise Refusal("a link that loses everything is down: vcluster fault link-down NODE")
    _change(cluster, node, loss=share)


def trunk(cluster, rate):
    """the trunk between the two switches has RATE in both directions, in the words of tc"""
    if cluster.switches < 2:
        raise Refusal("there is no trunk; start the cluster with: up --switches 2")
    megabytes(rate)
    network.limit_trunk(rate)


def switch(cluster, switch, rate):
    """all ports of SWITCH (s1, s2) have RATE in both directions"""
    megabytes(rate)
    for node in cluster.on_switch(switch):
        link = network.link_of(cluster, node)
        network.shape(cluster, node, network.faulty(link, rate=rate))
    network.await_relays(cluster)


def rail_down(cluster, node):
    """the port of the second rail of NODE is down (up --rails 2)"""
    machine.ask(cluster, _second_rail(cluster, node), "ip", "link", "set", "eth1", "down")


def rail_rate(cluster, node, rate):
    """the link of the second rail of NODE has RATE in both directions (up --rails 2)"""
    megabytes(rate)
    _change(cluster, _second_rail(cluster, node), rail_rate=rate)


def gid(cluster, node):
    """rxe0 of NODE is on another network: its GID is one that no other node reaches"""
    _place(cluster, cluster.node(node), "lo")


def link_down(cluster, node):
    """the cable of NODE is out"""
    network.unplug(cluster.node(node))


def cpu(cluster, node, percent):
    """NODE gets PERCENT of one core"""
    cgroups.limit_cpu(cluster.node(node), _number(percent, "a percentage"))


def disk(cluster, node, mb_per_s):
    """the disk of NODE reads and writes MB_PER_S megabytes a second"""
    limit = _number(mb_per_s, "a rate in MB/s")
    cgroups.limit_disk(cluster.node(node), _disk(cluster, node), limit)


def disk_full(cluster, node):
    """the disk of NODE is full"""
    machine.ask(cluster, cluster.node(node), "fallocate", "-l", "1M", f"{SCRATCH}/.probe")
    free = os.statvfs(f"/proc/{machine.first_process(node)}/root{SCRATCH}")
    size = free.f_bavail * free.f_frsize
    machine.ask(cluster, node, "fallocate", "-l", str(size - (4 << 20)), f"{SCRATCH}/.filler")


def memory(cluster, node, mib):
    """NODE has MIB mebibytes of memory; what needs more is killed"""
    cgroups.limit_memory(cluster.node(node), int(_number(mib, "a size in MiB")))


def drain(cluster, node):
    """an operator drains NODE"""
    _update(cluster, cluster.node(node), "state=drain", "reason=fault")


def slurmd(cluster, node):
    """slurmd of NODE is dead"""
    if not _end_slurmd(cluster, cluster.node(node)):
        raise Refusal(f"{node} has no slurmd already")


def crash(cluster, node):
    """NODE loses power"""
    machine.crash(cluster.node(node))


def hang(cluster, node, program=""):
    """a process of the user on NODE (called PROGRAM...) stops for ever, once there is one"""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if _signal(cluster, cluster.node(node), signal.SIGSTOP, program, cluster.uid):
            return
        time.sleep(0.02)
    raise Refusal(f"no process {program!r} of {cluster.user} on {node} within {PATIENCE_S} s")


def one_core(cluster, node=None):
    """all ranks of all jobs are bound to the same core"""
    ONE_CORE.touch()


#: Properties that can differ on one node: name -> command that makes the difference.
DRIFTS = {
    "mtu": ("ip", "link", "set", "eth0", "mtu", "1400"),
    "mount": ("umount", "-l", str(SCRATCH)),
    "options": ("mount", "-o", "remount,sync", str(SCRATCH)),
}


def far_device(cluster, node):
    """ranks on NODE get the network device of the other socket (up --machines vm)"""
    if cluster.rails < 2:
        raise Refusal("a node has one device; start the cluster with: up --machines vm --rails 2")
    _far_device(cluster.node(node)).touch()


def swap(cluster, node):
    """on NODE, the way to the near network device is the slow one (up --machines vm)"""
    _slow(cluster, cluster.node(node), swapped=True)


def drift(cluster, node, what):
    """NODE differs from the others in WHAT: its mtu, its mount (missing), or mount options"""
    if what not in DRIFTS:
        raise Refusal(f"unknown drift {what!r}; there are {', '.join(DRIFTS)}")
    machine.ask(cluster, cluster.node(node), *DRIFTS[what])


def gpu(cluster, node, what):
    """the emulated GPUs of NODE have the fault WHAT (ipc-open, p2p:0-1, ...: docs/vgpu.md)"""
    gpus.disturb(cluster, cluster.node(node), what)


def stale_files(cluster, node):
    """NODE keeps what it has read of a shared file, even if another node changes the file"""
    gluster.never_look_again(cluster, cluster.node(node))


#: Name on the command line -> function.
FAULTS = {
    fault.__name__.replace("_", "-"): fault
    for fault in (
        *(rate, delay, loss, link_down, cpu, disk, disk_full, memory, drain, slurmd, crash, hang),
        *(one_core, drift, gpu, stale_files, trunk, switch, rail_down, rail_rate, gid),
        *(far_device, swap),
    )
}


#: Faults of a node that has a kernel of its own. The others change files or mounts of the host, or
#: cores, which such a node does not see.
WITH_KERNEL = {"rate", "delay", "loss", "link-down", "cpu", "drain", "slurmd", "crash", "hang"}

#: Faults of verbs, which only such a node can have.
OF_VERBS = {"rail-down", "rail-rate", "gid"}

#: Faults of nodes with two sockets.
OF_SOCKETS = {"far-device", "swap"}


def inject(cluster, name, words):
    """Injects a fault and notes it for `vcluster status`.

    :raises Refusal: no such node, or a value that is not valid, or a fault for other nodes.
    """
    virtual = cluster.machines == "vm"
    if name in OF_SOCKETS and not virtual:
        raise Refusal(f"{name} is for nodes with two sockets: start them by up --machines vm")
    if name in OF_VERBS and cluster.machines != "uml":
        raise Refusal(
            f"{name} is for nodes with verbs that are no virtual machines; "
            "start the cluster with: up --machines uml"
        )
    possible = WITH_KERNEL | (OF_SOCKETS if virtual else OF_VERBS)
    if cluster.kernel and name not in possible:
        raise Refusal(
            f"{name} is for nodes that are namespaces; a node of --machines {cluster.machines} "
            f"can have {', '.join(sorted(possible))}"
        )
    FAULTS[name](cluster, *words)
    with RECORD.open("a") as record:
        record.write(" ".join([name, *words]) + "\n")


def injected():
    """The injected faults, one line each."""
    return RECORD.read_text().splitlines() if RECORD.exists() else []


def clear(cluster):
    """Undoes every fault: the cluster is then as after `up`, and its queue is empty."""
    RECORD.unlink(missing_ok=True)
    ONE_CORE.unlink(missing_ok=True)
    if cluster.switches == 2:
        network.limit_trunk(None)
    for name in cluster.node_names:
        _far_device(name).unlink(missing_ok=True)
        cgroups.limit_cpu(name, None)
        cgroups.limit_memory(name, None)
        gpus.mend(cluster, name)
        network.plug_in(name)
        if network.link_of(cluster, name) != cluster.healthy(name):
            network.shape(cluster, name, cluster.healthy(name))
    _end_jobs(cluster)
    states = slurm.states(cluster)
    for name in cluster.node_names:
        if states.get(name, "").startswith("down"):
            # A new daemon registers at once. Slurm would ask an old one only after a minute.
            _end_slurmd(cluster, name)
        _repair(cluster, name)
    states = slurm.states(cluster)
    stopped = ("drain", "down", "unk", "fail")
    for name in cluster.node_names:
        if states.get(name, "").startswith(stopped):
            _update(cluster, name, "state=idle" if "down" in states[name] else "state=resume")
    network.await_relays(cluster)
    gluster.mend(cluster)
    slurm.await_idle(cluster, seconds=30 * cluster.patience)


def _repair(cluster, name):
    """Restores a machine's disk and daemons to their state after `up`. Boots it anew if needed."""
    if machine.first_process(name) is None or not _as_booted(cluster, name):
        if machine.first_process(name) is not None:
            machine.crash(name)
        (STATE / "disks" / f"{name}.xfs").unlink(missing_ok=True)
        machine.boot(name)
        machine.await_boot(cluster, name)
        return
    if cluster.kernel:
        if cluster.machines == "vm":
            _slow(cluster, name, swapped=False)
        else:
            if cluster.rails > 1:
                machine.ask(cluster, name, "ip", "link", "set", "eth1", "up")
            if "netdev eth0" not in machine.ask(cluster, name, "rdma", "link", "show", "rxe0/1"):
                _place(cluster, name, "eth0")
        if not _signal(cluster, name, 0, "slurmd"):
            machine.ask(cluster, name, "slurmd", "-N", name)
        return
    cgroups.limit_disk(name, _disk(cluster, name), None)
    machine.ask(cluster, name, "rm", "-f", f"{SCRATCH}/.filler", f"{SCRATCH}/.probe")
    if not machine.processes(name, "slurmd"):
        way = machine.command(cluster, name, [], as_root=True)
        slurm.start_slurmd(name, *way, before=lambda: cgroups.enter(name))


def _second_rail(cluster, node):
    """Returns `node`. A cluster with one rail is refused."""
    if cluster.networks < 2:
        raise Refusal("there is one rail; start the cluster with: up --machines uml --rails 2")
    return cluster.node(node)


def _place(cluster, name, card):
    """Makes rxe0 of a node anew, on this network card."""
    machine.ask(cluster, name, "rdma", "link", "delete", "rxe0")
    machine.ask(cluster, name, "rdma", "link", "add", "rxe0", "type", "rxe", "netdev", card)
    machine.ask(cluster, name, "sh", "-c", "chmod 666 /dev/infiniband/*")


def _far_device(name):
    """The file that vm-task-prolog looks for."""
    return STATE / "run" / f"far-device.{name}"


def _slow(cluster, name, swapped):
    """Makes the queues of a node slow that vm_init.py says."""
    call = f"import vm_init; vm_init.slow_far({cluster.rails}, swapped={swapped})"
    machine.ask(cluster, name, "env", f"PYTHONPATH={HERE}", sys.executable, "-c", call)


def _end_slurmd(cluster, name):
    """Kills the daemon of a node and waits for its end. Returns whether there was one."""
    found = _signal(cluster, name, signal.SIGKILL, "slurmd")
    while _signal(cluster, name, 0, "slurmd"):
        time.sleep(0.02)
    return found


def _as_booted(cluster, name):
    """Whether the node's file system is mounted once, with its original options."""
    if cluster.kernel:
        return True  # no fault changes its mounts
    mounts = machine.ask(cluster, name, "cat", "/proc/self/mounts").splitlines()
    scratch = [line for line in mounts if f" {SCRATCH} " in line]
    return len(scratch) == 1 and ",sync" not in scratch[0]


def _end_jobs(cluster):
    """Cancels all jobs and continues stopped processes, so that they can end."""
    machine.ask(cluster, "login", "scancel", "--signal=KILL", f"--user={cluster.user}", check=False)
    machine.ask(cluster, "login", "scancel", f"--user={cluster.user}", check=False)
    for name in cluster.node_names:
        _signal(cluster, name, signal.SIGCONT, uid=cluster.uid)


def _change(cluster, node, **change):
    """Changes the current state of the node's link."""
    link = network.link_of(cluster, cluster.node(node))
    network.shape(cluster, node, network.faulty(link, **change))
    network.await_relays(cluster)


def _disk(cluster, name):
    """Number ``major:minor`` of the block device under a node's file system."""
    words = ("findmnt", "-n", "-o", "MAJ:MIN", str(SCRATCH))
    return machine.ask(cluster, name, *words).strip()


def _signal(cluster, name, number, program="", uid=None):
    """Sends a signal to processes of a node, see `machine.processes`. Returns whether it did.

    :param number: the signal. 0 only looks; SIGSTOP stops one process.
    """
    if machine.first_process(name) is None:
        return False
    only = 1 if number == signal.SIGSTOP else None
    if cluster.kernel:
        # Not one that has ended and was not yet waited for: a signal does nothing to it.
        words = ["pkill", f"-{int(number)}", "-r", "R,S,D,T", *(["-o"] if only else [])]
        words += [] if uid is None else ["-u", str(uid)]
        # pkill names what it matched only if it is asked to.
        return bool(machine.ask(cluster, name, *words, "-e", f"^{re.escape(program)}", check=False))
    done = False
    for pid in machine.processes(name, program, uid)[:only]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            done = True
    return done


def _update(cluster, node, *words):
    machine.ask(cluster, "login", "scontrol", "update", f"nodename={node}", *words)


def _number(text, what):
    """A number above zero.

    :raises Refusal: the text is not such a number.
    """
    try:
        value = float(text.rstrip("%"))
    except ValueError:
        value = 0
    if value <= 0:
        raise Refusal(f"{text!r} is not {what}")
    return value
