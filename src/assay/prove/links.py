"""Whether the bytes of a run between nodes crossed the link, by the counters of its devices.

MPI and UCX report what they chose, which is only a plan. The kernel or the adapter keeps the
counters of the device. ``link-witness.sh`` reads them before and after each rank, on the rank's
node. Each node must have moved at least the bytes that the benchmark needs, both directions
together. A device that counts packets only has moved at most the bytes that fit into them. Of a
device that counts neither, the proof says so, and nothing is concluded.

Whether the link damaged data or lost packets is judged by :mod:`assay.prove.counters`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import assay.node
from assay.node import port_counters
from assay.quantities import size
from assay.workloads.sizing import Layout

#: Script that starts a rank and leaves its readings in :data:`READINGS`, in the job's directory.
WITNESS = Path(assay.node.__file__).with_name("link-witness.sh")
READINGS = "link.*.*"

_LINE = re.compile(r"(before|after) (\S+) (\S+) (?:missing|counters((?: \w+=\d+)*))\n", re.ASCII)


class Reading(NamedTuple):
    """The counters of one device at one time, as one rank's witness read them.

    :ivar when: ``before`` or ``after`` the program.
    :ivar counters: None if there is no such device.
    """

    when: str
    host: str
    device: str
    counters: Mapping[str, int] | None


@dataclass(frozen=True)
class Crossing:
    """What the counters prove of one run.

    :ivar moved: ``received`` and ``sent`` [B] of each node; at most, if a device counts packets.
    :ivar unavailable: what the devices do not count, one line each.
    :ivar carried: node -> device -> what it moved in both directions [B], as `moved`.
    """

    moved: Mapping[str, Mapping[str, int]]
    problems: tuple[str, ...]
    unavailable: tuple[str, ...] = ()
    carried: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def parse_link_counters(text: str) -> tuple[Reading, ...]:
    """The readings of one rank: those before the program, then those after, one per device.

    :raises ValueError: a line is not a reading, or a device lacks its reading before or after.
    """
    readings = []
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"line {number} is not a reading: {line[:60]!r}")
        when, host, device, listed = match.groups()
        pairs = (pair.split("=") for pair in (listed or "").split())
        counters = {name: int(value) for name, value in pairs}
        readings.append(Reading(when, host, device, None if listed is None else counters))
    before, after = (
        [(reading.host, reading.device) for reading in readings if reading.when == when]
        for when in ("before", "after")
    )
    if not before or before != after:
        raise ValueError("it ends before the program did: was the rank killed?")
    return tuple(readings)


def prove_crossing(files: Mapping[str, str], layout: Layout, needed: float) -> Crossing:
    """Whether each node moved at least `needed` bytes over the link.

    :param files: the files that the witnesses of one launch left: name of the file -> its text.
    :param needed: minimum for each node, see the functions below [B].
    """
    problems, ranks = [], 0
    ends: dict[tuple[str, str], list[Reading]] = {}
    for name, text in sorted(files.items()):
        try:
            readings = parse_link_counters(text)
        except ValueError as error:
            problems.append(f"{name}: {error}")
            continue
        ranks += 1
        for reading in readings:
            ends.setdefault((reading.host, reading.device), []).append(reading)
    if not problems and ranks != layout.ranks:
        problems.append(f"{ranks} ranks left readings of their link, {layout.ranks} were started")
    moved: dict[str, Counter[str]] = {}
    carried: dict[str, dict[str, int]] = {}
    unavailable, most = [], ""
    for (host, device), there in ends.items():
        try:
            grown, packets = _grown(there)
        except ValueError as error:
            problems.append(f"{device} on {host}: {error}")
            continue
        if not grown:
            said = f"{device} on {host} counts neither bytes nor packets: nothing shows whether "
            unavailable.append(f"{said}the bytes crossed it")
            continue
        moved.setdefault(host, Counter()).update(grown)
        carried.setdefault(host, {})[device] = sum(grown.values())
        most = "at most " if packets else most
    if not problems and not unavailable:
        devices = ",".join(sorted({device for _, device in ends}))
        problems = [
            f"{host} moved {most}{size(total)} over {devices}, the benchmark moves at least "
            f"{size(needed)}: the bytes took another way"
            for host, by_device in sorted(carried.items())
            if (total := sum(by_device.values())) < needed
        ]
    return Crossing(moved, tuple(problems), tuple(unavailable), carried)


#: Least share of an equal share that each rail must carry, and the most that a rail may carry
#: which nobody asked for, as a share of all. UCX 1.13.1 gave 60 % and 40 % of the packets to two
#: equal devices (2026-11-21).
LEAST_OF_RAIL, MOST_OF_ANOTHER = 0.5, 0.01


def misrouted(crossing: Crossing, asked: Sequence[str]) -> list[str]:
    """Rails that carried too little, and devices that carried without being asked, one line each.

    :param asked: the devices that the run was to use side by side.
    """
    problems = []
    for host, devices in sorted(crossing.carried.items()):
        total = sum(devices.values())
        for device, carried in devices.items():
            share = carried / total if total else 0.0
            least = LEAST_OF_RAIL / len(asked)
            said = f"{device} on {host} carried {share:.1%} of the bytes"
            if device in asked and share < least:
                each = f"each of {len(asked)} rails must carry at least {least:.1%}"
                problems.append(f"{said}: {each}")
            elif device not in asked and share > MOST_OF_ANOTHER:
                problems.append(f"{said}, and was not asked for")
    return problems


def _grown(readings: Sequence[Reading]) -> tuple[dict[str, int], bool]:
    """Bytes that a device received and sent [B], and whether they follow from packets.

    Each rank of its node has read them. They are empty if it counts neither bytes nor packets.

    :raises ValueError: there is no such device, or a counter decreased.
    """
    if any(reading.counters is None for reading in readings):
        raise ValueError("there is no such device; correct the partition's network_device")
    counted = [(each.when, port_counters.traffic(each.counters or {})) for each in readings]
    if None in (traffic for _, traffic in counted):
        return {}, False
    found = {}
    for at, direction in enumerate(("received", "sent")):
        before, after = (
            [traffic[at] for when, traffic in counted if when == which and traffic]
            for which in ("before", "after")
        )
        if max(after) < max(before) or min(after) < min(before):
            said = f"it had {direction} {max(before)} B before and {max(after)} B after"
            raise ValueError(f"{said}: the counter was reset, or wrapped")
        found[direction] = max(after) - min(before)
    return found, any(traffic[2] for _, traffic in counted if traffic)


def message_bytes(benchmark: str, layout: Layout, window: int = 1) -> int:
    """Bytes over the link of each node, both directions, for 1 B of message and 1 iteration.

    Only bytes that no algorithm of MPI can avoid count: for a broadcast, one copy for each node.

    :param benchmark: OSU's name without ``osu_``.
    :param window: number of messages in flight in ``bw``, ``bibw`` and ``mbw_mr``.
    :raises ValueError: the benchmark is unknown.
    """
    here, elsewhere = layout.per_node, layout.ranks - layout.per_node
    factors = {
        "latency": 2,
        "bw": window,
        "bibw": 2 * window,
        # The pairs are rank i and rank i + n/2. With ranks in blocks, no pair shares a node.
        "multi_lat": 2 * here,
        "mbw_mr": window * here,
        "bcast": 1,  # the root's node sends the message, the others receive it
        "reduce": 1,
        "allreduce": 2,  # a node sends its partial result and receives that of the others
        "gather": here,
        "alltoall": 2 * here * elsewhere,
    }
    if benchmark not in factors:
        raise ValueError(f"nothing says how many bytes osu_{benchmark} moves")
    return factors[benchmark]
