"""Whether the bytes of a run between nodes crossed the link: the counters of its devices.

What MPI and UCX say that they chose is a plan. The counters of the device are kept by the kernel
or by the adapter: ``link-witness.sh`` reads them around each rank, on the rank's node. A node must
have moved, in both directions together, at least what the benchmark cannot do without.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay import onnode
from assay.workloads.sizing import Grid, Layout

#: Starts a rank and leaves its readings in :data:`READINGS`, in the directory of the job.
WITNESS = Path(onnode.__file__).with_name("link-witness.sh")
READINGS = "link.*.*"

_LINE = re.compile(
    r"(before|after) (\S+) (\S+) (?:received=(\d+) sent=(\d+) unit=(\d+)|(missing))", re.ASCII
)


@dataclass(frozen=True)
class Reading:
    """The counters of one device at one time, as one rank's witness read them.

    :ivar when: ``before`` or ``after`` the program.
    :ivar received: [B] since the counter began, None where there is no such device.
    :ivar sent: likewise.
    """

    when: str
    host: str
    device: str
    received: int | None
    sent: int | None


@dataclass(frozen=True)
class Crossing:
    """What the counters prove of one run.

    :ivar moved: ``received`` and ``sent`` [B] of each node.
    :ivar needed: what each node must have moved at least, both together [B].
    :ivar problems: what is wrong or unproven, one line each.
    """

    moved: Mapping[str, Mapping[str, int]]
    needed: float
    problems: tuple[str, ...]


def parse(text: str) -> tuple[Reading, ...]:
    """The readings of one rank: those before, then those after, one for each device.

    :raises ValueError: a line is no reading, or there is not one before and one after for each
        device.
    """
    readings = []
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"line {number} is no reading: {line[:60]!r}")
        when, host, device, received, sent, unit, missing = match.groups()
        counted = (None, None) if missing else (int(received) * int(unit), int(sent) * int(unit))
        readings.append(Reading(when, host, device, *counted))
    before, after = (
        [(reading.host, reading.device) for reading in readings if reading.when == when]
        for when in ("before", "after")
    )
    if not before or before != after:
        raise ValueError("it ends before the program did: was the rank killed?")
    return tuple(readings)


def prove(files: Mapping[str, str], layout: Layout, needed: float) -> Crossing:
    """Whether each node moved at least `needed` bytes over the link.

    :param files: what the witnesses of one launch left: name of the file -> its text.
    :param layout: what was started; each rank must have left its readings.
    :param needed: see the functions below [B].
    """
    problems = []
    ranks: Counter[str] = Counter()
    ends: dict[tuple[str, str], list[Reading]] = {}
    for name, text in sorted(files.items()):
        try:
            readings = parse(text)
        except ValueError as error:
            problems.append(f"{name}: {error}")
            continue
        ranks[readings[0].host] += 1
        for reading in readings:
            ends.setdefault((reading.host, reading.device), []).append(reading)
    if not problems and sum(ranks.values()) != layout.ranks:
        problems.append(
            f"{sum(ranks.values())} ranks left readings of their link, {layout.ranks} were started"
        )
    moved: dict[str, dict[str, int]] = {}
    for (host, device), there in ends.items():
        totals = moved.setdefault(host, {"received": 0, "sent": 0})
        try:
            for direction in totals:
                totals[direction] += _grown(there, direction)
        except ValueError as error:
            problems.append(f"{device} on {host}: {error}")
    devices = ",".join(sorted({device for _, device in ends}))
    if not problems:
        problems = [
            f"{host} moved {total:.2g} B over {devices}, the benchmark moves at least "
            f"{needed:.2g} B: the bytes took another way"
            for host, total in ((host, sum(both.values())) for host, both in sorted(moved.items()))
            if total < needed
        ]
    return Crossing(moved, needed, tuple(problems))


def _grown(readings: Sequence[Reading], direction: str) -> int:
    """How far one counter of a node went on, read by each of the node's ranks.

    :raises ValueError: there is no such counter, or it went back.
    """
    values: dict[str, list[int]] = {"before": [], "after": []}
    for reading in readings:
        value = getattr(reading, direction)
        if value is None:
            raise ValueError("there is no such device; correct the partition's network_device")
        values[reading.when].append(value)
    before, after = values["before"], values["after"]
    if max(after) < max(before) or min(after) < min(before):
        raise ValueError(
            f"it had {direction} {max(before)} B before and {max(after)} B after: the counter was "
            "reset, or wrapped"
        )
    return max(after) - min(before)


# --- what a benchmark cannot do without ----------------------------------------------------------


def message_bytes(benchmark: str, layout: Layout, window: int = 1) -> int:
    """Bytes through the link of each node, both directions, for 1 B of message and 1 iteration.

    Only what MPI cannot spare by any algorithm: of a broadcast, one copy for each node.

    :param benchmark: OSU's name without ``osu_``.
    :param window: messages in flight of ``bw``, ``bibw`` and ``mbw_mr``.
    :raises ValueError: an unknown benchmark.
    """
    here, elsewhere = layout.per_node, layout.ranks - layout.per_node
    factors = {
        "latency": 2,
        "bw": window,
        "bibw": 2 * window,
        # Rank i and rank i + n/2: in blocks, no pair shares a node.
        "multi_lat": 2 * here,
        "mbw_mr": window * here,
        "bcast": 1,  # the root's node sends it, the others receive it
        "reduce": 1,
        "allreduce": 2,  # what a node adds goes out, what the others add comes in
        "gather": here,
        "alltoall": 2 * here * elsewhere,
    }
    if benchmark not in factors:
        raise ValueError(f"nothing says how many bytes osu_{benchmark} moves")
    return factors[benchmark]


def linpack_bytes(order: int, grid: Grid, layout: Layout) -> float:
    """Bytes through the link of the node that needs fewest, for one matrix of order N.

    A rank updates its part of the trailing matrix with the panels of its row of the grid and with
    the rows U of its column; summed over the steps both are N^2 / 2 doubles. What another node
    owns of them must come through the link. Ranks are in the grid row by row (mapping 0), and on
    the nodes in blocks. Half of that is counted: blocks do not fall evenly.
    """
    least = float("inf")
    for first in range(0, layout.ranks, layout.per_node):
        ranks = range(first, first + layout.per_node)
        in_row, in_column = Counter(r // grid.q for r in ranks), Counter(r % grid.q for r in ranks)
        foreign = sum(grid.q - own for own in in_row.values())
        foreign += sum(grid.p - own for own in in_column.values())
        least = min(least, 4 * order**2 * foreign / grid.ranks)
    return least / 2
