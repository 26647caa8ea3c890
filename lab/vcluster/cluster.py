"""The whole cluster: start, end, and status."""

import grp
import os
import pwd
import shutil
import signal
import time
from pathlib import Path

import cgroups
import faults
import gluster
import machine
import network
import proof
import slurm
from layout import CHECKOUT, SCRATCH, SHARED, STATE, Cluster, Refusal, ordinary_user, say

FOLDERS = ("etc", "run", "log", "spool", "disks", "home", "scratch", "shared", "slurm", "account")

#: Longest path of the state. A socket's path has at most 107 characters, and slurmd's longest name
#: below the state needs the rest: /spool/node0001/node0001_4294967295.4294967295.
LONGEST = 60


def up(nodes, accounting, link, expose, proven=True, **kind):
    """Starts the cluster: network, munge, machines, Slurm. Either all of it starts or nothing.

    :param proven: try jobs and links before the cluster counts as up. If they fail, take it down.
    :param kind: what the nodes are: fields of Cluster.
    """
    if network.namespaces():
        raise Refusal("parts of a cluster are there already; type: lab/vcluster/vcluster down")
    if len(str(STATE)) > LONGEST or "." in STATE.name:
        raise Refusal(
            f"ASSAY_VCLUSTER={STATE}: at most {LONGEST} characters, since sockets lie below it, "
            "and no dot in the last part, after which the cluster is named"
        )
    begin = time.monotonic()
    cluster = Cluster(nodes, *ordinary_user(), accounting, link, expose, **kind)
    try:
        start(cluster)
        if proven:
            proof.show(cluster)
    except Refusal as refusal:
        down()
        raise Refusal(f"{refusal}; the cluster was taken down again") from None
    if between := cluster.between:
        say(f"two groups of {nodes // 2}: {between.rate} and {between.delay} us more between them")
    if cluster.switches == 2:
        say(f"two switches of {nodes // 2} nodes, with a trunk between them")
    say(
        f"{nodes} nodes are up after {time.monotonic() - begin:.1f} s, "
        f"{link.rate} and {link.delay} us each; jobs run as {cluster.user}"
    )


def start(cluster):
    """Starts network, machines, Slurm and links.

    :raises Refusal: a part did not start. The others may be there.
    """
    prepare(cluster)
    network.build_nfdelay()
    cgroups.create(cluster.names)
    network.create(cluster)
    machine.boot("login")
    machine.await_boot(cluster, "login")  # all others need its munged
    for name in cluster.node_names:
        machine.boot(name)
    for name in cluster.node_names:
        machine.await_boot(cluster, name)
    slurm.await_idle(cluster, seconds=60 * cluster.patience if cluster.kernel else 15)
    if cluster.shared:
        gluster.mount(cluster)
    for name in cluster.node_names:
        network.shape(cluster, name, cluster.healthy(name))
    network.await_relays(cluster)


def prepare(cluster):
    """Makes the state's directories and files anew."""
    slurm.forget()
    for folder in ("run", "log", "spool", "scratch", "shared", "home"):
        shutil.rmtree(STATE / folder, ignore_errors=True)
    STATE.mkdir(parents=True, exist_ok=True)
    STATE.chmod(0o755)
    for folder in FOLDERS:
        (STATE / folder).mkdir(exist_ok=True)
    for name in cluster.node_names:
        (STATE / "spool" / name).mkdir()
    SHARED.chmod(0o1777)
    SCRATCH.chmod(0o1777)
    # Results belong to the cluster's user, even if the checkout belongs to another user.
    mine = [STATE / "home", CHECKOUT / "results" / "vcluster"]
    for folder in mine:
        folder.mkdir(parents=True, exist_ok=True)
        os.chown(folder, cluster.uid, cluster.gid)
    # The user of the cluster passes through the folder of another owner, and reads nothing there.
    above = mine[1].parent
    above.chmod(above.stat().st_mode & 0o7777 | 0o1)
    cluster.save()
    slurm.configure(cluster)
    gluster.configure(cluster)

    hosts = [f"{cluster.address(name)} {name}" for name in cluster.names]
    (STATE / "etc/hosts").write_text("\n".join(["127.0.0.1 localhost", *hosts, ""]))
    passwd, group = Path("/etc/passwd").read_text(), Path("/etc/group").read_text()
    if cluster.user not in {entry.pw_name for entry in pwd.getpwall()}:
        passwd += f"{cluster.user}:x:{cluster.uid}:{cluster.gid}::{STATE}/home:/bin/bash\n"
    if cluster.gid not in {entry.gr_gid for entry in grp.getgrall()}:
        group += f"{cluster.user}:x:{cluster.gid}:\n"
    (STATE / "etc/passwd").write_text(passwd)
    (STATE / "etc/group").write_text(group)


def down():
    """Ends everything that exists of a cluster, even of one that never came up."""
    spaces = network.namespaces()
    # Machines first: when the first process of a PID namespace ends, all others in it end too.
    end = time.monotonic() + 10
    while left := [pid for space in spaces for pid in network.processes(space)]:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if time.monotonic() > end:
            raise Refusal(f"processes {', '.join(map(str, left))} do not end")
        time.sleep(0.05)
    network.destroy()
    cgroups.remove()
    (STATE / "cluster.json").unlink(missing_ok=True)
    for folder in ("disks", "munge"):
        shutil.rmtree(STATE / folder, ignore_errors=True)
    say("down" if spaces else "nothing was up")


def status():
    """What is up, and which faults were injected: lines for the terminal."""
    cluster = Cluster.load()
    found = slurm.states(cluster)
    lines = []
    for name in cluster.names:
        pid = machine.first_process(name)
        state = found.get(name, "unknown to Slurm") if name != "login" else "login machine"
        lines.append(f"{name}  {cluster.address(name):<12} {state if pid else 'crashed'}")
    lines += [f"fault: {line}" for line in faults.injected()]
    return [*lines, *(f"job: {line.strip()}" for line in slurm.jobs(cluster).splitlines())]
