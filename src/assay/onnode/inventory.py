"""Says what this node has: ``assay site new`` writes a site from it.

Start ``python3 inventory.py QUESTIONS`` on a compute node. QUESTIONS is a JSON object:

- ``programs``: names of programs that are looked for on PATH
- ``commands``: commands to run, each a list of words; a command that is missing is left out
- ``peer``: address of another node; the answer has the network interface by which it is reached

The answer is one line on standard output: :data:`MARK` and a JSON object. A value that cannot be
read is null and is never guessed. The script leaves nothing on the node but an empty file, which
it removes at once: it proves that a directory can be written.
"""

import contextlib
import fcntl
import glob
import json
import os
import platform
import re
import shutil
import socket
import struct
import sys
import tempfile

if __package__:
    from assay.onnode import provenance
else:  # it was started by its path
    import provenance

#: What the line of the answer begins with.
MARK = "assay-inventory: "

#: Types of file systems that hold files of users.
FILE_SYSTEMS = (
    *("lustre", "gpfs", "beegfs", "nfs", "nfs4", "fuse.glusterfs", "glusterfs", "ceph"),
    *("fuse.ceph", "xfs", "ext4", "tmpfs"),
)

#: Places of a user below a mount; {} is the user's name.
PLACES = ("{}", "users/{}", "scratch/{}", "work/{}", "home/{}")

#: Variables that sites set to a directory of the user. TMPDIR is not here: it may end with the job.
VARIABLES = ("SCRATCH", "WORK", "HOME")

#: ioctl that asks for the IPv4 address of an interface (netdevice(7)).
SIOCGIFADDR = 0x8915


def topology(root="/sys/devices/system"):
    """Numbers of processors, cores, sockets and NUMA nodes; null where the kernel is silent."""
    cpus = glob.glob(root + "/cpu/cpu[0-9]*/topology")
    sockets, cores = set(), set()
    for path in cpus:
        socket_of = provenance.read(path + "/physical_package_id")
        sockets.add(socket_of)
        cores.add((socket_of, provenance.read(path + "/core_id")))
    known = bool(cpus) and None not in sockets
    return {
        "cpus": len(cpus) or None,
        "cores": len(cores) if known else None,
        "sockets": len(sockets) if known else None,
        "numa_nodes": len(glob.glob(root + "/node/node[0-9]*")) or None,
    }


def clock():
    """What the kernel says of the clock of the first processor."""
    info = provenance.read("/proc/cpuinfo") or ""
    wanted = ("model name", "cpu MHz", "flags")
    lines = [line for line in info.split("\n\n")[0].splitlines() if line.startswith(wanted)]
    base = provenance.read("/sys/devices/system/cpu/cpu0/cpufreq/base_frequency")
    return {"cpuinfo": "\n".join(lines), "base_frequency": base}


def gpus(root="/proc/driver/nvidia/gpus"):
    """The lines of ``nvidia-smi -L``, else the models that the driver states in /proc."""
    listing = provenance.output(["nvidia-smi", "-L"], lines=None)
    if listing:
        return listing
    lines = []
    for number, path in enumerate(sorted(glob.glob(root + "/*/information"))):
        said = provenance.read(path)
        model, uuid = (provenance.first(p, said) for p in (r"^Model:\s*(.*)", r"^GPU UUID:\s*(.*)"))
        lines.append("GPU {}: {} (UUID: {})".format(number, model, uuid))
    return "\n".join(lines) or None


def toward(peer):
    """The network interface by which packets for another host leave; null if it is not known."""
    try:
        # A datagram socket that is connected sends nothing. The kernel only chooses the route.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            asked.connect((peer, 9))
            own = asked.getsockname()[0]
    except OSError:
        return None
    for _, name in socket.if_nameindex():
        if address(name) == own:
            return name
    return None


def address(interface):
    """IPv4 address of an interface, null if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            answer = fcntl.ioctl(asked, SIOCGIFADDR, struct.pack("256s", interface[:15].encode()))
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])


def physical(root="/sys/class/net"):
    """The interfaces that are devices. The rate of others (veth, bridge, tap) means nothing."""
    return sorted(os.path.basename(os.path.dirname(p)) for p in glob.glob(root + "/*/device"))


def mounts(listing):
    """Mounted file systems that hold files of users, from a text of /proc/self/mounts."""
    found = []
    for line in listing.splitlines():
        path, kind, options = line.split(" ")[1:4]
        if kind in FILE_SYSTEMS and not re.match(r"/(proc|sys|run|boot|snap)(/|$)", path):
            mount = {"mount": provenance.unescaped(path), "type": kind}
            found.append(dict(mount, read_only="ro" in options.split(",")))
    return found


def writable(directory):
    """Whether this user can write a file in the directory."""
    try:
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


def places(mount, user):
    """Directories of the user on a mount, those of variables first."""
    named = [os.environ.get(name, "") for name in VARIABLES]
    below = [os.path.join(mount, place.format(user)) for place in PLACES]
    return [path for path in [*named, mount, *below] if path]


def file_systems(listing, user):
    """Each mount, with the first directory on it that the user can write, else null."""
    every = mounts(listing)
    for each in every:
        each["directory"] = None
        if each["read_only"]:
            continue
        try:
            each["directory"] = provenance.within(lambda each=each: first_writable(each, user))
        except (OSError, TimeoutError) as error:
            each["error"] = str(error)
    return every


def first_writable(each, user):
    """The first of the user's places that is on this mount and can be written."""
    for path in places(each["mount"], user):
        if os.path.isdir(path) and mount_of(path) == each["mount"] and writable(path):
            return os.path.realpath(path)
    return None


def mount_of(path):
    """The mount point that holds a path."""
    path = os.path.realpath(path)
    while not os.path.ismount(path):
        path = os.path.dirname(path)
    return path


def user():
    """The name of the user who runs this, as the system knows it."""
    with contextlib.suppress(KeyError, OSError):
        import pwd  # noqa: PLC0415 - an image may lack it

        return pwd.getpwuid(os.getuid()).pw_name
    return os.environ.get("USER", "")


def kernel():
    """When the kernel started, and how many context switches it has made.

    Two nodes whose kernel started in the same second and has made about as many switches have one
    kernel: they share a machine.
    """
    stat = provenance.read("/proc/stat")
    numbers = [provenance.first(rf"^{name} (\d+)", stat) for name in ("btime", "ctxt")]
    return dict(zip(("started", "switches"), (int(n) if n else None for n in numbers)))


def collect(questions):
    """All that this script finds out, as a dictionary of plain values."""
    names = questions.get("programs", ())
    programs = {name: path for name in names for path in [shutil.which(name)] if path}
    said = {}
    for command in questions.get("commands", ()):
        if shutil.which(command[0]):
            # The exit code of a program that only prints its version means nothing.
            with contextlib.suppress(OSError):
                output = provenance.bounded(command)[1]
                said[" ".join(command)] = output.decode(errors="replace")
    peer = questions.get("peer")
    who = user()
    return {
        "host": platform.node(),
        "user": who,
        "kernel": kernel(),
        "topology": topology(),
        "clock": clock(),
        "memory": provenance.memory()["MemTotal"],
        "gpus": gpus(),
        "topology_of_gpus": provenance.output(["nvidia-smi", "topo", "-m"], lines=None),
        "network": provenance.network_devices(),
        "physical": physical(),
        "toward_peer": toward(peer) if peer else None,
        "routes": provenance.read("/proc/net/route"),
        "ucx_devices": provenance.ucx(),
        "file_systems": file_systems(provenance.read("/proc/self/mounts") or "", who),
        "programs": programs,
        "said": said,
        "hung": sorted(provenance.hung.values()),
    }


if __name__ == "__main__":
    answer = json.dumps(collect(json.loads(sys.argv[1])))
    sys.stdout.write(MARK + answer + "\n")
