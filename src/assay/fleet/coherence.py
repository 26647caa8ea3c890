"""What nodes see of the files that other nodes write, from the log of ``fleet/node/coherence.py``.

POSIX demands that all see a change at once. NFS and FUSE promise it for a file that is opened after
the writer closed it; they may keep sizes, times and names for some seconds.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.fleet.coordinator_log import CoordinatorLog

#: The states of a file, in their order, as ``fleet/node/coherence.py`` makes them.
STATES = ("new", "changed", "longer", "gone")


@dataclass(frozen=True)
class Look:
    """What one node saw of a file of another.

    :ivar state: of the file: new, changed, longer, gone.
    :ivar wanted: what its writer saw: listed, size [B], mtime_ns, sha256.
    :ivar last: what the reader saw in its last look.
    :ivar after: time between its first look and its last [s].
    """

    writer: str
    reader: str
    state: str
    wanted: Mapping[str, Any]
    last: Mapping[str, Any]
    after: float

    @property
    def same(self) -> bool:
        """Whether the reader saw in the end what the writer saw."""
        return {k: self.wanted[k] for k in self.wanted if k != "meant"} == dict(self.last)


def looks(log: CoordinatorLog) -> tuple[list[Look], list[str]]:
    """All looks, and a line for each file that could not be written or looked at."""
    found, failed = [], []
    wanted: Mapping[str, Any] = {}
    for entry in log.entries:
        name, state = log.nodes[entry["node"]], entry.get("state")
        answer = entry.get("wrote", entry.get("read"))
        if state is None or answer is None:
            continue  # a lost node is a problem of the log
        if "wrote" in entry:
            wanted = answer
            if "error" in answer:
                failed.append(
                    f"{name} cannot bring its file into the state {state}: {answer['error']}"
                )
            elif answer.get("sha256") != answer.get("meant"):
                failed.append(f"{name} does not read what it wrote itself ({state})")
        elif "error" in answer:
            failed.append(f"{name} cannot look at a file ({state}): {answer['error']}")
        else:
            writer = log.nodes[entry["of"]]
            found.append(Look(writer, name, state, wanted, answer["last"], answer["after"]))
    return found, failed


def missing(found: Sequence[Look], nodes: Sequence[str]) -> list[str]:
    """A line if some node did not look at each state of each file of the others."""
    pairs = itertools.permutations(nodes, 2)
    wanted = {(*pair, state) for pair, state in itertools.product(pairs, STATES)}
    lacking = wanted - {(look.writer, look.reader, look.state) for look in found}
    return [f"{len(lacking)} of {len(wanted)} looks are missing"] if lacking else []


def differences(found: Sequence[Look]) -> Iterator[str]:
    """The looks that did not end with what the writer saw, one line each."""
    earlier: dict[str, list[str]] = {}
    for look in found:
        known = earlier.setdefault(look.writer, [])
        if not look.same:
            what = "; ".join(_differences(look, known))
            yield (
                f"{look.reader} does not see the file of {look.writer} ({look.state}) after "
                f"{look.after:.3g} s: {what}"
            )
        if "sha256" in look.wanted and look.wanted["sha256"] not in known:
            known.append(look.wanted["sha256"])


def _differences(look: Look, earlier: Sequence[str]) -> Iterator[str]:
    wanted, last = look.wanted, look.last
    if "error" in last:
        yield f"it cannot be read: {last['error']}"
        return
    there, was = "sha256" in last, "sha256" in wanted
    if there != was:
        yield "it is there although it was removed" if there else "there is no such file"
    if last["listed"] != wanted["listed"]:
        yield f"the directory {'still lists' if last['listed'] else 'does not list'} it"
    if not (there and was):
        return
    if last["sha256"] != wanted["sha256"]:
        stale = last["sha256"] in earlier
        yield "its content is stale, that of an earlier state" if stale else "it has other bytes"
    if last["size"] != wanted["size"]:
        yield f"it has {last['size']} bytes instead of {wanted['size']}"
    if last["mtime_ns"] != wanted["mtime_ns"]:
        ahead = (last["mtime_ns"] - wanted["mtime_ns"]) / 1e9
        yield f"its time of change differs by {ahead:+.6f} s"


def places(log: CoordinatorLog) -> dict[str, Mapping[str, Any]]:
    """Node -> the kernel that it runs (boot), and the mount under the directory."""
    return {log.nodes[entry["node"]]: entry["place"] for entry in log.entries if entry.get("place")}


def misplaced(found: Mapping[str, Mapping[str, Any]], stated: str | None) -> Iterator[str]:
    """Nodes that are none of their own, or whose directory is on another file system or mount."""
    for one, other in itertools.combinations(found, 2):
        if found[one]["boot"] is None or found[one]["boot"] == found[other]["boot"]:
            yield (
                f"{one} and {other} are not known to be two nodes: their boot number is "
                f"{found[other]['boot']}"
            )
    for name, place in found.items():
        kind = place.get("type")
        if "error" in place:
            yield f"{name}: the directory: {place['error']}"
        elif stated and kind != stated:
            yield f"{name}: the directory is {kind} (mounted at {place.get('mount')}), not {stated}"
    mounts = {name: f"{its.get('type')} {its.get('source')}" for name, its in found.items()}
    if len(set(mounts.values())) > 1:
        said = ", ".join(f"{name}: {mount}" for name, mount in mounts.items())
        yield f"the directory is not one mount: {said}"
