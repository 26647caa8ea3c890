"""The power of a session: the smallest fault of a metric that it would have found.

The launches of a metric are the noise of this machine. A fault makes a rate smaller, or a time
longer, in each of them. Cases are drawn from these launches and judged as the suite judges
(:func:`assay.judge.in_turn`): a case that does not pass is a fault that was found.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from assay import metrics
from assay.judge import (
    LAUNCHES_FOR_95_PERCENT,
    LAUNCHES_IN_BUDGET,
    Reference,
    Verdict,
    in_turn,
)

#: Share of the faulty cases that must be found.
FOUND = 0.95

#: Cases that are drawn for each size of a fault, always the same ones.
DRAWN = 200

#: The sizes of faults that are tried, in percent.
SIZES = (*(half / 2 for half in range(1, 41)), *range(21, 100))


def enough(samples: Sequence[float]) -> bool:
    """Whether there are enough launches to know the noise."""
    return len(samples) >= LAUNCHES_FOR_95_PERCENT


def least_fault(
    samples: Sequence[float], reference: Reference, least_launches: int = 1
) -> float | None:
    """The smallest fault in percent that is found with 95 %; None if no fault below 100 % is.

    :param samples: the launches, without a fault; at least six.
    """
    draw = random.Random(0)  # noqa: S311 - no secret: the same cases each time
    drawn = [
        [draw.randrange(len(samples)) for _ in range(LAUNCHES_IN_BUDGET)] for _ in range(DRAWN)
    ]
    longer = metrics.lower_is_better(reference.unit)

    def found(percent: float) -> bool:
        factor = 1 - percent / 100
        faulty = [value / factor if longer else value * factor for value in samples]
        missed = 0
        for case in drawn:
            verdict = in_turn([faulty[at] for at in case], reference, least_launches)
            missed += verdict is Verdict.PASS
            if missed > DRAWN * (1 - FOUND) + 1e-9:
                return False
        return True

    low, high = 0, len(SIZES)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if found(SIZES[middle]) else (middle + 1, high)
    return float(SIZES[low]) if low < len(SIZES) else None
