"""A node with a kernel of its own: User-Mode Linux with InfiniBand verbs over Ethernet (soft-RoCE).

The kernel is a process of the node's machine. It reads and writes the files that this machine sees,
through hostfs, as the user who runs jobs: what this user may not write, nobody on the node may. Its
network card is a tap on a bridge beside ``eth0``. The rest of a machine stays as it is: control
group, disk, link. In the kernel, kernel_init.py is the first process.
"""

import os
import shutil
import stat
import sys
from pathlib import Path

import agent
import munge
from commands import daemon, run, wait
from layout import HERE, STATE, Refusal, namespace

#: Memory of a node [MiB], and the part that Slurm allocates. The host gives only what is touched.
MEMORY_MIB, STATED_MIB = 768, 640

#: Packets that wait for a node; the tap's own limit is 500.
QUEUE = 8192

#: How long a node may take to start, on a busy host [s].
BOOT_S = 60

#: The machine's own directory, in memory: here the kernel keeps its memory and its names.
SHM = Path("/dev/shm")  # noqa: S108

#: What the host says of its processors: User-Mode Linux does not say how fast their clock is.
CPUS = SHM / "cpuinfo"

#: The key of munge, which an ordinary user cannot read in its place; and the file into which the
#: kernel's first process writes once the node is ready.
KEY, READY = SHM / "munge.key", SHM / "ready"


def kernel():
    """Path of the kernel.

    :raises Refusal: it is not built; the message says what to type.
    """
    return run(HERE / "kernel.sh", "--no-build").strip()


def connect(cluster, name):
    """Makes a bridge and a tap for each rail in the network namespace of a node."""
    lines = []
    for rail in range(cluster.rails):
        lines += [
            f"link add br{rail} type bridge",
            f"tuntap add dev tap{rail} mode tap user {cluster.uid}",
            # Verbs send a message of 1 MiB as one burst of a thousand packets.
            f"link set tap{rail} txqueuelen {QUEUE}",
            f"link set tap{rail} master br{rail} up",
            f"link set eth{rail} master br{rail} up",
            f"link set br{rail} addrgenmode none up",
        ]
    lines.append(f"address add {agent.host_address(cluster.number(name))}/64 dev br0 nodad")
    run("ip", "-n", namespace(name), "-batch", "-", given="\n".join([*lines, ""]))


def arguments(cluster, name):
    """The command line of the kernel."""
    macs = [agent.mac_address(cluster.number(name), rail) for rail in range(cluster.rails)]
    return [
        *(cluster.kernel, f"mem={MEMORY_MIB}M", f"uml_dir={SHM}/", "quiet"),
        # After a panic the kernel ends; it would wait forever, or start again.
        *("panic=-1", "noreboot"),
        *("root=/dev/root", "rootfstype=hostfs", "rootflags=/", "rw"),
        *(
            f"vec{rail}:transport=tap,ifname=tap{rail},mac={mac},depth=128,gro=1"
            for rail, mac in enumerate(macs)
        ),
        *("con=null", "con0=null,fd:1", "ssl=null"),
        *(f"ASSAY_VCLUSTER={STATE}", f"SLURM_CONF={STATE}/etc/slurm.conf"),
        *(f"init={sys.executable}", "--", str(HERE / "kernel_init.py"), name),
    ]


def start(cluster, name):
    """Starts the kernel of a node, in its machine. Returns the process once the node is ready.

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
            # The kernel's memory begins behind its heap. Where the host chose its place at random,
            # nodes differed by 16 MB of memory, and the census named them.
            *("setarch", "--addr-no-randomize"),
            *arguments(cluster, name),
        ],
        log=f"kernel.{name}",
    )
    log = STATE / "log" / f"kernel.{name}"

    def late():
        lines = log.read_text(errors="replace").splitlines()
        said = f"its kernel said first: {lines[0]}" if lines else "its kernel said nothing"
        return f"{name} does not start: {said}; see {log}"

    wait(lambda: process.poll() is not None or READY.stat().st_size, BOOT_S, late)
    if process.poll() is not None:
        raise Refusal(late())
    for rail in range(cluster.rails):
        mac = agent.mac_address(cluster.number(name), rail)
        daemon([sys.executable, HERE / "wake.py", mac, f"tap{rail}"], log=f"wake.{name}.{rail}")
    return process
