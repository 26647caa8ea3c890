"""Slurm's configuration, its state, and queries to it."""

import os
import shutil

import cgroups
import gpus
import kinds
from commands import daemon, wait
from layout import GROUPS, HERE, STATE, SWITCHES
from machine import ask

#: Memory that the host keeps for itself [MiB]. The nodes state equal shares of the rest.
HOST_MIB = 2048


def configure(cluster):
    """Writes slurm.conf from its template, and gres.conf if the nodes have GPUs."""
    host = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    memory = max(512, (host - HOST_MIB) // cluster.nodes)
    there = len(os.sched_getaffinity(0))
    cores = max(there, cluster.cores)
    # Each node already is a control group of the host. Slurm makes none of its own.
    track, task = "linuxproc", "none"
    sockets, prolog = 1, "task-prolog"
    if cluster.kernel:
        kind = kinds.KINDS[cluster.machines]
        memory, track, prolog = kind.STATED_MIB, "cgroup", kind.PROLOG
        cores = sockets = kind.SOCKETS
        # The limit of locked memory that verbs need is the node's, not the login machine's.
        task = f"{kind.TASK}\nPropagateResourceLimitsExcept=MEMLOCK"
    accounting = "accounting_storage/none"
    if cluster.accounting:
        accounting = (
            "accounting_storage/slurmdbd\n"
            f"AccountingStorageHost={cluster.address('login')}\n"
            f"AccountingStoragePass={STATE}/munge/socket"
        )
    gres, partition = gpus.configure(cluster)
    values = {
        "state": STATE,
        "login": cluster.address("login"),
        "task_prolog": HERE / prolog,
        "seconds": 10 * cluster.patience,
        "accounting": accounting,
        "track": track,
        # A node that states more cores than the host has would be drained.
        "more": "SlurmdParameters=config_overrides" if cores > there else "# not more than it has",
        "task": task,
        "nodes": "\n".join(
            f"NodeName={name} NodeAddr={cluster.address(name)} CPUs={cores} Boards=1 "
            f"SocketsPerBoard={sockets} CoresPerSocket={cores // sockets} ThreadsPerCore=1 "
            f"RealMemory={memory}{gres}{feature(cluster, name)}"
            for name in cluster.node_names
        ),
        "node_list": ",".join(cluster.node_names),
    }
    tree, switches = STATE / "etc/topology.conf", topology(cluster)
    tree.unlink(missing_ok=True)
    if switches:
        tree.write_text(switches)
    values["topology"] = "TopologyPlugin=topology/tree" if switches else "# one switch"
    text = (HERE / "slurm.conf.in").read_text()
    for key, value in values.items():
        text = text.replace(f"@{key}@", str(value))
    (STATE / "etc/slurm.conf").write_text(text + partition)
    # slurmd needs the plugin even if it limits nothing. It cannot detect a hybrid host by itself.
    version = 2 if cluster.kernel or cgroups.unified() else 1
    lines = [f"CgroupPlugin=cgroup/v{version}"]
    if version == 2:
        lines.append("IgnoreSystemd=yes")
    if cluster.kernel:
        lines += ["ConstrainRAMSpace=yes", *(["ConstrainCores=yes"] if sockets > 1 else [])]
    (STATE / "etc/cgroup.conf").write_text("\n".join([*lines, ""]))


def topology(cluster):
    """The text of topology.conf: two switches, and the trunk between them; empty with one switch.

    Slurm has no links between switches of one level. A switch above both stands for the trunk.
    """
    if cluster.switches < 2:
        return ""
    lines = [
        f"SwitchName={switch} Nodes={','.join(cluster.on_switch(switch))}" for switch in SWITCHES
    ]
    return "\n".join([*lines, f"SwitchName=core Switches={','.join(SWITCHES)}", ""])


def feature(cluster, name):
    """The word for a node's line of slurm.conf that names its group; empty with one group."""
    return f" Feature={GROUPS[cluster.group(name)]}" if cluster.between else ""


def start_slurmd(name, *through, before=None):
    """Starts slurmd of a node.

    :param through: the words that lead into the machine, if the caller is outside of it.
    """
    words = [*through, "slurmd", "-D", "-N", name]
    daemon(words, log=f"slurmd.{name}.out", mode="a", before=before)


def forget():
    """Wipes jobs and accounting together. Job numbers restart and must not match old records."""
    for folder in ("slurm", "database"):
        shutil.rmtree(STATE / folder, ignore_errors=True)


def states(cluster):
    """Node -> state as Slurm names it; empty while slurmctld does not answer."""
    said = ask(cluster, "login", "timeout", "2", "sinfo", "-h", "-N", "-o", "%N %T", check=False)
    return dict(line.split() for line in said.splitlines())


def await_idle(cluster, seconds=15):
    """Waits until every node is idle.

    :raises Refusal: a node is not idle; the message has its state and the place of the logs.
    """

    def late():
        found = states(cluster)
        named = {name: found.get(name, "unknown") for name in cluster.node_names}
        return ", ".join(f"{name} is {it}" for name, it in named.items() if it != "idle")

    where = f"after {seconds} s; the logs are in {STATE}/log"
    wait(lambda: not late(), seconds, lambda: f"{late()} {where}")


def jobs(cluster):
    """The job queue as squeue prints it, without its heading."""
    return ask(cluster, "login", "squeue", "-h", check=False).strip()
