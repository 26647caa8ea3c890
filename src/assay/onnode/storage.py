"""What the file system under test and its node are, as JSON; refuses what cannot be run there.

Runs in the job, before the benchmark. Where that cannot be run, this leaves the reason in a file,
in one line, and ends with 1.
"""

import argparse
import contextlib
import errno
import json
import mmap
import os
import sys

import provenance

#: Size of a single write that every device accepts [B].
PAGE = 4096


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


def end(name, reason):
    """Write the reason why the benchmark is not run, and return the exit code."""
    with open(name, "w") as file:
        file.write(reason + "\n")
    sys.stderr.write(reason + "\n")
    return 1


def main(asked):
    """Examine the file system and return the exit code."""
    space = provenance.file_system(asked.directory)
    if asked.directory in provenance.hung:
        return end(asked.refused, provenance.hung[asked.directory])
    space["o_direct"] = o_direct(asked.directory)
    with open(asked.found, "w") as file:
        json.dump({"file_system": space, "memory": provenance.memory()}, file, indent=1)
        file.write("\n")
    free = space.get("free_bytes")
    # A file system without a size of its own, such as ramfs, reports a size of 0 bytes.
    if space.get("size_bytes") and free < asked.bytes:
        reason = "{} writes {} bytes, {} has {} free: make room there, or choose less".format(
            asked.what, asked.bytes, asked.directory, free
        )
        return end(asked.refused, reason)
    if asked.skipped and space["o_direct"] is False:
        return end(asked.skipped, "{} ({}) has no O_DIRECT".format(asked.directory, space["type"]))
    return 0


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("directory", help="where the benchmark writes")
    options.add_argument("what", help="name of the benchmark")
    options.add_argument("bytes", type=int, help="how many it writes")
    options.add_argument("--found", required=True, help="file for what was found")
    options.add_argument("--refused", required=True, help="file for why there is no room")
    options.add_argument("--skipped", help="file for why O_DIRECT, which it needs, is not possible")
    sys.exit(main(options.parse_args()))
