"""Writes files in a shared directory on one node, and reads them on all others, in each state.

Start ``python3 coherence.py plan.json`` in a directory that all nodes share. In addition to the
entries of a meeting, the plan has: ``directory``, the directory under test; ``name`` and ``bytes``,
the name and size of a file; ``states``, its states in their order; ``within``, how long a node may
take to see what another one has done [s].

The states are: new, changed (rewritten in place, with as many bytes), longer, gone.

Each node brings a file into each state. The others are told its size, time of change and
checksum, as the writer sees them. A reader looks at once, and again until it sees the same or its
time is over.
"""

import contextlib
import hashlib
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import meeting
import provenance

#: Pause between two looks [s].
PAUSE = 0.02

#: Time beyond the limit of a reader after which it counts as lost [s].
GRACE = 30

#: Where the kernel gives the number of its start. Processes with the same number share a kernel.
BOOT = "/proc/sys/kernel/random/boot_id"


def content(path, state, size):
    """The bytes of a file in one of its states; they are the same on each call."""
    return hashlib.shake_128("{} {}".format(path, state).encode()).digest(size)


def seen(path):
    """What this node sees of a file: directory entry, size, time of change [ns], checksum."""
    found = {"listed": os.path.basename(path) in os.listdir(os.path.dirname(path))}
    try:
        with open(path, "rb") as file:
            found["sha256"] = hashlib.sha256(file.read()).hexdigest()
        status = os.stat(path)
        found.update(size=status.st_size, mtime_ns=status.st_mtime_ns)
    except FileNotFoundError:
        pass
    except OSError as error:
        found["error"] = error.strerror
    return found


def write(path, state, size):
    """Bring a file into a state; returns what this node sees of it afterwards."""
    if state == "gone":
        os.remove(path)
        return seen(path)
    if state == "longer":
        size += size // 2
    flags = os.O_WRONLY | (os.O_CREAT | os.O_EXCL if state == "new" else 0)
    bytes_of_state = content(path, state, size)
    with os.fdopen(os.open(path, flags, 0o644), "wb") as file:
        file.write(bytes_of_state)
        file.flush()
        os.fsync(file.fileno())
    return dict(seen(path), meant=hashlib.sha256(bytes_of_state).hexdigest())


def read(path, wanted, within):
    """Look at a file until it is as wanted; returns the last look, and the time until it [s]."""
    began = time.monotonic()
    while True:
        last = seen(path)
        after = time.monotonic() - began
        if last == wanted or after > within:
            return {"last": last, "after": after}
        time.sleep(PAUSE)


def place(directory):
    """Where this process runs, and what the directory is there."""
    found = provenance.capacity.file_system(directory)
    wanted = ("type", "source", "mount", "error")
    return {
        "boot": provenance.read(BOOT),
        "type_of_statfs": provenance.capacity.MAGIC.get(provenance.capacity.magic(directory)),
        **{key: found[key] for key in wanted if found.get(key)},
    }


#: Files of this process, also those that are gone by now.
WRITTEN = set()


def work(order):
    """Carry out an order on this node; a file that cannot be written is an answer, too."""
    if order is None:
        for path in WRITTEN:
            with contextlib.suppress(OSError):
                os.remove(path)
        return None
    if order["do"] == "place":
        return place(order["directory"])
    path = order["path"]
    try:
        if order["do"] == "read":
            return read(path, order["wanted"], order["within"])
        WRITTEN.add(path)
        return write(path, order["state"], order["bytes"])
    except OSError as error:
        return {"error": "{}: {}".format(error.strerror, path)}


def preside(plan, members, log):
    """The part of rank 0."""
    limit = plan["within"] + GRACE
    present = [members[number] for number in sorted(members)]

    def ask(member, order):
        try:
            return member.ask(order, limit)
        except meeting.Lost:
            return None  # the last line of the log gives the reason

    with ThreadPoolExecutor(len(present)) as pool:
        where = pool.map(lambda m: ask(m, {"do": "place", "directory": plan["directory"]}), present)
        for member, found in zip(present, where):
            log.add({"node": member.rank, "place": found})
        for writer in present:
            name = "{}.{}".format(plan["name"], writer.rank)
            path = os.path.join(plan["directory"], name)
            others = [member for member in present if member is not writer]
            for state in plan["states"]:
                order = {"do": "write", "path": path, "state": state, "bytes": plan["bytes"]}
                wanted = ask(writer, order)
                log.add({"node": writer.rank, "state": state, "wrote": wanted})
                if wanted is None or "error" in wanted:
                    break
                order = {"do": "read", "path": path, "within": plan["within"]}
                order["wanted"] = {key: value for key, value in wanted.items() if key != "meant"}
                answers = pool.map(lambda m, order=order: ask(m, order), others)
                for member, answer in zip(others, answers):
                    log.add(
                        {"node": member.rank, "state": state, "of": writer.rank, "read": answer}
                    )


if __name__ == "__main__":
    meeting.hold(sys.argv[1], preside, lambda plan: work)
