"""Ranks and network devices of a node: which processors are near which device.

The kernel knows the NUMA node of each device of the PCI bus. ``near-device.sh`` reads it on the
node of each rank, and binds the rank if the test asks for it. The witness of the rank
(:mod:`assay.prove.steering`) reads the processors that the rank then had. The counters of the
devices (:mod:`assay.prove.links`) tell which device carried the bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from assay import metrics
from assay.node.lists import numbers
from assay.parse.reading import Process
from assay.prove.launch import short_name
from assay.prove.steering import Steering

#: Files that the script leaves in the directory of the job.
FILES = "near.*.*"

NEAR, FAR, FREE = "near", "far", "free"

#: Least share of the bytes that the devices near a rank must carry, as a part of the share of the
#: ranks that are near them. Chosen, not measured.
LEAST = 0.5

#: How much faster the far side may be [%] before the description of the node is doubted.
WORSE = 10.0


@dataclass(frozen=True)
class Place:
    """A node as the script saw it for one rank.

    :ivar near: device -> the processors near it; empty if the kernel does not say.
    """

    host: str
    near: Mapping[str, frozenset[int]]


def parse(text: str) -> Place:
    """The file of one rank.

    :raises ValueError: it is not such a file, or has no device.
    """
    host, near = "", {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if words[:1] == ["host"] and len(words) == 6:
            host = words[1]
        elif words[:1] == ["device"] and words[2:3] == ["near"] and len(words) <= 4:
            near[words[1]] = numbers(words[3]) if len(words) == 4 else frozenset()
        else:
            raise ValueError(f"line {number} is not of near-device.sh: {line[:60]!r}")
    if not host or not near:
        raise ValueError("it names no host or no device: did the rank end before it began?")
    return Place(host, near)


def unplaced(ranks: Iterable[Steering], places: Mapping[str, Place]) -> list[str]:
    """Hosts of ranks that left no file, and devices of which the kernel knows no place."""
    if not places:
        return ["no rank wrote where its devices are: did near-device.sh start the ranks?"]
    lines = [f"{host}: no rank wrote where its devices are" for host in _hosts(ranks, places)]
    return lines + [
        f"{place.host} does not say which processors are near {device}"
        for place in places.values()
        for device, cpus in place.near.items()
        if not cpus
    ]


def _hosts(ranks: Iterable[Steering], places: Mapping[str, Place]) -> list[str]:
    return sorted({rank.host for rank in ranks} - places.keys())


def wrong_side(ranks: Iterable[Steering], places: Mapping[str, Place], side: str) -> list[str]:
    """Ranks that may run on the other side of the first device than was asked for."""
    lines = []
    for rank in ranks:
        place = places.get(rank.host)
        near = next(iter(place.near.values())) if place else frozenset()
        outside = rank.cpus - near if side == NEAR else rank.cpus & near
        if place and (outside or not rank.cpus):
            lines.append(
                f"a rank on {rank.host} may run on processors {_said(rank.cpus)}, {side} of "
                f"{next(iter(place.near))} was asked for: near it are {_said(near)}"
            )
    return list(dict.fromkeys(lines))


def mapping(place: Place) -> dict[str, str]:
    """The mapping that the node should have: processors -> the devices near them."""
    found: dict[str, list[str]] = {}
    for device, cpus in place.near.items():
        found.setdefault(_said(cpus), []).append(device)
    return {cpus: ",".join(devices) for cpus, devices in found.items()}


def misplaced(
    ranks: Sequence[Steering],
    places: Mapping[str, Place],
    carried: Mapping[str, Mapping[str, int]],
) -> list[str]:
    """Ranks that are not bound near a device, and devices that the ranks near them do not use.

    :param carried: host -> device -> bytes.
    """
    lines = []
    for host, place in sorted(places.items()):
        here = [rank for rank in ranks if rank.host == host]
        counted = carried.get(host, {})
        # A device that counts nothing may have carried everything.
        total = sum(counted.values()) if place.near.keys() <= counted.keys() else 0
        sides = dict.fromkeys(place.near.values())
        near = frozenset().union(*sides)
        # A NUMA node may have no device: its ranks are near none, however they are bound.
        loose = sum(
            not rank.cpus
            or (bool(rank.cpus & near) and not any(rank.cpus <= cpus for cpus in sides))
            for rank in here
        )
        if loose:
            lines.append(
                f"{loose} of {len(here)} ranks on {host} are near no single device: the launcher "
                f"must bind them to {' or '.join(f'{c} ({d})' for c, d in mapping(place).items())}"
            )
        for cpus in sides:
            devices = [device for device, near in place.near.items() if near == cpus]
            ours = sum(bool(rank.cpus) and rank.cpus <= cpus for rank in here)
            share = sum(counted.get(name, 0) for name in devices) / (total or 1)
            part = ours / len(here) if here else 0.0
            if total and share < LEAST * part:
                lines.append(
                    f"{ours} of {len(here)} ranks on {host} run near {','.join(devices)} "
                    f"(processors {_said(cpus)}), which carried {share:.0%} of the bytes: the "
                    "others took a far device"
                )
    return lines


def far_lanes(
    ranks: Mapping[Process, Steering],
    places: Mapping[str, Place],
    devices: Mapping[Process, Collection[str]],
) -> list[str]:
    """Ranks near a device that have lanes over other devices only, a line for each such mapping.

    Counters cannot show that: if the ranks of both sides take the far device, each device carries
    its share.

    :param devices: the devices of the lanes that each process has to other processes. UCX leaves
        the domain out of the names of their hosts.
    """
    lanes = {(short_name(host), number): names for (host, number), names in devices.items()}
    found: Counter[tuple[str, str, str, str]] = Counter()
    for (host, number), rank in ranks.items():
        place, taken = places.get(rank.host), set(lanes.get((short_name(host), number), ()))
        sides = place.near if place else {}
        near = [name for name, cpus in sides.items() if rank.cpus and rank.cpus <= cpus]
        if near and taken and not taken & {*near}:
            cpus = _said(sides[near[0]])
            found[rank.host, ",".join(near), cpus, ",".join(sorted(taken))] += 1
    return [
        f"ranks on {host} near {near} (processors {cpus}) whose lanes to other ranks are all over "
        f"{taken}: {count}; UCX chose a far device"
        for (host, near, cpus, taken), count in sorted(found.items())
    ]


def gain(near: float, far: float, unit: str) -> float:
    """By how much the near device is better than the far one [%], of a time or of a rate."""
    return 100 * (far / near - 1 if metrics.lower_is_better(unit) else near / far - 1)


def reversed_(gains: Mapping[str, float]) -> list[str]:
    """A line for each benchmark that is faster with the far device."""
    return [
        f"{benchmark}: the near device is {-percent:.0f} % worse than the far one: does the node "
        "say rightly where its devices are?"
        for benchmark, percent in gains.items()
        if percent < -WORSE
    ]


def _said(cpus: Iterable[int]) -> str:
    """Processors as the kernel lists them: ``0-3,8``."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and parts[-1][1] == cpu - 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts) or "none"
