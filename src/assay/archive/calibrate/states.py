"""Finds launches that are not those of one machine in one state.

A metric is tested only if its launches spread by more than the floor of the instrument (`kind`).
The level of each test is 1 %, divided by the number of tested metrics, so one in a hundred
calibrations without a change is refused (tests/pure/archive/calibrate/test_states.py: 0 to 1.3 %).
If other work halves one launch in ten, three of ten are slow in 7 % of the calibrations.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import combinations
from math import ceil, factorial
from typing import Any

from assay import metrics
from assay.archive.calibrate.bounds import Kind

#: Probability that one of the metrics of a calibration is refused although no state changed.
LEVEL = 0.01


def wide(samples: Sequence[float], kind: Kind) -> bool:
    """Whether the launches spread by more than the floor of the instrument."""
    return max(samples) - min(samples) > kind.least * statistics.median(samples)


def changed(samples: Sequence[float], kind: Kind, tested: int) -> str:
    """Why these launches are not of one state, in words; empty if they are.

    :param samples: the values in the order of their launches, at least six.
    :param tested: the number of metrics of the calibration that are tested.
    """
    n, level, least = len(samples), LEVEL / tested, kind.least * statistics.median(samples)
    ordered, few = sorted(samples), max(3, n // 3)
    # Two speeds: each has a third of the launches and three at least, or it may be a disturbance.
    cuts = range(few, n - few + 1)
    at = max(cuts, key=lambda cut: ordered[cut] - ordered[cut - 1])
    gap = ordered[at] - ordered[at - 1]
    # Among values without two peaks, uniform ones have the largest gaps in the middle. Each gap of
    # them is more than this share of the range with probability (1 - share)^(n-2).
    share = gap / (ordered[-1] - ordered[0]) if gap else 0.0
    if gap > least and len(cuts) * (1 - share) ** (n - 2) <= level:
        slow, fast = statistics.median(ordered[:at]), statistics.median(ordered[at:])
        return f"its launches have two speeds: {at} near {slow:.4g}, {n - at} near {fast:.4g}"
    first, last = statistics.median(samples[:few]), statistics.median(samples[-few:])
    if abs(last - first) > least and _by_chance(samples) <= level:
        return f"its launches drift: from {first:.4g} at the beginning to {last:.4g} at the end"
    return ""


def _by_chance(samples: Sequence[float]) -> float:
    """Probability of so much order in time (Kendall's test, two-sided, exact; ties count half)."""
    n, pairs = len(samples), list(combinations(samples, 2))
    falls = sum(a > b for a, b in pairs) + sum(a == b for a, b in pairs) / 2
    few = ceil(min(falls, len(pairs) - falls))
    ways = [1]  # ways[k]: orders of the values so far with k pairs that fall
    for size in range(2, n + 1):
        ways = [sum(ways[max(0, k - size + 1) : k + 1]) for k in range(few + 1)]
    return min(1.0, 2 * sum(ways) / factorial(n))


def measured(rows: Sequence[Mapping[str, Any]], units: Mapping[str, str]) -> tuple[float, ...]:
    """The rates and times of a launch, as its program printed them."""
    timed = [c for c, unit in units.items() if metrics.kind(unit) in ("rate", "time")]
    return tuple(row[c] for row in rows for c in timed if isinstance(row.get(c), float))


def copied(launches: Sequence[tuple[float, ...]]) -> bool:
    """Whether all launches agree to the last digit, although no machine is so steady.

    The steadiest published machine, 120 links of V100 (ABCI), had 48.48 to 48.49 GB/s: two values
    in the fourth digit, and ten times as many in the fifth. So six equal launches with one value of
    five digits have a probability of 20^-5. Values of less than four digits prove nothing, nor do
    those with more than seven, which are converted.
    """
    different = 1
    for value in {*launches[0]} if len({*launches}) == 1 else ():
        digits = len(repr(value).replace(".", "").strip("0"))
        different *= {4: 2, 5: 20, 6: 20, 7: 20}.get(digits, 1)
    return different >= 20
