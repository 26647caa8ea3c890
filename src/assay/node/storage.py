"""What the file system under test and its node are, as JSON; refuses what cannot be run there.

Runs in the job, before the benchmark. Where that cannot be run, this leaves the reason in a file,
in one line, and ends with 1.

With ``--watch`` a process stays behind. It looks again and again which files of the directory are
held open by processes that began later, and how: by /proc/PID/fd, /proc/PID/fdinfo and fstatfs.
Signal TERM ends it; it then writes what it saw.
"""

import argparse
import contextlib
import errno
import json
import mmap
import os
import signal
import stat
import sys
import time

import capacity

#: Size of a single write that every device accepts [B].
PAGE = 4096

#: Bytes of a copy: beyond the caches of a core.
COPIED = 64 << 20


def o_direct(directory):
    """Whether files there can be written past the page cache; None if this cannot be tested."""
    path = os.path.join(directory, "assay-direct.{}.{}".format(os.uname().nodename, os.getpid()))
    file = None
    try:
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_DIRECT, 0o600)
        os.write(file, mmap.mmap(-1, PAGE))  # begins at a page boundary, as required
    except OSError as error:
        return False if error.errno == errno.EINVAL else None
    finally:
        if file is not None:
            os.close(file)
        with contextlib.suppress(OSError):
            os.remove(path)  # some kernels create it and then refuse
    return True


#: Pause between two looks [s]. One look takes less than a millisecond.
PAUSE = 0.005

#: File systems of the kernel, whose files hold no data.
VIRTUAL = ("/proc/", "/sys/", "/dev/")


def session(folder):
    """The session of a process; a job script and what it starts have one of their own."""
    with open(folder + "/stat") as file:
        # The name of the program is in parentheses and may contain any character.
        return int(file.read().rpartition(")")[2].split()[3])


def preloaded(folder):
    """The libraries that a process was told to load first (LD_PRELOAD); empty if none."""
    with open(folder + "/environ", "rb") as file:
        for variable in file.read().split(b"\0"):
            if variable.startswith(b"LD_PRELOAD="):
                return os.fsdecode(variable.partition(b"=")[2])
    return ""


class Watch:
    """The files that processes hold open, as long as they are seen.

    `below` is the beginning of the paths of the benchmark's own files; `seen` has an entry for each
    path and way of opening it.
    """

    def __init__(self, below):
        self.below = below
        self.stage = os.getcwd() + "/"
        self.seen = {}
        self.known = {int(name) for name in os.listdir("/proc") if name.isdigit()}
        self.young = set()

    def look(self):
        """Look once at all processes that began after this one."""
        now = {int(name) for name in os.listdir("/proc") if name.isdigit()}
        self.young = (self.young | (now - self.known)) & now
        self.known = now
        for pid in self.young:
            folder = "/proc/{}".format(pid)
            with contextlib.suppress(OSError, ValueError):
                if os.stat(folder).st_uid == os.geteuid():
                    for number in os.listdir(folder + "/fd"):
                        with contextlib.suppress(OSError, ValueError):
                            self.file(folder, number)

    def file(self, folder, number):
        """Note one open file, if it is an ordinary file that can be written."""
        at = "{}/fd/{}".format(folder, number)
        path = os.readlink(at)
        if not path.startswith("/") or (path.startswith(VIRTUAL) and "/shm/" not in path):
            return
        with open("{}/fdinfo/{}".format(folder, number)) as file:
            flags = int(next(line for line in file if line.startswith("flags:")).split()[1], 8)
        inside = self.below in path  # the path in a container may begin otherwise
        if not inside and path.startswith(self.stage):
            return  # output of the job
        if not inside and (flags & os.O_ACCMODE == os.O_RDONLY or session(folder) != os.getsid(0)):
            return  # of another job
        status = os.stat(at)
        if not stat.S_ISREG(status.st_mode):
            return
        key = (path, flags)
        if key not in self.seen:
            kind = capacity.magic(at)
            if kind is None or os.readlink(at) != path:
                return  # closed meanwhile
            self.seen[key] = {
                "path": path,
                "inside": inside,
                "written": flags & os.O_ACCMODE != os.O_RDONLY,
                "o_direct": bool(flags & os.O_DIRECT),
                "o_sync": flags & os.O_SYNC == os.O_SYNC,
                "type": capacity.MAGIC.get(kind),
                "preloaded": preloaded(folder),
                "bytes": 0,
                "looks": 0,
            }
        self.seen[key]["looks"] += 1
        self.seen[key]["bytes"] = max(self.seen[key]["bytes"], status.st_size)


def watch(directory, name, shell):
    """Leave a process behind that watches, and return its number.

    It watches until signal TERM, or until the process `shell` has ended, looks a last time, and
    writes what it saw. A process that begins after this function has returned counts as one to be
    watched, even if the watch gets its first turn later, as on a busy node.
    """
    watched = Watch(os.path.join(os.path.realpath(directory), "assay."))
    ended = []
    before = signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    child = os.fork()
    if child:
        signal.signal(signal.SIGTERM, before)
        return child
    # The job must not wait for our output.
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    last = False
    while not last:
        last = bool(ended) or not os.path.exists("/proc/{}".format(shell))
        watched.look()
        time.sleep(0 if last else PAUSE)
    with open(name + ".part", "w") as file:
        json.dump(list(watched.seen.values()), file, indent=1)
        file.write("\n")
    os.replace(name + ".part", name)
    os._exit(0)


def memory_copy():
    """The rate at which this core copies within the memory [B/s], the best of three."""
    source, target, took = bytearray(COPIED), memoryview(bytearray(COPIED)), []
    for _ in range(3):
        begin = time.perf_counter()
        target[:] = source
        took.append(time.perf_counter() - begin)
    return COPIED / min(took)


def end(name, reason):
    """Write the reason why the benchmark is not run, and return the exit code."""
    with open(name, "w") as file:
        file.write(reason + "\n")
    sys.stderr.write(reason + "\n")
    return 1


def main(asked):
    """Examine the file system and return the exit code."""
    space = capacity.file_system(asked.directory)
    if asked.directory in capacity.answers.hung:
        return end(asked.refused, capacity.answers.hung[asked.directory])
    space["o_direct"] = o_direct(asked.directory)
    space["statfs"] = capacity.MAGIC.get(capacity.magic(asked.directory))
    with open(asked.found, "w") as file:
        found = {"file_system": space, "memory": capacity.memory(), "memory_copy": memory_copy()}
        json.dump(found, file, indent=1)
        file.write("\n")
    if asked.direct and space["o_direct"] is False:
        return end(asked.skipped, "{} ({}) has no O_DIRECT".format(asked.directory, space["type"]))
    free = space.get("free_bytes")
    # One without a size of its own, such as ramfs, says 0. One that is nearly full is at fault.
    if space.get("size_bytes") and free < asked.bytes:
        reason = "{} writes {} bytes, {} has {} free: make room there, or choose less".format(
            asked.what, asked.bytes, asked.directory, free
        )
        if asked.of_memory and 10 * free >= space["size_bytes"]:
            return end(asked.skipped, "too-small: " + reason)
        return end(asked.refused, reason)
    return 0


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("directory", help="where the benchmark writes")
    options.add_argument("what", help="name of the benchmark")
    options.add_argument("bytes", type=int, help="how many it writes")
    options.add_argument("--found", required=True, help="file for what was found")
    options.add_argument("--refused", required=True, help="file for why there is no room")
    options.add_argument("--skipped", help="file for why it is not for this file system")
    options.add_argument("--direct", action="store_true", help="it needs O_DIRECT")
    options.add_argument("--of-memory", action="store_true", help="memory makes it so large")
    options.add_argument("--watch", help="file for the files that are written, after signal TERM")
    given = options.parse_args()
    code = main(given)
    if code == 0 and given.watch:
        child = watch(given.directory, given.watch, os.getppid())
        with open(given.watch + ".pid", "w") as file:
            file.write("{}\n".format(child))
    sys.exit(code)
