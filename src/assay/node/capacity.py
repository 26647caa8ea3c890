"""The memory and the file systems of this node.

A script of a node imports this file from its folder, the suite from its package.
"""

import ctypes
import os
import re
from pathlib import PurePath

try:
    from assay.node import answers
except ImportError:  # on a node without the suite
    import answers

#: Number of statfs(2) -> type, for file systems that store files. statfs(2) lists the numbers;
#: that of Lustre is in its lustre_user.h. ext2, ext3 and ext4 share one number, and the driver of
#: ext4 serves all three.
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


def first(pattern, text):
    """First group of a pattern; None if the pattern does not match."""
    match = re.search(pattern, text or "", re.MULTILINE)
    return match.group(1).strip() if match else None


def memory() -> dict:
    """Sizes from /proc/meminfo, and the limit that the control groups set [B]."""
    info = answers.read("/proc/meminfo")
    kib = {k: first(rf"^{k}:\s+(\d+) kB", info) for k in ("MemTotal", "MemAvailable", "SwapTotal")}
    sizes = {k: int(v) * 1024 if v else None for k, v in kib.items()}
    limits = memory_limits(answers.read("/proc/self/cgroup") or "")
    return dict(sizes, limit=min([*limits, sizes["MemTotal"]]) if sizes["MemTotal"] else None)


def memory_limits(groups, top="/sys/fs/cgroup"):
    """Memory limits of the control group of a process and of the groups above it [B].

    `groups` is the text of its /proc/PID/cgroup. Version 2 has one line without a controller,
    version 1 has one line for each hierarchy.
    """
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            base, file = top, "memory.max"
        elif "memory" in controllers.split(","):
            base, file = os.path.join(top, "memory"), "memory.limit_in_bytes"
        else:
            continue
        for group in (PurePath(path), *PurePath(path).parents):
            limit = answers.read("{}{}/{}".format(base, group, file)) or ""
            if limit.isdigit():
                yield int(limit)


def unescaped(field):
    """A path of /proc/self/mountinfo, in which the kernel writes blanks as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), field)


def mount_of(path, listing):
    """The mount that covers a path, from /proc/self/mountinfo; None if no line covers it.

    If several mounts cover the path, the one with the longest mount point counts. If several mounts
    have the same mount point, the last one counts. Inside a chroot, the listing omits the mounts
    above its root, so there may be no line for the path.
    """
    best = None
    # 36 35 98:0 /root /mount rw,noatime master:1 - ext3 /dev/sda1 rw,errors=continue
    line = r"^\S+ \S+ \S+ \S+ (\S+) (\S+)(?: .*?)? - (\S+) (\S*) (\S+)"
    for place, of_mount, kind, source, of_all in re.findall(line, listing, re.MULTILINE):
        mount = unescaped(place)
        inside = path == mount or path.startswith(mount.rstrip("/") + "/")
        if inside and (best is None or len(mount) >= len(best["mount"])):
            options = list(dict.fromkeys((of_mount + "," + of_all).split(",")))
            if "ro" in options and "rw" in options:
                options.remove("rw")  # one "ro" forbids writing
            best = {"mount": mount, "type": kind, "source": unescaped(source)}
            best["options"] = ",".join(options)
    return best


def magic(path):
    """The number that statfs(2) gives for a type of file system; None if the call fails."""
    # f_type is the first word of the structure on every 64-bit Linux.
    answer = (ctypes.c_long * 64)()
    try:
        failed = ctypes.CDLL(None).statfs(os.fsencode(path), ctypes.byref(answer))
    except (AttributeError, OSError):
        return None
    return None if failed else answer[0] & 0xFFFFFFFF


def file_system(directory: str) -> dict:
    """The mount under a directory, its options and how full it is.

    The type is that of the mount. If the process sees no mount that covers the directory, as in a
    chroot, the type comes from statfs(2); mount point and options stay unknown. A file system that
    does not answer has an ``error``, and is noted in :data:`hung`.
    """
    try:
        found = answers.within(lambda: _file_system(directory))
    except TimeoutError as error:
        answers.hung[directory] = "{}: the file system {}".format(directory, error)
        nothing = dict.fromkeys(("mount", "type", "options"))
        return dict(nothing, directory=directory, error=str(error))
    if found["type"] == "lustre" and "error" not in found:
        found["stripe"] = answers.output(["lfs", "getstripe", "-d", os.path.realpath(directory)])
    return found


def _file_system(directory):
    path = os.path.realpath(directory)
    found = {"directory": directory, "mount": None, "type": None, "options": None}
    listing = answers.read("/proc/self/mountinfo") or ""
    found.update(mount_of(path, listing) or {"type": MAGIC.get(magic(path))})
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
