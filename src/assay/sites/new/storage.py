"""The file systems of a site that is not written yet."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from assay.sites import auto
from assay.sites.new.facts import Gap, Place

#: File systems that all nodes share, by the beginning of their types.
SHARED = ("lustre", "gpfs", "beegfs", "nfs", "fuse.glusterfs", "glusterfs", "ceph", "fuse.ceph")

#: Where the system is, and not a user's files.
OF_THE_SYSTEM = re.compile(r"/($|(etc|usr|var|opt|lib|lib64|root|tmp)$)")

#: Names of other partitions.
TAKEN = ("intra-node", "infiniband", "ethernet", "gpu")

_ADD = "add a partition with storage and its directory"


def word(text: str) -> str:
    """A text as a part of the name of a partition."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")


def partitions(place: Place, seen: set[str], gaps: list[Gap]) -> list[dict[str, Any]]:
    """A partition for each file system of users on which this user can write.

    :param seen: mount points of shared file systems that have a partition; it grows.
    :param gaps: gets what could not be found out.
    """
    found: list[dict[str, Any]] = []
    names: list[str] = list(TAKEN)
    # Of several mounts at one place the last one counts.
    for each in {each["mount"]: each for each in place.here["file_systems"]}.values():
        mount, kind, directory = each["mount"], each["type"], each["directory"]
        shared = kind.startswith(SHARED)
        if shared and mount in seen:
            continue
        if shared and directory is None:
            user = place.here["user"]
            why = each.get("error") or f"no directory on it that {user} can write was found"
            gaps.append(Gap("storage", f"{mount} ({kind}): {why}", _ADD))
        if directory is None or not (shared or _is_of_users(mount, kind)):
            continue
        if shared:
            seen.add(mount)
        name = _name(mount, kind, names)
        names.append(name)
        found.append(_partition(place, name, each, shared))
    if not found:
        gaps.append(Gap("storage", f"no file system of users was found on {place.host}", _ADD))
    return found


def _is_of_users(mount: str, kind: str) -> bool:
    if kind == "tmpfs":
        return mount == "/dev/shm"  # noqa: S108 - under test
    return not OF_THE_SYSTEM.match(mount)


def _name(mount: str, kind: str, taken: Sequence[str]) -> str:
    name = "tmpfs" if kind == "tmpfs" else word(mount.rpartition("/")[2])
    return f"files-{word(mount)}" if not name or name in taken else name


def _partition(place: Place, name: str, said: dict[str, Any], shared: bool) -> dict[str, Any]:
    kind = said["type"]
    extras = {
        **place.extras,
        "directory": said["directory"],
        "file_system": kind,
        "nodes": min(len(place.pool.up), auto.NODES),
    }
    if place.together:
        # The disks of all nodes may be on one disk.
        extras["options"] = {"EachNode.tolerance": 0.6}
    return {
        "name": name,
        "descr": f"{kind} at {said['mount']}, {'of all nodes' if shared else 'of each node'}",
        "features": ["storage", *(["shared"] if shared else [])],
        "extras": extras,
    }
