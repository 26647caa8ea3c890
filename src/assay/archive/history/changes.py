"""Change points of one metric: when its level changed, and by how much.

The search is PELT (Killick, Fearnhead, Eckley: "Optimal detection of changepoints with a linear
computational cost", JASA 107, 2012) with the squared error as cost. What surrounds it:

- A value far from its neighbours, such as one disturbed run, is replaced by their median (Hampel
  filter), so it neither makes nor hides a change.
- The noise is estimated from the differences of values. A few changes of level do not alter their
  median.
- A change counts only if the new level lasted for some runs, and only if its size is a share of the
  tolerance of the metric. Many small changes in one direction count when their sum is that large.
- A planned change begins a new series, so it is no change here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from assay.quantities import NORMAL

#: Values on either side to compare with, and how many standard deviations off their median.
_NEIGHBOURS, _FAR = 3, 4.0

#: Distances [runs] of the differences that the noise is estimated from. Noise that lasts for some
#: runs shows at the larger ones.
_LAGS = (1, 3, 7)

#: A larger distance is used only in a series so many times as long: a change of level alters as
#: many differences as the distance is long, and few of them must be altered.
_FEW = 10

#: The standard error of the median of n values, in units of their standard deviation over the root
#: of n, for a normal distribution.
_ERROR_OF_MEDIAN = 1.2533

#: Fewest values of a baseline in :data:`PERSIST`, even if the search took them for several levels.
_BASELINE = 8

#: Least noise, as a share of the tolerance: a metric that hardly varies has no noise to estimate.
_LEAST_NOISE = 0.1


#: How many runs a level must last, at least two; and its least size in tolerances.
PERSIST, SHARE = 5, 0.5

#: What each further level costs in the search, in units of the variance of the noise times the
#: logarithm of the number of runs. A larger one gives fewer false alarms and longer delays.
_PENALTY = 5.0


@dataclass(frozen=True)
class Step:
    """A change at the index of the first new value; the levels are medians in the metric's unit."""

    at: int
    before: float
    after: float

    @property
    def relative(self) -> float:
        """The size as a fraction of the level before; infinite if that was 0."""
        if not self.before:
            return math.copysign(math.inf, self.after) if self.after else 0.0
        return (self.after - self.before) / abs(self.before)


def find(values: npt.ArrayLike, tolerance: float, cuts: Sequence[int] = ()) -> list[Step]:
    """The changes of level, in order of time.

    :param values: the value of each run, in order of time, all finite, shape (runs,).
    :param tolerance: how far the metric may lie from its reference, as a fraction.
    :param cuts: indices at which a planned change begins a new baseline.
    """
    found = []
    whole = np.asarray(values, dtype=float)
    edges = sorted({0, len(whole), *cuts})
    for first, end in zip(edges, edges[1:]):
        found += [
            Step(first + step.at, step.before, step.after)
            for step in _in_part(whole[first:end], tolerance)
        ]
    return found


def _in_part(values: Any, tolerance: float) -> list[Step]:
    if len(values) < 2 * PERSIST or not values.any() or values.min() == values.max():
        return []
    level = abs(np.median(values)) or np.abs(values).max()
    sigma = max(_noise(values), _LEAST_NOISE * tolerance * level)
    calm = _without_spikes(values, sigma)
    scaled = (calm - np.median(calm)) / sigma
    penalty = _PENALTY * math.log(len(calm))
    found = _large(_ends(scaled, penalty), calm, sigma, SHARE * tolerance)
    return [step for step in found if _lasts(step, values)]


def _ends(values: Any, penalty: float) -> list[int]:
    """Where the levels end that have the least squared error, if each further one has a penalty."""
    size = len(values)
    total, squares = (np.concatenate(([0.0], np.cumsum(v))) for v in (values, values * values))
    best, last = np.full(size + 1, np.inf), np.zeros(size + 1, dtype=int)
    best[0] = -penalty
    begins = np.array([0])  # where the last level may begin

    def cost(end: int) -> Any:
        error = squares[end] - squares[begins] - (total[end] - total[begins]) ** 2 / (end - begins)
        return best[begins] + error

    for end in range(PERSIST, size + 1):
        costs = cost(end)
        least = int(np.argmin(costs))
        best[end], last[end] = costs[least] + penalty, begins[least]
        # The next level may begin here. What is worse than that can only be worse from now on.
        begin = end - PERSIST + 1
        begins = np.append(begins[cost(begin) <= best[begin]], begin)
    ends = [size]
    while last[ends[-1]]:
        ends.append(int(last[ends[-1]]))
    return ends[::-1]


def _large(ends: Sequence[int], values: Any, sigma: float, least: float) -> list[Step]:
    """The steps whose size is at least a fraction of the level since the last of them.

    That level is the first one that lasted, so a slow decline is compared with its beginning. The
    size is also that much above its own standard error, which falls as the new level lasts.
    """
    found = []
    first, known = 0, ends[0]  # the values of the level that later ones are compared with
    for begin, end in zip(ends, ends[1:]):
        known = max(known, min(begin, first + _BASELINE * PERSIST))
        before, after = float(np.median(values[first:known])), float(np.median(values[begin:end]))
        error = _ERROR_OF_MEDIAN * sigma * math.sqrt(1 / (known - first) + 1 / (end - begin))
        if after != before and abs(after - before) >= least * abs(before) + error:
            found.append(Step(begin, before, after))
            first, known = begin, end
    return found


def _lasts(step: Step, values: Any) -> bool:
    """Whether enough values before a step are nearer to the old level, and after it to the new one.

    The search alone may take values of the old level for values of the new one. The values are
    those that were measured, with their spikes: two disturbed runs and two more are no level.
    """
    new = np.abs(values - step.after) < np.abs(values - step.before)
    return bool((~new[: step.at]).sum() >= PERSIST and new[step.at :].sum() >= PERSIST)


def _noise(values: Any) -> float:
    """The standard deviation of the noise, in the unit of the values."""
    return max(
        NORMAL * float(np.median(np.abs(values[lag:] - values[:-lag]))) / math.sqrt(2)
        for lag in _LAGS
        if lag == 1 or lag * _FEW < len(values)
    )


def _without_spikes(values: Any, sigma: float) -> Any:
    mirrored = np.pad(values, _NEIGHBOURS, mode="reflect")
    middle = np.median(sliding_window_view(mirrored, 2 * _NEIGHBOURS + 1), axis=-1)
    return np.where(np.abs(values - middle) > _FAR * sigma, middle, values)
