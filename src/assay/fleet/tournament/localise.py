"""Which node or which pair is slow, in numbers; :mod:`.diagnosis` has the words.

A pair has ``base * f(a) * f(b) * g(a, b)``, so its logarithm is a sum, and medians find the terms
where less than half of what they see is at fault (J. W. Tukey, "Exploratory Data Analysis", 1977,
chapter 11). Faults make slow: a pair that is better than the others is never named.
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

#: Names that Gaussian noise alone may be expected to get, in one pass over all nodes and in one
#: over all pairs.
FALSE_NAMES = 0.01

#: Median absolute deviation to standard deviation, of a normal distribution.
MAD_TO_SIGMA = 1 / NormalDist().inv_cdf(0.75)

#: Standard deviation of the median of many values, times the root of their number.
SIGMA_OF_MEDIAN = math.sqrt(math.pi / 2)

#: With one partner a node cannot be told from its link to it.
PARTNERS_OF_A_NODE = 2

#: Sets of suspects are refined until they stay; noise at the limit could make them swing.
PASSES = 8


@dataclass(frozen=True)
class Fit:
    """What the pairs say. All values are natural logarithms, larger is better.

    :ivar base: a pair of two healthy nodes.
    :ivar effects: of each node on its pairs, against `base`; 0 for a node that cannot be judged.
    :ivar slow_nodes: indices of nodes.
    :ivar slow_pairs: indices into the pairs; none of them has a slow node.
    :ivar open_pairs: those of `slow_pairs` where an end has no other pair to acquit it.
    :ivar noise: standard deviation of the pairs of healthy nodes, from their median.
    :ivar node_limit: how far a node must be below `base` to be named: the threshold, or what
        noise does not reach.
    :ivar pair_limit: likewise for a pair.
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
    """What an earlier pass has found: which nodes are good, what a pair of them has, its noise."""

    good: Mask
    base: float
    noise: float


class Pairs:
    """What was measured: `values` of the pairs (`first`, `second`) of nodes 0 ... n - 1.

    :param values: logarithms, larger is better; finite, at least one, no pair twice.
    """

    def __init__(self, n: int, first: Ints, second: Ints, values: Floats) -> None:
        self.n, self.first, self.second, self.values = n, first, second, values
        node = np.concatenate([first, second])
        both = np.concatenate([values, values])
        order = np.lexsort((both, node))
        # As each node sees them, in ascending order.
        self._node = node[order]
        self._partner = np.concatenate([second, first])[order]
        self._seen = both[order]
        self.degree = np.bincount(self._node, minlength=n)

    def medians(self, good: Mask) -> tuple[Floats, Ints]:
        """Of each node the median over its pairs with good nodes, and how many these are.

        The better of two middle values: of two pairs with one slow partner that is the healthy
        one. A node without a good partner gets the median over all its pairs, and 0 as number; a
        node without a pair gets NaN.
        """
        lonely = np.bincount(self._node[good[self._partner]], minlength=self.n) == 0
        keep = good[self._partner] | lonely[self._node]
        values = self._seen[keep]
        counts = np.bincount(self._node[keep], minlength=self.n)
        middle = np.cumsum(counts) - counts + counts // 2
        levels = np.where(counts > 0, values[np.minimum(middle, len(values) - 1)], np.nan)
        return levels, np.where(lonely, 0, counts)


def localise(pairs: Pairs, threshold: float, known: Known | None = None) -> Fit:
    """The slow nodes, and the pairs that are slow though their nodes are not.

    :param threshold: how far below the base a node or a pair may be; a logarithm, positive.
    :param known: from an earlier pass: its good nodes alone are compared with, and only the others
        are named.
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
            node_limit = max(threshold, _quantile(1) * spread)
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
    # Of the values, not of the residuals: medians of few partners leave many of these at zero.
    healthy = values[good] if good.any() else values
    if not known:
        # The better of two middle values lifts effects a little.
        residuals = residuals - np.median(residuals[good] if good.any() else residuals)
        pair_limit = max(threshold, _reach(healthy, len(values)))
    worse = (residuals < -pair_limit) & (values - base < -threshold)
    # A slow node first: what else is wrong with its links shows when it has been mended.
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
    """How far noise with the spread of `values` goes, in `count` draws."""
    return _quantile(count) * _sigma(values)


def _quantile(count: int) -> float:
    """Standard deviations that the largest of `count` normal draws seldom reaches."""
    return NormalDist().inv_cdf(1 - FALSE_NAMES / count)
