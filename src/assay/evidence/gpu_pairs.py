"""The pair of GPUs of a node whose link is slow, by other pairs that are joined in the same way."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping

from assay.outputs.nvidia_smi import Reading
from assay.quantities import number

#: Numbers of two GPUs of a node.
Pair = tuple[int, int]

#: How far the rate of a pair may be below the median of the others, as the tolerance of the
#: tournament between nodes. A link at half its rate is twice as far.
TOLERANCE = 0.25

#: Fewest pairs that are joined in the same way: of two, nobody knows which one is right.
FEWEST = 3


def slow(rates: Mapping[Pair, float], reading: Reading) -> Iterator[str]:
    """The pairs that are slower than the others, one line each.

    :param rates: pair of GPUs -> bandwidth [MB/s].
    :param reading: the state of the GPUs of the node, which says how a pair is joined.
    """
    gpus = {gpu.number: gpu for gpu in reading.gpus}
    by_way: dict[str, dict[Pair, float]] = {}
    for (a, b), rate in rates.items():
        way = gpus[a].ways.get(b, "") if a in gpus else ""
        by_way.setdefault(way, {})[a, b] = rate
    for way, these in by_way.items():
        for pair, rate in these.items() if len(these) >= FEWEST else ():
            usual = statistics.median(other for at, other in these.items() if at != pair)
            if rate < (1 - TOLERANCE) * usual:
                first, second = (str(gpus.get(number, f"GPU {number}")) for number in pair)
                joined = f" joined by {way}" if way else ""
                yield (
                    f"{first} and {second}: {number(rate)} MB/s, the median of the "
                    f"{len(these) - 1} other pairs{joined} is {number(usual)} MB/s "
                    f"({rate / usual - 1:+.0%})"
                )
