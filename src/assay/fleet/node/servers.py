"""Writes and reads a file on each server of a parallel file system; prints the rates as JSON.

``python3 servers.py DIRECTORY NAME`` tries names of files, which select the servers, and keeps a
file on each server that it meets. It bypasses the page cache. The output has `servers`: server ->
rates of `write` and `read` [KiB/s], one for each round.
"""

import contextlib
import json
import mmap
import os
import re
import sys
import time

#: Names that are tried. With 16 servers, one of them is missed in 1.6 % of all tries.
NAMES = 64

#: Size of a file, and of one write [B]. A file is smaller than the pieces in which files are spread
#: over the servers (4 MiB or more), so all of it is on one server.
FILE, BLOCK = 1 << 20, 1 << 17

ROUNDS = 3

#: The attribute with which GlusterFS names the place of a file.
PATHINFO = "glusterfs.pathinfo"


def server(text):
    """The host in a value of :data:`PATHINFO`: ``<POSIX(/brick):HOST:/brick/file>``; else None."""
    match = re.search(r"<POSIX\([^)]*\):([^:>]+):", text)
    return match.group(1) if match else None


def files(directory, name):
    """Makes a file on each server; returns server -> path."""
    found = {}
    for number in range(NAMES):
        path = os.path.join(directory, "{}.{}".format(name, number))
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        try:
            there = server(os.getxattr(path, PATHINFO).decode())
        except OSError as error:
            os.remove(path)
            sys.exit("{}: nothing names the server of a file: {}".format(path, error.strerror))
        if there is None or there in found:
            os.remove(path)
        else:
            found[there] = path
    return found


def rate(path, flags, move):
    """The rate at which `move` moves the blocks of a file, with the flush at its end [KiB/s]."""
    file = os.open(path, flags | os.O_DIRECT)
    try:
        began = time.monotonic()
        for _ in range(FILE // BLOCK):
            move(file)
        os.fsync(file)
        return FILE / 1024 / (time.monotonic() - began)
    finally:
        os.close(file)


def measure(found):
    """The rates of all files: server -> operation -> one value for each round."""
    rates = {there: {"write": [], "read": []} for there in found}
    block = mmap.mmap(-1, BLOCK)  # begins at a page boundary, as O_DIRECT requires
    block.write(os.urandom(BLOCK))
    for _ in range(ROUNDS):
        for there, path in sorted(found.items()):
            written = rate(path, os.O_WRONLY, lambda file: os.write(file, block))
            read = rate(path, os.O_RDONLY, lambda file: os.readv(file, [block]))
            rates[there]["write"].append(written)
            rates[there]["read"].append(read)
    return rates


if __name__ == "__main__":
    made = {}
    try:
        made = files(*sys.argv[1:])
        json.dump({"servers": measure(made)}, sys.stdout)
        print()
    finally:
        for path_made in made.values():
            with contextlib.suppress(OSError):
                os.remove(path_made)
