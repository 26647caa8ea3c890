"""Rates of all pairs of nodes that were measured at the same time: which node is slow."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from assay.accused import Against, How
from assay.judge import population
from assay.parse import Row


def slow_nodes(rows: Sequence[Row], tolerance: float) -> list[str]:
    """The nodes that are slower than the others with every node, one line each.

    A healthy node is slow when it sends to a slow one, so the best rate of each node counts.

    :param rows: with ``host`` and ``bandwidth`` [MB/s].
    """
    best: dict[str, float] = {}
    for row in rows:
        host = str(row["host"])
        best[host] = max(best.get(host, 0.0), float(row["bandwidth"]))
    slow = population.of([best], tolerance).outliers
    usual = statistics.median([rate for host, rate in best.items() if host not in slow] or [0.0])
    line = "{}: at most {:.4g} MB/s with any node, the others have {:.4g} MB/s"
    return [Against(line.format(host, best[host], usual), [host], How.SLOW) for host in slow]
