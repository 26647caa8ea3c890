"""The search for slow nodes and slow pairs in numbers; :mod:`.diagnosis` states them in words.

The value of a pair is ``base * f(a) * f(b) * g(a, b)``, so its logarithm is a sum. Medians find
the terms of this sum if less than half of the values in each median are at fault (J. W. Tukey,
"Exploratory Data Analysis", 1977, chapter 11). A fault makes a pair slower, so a pair that is
better than the others is never named.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

#: Expected number of nodes that are named because of Gaussian noise alone, in one pass over all
#: nodes; the same for pairs, in one pass over all pairs.
FALSE_NAMES = 0.01

#: Factor from median absolute deviation to standard deviation, for a normal distribution.
MAD_TO_SIGMA = 1 / NormalDist().inv_cdf(0.75)

#: Standard deviation of the median of n values, times the square root of n, for large n and
#: values with a standard deviation of 1.
SIGMA_OF_MEDIAN = math.sqrt(math.pi / 2)

#: With only one partner, a slow node cannot be distinguished from a slow link to this partner.
PARTNERS_OF_A_NODE = 2

#: The set of suspects is refined until it does not change, but at most this many times: noise at
#: the limit could make it oscillate.
PASSES = 8


@dataclass(frozen=True)
class Fit:
    """The result of a fit to the pairs. All values are natural logarithms; larger is better.

    :ivar base: the value of a pair of two healthy nodes.
    :ivar effects: the effect of each node on its pairs, relative to `base`; 0 for a node that
        cannot be judged.
    :ivar slow_nodes: indices of nodes.
    :ivar slow_pairs: indices into the pairs; these pairs do not contain a slow node.
    :ivar open_pairs: the `slow_pairs` in which a node has no other pair that shows it is healthy.
    :ivar noise: standard deviation of the pairs of healthy nodes, from their median.
    :ivar node_limit: how far below `base` a node must be to be named: the threshold, or the
        reach of the noise if that is larger.
    :ivar pair_limit: the same limit for a pair.
    """

    base: float
    effects: Floats
    slow_nodes: Ints
    slow_pairs: Ints
    open_pairs: Ints
    noise: float
    node_limit: float
    pair_limit: float


@dataclass(frozen=True)
class Known:
    """The result of an earlier pass: the good nodes, the value of their pairs, and the noise."""

    good: Mask
    base: float
    noise: float


class Pairs:
    """The measured `values` of the pairs (`first`, `second`) of nodes 0 ... n - 1.

    :param values: finite logarithms, larger is better. There is at least one value, and each pair
        occurs only once.
    """

    def __init__(self, n: int, first: Ints, second: Ints, values: Floats) -> None:
        self.n, self.first, self.second, self.values = n, first, second, values
        node = np.concatenate([first, second])
        both = np.concatenate([values, values])
        order = np.lexsort((both, node))
        # The values as each node sees them, in ascending order.
        self._node = node[order]
        self._partner = np.concatenate([second, first])[order]
        self._seen = both[order]
        self.degree = np.bincount(self._node, minlength=n)

    def without(self, cost: Floats | None) -> Pairs:
        """The same pairs without what a known cause takes from each value; None: nothing."""
        if cost is None:
            return self
        return Pairs(self.n, self.first, self.second, self.values - cost)

    def medians(self, good: Mask) -> tuple[Floats, Ints]:
        """For each node the median over its pairs with good nodes, and the number of these pairs.

        Of two middle values, the better one is the median: if a node has two pairs, and one
        partner is slow, the value of the healthy pair counts. A node without a good partner gets
        the median over all its pairs, and 0 as the number. A node without a pair gets NaN.
        """
        lonely = np.bincount(self._node[good[self._partner]], minlength=self.n) == 0
        keep = good[self._partner] | lonely[self._node]
        values = self._seen[keep]
        counts = np.bincount(self._node[keep], minlength=self.n)
        middle = np.cumsum(counts) - counts + counts // 2
        levels = np.where(counts > 0, values[np.minimum(middle, len(values) - 1)], np.nan)
        return levels, np.where(lonely, 0, counts)


def localise(pairs: Pairs, threshold: float, known: Known | None = None) -> Fit:
    """Find the slow nodes, and the slow pairs of nodes that are not slow.

    :param threshold: how far below the base a node or a pair may be; a positive logarithm.
    :param known: the result of an earlier pass. Only its good nodes are used for comparison, and
        only the other nodes are named.
    """
    first, second, values = pairs.first, pairs.second, pairs.values
    suspect = ~known.good if known else np.zeros(pairs.n, dtype=np.bool_)
    for _ in range(1 if known else PASSES):
        levels, partners = pairs.medians(~suspect)
        judged = levels[~suspect & (partners > 0)]
        if known:
            controls = values[known.good[first] & known.good[second]]
            base = float(np.median(controls)) if controls.size else known.base
            most = max(1, int(partners[suspect].max()))
            spread = known.noise * SIGMA_OF_MEDIAN / math.sqrt(most)
            node_limit = max(threshold, quantile(1) * spread)
            effects = np.where(suspect & (partners > 0), levels - base, 0.0)
        else:
            base = float(np.median(judged))
            node_limit = max(threshold, _reach(judged, pairs.n))
            effects = np.where(pairs.degree > 0, levels - base, 0.0)
        found = effects < -node_limit
        good = ~found[first] & ~found[second]
        if known or not good.any() or (found == suspect).all():
            break
        suspect = found

    slow = found & (partners >= PARTNERS_OF_A_NODE)
    doubtful = found & ~slow
    effects = np.where(doubtful, 0.0, effects)
    residuals = values - base - effects[first] - effects[second]
    pair_limit = node_limit
    # The noise comes from the values: medians over few partners leave many residuals at zero.
    healthy = values[good] if good.any() else values
    if not known:
        # A median that is the better of two middle values raises the effects a little.
        residuals = residuals - np.median(residuals[good] if good.any() else residuals)
        pair_limit = max(threshold, _reach(healthy, len(values)))
    worse = (residuals < -pair_limit) & (values - base < -threshold)
    # A slow node has priority: other faults of its links show up after its repair.
    worse &= ~(slow[first] | slow[second])
    if known:
        worse &= suspect[first] | suspect[second]
    lonely = (pairs.degree < PARTNERS_OF_A_NODE) | doubtful
    return Fit(
        base=base,
        effects=effects,
        slow_nodes=np.flatnonzero(slow),
        slow_pairs=np.flatnonzero(worse),
        open_pairs=np.flatnonzero(worse & (lonely[first] | lonely[second])),
        noise=_sigma(healthy),
        node_limit=node_limit,
        pair_limit=pair_limit,
    )


def _sigma(values: Floats) -> float:
    return MAD_TO_SIGMA * float(np.median(np.abs(values - np.median(values))))


def _reach(values: Floats, count: int) -> float:
    """The largest expected deviation of noise with the spread of `values`, in `count` draws."""
    return quantile(count) * _sigma(values)


def quantile(count: int) -> float:
    """The number of standard deviations that the largest of `count` normal draws rarely reaches."""
    return NormalDist().inv_cdf(1 - FALSE_NAMES / count)
