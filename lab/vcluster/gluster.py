"""GlusterFS over the nodes: the disk of each node holds some of the files; all machines mount them.

The part of a node is a brick. The name of a file selects the brick on which the file begins. Its
further pieces are spread over all bricks. There is one copy of each. Each node serves its brick,
and each machine mounts the volume. `up` writes the volume files itself. So no glusterd is needed,
which would keep its state outside of the cluster's directory.
"""

import contextlib
import os
import shutil
import signal
import time
from functools import partial
from pathlib import Path

import cgroups
import machine
from commands import daemon, run, wait
from layout import GLUSTER, SCRATCH, STATE, Refusal

#: The directory of a node's brick, on the node's own disk. Only root may pass the upper one.
PRIVATE = SCRATCH / ".brick"
BRICK = PRIVATE / "files"

#: Where each brick listens. Each node has an address of its own.
PORT = 24007

#: Size of the pieces of a file, in the words of GlusterFS.
PIECE = "4MB"

#: Whether the cache of a node keeps a file that is opened again. By default it does: pages that
#: another node had changed were then read for longer than 30 s (GlusterFS 10.3, Linux 6.18).
FRESH = ("--fopen-keep-cache=off",)
STALE = ("--fopen-keep-cache=on", "--auto-invalidation=off")

#: How long a machine waits for a brick that does not answer [s].
SILENCE_S = 10

#: How long bricks and mounts may take to start on a busy host [s].
START_S = 60


def volume(name, kind, options=(), below=()):
    """One layer of a volume file: its options, and the names of the layers below it."""
    lines = [f"volume {name}", f"    type {kind}"]
    lines += [f"    option {key} {value}" for key, value in dict(options).items()]
    lines += [f"    subvolumes {' '.join(below)}"] if below else []
    return "\n".join([*lines, "end-volume", ""])


def brick_file(cluster, name):
    """The volume file of the process that serves the brick of a node."""
    listening = {
        "transport-type": "tcp",
        "transport.socket.bind-address": cluster.address(name),
        "transport.socket.listen-port": PORT,
        "auth.addr.brick.allow": "10.77.*",
    }
    layers = (
        volume("files", "storage/posix", {"directory": BRICK}),
        volume("locks", "features/locks", below=["files"]),
        volume("brick", "performance/io-threads", below=["locks"]),
        volume("server", "protocol/server", listening, ["brick"]),
    )
    return "\n".join(layers)


def mount_file(cluster):
    """The volume file of the processes that mount the volume. A layer is called as its node."""
    bricks = [
        volume(
            name,
            "protocol/client",
            {
                "transport-type": "tcp",
                "remote-host": cluster.address(name),
                "remote-port": PORT,
                "remote-subvolume": "brick",
                "ping-timeout": SILENCE_S,
            },
        )
        for name in cluster.node_names
    ]
    layers = (
        *bricks,
        volume("distribute", "cluster/distribute", below=cluster.node_names),
        volume("shard", "features/shard", {"shard-block-size": PIECE}, ["distribute"]),
    )
    return "\n".join(layers)


def configure(cluster):
    """Writes the volume files, and makes the directory of the mount, if the cluster shares files.

    :raises Refusal: GlusterFS is not installed.
    """
    if not cluster.shared:
        return
    if not shutil.which("glusterfsd"):
        raise Refusal("GlusterFS is not installed; type: lab/vcluster/packages.sh --shared")
    GLUSTER.mkdir(exist_ok=True)
    for name in cluster.node_names:
        (STATE / f"etc/brick.{name}").write_text(brick_file(cluster, name))
    (STATE / "etc/glusterfs").write_text(mount_file(cluster))


def serve(name, *through, before=None):
    """Starts the brick of a node.

    :param through: the words that lead into the machine, if the caller is outside of it.
    """
    run(*through, "install", "-d", "-m", "700", PRIVATE)
    # The mode of the brick is that of the root of the mounted volume.
    run(*through, "install", "-d", "-m", "1777", BRICK)
    words = ["glusterfsd", "--no-daemon", f"--volfile={STATE}/etc/brick.{name}"]
    _start("brick", name, [*through, *words], before)


def mount(cluster):
    """Mounts the volume on all machines.

    :raises Refusal: a machine has no mount in time, or does not reach a brick.
    """
    for name in cluster.names:
        _mount(cluster, name, FRESH)
    wait(lambda: not missing(cluster), START_S, lambda: f"{missing(cluster)}: see {STATE}/log")


def _mount(cluster, name, cache):
    words = [
        *("glusterfs", "--no-daemon", f"--volfile={STATE}/etc/glusterfs", *cache),
        f"--fs-display-name={','.join(cluster.node_names)}:{GLUSTER.name}",
        *("--fuse-mountopts=allow_other,default_permissions", GLUSTER),
    ]
    way = machine.command(cluster, name, words, as_root=True)
    _start("glusterfs", name, way, partial(cgroups.enter, name))


def never_look_again(cluster, name):
    """Lets a node keep what it has read of a file, even if another node changes the file.

    :raises Refusal: the cluster shares no files.
    """
    if not cluster.shared:
        raise Refusal(
            "this cluster shares no files; type: lab/vcluster/vcluster up --shared glusterfs"
        )
    _stale(name).touch()
    machine.ask(cluster, name, "umount", "-l", str(GLUSTER))
    _mount(cluster, name, STALE)
    wait(lambda: not missing(cluster), START_S, lambda: f"{missing(cluster)}: see {STATE}/log")


def _stale(name):
    return STATE / "run" / f"stale.{name}"


def missing(cluster):
    """The first machine that does not reach all bricks, in words; empty if all do."""
    for name in cluster.names:
        if not mounted(name):
            return f"{name} has no {GLUSTER}"
        files = [f"{GLUSTER}/.meta/graphs/active/{node}/private" for node in cluster.node_names]
        words = ("timeout", "5", "grep", "-H", "^connected", *files)
        said = machine.ask(cluster, name, *words, check=False).splitlines()
        for node, file in zip(cluster.node_names, files):
            if f"{file}:connected = 1" not in said:
                return f"{name} does not reach the brick of {node}"
    return ""


def mounted(name):
    """Whether a machine has the mount, alive or dead."""
    pid = machine.first_process(name)
    mounts = Path(f"/proc/{pid}/mounts").read_text() if pid else ""
    return f" {GLUSTER} fuse.glusterfs " in mounts


def mend(cluster):
    """Waits until all machines reach all bricks again, if the cluster shares files.

    A node that was started anew has an empty disk. Then the whole volume is made anew, and empty.
    The same holds if a node was told to keep what it has read.
    """
    if not cluster.shared:
        return
    end = time.monotonic() + 2 * SILENCE_S
    lost = any(_stale(name).exists() or not mounted(name) for name in cluster.names)
    while lost or missing(cluster):
        if lost or time.monotonic() > end:
            _renew(cluster)
            return
        time.sleep(0.2)


def _renew(cluster):
    for name in cluster.names:
        _stale(name).unlink(missing_ok=True)
        machine.ask(cluster, name, "umount", "-l", str(GLUSTER), check=False)
        while left := machine.processes(name, "glusterfs"):
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
    for name in cluster.node_names:
        machine.ask(cluster, name, "rm", "-rf", str(PRIVATE))
        way = machine.command(cluster, name, [], as_root=True)
        serve(name, *way, before=partial(cgroups.enter, name))
    mount(cluster)


def _start(what, name, words, before):
    log = STATE / "log" / f"{what}.{name}"
    daemon([*words, f"--log-file={log}"], log=f"{log.name}.out", mode="a", before=before)
