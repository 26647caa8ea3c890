"""Whether the bytes of a run between nodes crossed the link, by the counters of its devices.

MPI and UCX report what they chose, which is only a plan. The kernel or the adapter keeps the
counters of the device. ``link-witness.sh`` reads them before and after each rank, on the rank's
node. Each node must have moved at least the bytes that the benchmark needs, both directions
together.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay import onnode
from assay.workloads.sizing import Grid, Layout

#: Script that starts a rank and leaves its readings in :data:`READINGS`, in the job's directory.
WITNESS = Path(onnode.__file__).with_name("link-witness.sh")
READINGS = "link.*.*"

_LINE = re.compile(
    r"(before|after) (\S+) (\S+) (?:received=(\d+) sent=(\d+) unit=(\d+)|(missing))", re.ASCII
)


@dataclass(frozen=True)
class Reading:
    """The counters of one device at one time, as one rank's witness read them.

    :ivar when: ``before`` or ``after`` the program.
    :ivar received: bytes since the counter began [B]; None if there is no such device.
    :ivar sent: the same for sent bytes.
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
    :ivar problems: what is wrong or unproven, one line each.
    """

    moved: Mapping[str, Mapping[str, int]]
    problems: tuple[str, ...]


def parse(text: str) -> tuple[Reading, ...]:
    """The readings of one rank: those before the program, then those after, one per device.

    :raises ValueError: a line is not a reading, or a device lacks its reading before or after.
    """
    readings = []
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"line {number} is not a reading: {line[:60]!r}")
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

    :param files: the files that the witnesses of one launch left: name of the file -> its text.
    :param layout: layout of the started ranks; each rank must have left its readings.
    :param needed: minimum for each node, see the functions below [B].
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
    return Crossing(moved, tuple(problems))


def _grown(readings: Sequence[Reading], direction: str) -> int:
    """Increase of one counter of a node, which each of the node's ranks has read.

    :raises ValueError: there is no such counter, or it decreased.
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


# --- minimum traffic of a benchmark --------------------------------------------------------------


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


def linpack_bytes(order: int, grid: Grid, layout: Layout) -> float:
    """Bytes over the link of the node that needs the fewest, for one matrix of order N.

    A rank updates its part of the trailing matrix with the panels of its row of the grid and with
    the rows U of its column. Summed over the steps, each of the two is N^2 / 2 doubles. The part
    that other nodes own must come over the link. Ranks fill the grid row by row (mapping 0), and
    they fill the nodes in blocks. Only half of the bytes are counted, because the blocks are not
    distributed evenly.
    """
    least = float("inf")
    for first in range(0, layout.ranks, layout.per_node):
        ranks = range(first, first + layout.per_node)
        in_row, in_column = Counter(r // grid.q for r in ranks), Counter(r % grid.q for r in ranks)
        foreign = sum(grid.q - own for own in in_row.values())
        foreign += sum(grid.p - own for own in in_column.values())
        least = min(least, 4 * order**2 * foreign / grid.ranks)
    return least / 2
