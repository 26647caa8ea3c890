"""/etc of a machine: the host's, except for the files that the machine has of its own.

A mount over /etc/passwd disappears when a package replaces /etc/passwd on the host. A machine
therefore has a directory of its own. It holds the machine's files, and links to the host's.
"""

import shutil

#: Files that a machine has of its own; `up` writes them.
OWN = ("hosts", "passwd", "group")


def fill(own, files, host):
    """Fills `own`, an empty directory, with the machine's files and links to the rest of `host`."""
    for name in OWN:
        shutil.copy(files / name, own / name)
    follow(own, host)


def follow(own, host):
    """Updates the links in `own`: files that are new in `host` appear, files that are gone vanish.

    A relative link of the host's is copied as it is.
    """
    wanted = {}
    for entry in host.iterdir():
        if entry.name not in OWN:
            wanted[entry.name] = entry.readlink() if entry.is_symlink() else entry
    found = {entry.name: entry.readlink() for entry in own.iterdir() if entry.is_symlink()}
    for name in found.keys() - wanted.keys():
        (own / name).unlink()
    for name, there in wanted.items():
        if found.get(name) != there and (name in found or not (own / name).exists()):
            new = own / f".{name}.new"
            new.symlink_to(there)
            new.replace(own / name)
