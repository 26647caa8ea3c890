"""A node that is a virtual machine: two sockets, each with its own memory and its network devices.

QEMU emulates it by software, without KVM: a node is slow, and no time of it is a measurement. It is
the place for what depends on the topology of a node. Each socket has a PCI host bridge (pxb-pcie),
and the network cards are behind these bridges. The kernel is Debian's. It reads and writes the
files of the node's machine through 9p, as the user who runs jobs (guest.py).

Software cannot make the way to the other socket slow. The node does that itself (vm_init.py): each
card has a queue for each processor, and the queue of the other socket's processor is slow.
"""

import sys
from pathlib import Path

import agent
import guest
from commands import run
from layout import CHECKOUT, HERE, STATE, namespace

#: Memory of a node [MiB], half of it on each socket, and the part that Slurm allocates.
MEMORY_MIB, STATED_MIB = 1280, 1000

#: Sockets of a node, with one processor each.
SOCKETS = 2

#: Plugins with which Slurm places and limits tasks: it binds each to its processors.
TASK = "cgroup,task/affinity"

#: What Slurm runs before each task: it chooses the network device.
PROLOG = "vm-task-prolog"

#: Distance of the sockets, as ACPI states it (10: the same socket).
DISTANCE = 21

#: Size of a message of 9p [B].
MESSAGE = 512000


def kernel():
    """Folder of the kernel and of the archive that it starts from.

    :raises Refusal: there is none; the message says what to type.
    """
    return run(HERE / "vm-kernel.sh", "--no-build").strip()


def socket_of(rail, rails):
    """The socket of a network card: the first half of the cards is on the first socket."""
    return rail * SOCKETS // rails


def live(cluster):
    """Folders whose files change while the cluster is up. A node keeps nothing of them in memory.

    What a node has read of all other files it keeps.
    """
    folders = [STATE, CHECKOUT / "results" / "vcluster", *map(Path, cluster.expose)]
    return [folder for folder in dict.fromkeys(folders) if folder.is_dir()]


def connect(cluster, name):
    """Makes bridge and taps in the network namespace of a node. All cards share its link."""
    lines = ["link add br0 type bridge"]
    for rail in range(cluster.rails):
        lines += [
            # A queue for each processor of the node.
            f"tuntap add dev tap{rail} mode tap multi_queue user {cluster.uid}",
            f"link set tap{rail} txqueuelen {guest.QUEUE}",
            f"link set tap{rail} master br0 up",
        ]
    lines += [
        "link set eth0 master br0 up",
        "link set br0 addrgenmode none up",
        f"address add {agent.host_address(cluster.number(name))}/64 dev br0 nodad",
    ]
    run("ip", "-n", namespace(name), "-batch", "-", given="\n".join([*lines, ""]))


def _topology():
    """Processors, memory and PCI host bridges of both sockets."""
    words = ["-smp", f"{SOCKETS},sockets={SOCKETS},cores=1,threads=1"]
    for socket in range(SOCKETS):
        memory = f"memory-backend-ram,id=m{socket},size={MEMORY_MIB // SOCKETS}M"
        bridge = f"pxb-pcie,id=pxb{socket},bus_nr={64 * (socket + 1)},numa_node={socket}"
        words += ["-object", memory]
        words += ["-numa", f"node,nodeid={socket},cpus={socket},memdev=m{socket}"]
        words += ["-device", f"{bridge},bus=pcie.0"]
    return [*words, "-numa", f"dist,src=0,dst=1,val={DISTANCE}"]


def _cards(cluster, name):
    """The network cards, each behind the bridge of its socket."""
    words = []
    for rail in range(cluster.rails):
        mac = agent.mac_address(cluster.number(name), rail)
        tap = f"tap,id=n{rail},ifname=tap{rail},script=no,downscript=no,queues={SOCKETS}"
        port = f"pcie-root-port,id=rp{rail},bus=pxb{socket_of(rail, cluster.rails)}"
        card = f"virtio-net-pci,netdev=n{rail},mac={mac},bus=rp{rail},mq=on"
        words += ["-netdev", tap, "-device", f"{port},chassis={rail + 1},slot={rail}"]
        words += ["-device", f"{card},vectors={2 * SOCKETS + 2}"]
    return words


def _files(cluster):
    """The files of the host: all, and once more those that change."""
    words = []
    for tag, folder in [("root", "/"), *((f"live{i}", f) for i, f in enumerate(live(cluster)))]:
        # The files belong to several file systems, whose numbers of files may be the same.
        words += ["-fsdev", f"local,id={tag},path={folder},security_model=none,multidevs=remap"]
        words += ["-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag},bus=pcie.0"]
    return words


def arguments(cluster, name):
    """The command line of QEMU."""
    kernel_words = [
        # On a busy host, a timer comes too late for the kernel's test of it.
        *("console=ttyS0", "quiet", "no_timer_check", "panic=-1", "mitigations=off"),
        *(f"ASSAY_VCLUSTER={STATE}", f"SLURM_CONF={STATE}/etc/slurm.conf"),
        *("--", sys.executable, str(HERE / "kernel_init.py"), name),
    ]
    return [
        *("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max"),
        *("-machine", "q35,smm=off,vmport=off", "-m", f"{MEMORY_MIB}M", *_topology()),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"),
        *("-kernel", f"{cluster.kernel}/vmlinuz", "-initrd", f"{cluster.kernel}/initrd"),
        *("-append", " ".join(kernel_words)),
        *_cards(cluster, name),
        *_files(cluster),
    ]


def start(cluster, name):
    """Starts the virtual machine of a node. Returns QEMU's process once the node is ready.

    :raises Refusal: the node does not start.
    """
    return guest.start(cluster, name, arguments(cluster, name))
