"""Describes this node and its software, as one JSON object on standard output.

The script runs on the compute node with the Python that is installed there (3.6 or newer, standard
library only). A value that cannot be read is null and is never guessed.

- ``python3 provenance.py [--gpus SCRIPT] [DIRECTORY...]`` describes the node of a job. SCRIPT is a
  line of shell that prints the state of the GPUs.
- ``python3 provenance.py --questions JSON`` says what ``assay site new`` writes a site from, on one
  line after :data:`MARK`; see :func:`asked`. It leaves nothing on the node.
"""

import contextlib
import fcntl
import glob
import hashlib
import json
import os
import platform
import re
import shutil
import socket
import struct
import sys
import tempfile

# Scripts of the core are in a folder of their own.
NODE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../node")
sys.path.append(NODE)

try:
    from assay.node import answers, capacity, recorded
except ImportError:  # this is a script, on a node without the suite
    import answers
    import capacity
    import recorded

read, output, first = answers.read, answers.output, capacity.first

#: Variables that affect the measurements. Others are not read.
VARIABLES = (
    *("LD_", "GLIBC_TUNABLES", "UCX_", "OMPI_", "PMIX_", "OMP_", "OPENBLAS_", "MKL_"),
    *("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"),
)

#: Commands that list every installed package with its version; the first that works is used.
PACKAGES = (["dpkg-query", "-W"], ["rpm", "-qa"])

#: Types of file systems that do not store ordinary files.
PSEUDO = (
    *("autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts"),
    *("devtmpfs", "efivarfs", "fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore"),
    *("rpc_pipefs", "securityfs", "sysfs", "tracefs"),
)

#: Counters of a port for the RDMA that it has served.
SERVED = (
    *("rx_write_requests", "rx_read_requests"),
    *("rx_write_req", "rx_read_req", "rcvd_pkts"),
)

#: Mount options that identify the node and do not describe how the file system is mounted.
OF_THE_NODE = ("addr=", "clientaddr=", "mountaddr=", "size=", "nr_inodes=", "lowerdir=")

#: Programs that report which versions really run: name -> command.
PROGRAMS = {
    "mpirun": ["mpirun", "--version"],
    "ucx": ["ucx_info", "-v"],
    "nvidia_driver": [
        "nvidia-smi",
        "--query-gpu=name,driver_version,vbios_version,memory.total",
        "--format=csv,noheader",
    ],
    "amd_driver": ["rocm-smi", "--showdriverversion", "--showvbios"],
    "infiniband": ["ibstat"],
    "slurm": ["sinfo", "--version"],
}


def cpu():
    """Model, counts and clock of the processors."""
    info = read("/proc/cpuinfo")
    governors = map(read, glob.glob("/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"))
    return {
        "model": first(r"^model name\s*:\s*(.*)", info) or platform.machine(),
        "usable": len(os.sched_getaffinity(0)),
        "online": os.cpu_count(),
        "microcode": first(r"^microcode\s*:\s*(.*)", info),
        "governors": sorted({*filter(None, governors)}),
        "load_1min": os.getloadavg()[0],
        "smt": read("/sys/devices/system/cpu/smt/active"),
    }


def packages():
    """How many packages are installed, and one hash over their names and versions."""
    for command in PACKAGES:
        listing = output(command, lines=None)
        if listing:
            lines = sorted(listing.splitlines())
            digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
            return {"count": len(lines), "sha256": digest}
    return None


def mounts():
    """Type and options of all mounted file systems for files: path -> ``xfs rw,noatime``."""
    found = {}
    for line in (read("/proc/self/mounts") or "").splitlines():
        path, kind, options = line.split(" ")[1:4]
        # Mounts below /run and /tmp belong to users who are logged in, or to a job.
        if kind in PSEUDO or path.startswith(("/run/", "/tmp/", "/proc/", "/sys/", "/dev/")):  # noqa: S108
            continue
        kept = sorted(o for o in options.split(",") if not o.startswith(OF_THE_NODE))
        found[path.replace("\\040", " ")] = "{} {}".format(kind, ",".join(kept))
    return found


def gids(port):
    """GIDs of a port: index -> value, type and network interface; most places of a port are empty.

    A type or an interface that the kernel does not give is None.
    """
    found = {}
    for path in sorted(glob.glob(port + "/gids/*"), key=lambda path: int(os.path.basename(path))):
        value, index = read(path), os.path.basename(path)
        if value and value.strip("0:"):
            about = port + "/gid_attrs/{}/" + index
            found[index] = {
                "gid": value,
                "type": read(about.format("types")),
                "interface": read(about.format("ndevs")),
            }
    return found


def served(port):
    """How often other nodes read and wrote by RDMA since the boot, if the driver counts it.

    Sources: mlx5/counters.c, bnxt_re/hw_counters.c of Linux. Soft-RoCE counts packets.
    """
    found = [read(port + "/hw_counters/" + name) for name in SERVED]
    known = [int(count) for count in found if count and count.isdigit()]
    return sum(known) if known else None


def network_devices(root: str = "/sys/class") -> dict:
    """Ports of InfiniBand and RoCE, and network interfaces, with their rate."""
    ports = {}
    for port in sorted(glob.glob(root + "/infiniband/*/ports/*")):
        device = os.path.dirname(os.path.dirname(port))
        ports["{}:{}".format(*map(os.path.basename, (device, port)))] = {
            **{n: read(port + "/" + n) for n in ("rate", "state", "phys_state", "link_layer")},
            "gids": gids(port),
            "counters": sorted(map(os.path.basename, glob.glob(port + "/*counters"))),
            "firmware": read(device + "/fw_ver"),
            "numa_node": read(device + "/device/numa_node"),
            # A virtual function that this host may give to a guest.
            "virtual": os.path.exists(device + "/device/physfn"),
            "served": served(port),
        }
    links = {}
    for link in sorted(glob.glob(root + "/net/*")):
        links[os.path.basename(link)] = {
            "state": read(link + "/operstate"),
            "mtu": read(link + "/mtu"),
            "speed_mbit": read(link + "/speed"),
        }
    slingshot = {}
    for device in sorted(glob.glob(root + "/net/*/device/cxi/*")):
        interface = links[device[len(root + "/net/") :].split("/")[0]]
        slingshot[os.path.basename(device)] = interface
    return {"infiniband": ports, "interfaces": links, "slingshot": slingshot}


def ucx(listing: "str | None" = None) -> list:
    """Transports and devices that UCX can open on this node, as ``tcp/eth0``.

    `listing` is an output of ``ucx_info -d`` to read instead of asking.
    """
    if listing is None:
        listing = output(["ucx_info", "-d"], lines=None) or ""
    pairs = re.findall(r"Transport: (\S+)\n#\s+Device: (\S+)", listing)
    return sorted({"{}/{}".format(*pair) for pair in pairs})


def settings():
    """Settings in the files of MPI and UCX that belong to the machine: file -> its settings."""
    witness = os.path.join(NODE, "witness.sh")
    found = {}
    for line in (output(["sh", witness, "machine"], lines=None) or "").splitlines():
        match = re.match(r"(?:file (/[^:]*):|preload )\d+:\s*(.*)", line)
        if match:
            found.setdefault(match.group(1) or "/etc/ld.so.preload", []).append(match.group(2))
    return {path: "; ".join(lines) for path, lines in sorted(found.items())}


def variables(environment):
    """The variables that affect the measurements, each with its value if that may be written."""
    known = recorded.listed()
    return {
        name: recorded.recorded(name, value, known)
        for name, value in sorted(environment.items())
        if name.startswith(VARIABLES)
    }


def collect(directories, gpus=""):
    """All that this script finds out, as a dictionary of plain values.

    `gpus` is the script that prints the state of the GPUs.
    """
    release = read("/etc/os-release") or ""
    found = {
        "host": platform.node(),
        "system": first(r'^PRETTY_NAME="?([^"\n]*)', release),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "cpu": cpu(),
        "memory": capacity.memory(),
        "transparent_huge_pages": read("/sys/kernel/mm/transparent_hugepage/enabled"),
        "ptrace_scope": read("/proc/sys/kernel/yama/ptrace_scope"),
        "network": network_devices(),
        "packages": packages(),
        "mounts": mounts(),
        "hosts_sha256": hashlib.sha256((read("/etc/hosts") or "").encode()).hexdigest(),
        "ucx_devices": ucx(),
        "file_systems": [capacity.file_system(d) for d in directories],
        "programs": {name: output(command) for name, command in PROGRAMS.items()},
        "gpus": output(["sh", "-c", gpus], lines=None) if gpus else None,
        "settings": settings(),
        "variables": variables(os.environ),
    }
    return dict(found, hung=sorted(answers.hung.values()))


# --- what a site is written from ------------------------------------------------------------------

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
OF_USERS = ("SCRATCH", "WORK", "HOME")

#: ioctl that asks for the IPv4 address of an interface (netdevice(7)).
SIOCGIFADDR = 0x8915


def topology(root="/sys/devices/system"):
    """Numbers of processors, cores, sockets and NUMA nodes; null where the kernel is silent."""
    cpus = glob.glob(root + "/cpu/cpu[0-9]*/topology")
    cores = {(read(path + "/physical_package_id"), read(path + "/core_id")) for path in cpus}
    sockets = {socket_of for socket_of, _ in cores}
    known = bool(cpus) and None not in sockets
    return {
        "cpus": len(cpus) or None,
        "cores": len(cores) if known else None,
        "sockets": len(sockets) if known else None,
        "numa_nodes": len(glob.glob(root + "/node/node[0-9]*")) or None,
    }


def clock() -> dict:
    """What the kernel says of the clock of the first processor."""
    info = read("/proc/cpuinfo") or ""
    wanted = ("model name", "cpu MHz", "flags")
    lines = [line for line in info.split("\n\n")[0].splitlines() if line.startswith(wanted)]
    base = read("/sys/devices/system/cpu/cpu0/cpufreq/base_frequency")
    return {"cpuinfo": "\n".join(lines), "base_frequency": base}


def toward(peer):
    """The network interface by which packets for another host leave; null if it is not known."""
    try:
        # A datagram socket that is connected sends nothing. The kernel only chooses the route.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            asked.connect((peer, 9))
            own = asked.getsockname()[0]
    except OSError:
        return None
    return next((name for _, name in socket.if_nameindex() if address(name) == own), None)


def address(interface):
    """IPv4 address of an interface, null if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            answer = fcntl.ioctl(asked, SIOCGIFADDR, struct.pack("256s", interface[:15].encode()))
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])


def user_mounts(listing):
    """Mounted file systems that hold files of users, from a text of /proc/self/mounts."""
    return [
        {"mount": capacity.unescaped(path), "type": kind, "read_only": "ro" in options.split(",")}
        for path, kind, options in (line.split(" ")[1:4] for line in listing.splitlines())
        if kind in FILE_SYSTEMS and not re.match(r"/(proc|sys|run|boot|snap)(/|$)", path)
    ]


def writable(directory):
    """Whether this user can write a file in the directory."""
    try:
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


def user_file_systems(listing, user):
    """Each mount, with the first directory on it that the user can write, else null."""
    every = user_mounts(listing)
    for each in every:
        each["directory"] = None
        if each["read_only"]:
            continue
        try:
            each["directory"] = answers.within(lambda each=each: first_writable(each, user))
        except (OSError, TimeoutError) as error:
            each["error"] = str(error)
    return every


def first_writable(each, user):
    """The first of the user's places, or of the variables, that is here and can be written."""
    named = [os.environ.get(name, "") for name in OF_USERS]
    below = [os.path.join(each["mount"], place.format(user)) for place in PLACES]
    for path in (*named, each["mount"], *below):
        if os.path.isdir(path) and mount_point(path) == each["mount"] and writable(path):
            return os.path.realpath(path)
    return None


def mount_point(path):
    """The mount point that holds a path."""
    path = os.path.realpath(path)
    while not os.path.ismount(path):
        path = os.path.dirname(path)
    return path


def kernel():
    """When the kernel started, and how many context switches it has made.

    Two nodes whose kernel started in the same second and has made about as many switches have one
    kernel: they share a machine.
    """
    stat = read("/proc/stat")
    numbers = [first(rf"^{name} (\d+)", stat) for name in ("btime", "ctxt")]
    return dict(zip(("started", "switches"), (int(n) if n else None for n in numbers)))


def node(peer: "str | None" = None) -> dict:
    """What this node is: its processors, memory, GPUs and network, as a dictionary of plain values.

    `peer` is the address of another node; ``toward_peer`` is the interface by which it is reached.
    """
    return {
        "host": platform.node(),
        "user": os.environ.get("USER") or os.environ.get("LOGNAME", ""),
        "kernel": kernel(),
        "topology": topology(),
        "clock": clock(),
        "memory": capacity.memory()["MemTotal"],
        "machine": output(["sh", os.path.join(NODE, "machine.sh")], lines=None),
        "gpus": output(["nvidia-smi", "-L"], lines=None),
        "topology_of_gpus": output(["nvidia-smi", "topo", "-m"], lines=None),
        "network": network_devices(),
        # The rate of interfaces that are no devices (veth, bridge, tap) means nothing.
        "physical": sorted(path.split("/")[4] for path in glob.glob("/sys/class/net/*/device")),
        "toward_peer": toward(peer) if peer else None,
        "routes": read("/proc/net/route"),
        "ucx_devices": ucx(),
    }


def asked(questions):
    """What this node is, and what it has for this user, as a dictionary of plain values.

    `questions` has ``peer`` of :func:`node`, the names of ``programs``, and ``commands`` to run,
    each a list of words. What is missing is left out.
    """
    paths = {name: shutil.which(name) for name in questions["programs"]}
    programs = {name: path for name, path in paths.items() if path}
    said = {}
    for command in questions["commands"]:
        if shutil.which(command[0]):
            # The exit code of a program that only prints its version means nothing.
            with contextlib.suppress(OSError):
                said[" ".join(command)] = answers.bounded(command)[1].decode(errors="replace")
    found = dict(node(questions["peer"]), programs=programs, said=said)
    found["file_systems"] = user_file_systems(read("/proc/self/mounts") or "", found["user"])
    return dict(found, hung=sorted(answers.hung.values()))


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["--questions"]:
        sys.stdout.write(MARK + json.dumps(asked(json.loads(words[1]))) + "\n")
        sys.exit()
    script = words[1] if words[:1] == ["--gpus"] else ""
    found = collect(words[2:] if script else words, script)
    print(recorded.without_user(json.dumps(found, indent=1)))
