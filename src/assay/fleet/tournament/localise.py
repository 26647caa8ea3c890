"""The search for slow nodes, pairs, switches and trunks in the numbers of measured pairs.

The logarithm of the value of a pair, ``base * f(a) * f(b) * g(a, b)``, is a sum. Medians find its
terms if less than half of the values in each are at fault (J. W. Tukey, "Exploratory Data
Analysis", 1977, chapter 11). A pair that is better than the others is never named.

The topology says which parts of the network each pair crosses. Two questions are asked:

- Groups: what do pairs within one switch reach? The typical switch is the standard, and the better
  of two. Pairs within two switches that are well, while pairs between them are slow, accuse what is
  between the switches.
- Regression: which part explains most of what the pairs lack? The effect of a part is the median
  over the nodes whose pairs cross it, so that one slow node is not taken for its switch. The part
  that explains most is taken out of the values, and the search goes on with the rest (S. Mallat
  and Z. Zhang, "Matching pursuits", IEEE Trans. Signal Processing, 1993).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, median_high
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from assay.fleet.topology.fabric import Fabric, Kind, Part
from assay.quantities import NORMAL

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

#: Expected number of nodes, and of pairs, that one pass over all names by Gaussian noise alone.
FALSE_NAMES = 0.01

#: Standard deviation of the median of n values of deviation 1, times the root of n, for large n.
SIGMA_OF_MEDIAN = math.sqrt(math.pi / 2)

#: With only one partner, a slow node cannot be distinguished from a slow link to this partner.
PARTNERS_OF_A_NODE = 2

#: A part that costs this share of the tolerance, and more than noise explains, is taken out of the
#: values. Its nodes are then compared with each other, and not named for it.
NOTABLE = 0.5

#: At most this many parts are named in one pass: noise at the limit could make the search go on.
MOST = 16

#: A part is named only if at most this share of the nodes whose pairs cross it is well with it.
WELL = 0.1

#: A block of pairs between the same two switches shows the noise if it has this many.
BLOCK = 3

#: How often the set of suspects is refined at most: noise at the limit could make it oscillate.
PASSES = 8


@dataclass(frozen=True)
class Fit:
    """The result of a fit to the pairs. All values are natural logarithms; larger is better.

    :ivar base: the value of a pair of two healthy nodes.
    :ivar effects: of each node on its pairs, relative to `base`; 0 if it cannot be judged.
    :ivar slow_nodes: indices of nodes.
    :ivar slow_pairs: indices of pairs, none of a slow node.
    :ivar open_pairs: the `slow_pairs` in which a node has no other pair that shows it is healthy.
    :ivar noise: standard deviation of the pairs of healthy nodes, from their median.
    :ivar node_limit: how far below `base` a node must be to be named: the threshold, or the
        reach of the noise if that is larger; `pair_limit` is that of a pair.
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
        self.degree = np.bincount(np.concatenate([first, second]), minlength=n)

    def without(self, cost: Floats) -> Pairs:
        """The same pairs without what a known cause takes from each value."""
        return Pairs(self.n, self.first, self.second, self.values - cost)

    def medians(self, good: Mask) -> tuple[Floats, Ints]:
        """For each node the median over its pairs with good nodes, and the number of these pairs.

        Of two middle values, the better one is the median: of two pairs, the slow partner does not
        count. A node without a good partner gets the median over all its pairs, and 0 as the
        number. A node without a pair gets NaN.
        """
        node = np.concatenate([self.first, self.second])
        with_good = good[np.concatenate([self.second, self.first])]
        partners = np.bincount(node[with_good], minlength=self.n)
        keep = with_good | (partners[node] == 0)
        levels = np.full(self.n, np.nan)
        met, middles, _ = _medians(node[keep], np.tile(self.values, 2)[keep])
        levels[met] = middles
        return levels, partners


def localise(pairs: Pairs, threshold: float, known: Known | None = None) -> Fit:
    """Find the slow nodes, and the slow pairs of nodes that are not slow.

    :param threshold: how far below the base a node or a pair may be; a positive logarithm.
    :param known: an earlier pass. Only its good nodes are compared with, and not named.
    """
    first, second, values = pairs.first, pairs.second, pairs.values
    suspect = ~known.good if known else np.zeros(pairs.n, dtype=np.bool_)
    for _ in range(1 if known else PASSES):
        levels, partners = pairs.medians(~suspect)
        judged = levels[~suspect & (partners > 0)]
        if known:
            controls = values[known.good[first] & known.good[second]]
            base = float(np.median(controls)) if controls.size else known.base
            spread = known.noise * SIGMA_OF_MEDIAN / math.sqrt(max(1, partners[suspect].max()))
            node_limit = max(threshold, quantile(1) * spread)
            effects = np.where(suspect & (partners > 0), levels - base, 0.0)
        else:
            base = float(np.median(judged))
            node_limit = max(threshold, quantile(pairs.n) * _sigma(judged))
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
    noise = _sigma(values[good] if good.any() else values)
    if not known:
        # A median that is the better of two middle values raises the effects a little.
        residuals = residuals - np.median(residuals[good] if good.any() else residuals)
        pair_limit = max(threshold, quantile(len(values)) * noise)
    worse = (residuals < -pair_limit) & (values - base < -threshold)
    # A slow node has priority: other faults of its links show up after its repair.
    worse &= ~(slow[first] | slow[second])
    if known:
        worse &= suspect[first] | suspect[second]
    lonely = (pairs.degree < PARTNERS_OF_A_NODE) | doubtful
    masks = slow, worse, worse & (lonely[first] | lonely[second])
    nodes, slow_pairs, open_pairs = map(np.flatnonzero, masks)
    return Fit(base, effects, nodes, slow_pairs, open_pairs, noise, node_limit, pair_limit)


def _sigma(values: Floats) -> float:
    return NORMAL * float(np.median(np.abs(values - np.median(values))))


def quantile(count: int) -> float:
    """The number of standard deviations that the largest of `count` normal draws rarely reaches."""
    return NormalDist().inv_cdf(1 - FALSE_NAMES / count)


class Blame(NamedTuple):
    """A slow part of the network, or several if every pair that crosses one crosses them all.

    :ivar effect: logarithm of the goodness that the part costs its pairs; negative.
    """

    parts: tuple[Part, ...]
    effect: float


class Crossings:
    """Which parts each pair crosses; `ends` are the two nodes of each pair."""

    def __init__(self, fabric: Fabric, ends: Sequence[tuple[str, str]]) -> None:
        paths = [fabric.path(a, b) for a, b in ends]
        self.hops: Ints = np.array([path.hops for path in paths], dtype=np.int64)
        #: Each part with the indices of the pairs that cross it.
        self.each: dict[Part, list[int]] = {}
        for number, path in enumerate(paths):
            for part in path.parts:
                self.each.setdefault(part, []).append(number)
        same: dict[tuple[int, ...], list[Part]] = {}
        for part, pairs in self.each.items():
            same.setdefault(tuple(pairs), []).append(part)
        #: Parts with the same pairs cannot be told apart: they are one candidate.
        self.of: dict[tuple[Part, ...], Ints] = {}
        for numbers, parts in same.items():
            # Something concrete says more than "all paths".
            concrete = [part for part in parts if part.kind is not Kind.BETWEEN]
            self.of[tuple(concrete or parts)] = np.array(numbers, dtype=np.int64)


class Search:
    """The slow parts of a network; none if no two nodes of one switch were measured.

    :param leaf: the number of the switch of each node.
    :param threshold: how far below the others a part may be; a positive logarithm.
    :param costs: whether a healthy pair is worse the more trunks it crosses, as for latencies. Then
        a trunk is compared with other trunks only.
    :ivar base: the logarithm of goodness of pairs within a switch.
    :ivar blamed: the slow parts, the one that explains most first.
    :ivar cost: for each pair, the logarithm of goodness that it lacks by slow parts, and in
        latencies by its trunks. Without this, all pairs are as if they were within one switch.
    :ivar distance: number of trunks -> the logarithm that pairs over so many lack; for latencies.
    """

    def __init__(
        self, pairs: Pairs, crossings: Crossings, leaf: Ints, threshold: float, costs: bool
    ) -> None:
        self.pairs, self.crossings, self.leaf = pairs, crossings, leaf
        self.hops, self.threshold, self.costs = crossings.hops, threshold, costs
        self.within = np.flatnonzero(self.hops == 0)
        self.blamed: list[Blame] = []
        self.cost = np.zeros(len(pairs.values))
        self.distance: dict[int, float] = {}
        if len(self.within):
            standards = self._switches(pairs.values, self.within)
            self.switches, self.base = len(standards), median_high(map(float, standards))
            self.noise = self._noise()
            self._distances()
            self._parts()

    @property
    def rest(self) -> Floats:
        """What each pair has beyond the standard and its known costs."""
        return self.pairs.values - self.base - self.cost

    def _parts(self) -> None:
        ends = np.stack([self.pairs.first, self.pairs.second])
        # What has a node in common is judged as this node.
        candidates = {
            parts: its
            for parts, its in self.crossings.of.items()
            if not any((ends[:, its] == node).any(0).all() for node in ends[:, its[0]])
        }
        # No trunk explains slow pairs within a switch: these accuse the switch first.
        rest, first = self.rest, []
        for parts, members in candidates.items():
            inside = members[self.hops[members] == 0]
            limit = self._limit(len(inside), self.switches) if len(inside) else 0.0
            slow = len(inside) and self._level(rest, inside) < -limit
            if slow and self._explains(rest, members, len(candidates))[1] > 0:
                first.append((parts, inside))
        for parts, inside in first[:MOST]:
            self._blame(parts, candidates.pop(parts), self._level(self.rest, inside))
        for _ in range(MOST):
            rest, best, most = self.rest, None, 0.0
            for parts, members in candidates.items():
                effect, gain = self._explains(rest, members, len(candidates))
                if gain > most:
                    most, best = gain, (parts, effect)
            if best is None:
                break
            self._blame(best[0], candidates.pop(best[0]), best[1])

    def _blame(self, parts: tuple[Part, ...], members: Ints, effect: float) -> None:
        self.cost[members] += effect
        hops = int(self.hops[members[0]])
        if self.costs and hops and len(members) == np.count_nonzero(self.hops == hops):
            self.distance[hops] = effect
        elif effect < -self.threshold:
            self.blamed.append(Blame(parts, effect))

    def _distances(self) -> None:
        """Takes the typical cost of each distance out, where several switches show what is typical.

        With two switches, all pairs between them cross the same trunk. The search decides then.
        """
        for hops in sorted(set(self.hops.tolist()) - {0}):
            members = np.flatnonzero(self.hops == hops)
            levels = self._switches(self.pairs.values - self.base, members)
            if len(levels) <= 2:
                continue
            typical = median_high(map(float, levels))
            slow = typical < -max(self.threshold, self._limit(len(members), 1))
            if self.costs:
                self.distance[hops] = typical
            if self.costs or slow:
                self.cost[members] += typical
            if slow and not self.costs and not self.blamed:
                of = self.crossings.of.items()
                parts = next(parts for parts, its in of if np.array_equal(its, members))
                self.blamed.append(Blame(parts, typical))

    def _nodes(self, values: Floats, members: Ints) -> tuple[Ints, Floats, Ints]:
        """The nodes of some pairs, the median of the values of each, and how many it has."""
        node = np.concatenate([self.pairs.first[members], self.pairs.second[members]])
        return _medians(node, np.tile(values[members], 2))

    def _switches(self, values: Floats, members: Ints) -> Floats:
        """For each switch, the median over its nodes of their medians over some pairs."""
        nodes, middles, _ = self._nodes(values, members)
        return _medians(self.leaf[nodes], middles)[1]

    def _level(self, values: Floats, members: Ints) -> float:
        """The median over the nodes of some pairs of the medians of their values."""
        return median_high(map(float, self._nodes(values, members)[1]))

    def _explains(self, rest: Floats, members: Ints, count: int) -> tuple[float, float]:
        """The effect of a candidate, and how much of what its pairs lack it explains; or zeros."""
        nothing = 0.0, 0.0
        here = rest[members]
        limit = self._limit(len(members), count)
        if float(np.median(here)) > -limit / 2:
            return nothing
        _, middles, degrees = self._nodes(rest, members)
        effect = median_high(map(float, middles))
        if effect >= -limit:
            return nothing
        spread = 2 * SIGMA_OF_MEDIAN * self.noise / np.sqrt(degrees)
        if np.count_nonzero(middles > effect / 2 + spread) > WELL * len(middles):
            return nothing
        return effect, float(np.abs(here).sum() - np.abs(here - effect).sum())

    def _limit(self, count: int, candidates: int) -> float:
        """How far below the standard the level of so many pairs must be."""
        # The standard has a median's error, too: that of the pairs within one switch.
        spread = SIGMA_OF_MEDIAN * self.noise * math.sqrt(1 / count + 1 / len(self.within))
        return max(NOTABLE * self.threshold, quantile(candidates) * spread)

    def _noise(self) -> float:
        """Standard deviation of one pair, from pairs between the same two switches."""
        ends = np.sort([self.leaf[self.pairs.first], self.leaf[self.pairs.second]], axis=0)
        key = ends[0] * (int(self.leaf.max()) + 1) + ends[1]
        order = np.argsort(key, kind="stable")
        _, starts = np.unique(key[order], return_index=True)
        blocks = [b for b in np.split(self.pairs.values[order], starts[1:]) if len(b) >= BLOCK]
        if not blocks:
            return _sigma(self.pairs.values)
        rest = [(b - np.median(b)) * math.sqrt(len(b) / (len(b) - 1)) for b in blocks]
        return NORMAL * float(np.median(np.abs(np.concatenate(rest))))


def _medians(group: Ints, values: Floats) -> tuple[Ints, Floats, Ints]:
    """The groups, the better median of the values of each, and how many values each has."""
    order = np.lexsort((values, group))
    groups, starts, counts = np.unique(group[order], return_index=True, return_counts=True)
    return groups, values[order][starts + counts // 2], counts
