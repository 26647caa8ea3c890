"""Messages up to 1 GiB, and whether a link carries the longest ones as fast as shorter ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.quantities import number

#: The longest message is 2 to this power, and the shortest one that a long link must carry well.
MOST, LEAST = 30, 20

#: How far the rate may fall below the best one of the curve.
SHORT = 0.1


def top(memory: float) -> int:
    """Exponent of the longest message of which a rank can have two buffers.

    :param memory: what a rank may use [B].
    :raises ValueError: there is less than twice 1 MiB.
    """
    fits = int(memory / 2).bit_length() - 1
    if fits < LEAST:
        raise ValueError(f"{memory:.0f} B hold no two messages of 1 MiB: raise it")
    return min(MOST, fits)


def fading(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line if the longest message is slower than shorter ones.

    :param rows: with the columns ``size`` [B] and ``bandwidth`` [MB/s].
    """
    best = max(rows, key=lambda row: float(row["bandwidth"]))
    longest = max(rows, key=lambda row: int(row["size"]))
    if longest["bandwidth"] >= (1 - SHORT) * best["bandwidth"]:
        return []
    said = " and ".join(
        f"{number(row['bandwidth'])} MB/s at {row['size']} B" for row in (longest, best)
    )
    return [f"{said}: the link does not carry long messages; do its adapters buffer enough?"]
