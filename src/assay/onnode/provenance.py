"""What this node is and runs, as one JSON object on standard output.

Runs on the compute node, with whatever Python is there (3.6 or newer, standard library only):
``python3 provenance.py [DIRECTORY...]``. What cannot be read is null, never guessed; no variable
is read but those that change what is measured.
"""

import contextlib
import ctypes
import glob
import hashlib
import json
import os
import platform
import re
import select
import signal
import subprocess
import sys
import time

#: Variables that change what is measured. Others may hold secrets and are not touched.
VARIABLES = ("UCX_", "OMPI_", "PMIX_", "OMP_", "OPENBLAS_", "MKL_", "CUDA_VISIBLE_DEVICES")

#: Commands that list every installed package with its version; the first that works is believed.
PACKAGES = (["dpkg-query", "-W"], ["rpm", "-qa"])

#: File systems that are no place for files.
PSEUDO = (
    *("autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts"),
    *("devtmpfs", "efivarfs", "fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore"),
    *("rpc_pipefs", "securityfs", "sysfs", "tracefs"),
)

#: Options of a mount that say which node it is, and not how it was mounted.
OF_THE_NODE = ("addr=", "clientaddr=", "mountaddr=", "size=", "nr_inodes=", "lowerdir=")

#: Numbers of statfs(2) -> type, of file systems for files: statfs(2) lists them, and Lustre's is in
#: its lustre_user.h. The three ext share one number; the driver of all of them is ext4's.
MAGIC = {
    0x0BD00BD0: "lustre",
    0x58465342: "xfs",
    0xEF53: "ext4",
    0x01021994: "tmpfs",
    0x858458F6: "ramfs",
    0x9123683E: "btrfs",
    0x2FC12FC1: "zfs",
    0xF2F52010: "f2fs",
    0x794C7630: "overlay",
    0x6969: "nfs",
    0xFF534D42: "cifs",
    0x00C36400: "ceph",
    0x47504653: "gpfs",
    0x19830326: "beegfs",
    0x65735546: "fuse",
}

#: Programs that say which versions really run: name -> command.
PROGRAMS = {
    "mpirun": ["mpirun", "--version"],
    "ucx": ["ucx_info", "-v"],
    "nvidia_driver": [
        "nvidia-smi",
        "--query-gpu=name,driver_version,vbios_version,memory.total",
        "--format=csv,noheader",
    ],
    "infiniband": ["ibstat"],
    "slurm": ["sinfo", "--version"],
}


def read(path: str) -> "str | None":
    """Content of a small file without its line end, None where it cannot be read."""
    try:
        with open(path, errors="replace") as file:
            return file.read().strip()
    except OSError:
        return None


#: How long a program, or a file system, may take to answer [s].
LIMIT = 20

#: What did not answer: program or directory -> in words. It is asked once.
hung = {}


def bounded(command: list, seconds: float = 0) -> tuple:
    """Exit code and output of a command; it ends in time also where it hangs in the kernel.

    Raises OSError where there is no such program. A program that did not end is noted in
    :data:`hung`, and has no exit code then and whenever it is asked again.
    """
    if command[0] in hung:
        return None, b""
    seconds = seconds or LIMIT
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        said = process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        hung[command[0]] = "{} did not end within {:g} s".format(" ".join(command), seconds)
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()  # and it is not waited for
        return None, b""
    return process.returncode, said


def within(function: object, seconds: float = 0) -> object:
    """What a function returns, as JSON has it, from a process that may hang in the kernel.

    Raises TimeoutError where it takes longer, OSError where the function did.
    """
    seconds = seconds or LIMIT
    source, sink = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            try:
                answer = {"value": function()}
            except OSError as error:
                answer = {"errno": error.errno, "strerror": error.strerror}
            with os.fdopen(sink, "w") as file:
                json.dump(answer, file)
        finally:
            os._exit(0)
    os.close(sink)
    said = b""
    end = time.monotonic() + seconds
    with os.fdopen(source, "rb", buffering=0) as file:
        while True:
            ready = select.select([file], [], [], max(end - time.monotonic(), 0))[0]
            part = file.read(65536) if ready else b""
            if not part:
                break
            said += part
    if not ready:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, os.WNOHANG)
        raise TimeoutError("did not answer within {:g} s".format(seconds))
    os.waitpid(pid, 0)
    answer = json.loads(said.decode())
    if "errno" in answer:
        raise OSError(answer["errno"], answer["strerror"])
    return answer["value"]


def output(command, lines=40):
    """First lines that a command prints, None where it is missing, fails or hangs."""
    try:
        code, said = bounded(command)
    except OSError:
        return None
    return None if code != 0 else "\n".join(said.decode(errors="replace").splitlines()[:lines])


def first(pattern, text):
    """First group of a pattern, None where it does not match."""
    match = re.search(pattern, text or "", re.MULTILINE)
    return match.group(1).strip() if match else None


def cpu():
    """Model, counts and clock of the processors."""
    info = read("/proc/cpuinfo")
    governors = {
        read(p) for p in glob.glob("/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")
    }
    return {
        "model": first(r"^model name\s*:\s*(.*)", info) or platform.machine(),
        "usable": len(os.sched_getaffinity(0)),
        "online": os.cpu_count(),
        "microcode": first(r"^microcode\s*:\s*(.*)", info),
        "governors": sorted(g for g in governors if g),
        "load_1min": os.getloadavg()[0],
        "smt": read("/sys/devices/system/cpu/smt/active"),
    }


def memory():
    """Sizes from /proc/meminfo, and what the control groups leave of them [B]."""
    info = read("/proc/meminfo")
    kib = {k: first(rf"^{k}:\s+(\d+) kB", info) for k in ("MemTotal", "MemAvailable", "SwapTotal")}
    sizes = {k: int(v) * 1024 if v else None for k, v in kib.items()}
    limits = memory_limits(read("/proc/self/cgroup") or "")
    return dict(sizes, limit=min([*limits, sizes["MemTotal"]]) if sizes["MemTotal"] else None)


def memory_limits(groups, top="/sys/fs/cgroup"):
    """Limits of the control groups of a process, its own and those above [B].

    `groups` is its /proc/PID/cgroup: of version 2 one line with no controller, of version 1 one
    line for each hierarchy.
    """
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            base, file = top, "memory.max"
        elif "memory" in controllers.split(","):
            base, file = os.path.join(top, "memory"), "memory.limit_in_bytes"
        else:
            continue
        while True:
            limit = read(os.path.join(base, path.lstrip("/"), file))
            if limit and limit.isdigit():
                yield int(limit)
            if path in ("/", ""):
                break
            path = os.path.dirname(path)


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
    """Type and options of all that is mounted for files: path -> ``xfs rw,noatime``."""
    found = {}
    for line in (read("/proc/self/mounts") or "").splitlines():
        path, kind, options = line.split(" ")[1:4]
        # Below /run and /tmp are those of whoever is logged in, or of a job.
        if kind in PSEUDO or path.startswith(("/run/", "/tmp/", "/proc/", "/sys/", "/dev/")):  # noqa: S108
            continue
        kept = sorted(o for o in options.split(",") if not o.startswith(OF_THE_NODE))
        found[path.replace("\\040", " ")] = "{} {}".format(kind, ",".join(kept))
    return found


def unescaped(field):
    """A path of /proc/self/mountinfo, in which the kernel writes blanks as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), field)


def mount_of(path, listing):
    """The mount that covers a path: what /proc/self/mountinfo says of it, None where no line does.

    Of mounts that cover it the longest path counts, and of several at one path the last. Inside of
    a chroot the listing leaves out what is mounted above its root, so that no line may be left.
    """
    best = None
    for line in listing.splitlines():
        # 36 35 98:0 /root /mount rw,noatime master:1 - ext3 /dev/sda1 rw,errors=continue
        before, _, behind = line.partition(" - ")
        if len(before.split(" ")) < 6 or len(behind.split(" ")) < 3:
            continue
        mount = unescaped(before.split(" ")[4])
        inside = path == mount or path.startswith(mount.rstrip("/") + "/")
        if inside and (best is None or len(mount) >= len(best["mount"])):
            kind, source, of_all = behind.split(" ")[:3]
            of_mount = before.split(" ")[5].split(",")
            options = list(dict.fromkeys(of_mount + of_all.split(",")))
            if "ro" in options and "rw" in options:
                options.remove("rw")  # either of them forbids to write
            best = {
                "mount": mount,
                "type": kind,
                "options": ",".join(options),
                "source": unescaped(source),
            }
    return best


def magic(path):
    """The number by which statfs(2) names a type of file system, None where it does not answer."""
    # f_type is the first word of the structure wherever Linux runs on 64 bits.
    answer = (ctypes.c_long * 64)()
    try:
        failed = ctypes.CDLL(None).statfs(os.fsencode(path), ctypes.byref(answer))
    except (AttributeError, OSError):
        return None
    return None if failed else answer[0] & 0xFFFFFFFF


def file_system(directory: str, mountinfo: "str | None" = None) -> dict:
    """The mount under a directory, its options and how full it is.

    The type is that of its mount. Where the process sees no mount that covers the directory, as in
    a chroot, it is what statfs(2) says; mount point and options stay unknown. A file system that
    does not answer has an ``error``, and is noted in :data:`hung`.

    `mountinfo` is a listing to read instead of /proc/self/mountinfo.
    """
    try:
        found = within(lambda: _file_system(directory, mountinfo))
    except TimeoutError as error:
        said = "{}: the file system {}".format(directory, error)
        hung[directory] = said
        nothing = dict.fromkeys(("mount", "type", "options"))
        return dict(nothing, directory=directory, error=str(error))
    if found["type"] == "lustre" and "error" not in found:
        found["stripe"] = output(["lfs", "getstripe", "-d", os.path.realpath(directory)])
    return found


def _file_system(directory, mountinfo):
    path = os.path.realpath(directory)
    found = {"directory": directory, "mount": None, "type": None, "options": None}
    listing = read("/proc/self/mountinfo") if mountinfo is None else mountinfo
    found.update(mount_of(path, listing or "") or {"type": MAGIC.get(magic(path))})
    try:
        space = os.statvfs(path)
    except OSError as error:
        found["error"] = error.strerror
        return found
    size = space.f_blocks * space.f_frsize
    free = space.f_bavail * space.f_frsize
    found.update(size_bytes=size, free_bytes=free, fill=1 - free / size if size else None)
    found["writable"] = os.access(path, os.W_OK | os.X_OK)
    return found


def network_devices():
    """InfiniBand ports and network interfaces with their rate."""
    ports = {}
    for port in sorted(glob.glob("/sys/class/infiniband/*/ports/*")):
        parts = port.split("/")
        device = "/".join(parts[:5])
        ports[f"{parts[4]}:{parts[6]}"] = {
            "rate": read(port + "/rate"),
            "state": read(port + "/state"),
            "firmware": read(device + "/fw_ver"),
            "numa_node": read(device + "/device/numa_node"),
        }
    links = {}
    for link in sorted(glob.glob("/sys/class/net/*")):
        links[os.path.basename(link)] = {
            "state": read(link + "/operstate"),
            "mtu": read(link + "/mtu"),
            "speed_mbit": read(link + "/speed"),
        }
    return {"infiniband": ports, "interfaces": links}


def ucx():
    """Transports and devices that UCX can open on this node."""
    listing = output(["ucx_info", "-d"], lines=None)
    pairs = re.findall(r"Transport: (\S+)\n#\s+Device: (\S+)", listing or "")
    return sorted({"{}/{}".format(*pair) for pair in pairs})


def collect(directories):
    """Everything, as a dictionary of plain values."""
    release = read("/etc/os-release") or ""
    found = {
        "host": platform.node(),
        "system": first(r'^PRETTY_NAME="?([^"\n]*)', release),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "cpu": cpu(),
        "memory": memory(),
        "transparent_huge_pages": read("/sys/kernel/mm/transparent_hugepage/enabled"),
        "ptrace_scope": read("/proc/sys/kernel/yama/ptrace_scope"),
        "network": network_devices(),
        "packages": packages(),
        "mounts": mounts(),
        "hosts_sha256": hashlib.sha256((read("/etc/hosts") or "").encode()).hexdigest(),
        "ucx_devices": ucx(),
        "file_systems": [file_system(d) for d in directories],
        "programs": {name: output(command) for name, command in PROGRAMS.items()},
        "variables": {k: v for k, v in sorted(os.environ.items()) if k.startswith(VARIABLES)},
    }
    return dict(found, hung=sorted(hung.values()))


if __name__ == "__main__":
    json.dump(collect(sys.argv[1:]), sys.stdout, indent=1)
    print()
