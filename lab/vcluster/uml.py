"""A node with a kernel of its own: User-Mode Linux with InfiniBand verbs over Ethernet (soft-RoCE).

The kernel is a process of the node's machine (guest.py). It reads and writes the files that this
machine sees through hostfs. Its network card is a tap on a bridge beside ``eth0``. The rest of a
machine stays as it is: control group, disk, link.
"""

import sys

import agent
import guest
from commands import daemon, run
from layout import HERE, STATE, namespace

#: Memory of a node [MiB], and the part that Slurm allocates. The host gives only what is touched.
MEMORY_MIB, STATED_MIB = 768, 640

#: Processors of a node, each a socket of its own.
SOCKETS = 1

#: Plugins with which Slurm places and limits tasks.
TASK = "cgroup"

#: What Slurm runs before each task.
PROLOG = "task-prolog"


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
            f"link set tap{rail} txqueuelen {guest.QUEUE}",
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
        *(cluster.kernel, f"mem={MEMORY_MIB}M", f"uml_dir={guest.SHM}/", "quiet"),
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
    # The kernel's memory begins behind its heap. Where the host chose its place at random, nodes
    # differed by 16 MB of memory, and the census named them.
    words = ["setarch", "--addr-no-randomize", *arguments(cluster, name)]
    process = guest.start(cluster, name, words)
    for rail in range(cluster.rails):
        mac = agent.mac_address(cluster.number(name), rail)
        daemon([sys.executable, HERE / "wake.py", mac, f"tap{rail}"], log=f"wake.{name}.{rail}")
    return process
