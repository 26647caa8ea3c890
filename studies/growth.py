"""Rates over a growing number of pairs, ranks or devices, all measured in one run.

No reference is needed: each number is compared with the others of the same run. A rate must grow
with the count until it reaches a limit. Beyond the limit it must not fall. The constants were
chosen, not measured: nobody has yet measured how such rates spread on hardware.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from assay.quantities import number

#: How far a rate may be below the best one of a smaller count, as a part of it.
FALL = 0.1

#: The least growth by the first doubling of the count, where no limit is known.
GROWTH = 1.25

#: The least share of what a count should reach, where the limit is known.
REACHED = 0.8


def falls(rates: Mapping[int, float], what: str, unit: str, fall: float = FALL) -> list[str]:
    """A line for each count whose rate is below that of a smaller count.

    :param rates: count -> rate in `unit`; what is counted is `what`, for example ``pairs``.
    :param fall: how far below, as a part of the best rate of the smaller counts.
    """
    lines, best = [], (0, 0.0)
    for count, rate in sorted(rates.items()):
        if rate < (1 - fall) * best[1]:
            lines.append(
                f"{count} {what} reach {number(rate)} {unit} together, {best[0]} {what} reach "
                f"{number(best[1])} {unit}: more of them must not be slower"
            )
        best = max(best, (count, rate), key=lambda one: one[1])
    return lines


def stalls(
    rates: Mapping[int, float], what: str, unit: str, limit: float | None = None
) -> list[str]:
    """A line for each count whose rate has not grown as it must.

    With a limit, each count must reach :data:`REACHED` of its multiple of the smallest count, or of
    the limit. Without one, nobody knows which count ends the growth: only the second smallest count
    is judged, by :data:`GROWTH` for each doubling.

    :param limit: what the link carries, in `unit`.
    """
    counts = sorted(rates)
    if len(counts) < 2:
        return []
    first, second = counts[:2]
    if limit is None:
        needed = {second: GROWTH ** math.log2(second / first) * rates[first]}
    else:
        needed = {n: REACHED * min(limit, n / first * rates[first]) for n in counts[1:]}
    return [
        f"{count} {what} reach {number(rates[count])} {unit} together, {first} reach "
        f"{number(rates[first])} {unit}: at least {number(least)} {unit} were to be reached"
        for count, least in needed.items()
        if rates[count] < least
    ]
