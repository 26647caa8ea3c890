"""Whether a curve over the message size is plausible, at each of its sizes, without a reference.

All rules are about the time of one message. It follows from a rate: size / bandwidth, or 1 /
messages per second. Three facts hold on any machine, apart from noise and from the switches between
protocols:

- A message takes no longer than a larger one.
- Its time continues the times of the smaller messages, or leads to those of the larger ones.
- Twice the size takes at most about twice the time, since two messages could carry it.

One message at a time also has bounds: a core must copy it, and the link must carry it.

``curves.yaml`` beside this module has the limits, with their sources. A fault that bends the curve
less than these limits is left to references, and to the envelope that ``assay calibrate`` writes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from assay import files
from assay.judge.plausible import MOST_OF_PEAK, Ratios
from assay.judge.references import Envelope
from assay.quantities import number

#: Columns of a curve and the time [us] of one message of a size [B]; the first present one counts.
COLUMNS = {
    "latency": lambda size, value: value,
    "messages_per_s": lambda size, value: 1e6 / value,
    "bandwidth": lambda size, value: size / value,
}


#: Below this size [B] programs and libraries switch between ways to send a short message.
SHORT = 256

#: Receive buffers of UCX in shared memory (UCX_POSIX_FIFO_SIZE, UCX_SYSV_FIFO_SIZE), and the most
#: that the first use of one takes [us]: 8 KiB are up to three pages, which the kernel must map. It
#: took 1.1 to 1.5 us on an Intel Xeon, and 1.5 to 2.8 us on an AMD EPYC, both virtual machines.
BUFFERS, FIRST_USE = 64, 3.0


#: How far beyond its limit a ratio of times must be if only one launch decides. The 1392 healthy
#: launches of docs/judging.md stayed below 4.
ALONE = 10


#: Faster than one core moves data [MB/s]: 128 B in each cycle at 5 GHz are 640 GB/s. The 77
#: recorded curves of a latency up to 1 MiB or more stayed below 61 GB/s.
FASTEST_CORE = 1e6

#: From this size on [B], one message over a link has no more than :data:`MOST_OF_LINK` times its
#: rate. A bucket lets its own bytes pass at once; that of the emulated links has 256 KiB.
LONG, MOST_OF_LINK = 1 << 20, 2.0


#: How much slower a cell of a table may be than each neighbour suggests, if its file takes longer
#: than a rank may wait for a core [s]. A recorded healthy cell of 128 KiB was 107 times slower.
SLOW_CELL, STALL = 50.0, 0.1


@cache
def limits() -> Mapping[str, Mapping[str, float]]:
    """The limits of each pattern of communication, from ``curves.yaml``."""
    document = files.read_yaml(Path(__file__).with_name("curves.yaml"), ValueError)
    return {pattern: entry["limits"] for pattern, entry in document["patterns"].items()}


def column(rows: Sequence[Mapping[str, Any]]) -> str | None:
    """The measured column of a curve; None if the rows are not a curve."""
    if not rows or "size" not in rows[0]:
        return None
    return next((name for name in COLUMNS if name in rows[0]), None)


def times(rows: Sequence[Mapping[str, Any]]) -> list[tuple[int, float]]:
    """Size [B] and time of one message [us], sizes ascending; without values that are 0."""
    name = column(rows)
    if name is None:
        return []
    known = {
        int(row["size"]): COLUMNS[name](int(row["size"]), float(row[name]))
        for row in rows
        if float(row[name]) > 0
    }
    return sorted((size, time) for size, time in known.items() if time > 0)


def first_use(row: Mapping[str, Any]) -> float:
    """The most that the first use of receive buffers adds to the time of a row [us].

    A program that sends n messages of a size prints t + c / n: the time t of one message, and its
    share of a cost c that a launch pays once. A row with ``repeats`` n (NetPIPE) is the least of
    several trials. With n of at least :data:`BUFFERS`, a later trial uses no buffer for the first
    time. With less, each message of each trial may. Other rows have no such share.
    """
    return FIRST_USE if int(row.get("repeats", BUFFERS)) < BUFFERS else 0.0


def outside(rows: Sequence[Mapping[str, Any]], envelope: Envelope) -> Ratios:
    """The values of a curve as shares of the bounds of its envelope, as :func:`ratios`."""
    name, found = column(rows), {}
    for row in rows:
        if envelope and name and row["size"] in envelope and float(row[name]) > 0:
            low, high = envelope[int(row["size"])]
            at = f"{name} at {row['size']} B"
            found[f"{at} / its upper bound {number(high)}"] = (
                float(row[name]) / high,
                1.0,
            )
            found[f"lower bound {number(low)} / {at}"] = (low / float(row[name]), 1.0)
    return found


def ratios(
    rows: Sequence[Mapping[str, Any]],
    pattern: str,
    peak: float | None = None,
    alone: bool = False,
) -> Ratios:
    """What is to be judged of one curve, see :func:`assay.judge.plausible.judge_ratios`.

    :param rows: with ``size`` [B] and one of ``latency`` [us], ``messages_per_s`` and
        ``bandwidth`` [MB/s].
    :param pattern: of the communication, a key of ``curves.yaml``.
    :param peak: the most that the path carries [MB/s], if it is known: of a latency, the rate of
        the link in one direction.
    :param alone: no other launch can follow, so the limits of times are :data:`ALONE` times wider.
    """
    points = times(rows)
    once = {int(row["size"]): first_use(row) for row in rows} if points else {}
    limit = {
        name: most * ALONE if alone and name != "fastest" else most
        for name, most in limits()[pattern].items()
    }
    found: dict[str, tuple[float, float]] = {}
    least, typical = math.inf, math.inf
    first = next((size for size, _ in points if size), 0)
    for at in reversed(range(len(points))):
        size, time = points[at]
        if math.isfinite(least):
            what = f"time of {size} B / least time of a larger message"
            own = max(time - once[size], 0.0)
            found[what] = (own / least, limit["larger"])
            if size <= first:
                # In each launch the first size also takes the time to open connections. One larger
                # message that was fast by chance must therefore not decide.
                found[what] = (own / typical, limit["first"])
        least = min(least, time)
        typical = min(typical, statistics.median_low([t for _, t in points[at : at + 3]]))
        # 1 MB/s is 1 B/us.
        found[f"rate of {size} B / fastest memory"] = (max(size, 1) / time / limit["fastest"], 1.0)
    # A message of 0 B may take no path at all.
    points = [(size, time) for size, time in points if size]
    for at, (size, time) in enumerate(points[1:-1], 1):
        small = "neighbours_below_256B" if size < SHORT else "neighbours"
        suggested = max(_after(points[:at], size), _before(points[at + 1 :], size))
        own = max(time - once[size], 0.0)
        found[f"time of {size} B / time by its neighbours"] = (own / suggested, limit[small])
    for (a, before), (b, time) in zip(points, points[1:]):
        what = f"growth of the time from {a} to {b} B / growth of the size"
        found[what] = (max(time - once[b], 0.0) / before / (b / a), limit["growth"])
    if peak is not None and column(rows) == "bandwidth":
        for row in rows:
            share = float(row["bandwidth"]) / peak
            found[f"rate of {row['size']} B / peak"] = (share, MOST_OF_PEAK)
    if pattern == "point-to-point" and column(rows) == "latency":
        found.update(_one_message(points, peak))
    return found


def _one_message(points: Sequence[tuple[int, float]], peak: float | None) -> Ratios:
    """What one message at a time may show, from :data:`LONG` on; sizes in ascending order."""
    long = [(size, time) for size, time in points if size >= LONG]
    found: dict[str, tuple[float, float]] = {}
    if peak is not None:
        for size, time in long:
            found[f"rate of one message of {size} B / peak"] = (size / time / peak, MOST_OF_LINK)
    short = [time for size, time in points if size <= SHORT]
    for size, time in long[-1:] if short else ():
        most = max(time - min(short), 1e-6)
        what = f"{size} B / what {FASTEST_CORE:g} MB/s carry in the time that they take longer"
        found[f"{what} than the shortest message"] = (size / most / FASTEST_CORE, 1.0)
    return found


def cells(rows: Sequence[Mapping[str, Any]], operations: Sequence[str]) -> Ratios:
    """What is to be judged of a table of rates [KiB/s] over file size and record size.

    A cell is compared with the next smaller and larger size on each axis, if there are at least two
    and one has the same file size: a file that outgrows a cache is slow with all records. A smaller
    file or record may take as long as its neighbour. The first row also has the first access to the
    file system, and is left out.
    """
    at = {(int(row["file_size"]), int(row["record_size"])): row for row in rows}
    axes = [sorted({size[axis] for size in at}) for axis in (0, 1)]
    found = {}
    for size, row in list(at.items())[1:]:
        beside = [other for other in _beside(size, axes) if other in at]
        if len(beside) < 2 or all(other[0] != size[0] for other in beside):
            continue
        shares = {o: math.prod(min(a / b, 1.0) for a, b in zip(size, o)) for o in beside}
        for name in operations:
            least = min(float(at[other][name]) * share for other, share in shares.items())
            what = f"{name} beside {size[0]} KiB by {size[1]} KiB / {name} of it"
            if float(row[name]) > 0 and size[0] / float(row[name]) > STALL:
                found[what] = (least / float(row[name]), SLOW_CELL)
    return found


def _beside(size: tuple[int, int], axes: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """The cells next to a cell, whether the table has them or not."""
    beside = []
    for axis, known in enumerate(axes):
        here = known.index(size[axis])
        for step in (here - 1, here + 1):
            if 0 <= step < len(known):
                beside.append((known[step], size[1]) if axis == 0 else (size[0], known[step]))
    return beside


def _after(points: Sequence[tuple[int, float]], size: int) -> float:
    """The time of a larger message, as the last two points continue; at most proportional."""
    (known, time), slope = points[-1], 1.0
    if len(points) > 1:
        slope = _slope(*points[-2:])
    return float(time * (size / known) ** slope)


def _before(points: Sequence[tuple[int, float]], size: int) -> float:
    """The time of a smaller message, as the first two points lead to it; at most that time."""
    (known, time), slope = points[0], 0.0
    if len(points) > 1:
        slope = _slope(*points[:2])
    return float(time * (size / known) ** slope)


def _slope(low: tuple[int, float], high: tuple[int, float]) -> float:
    """Slope of the time on logarithmic scales, within what is plausible: 0 to 1."""
    return min(max(math.log(high[1] / low[1]) / math.log(high[0] / low[0]), 0.0), 1.0)
