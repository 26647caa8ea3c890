"""Whether a curve over the message size is plausible, at each of its sizes, without a reference.

All rules are about the time of one message. It follows from a rate: size / bandwidth, or 1 /
messages per second. Three facts hold on any machine, apart from noise and from the switches between
protocols:

- A message takes no longer than a larger one.
- Its time continues the times of the smaller messages, or leads to those of the larger ones.
- Twice the size takes at most about twice the time, since two messages could carry it.

One message at a time also has bounds: a core must copy it, and the link must carry it. And nobody
measures the same value again and again, or times that are proportional to the size.

``curves.yaml`` beside this module has the limits, with their sources. A fault that bends the curve
less than these limits is left to references, and to the envelope that ``assay calibrate`` writes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType, SimpleNamespace
from typing import Any

from assay import files
from assay.judge.peaks import Peak
from assay.judge.plausible import Ratio, Ratios, of_peak
from assay.judge.references import Envelope
from assay.quantities import number

#: Columns of a curve, of which the first one counts: unit, and time [us] of a message [B].
COLUMNS: Mapping[str, tuple[str, Callable[[int, float], float]]] = {
    "latency": ("us", lambda size, value: value),
    "messages_per_s": ("messages/s", lambda size, value: 1e6 / value),
    "bandwidth": ("MB/s", lambda size, value: size / value),
}

#: What to do about times that cannot be.
_UNMEASURED = "these times were not measured, look at the output"

Rows = Sequence[Mapping[str, Any]]

#: Size [B] -> the most that costs which a launch pays once add to the time of a message [us].
Once = Mapping[int, float]
NOTHING: Once = MappingProxyType({})


_DOCUMENT = files.own(__file__, dict[str, Any])
_BOUNDS = SimpleNamespace(**_DOCUMENT["bounds"])

#: From this size on [B], the bytes of a message pass a link at its rate.
LONG: int = _BOUNDS.long


@cache
def limits() -> Mapping[str, Mapping[str, float]]:
    """The limits of each pattern of communication, from ``curves.yaml``."""
    return {name: entry["limits"] for name, entry in _DOCUMENT["patterns"].items()}


def judged_as(of: str, shared: bool, mpi: str = "openmpi") -> str:
    """The key of ``curves.yaml`` that a curve is judged by.

    :param shared: whether ranks may wait for a core that others use too.
    """
    special = f"{of} on shared cores" if shared else f"{of} by {mpi}"
    return special if special in limits() else of


def column(rows: Rows) -> str | None:
    """The measured column of a curve; None if the rows are not a curve."""
    if not rows or "size" not in rows[0]:
        return None
    return next((name for name in COLUMNS if name in rows[0]), None)


def times(rows: Rows) -> list[tuple[int, float]]:
    """Size [B] and time of one message [us], sizes ascending; without values that are 0."""
    name = column(rows)
    if name is None:
        return []
    _, time_of = COLUMNS[name]
    known = {
        int(row["size"]): time_of(int(row["size"]), float(row[name]))
        for row in rows
        if float(row[name]) > 0 and int(row["size"]) >= 0
    }
    return sorted((size, time) for size, time in known.items() if time > 0)


def paid_once(
    rows: Rows, counted: Callable[[Mapping[str, Any]], tuple[int, int] | None]
) -> dict[int, float]:
    """The most that costs which a launch pays once add to the time of a message, see :data:`Once`.

    A program prints t + c / n: the time t of one message, and the share of a cost c in the n
    messages that it counts. ``curves.yaml`` has the costs. Sizes without a share are left out.

    :param counted: for a row, the number of messages of its size that the program counts, and that
        of those before them; None for many.
    """
    costs, shares = _DOCUMENT["once"], {}
    for at, row in enumerate(rows):
        n, before = counted(row) or (1, costs["buffers"])
        new = max(costs["buffers"] - before, 0)
        cost = min(new, n) * costs["buffer"] + (costs["connection"] if new and at == 0 else 0.0)
        if cost:
            shares[int(row["size"])] = cost / n
    return shares


def outside(rows: Rows, envelope: Envelope) -> Ratios:
    """The values of a curve as shares of the bounds of its envelope, as :func:`ratios`."""
    name, found = column(rows), {}
    for row in rows:
        size = int(row["size"]) if name else -1
        if name and size in envelope and float(row[name]) > 0:
            value, (low, high), unit = float(row[name]), envelope[size], COLUMNS[name][0]
            for side, share, bound in (("most", value / high, high), ("least", low / value, low)):
                seen = f"the {name} of {size} B was {number(value)} {unit}"
                allowed = (
                    f"the calibration allows at {side} {number(bound)} {unit}: look at this size "
                    "in the outputs; if the machine was changed on purpose, calibrate again"
                )
                found[f"{side} {size}"] = Ratio(share, 1.0, seen, allowed)
    return found


def ratios(  # noqa: PLR0913, PLR0917
    rows: Rows,
    pattern: str,
    once: Once = NOTHING,
    peak: float | None = None,
    alone: bool = False,
    pairs: int | None = None,
) -> Ratios:
    """What is to be judged of one launch, see :func:`assay.judge.plausible.judge_ratios`.

    :param rows: with ``size`` [B] and one of ``latency`` [us], ``messages_per_s`` and
        ``bandwidth`` [MB/s].
    :param pattern: of the communication, a key of ``curves.yaml``.
    :param peak: the most that the path carries [MB/s], if it is known: of a latency, the rate of
        the link in one direction.
    :param alone: no other launch can follow, so the limits of times are wider by `alone`.
    :param pairs: of ranks whose messages a rate counts; None if it is not known.
    """
    points = times(rows)
    shape = _shape(points, pattern, once, _BOUNDS.alone if alone else 1)
    return {**shape, **_made_up(rows, points), **_too_fast(rows, points, pattern, peak, pairs)}


def best(launches: Sequence[Rows], pattern: str, once: Once = NOTHING) -> Ratios:
    """The shape of a curve by the least time of each size over several launches."""
    # Of each size, the least time comes last, and stays.
    least = dict(sorted((at for rows in launches for at in times(rows)), reverse=True))
    return _shape(sorted(least.items()), pattern, once)


def _shape(
    points: Sequence[tuple[int, float]], pattern: str, once: Once, wider: float = 1
) -> dict[str, Ratio]:
    """Times of messages in times of those of other sizes, without costs that are paid once."""
    own = {size: max(time - once.get(size, 0.0), 0.0) for size, time in points}
    limit = limits()[pattern]
    found = {}

    def compare(rule: str, size: int, usual: float, than: str, growth: float = 1) -> None:
        value, most = own[size] / usual, limit[rule] * wider
        seen = f"a message of {size} B took {number(value * growth, 3)} times as long as {than}"
        bound = (
            f"at most {number(most * growth, 3)} times is plausible: look at this size in the "
            "outputs, and for a switch of protocols there"
        )
        found[f"{rule} {size}"] = Ratio(value, most, seen, bound)

    first = next((size for size in own if size), 0)
    for at, (size, _) in enumerate(points[:-1]):
        later = points[at + 1 :]
        if size > first:
            least, other = min((time, other) for other, time in later)
            compare("larger", size, least, f"one of {other} B")
        else:
            # The first size also opens connections. One fast larger message must not decide.
            threes = ([time for _, time in later[i : i + 3]] for i in range(len(later)))
            usual = min(map(statistics.median_low, threes))
            compare("first", size, usual, "larger ones")
    # A message of 0 B may take no path at all.
    points = [(size, time) for size, time in points if size]
    for at, (size, _) in enumerate(points[1:-1], 1):
        rule = "neighbours_below_256B" if size < _BOUNDS.short else "neighbours"
        # Larger times grow at most in proportion from the last two points, smaller ones shrink
        # from the first two, if at all.
        after = _continued(points[:at][::-1], size, 1.0)
        before = _continued(points[at + 1 :], size, 0.0)
        suggested = max(after, before)
        compare(rule, size, suggested, "the sizes beside it suggest")
    for (a, before), (b, _) in zip(points, points[1:]):
        compare("growth", b, before * b / a, f"one of {a} B", b / a)
    return found


def _made_up(rows: Rows, points: Sequence[tuple[int, float]]) -> dict[str, Ratio]:
    """Values that a program did not measure: constants, and times in proportion to the size."""
    name = column(rows)
    if name is None or len(rows) < _BOUNDS.rows:
        return {}
    values = [float(row[name]) for row in rows]
    own = len(set(values))
    seen = f"{own} of {len(values)} sizes have a {name} of their own"
    bound = f"every third one has at least: {_UNMEASURED}"
    found = {"stub values": Ratio(len(values) / own, _BOUNDS.share_a_value, seen, bound)}
    equal = ([int(row["size"]) for row in its] for _, its in groupby(rows, key=itemgetter(name)))
    least, most = max(((max(its[0], 1), its[-1]) for its in equal), key=lambda its: its[1] / its[0])
    seen = f"the {name} is the same from {least} to {most} B"
    bound = f"a size {_BOUNDS.equal_sizes:g} times as large has another one: {_UNMEASURED}"
    found["stub row"] = Ratio(most / least, _BOUNDS.equal_sizes, seen, bound)
    of_byte = [time / size for size, time in points if size >= _BOUNDS.per_byte]
    if len(of_byte) >= _BOUNDS.rows:
        varies = max(of_byte) / min(of_byte)
        seen = f"the time for a byte is the same from {_BOUNDS.per_byte} B on, "
        seen += f"within {varies - 1:.3%}"
        bound = f"it varies by {_BOUNDS.least_variation - 1:.1%} or more: {_UNMEASURED}"
        found["stub bytes"] = Ratio(_BOUNDS.least_variation / varies, 1.0, seen, bound)
    return found


def _too_fast(
    rows: Rows,
    points: Sequence[tuple[int, float]],
    pattern: str,
    peak: float | None,
    pairs: int | None,
) -> dict[str, Ratio]:
    """Rates in times of what can be; `points` in ascending order of the sizes."""
    found = {}
    fastest, of_memory = (limits()[of]["fastest"] for of in (pattern, "gpu"))
    if column(rows) != "latency":
        fastest = fastest * pairs if pairs else of_memory
    for size, time in points:
        rate = max(size, 1) / time  # 1 MB/s is 1 B/us
        seen = f"messages of {size} B moved at {number(rate)} MB/s"
        what = "memory is" if fastest == of_memory else f"{2 * (pairs or 1)} cores are"
        bound = f"no {what} faster than {number(fastest)} MB/s: {_UNMEASURED}"
        found[f"fastest {size}"] = Ratio(rate / fastest, 1.0, seen, bound)
    if peak is not None and column(rows) == "bandwidth":
        for row in rows:
            seen, of = f"messages of {row['size']} B moved at", Peak("path", peak)
            found[f"peak {row['size']}"] = of_peak(seen, float(row["bandwidth"]), of)
    if not pattern.startswith("point-to-point") or column(rows) != "latency":
        return found
    long = [(size, time) for size, time in points if size >= LONG]
    if peak is not None:
        for size, time in long:
            most = size / (size - _BOUNDS.in_buckets)
            seen, of = f"one message of {size} B moved at", Peak("link", peak, most)
            found[f"link {size}"] = of_peak(seen, size / time, of)
    short = [time for size, time in points if 0 < size <= _BOUNDS.short]
    for size, time in long[-1:] if short else ():
        longer = max(time - min(short), 1e-6)
        least = size / _BOUNDS.fastest_cores
        seen = f"a message of {size} B took only {number(longer, 3)} us longer than the shortest"
        bound = f"a core needs at least {number(least, 3)} us to copy it: {_UNMEASURED}"
        found["core"] = Ratio(size / longer / _BOUNDS.fastest_cores, 1.0, seen, bound)
    return found


def cells(rows: Sequence[Mapping[str, Any]], operations: Sequence[str]) -> Ratios:
    """What is to be judged of a table of rates [KiB/s] over file size and record size.

    A cell is compared with the next smaller and larger size on each axis, if there are at least two
    and one has the same file size: a file that outgrows a cache is slow with all records. A smaller
    file or record may take as long as its neighbour. The first row also has the first access to the
    file system, and is left out.
    """
    at = {(int(row["file_size"]), int(row["record_size"])): row for row in rows}
    steps = [{size: n for n, size in enumerate(sorted(set(axis)))} for axis in zip(*at)]
    found = {}
    for size, row in list(at.items())[1:]:
        apart = {o: sum(abs(of[a] - of[b]) for of, a, b in zip(steps, size, o)) for o in at}
        beside = [other for other in at if apart[other] == 1]
        if len(beside) < 2 or all(other[0] != size[0] for other in beside):
            continue
        shares = {o: math.prod(min(a / b, 1.0) for a, b in zip(size, o)) for o in beside}
        for name in operations:
            least = min(float(at[other][name]) * share for other, share in shares.items())
            if float(row[name]) > 0 and size[0] / float(row[name]) > _BOUNDS.stall:
                slower = least / float(row[name])
                seen = (
                    f"{name} of a file of {size[0]} KiB by {size[1]} KiB took {number(slower, 3)} "
                    "times as long as the cells beside it suggest"
                )
                most = f"at most {_BOUNDS.slow_cell:g} times is plausible"
                bound = f"{most}: look for other work on this file system"
                found[f"{name} {size}"] = Ratio(slower, _BOUNDS.slow_cell, seen, bound)
    return found


def _continued(points: Sequence[tuple[int, float]], size: int, slope: float) -> float:
    """The time of a message of another size, as the two points nearest to it continue.

    :param points: the nearest first.
    :param slope: of the time on logarithmic scales if there is one point only. That of two is
        taken within what is plausible, 0 to 1.
    """
    near, time = points[0]
    for far, its in points[1:2]:
        slope = min(max(math.log(time / its) / math.log(near / far), 0.0), 1.0)
    return float(time * (size / near) ** slope)
