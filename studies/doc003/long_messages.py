"""Messages up to 1 GiB, and whether a link carries the longest ones as fast as shorter ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import reframe as rfm
from reframe.core.builtins import run_after

from assay.quantities import number
from assay.run import Figure
from assay.run.site import misdescribed

from .. import suite

imb = suite.module("network/imb.py")

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


@rfm.simple_test
class ImbLong(imb.ImbBase):
    """PingPong up to 1 GiB, where memory allows: within one of two groups of nodes, and across.

    The link between the groups carries long messages only if its adapters buffer what is on the
    way. The rate must therefore not fall again towards the longest message.
    """

    benchmark = "PingPong"
    time_limit = "30m"
    tags = {"network"}
    figures = [
        Figure("partitions", f"PingPong: {column}", "two clusters", column)
        for column in ("latency", "bandwidth")
    ]

    @run_after("init")
    def where(self):
        self.valid_systems = [f"+inter-node +{w} +{self.transport}" for w in ("group", "across")]
        self.declares["bandwidth_longest"] = "MB/s"
        self.descr = f"IMB PingPong up to 1 GiB over {self.transport}"

    @run_after("setup")
    def what_fits(self):
        memory = self.partition_extra("memory_bytes") * self.partition_extra("memory_fraction")
        try:
            self.top = top(memory)
        except ValueError as error:
            raise misdescribed(
                self.current_partition, f"extras: memory_fraction: {error}"
            ) from None
        # In GB, only a limit: IMB leaves out a size for which it thinks that it needs more.
        self.more = ("-mem", f"{4 * 2**self.top / 1e9:.3f}")

    def accused(self, parsed):
        return fading(parsed.rows) if parsed.complete else []

    def measure(self, parsed):
        longest = parsed.quantity("bandwidth", size=1 << self.top)
        return {**super().measure(parsed), "bandwidth_longest": longest}
