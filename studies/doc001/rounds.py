"""Broadcast for streaming: what is measured, what is drawn, and what loss of frames may cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from assay.quantities import number

from .bcast_stream import REPAIRS

KIB, MIB = 1 << 10, 1 << 20

#: Sizes of frames [B], and shares of frames that each worker drops.
SIZES = (64, 4 * KIB, 64 * KIB, MIB)
ERROR_RATES = (0.0, 0.0001, 0.001, 0.01)

#: Broadcasts in flight.
WINDOW = 16

#: Most frames that a round sends one by one, for the latency (``ALONE`` of the program).
ALONE = 100

#: Size of the frames whose values are drawn over the number of ranks [B].
OVER_RANKS = 64 * KIB

#: K of the backup buffer B x K x RTT: within one round trip a worker notices the loss, and within
#: another one it gets the frame.
ROUND_TRIPS = 2

#: The least share of the rate without loss that must remain with the greatest error rate. Chosen,
#: not measured: a read of a lost frame must not stall the others.
KEPT = 0.5

#: Shortest round whose rate is judged [s]: a pause of the scheduler takes milliseconds. A shorter
#: round is judged if the loss adds as much time to it.
LONG = 0.05

#: Where the figures belong, and each figure: what it shows, over what.
AT = "streaming"
FIGURES: Mapping[str, tuple[str, str]] = {
    "broadcast rate over frame size": ("rate", "frame_size"),
    "latency over frame size": ("latency", "frame_size"),
    "broadcast rate as a part of nack": ("rate_of_nack", "frame_size"),
    "latency as a part of nack": ("latency_of_nack", "frame_size"),
    "broadcast rate over ranks": ("rate", "ranks"),
    "latency over ranks": ("latency", "ranks"),
    "backup buffer over frame size": ("backup", "frame_size"),
}
UNITS = {"rate_of_nack": "%", "latency_of_nack": "%", "backup": "B"}

Row = Mapping[str, Any]


def counts(ranks: int) -> list[int]:
    """Numbers of ranks: 2, 4, 8, ... and all."""
    return [*(1 << k for k in range(1, ranks.bit_length()) if 1 << k < ranks), ranks]


def options(ranks: int, frames: int, volume: int, memory: str) -> list[str]:
    """Options of the program.

    :param frames: most frames of a round; `volume`: most bytes of a round [B].
    :param memory: ``host`` or ``cuda``: where a worker copies each frame.
    """
    lists = {"-p": counts(ranks), "-s": SIZES, "-e": ERROR_RATES}
    said = [word for key, values in lists.items() for word in (key, ",".join(map(str, values)))]
    return [*said, "-f", str(frames), "-b", str(volume), "-w", str(WINDOW), "-m", memory]


def unmeasured(rows: Iterable[Row], ranks: int, frames: int, volume: int) -> list[str]:
    """What is missing of the rounds that :func:`options` asks for, and repairs that never ran.

    The parameters are those of :func:`options`.
    """
    rows = list(rows)
    asked = {
        (p, repair, rate, size)
        for p in counts(ranks)
        for repair in REPAIRS
        for rate in ERROR_RATES
        for size in SIZES
    }
    ran = [(row["ranks"], row["repair"], row["error_rate"], row["frame_size"]) for row in rows]
    if len(ran) != len(asked) or set(ran) != asked:
        lacks = len(asked - set(ran))
        return [
            f"{len(ran)} rounds ran, {len(asked)} were asked for, and {lacks} of these are missing"
        ]
    lines = []
    for size in SIZES:
        wanted = max(min(frames, volume // size), 2 * WINDOW)
        sent = min(row["frames"] for row in rows if row["frame_size"] == size)
        alone = min(row["alone"] for row in rows if row["frame_size"] == size)
        if sent < wanted or alone < min(wanted, ALONE):
            lines.append(
                f"a round sent {sent} frames of {size} B and {alone} alone, {wanted} and "
                f"{min(wanted, ALONE)} were asked for"
            )
    repaired = {row["repair"] for row in rows if row["dropped"]}
    return lines + [
        f"no frame was dropped at {max(ERROR_RATES):.0%}, so no repair by {repair} ran"
        for repair in REPAIRS
        if repair not in repaired
    ]


def backup(bandwidth: float, round_trip: float) -> float:
    """The bytes that a source must keep for workers that lost a frame: B x K x RTT [B].

    :param bandwidth: B, of the stream [MB/s]; `round_trip`: RTT [us].
    """
    return bandwidth * ROUND_TRIPS * round_trip


def drawn(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """The rows of the figures, each with its ``figure`` and ``line``, and the derived columns.

    Of the figures over the frame size, the number of ranks is the greatest one.
    """
    most = max((row["ranks"] for row in rows), default=0)
    of_nack = {_key(row): row for row in rows if row["repair"] == "nack"}
    for row in rows:
        nack = of_nack.get(_key(row), row)
        more = {
            **row,
            "rate_of_nack": 100 * row["rate"] / nack["rate"],
            "latency_of_nack": 100 * row["latency"] / nack["latency"],
            "backup": backup(row["bandwidth"], row["round_trip"]),
        }
        for name, (column, over) in FIGURES.items():
            if over == "frame_size" and row["ranks"] != most:
                continue
            if over == "ranks" and row["frame_size"] != OVER_RANKS:
                continue
            compared = column in UNITS
            if compared and row["repair"] != "rma":
                continue
            error = f"{100 * row['error_rate']:g} %"
            line = error if compared else f"{error}, {row['repair']}"
            yield {**more, "figure": name, "line": line}


def _key(row: Row) -> tuple[Any, ...]:
    return row["ranks"], row["error_rate"], row["frame_size"]


def slowed(rows: Sequence[Row]) -> list[str]:
    """A line for each size of frames whose stream loses too much of its rate, repaired by rma."""
    most, worst = max(row["ranks"] for row in rows), max(ERROR_RATES)
    of = {
        (row["frame_size"], row["error_rate"]): row
        for row in rows
        if row["ranks"] == most and row["repair"] == "rma"
    }
    rates, times = ({key: row[name] for key, row in of.items()} for name in ("rate", "time"))
    return [
        f"{most} ranks, frames of {size} B: {number(rates[size, worst])} frames/s with {worst:.0%} "
        f"lost, {number(rates[size, 0.0])} without: at least {KEPT:.0%} must remain"
        for size in SIZES
        if rates[size, worst] < KEPT * rates[size, 0.0]
        and max(times[size, 0.0], times[size, worst] - times[size, 0.0] / KEPT) >= LONG
    ]
