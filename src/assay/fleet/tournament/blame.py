"""The search for a slow switch or trunk among measured pairs, by groups of nodes and by regression.

The topology says which parts of the network each pair crosses. Two questions are asked:

- Groups: what do pairs within one switch reach? A fault makes pairs slower, so the typical switch
  is the standard, and the better of two. Pairs within two switches that are well, while pairs
  between them are slow, accuse what is between the switches.
- Regression: which part explains most of what the pairs lack? The effect of a part is the median
  over the nodes whose pairs cross it, so that one slow node is not taken for its switch. The part
  that explains most is taken out of the values, and the search goes on with the rest.

Robust fits by medians: J. W. Tukey, "Exploratory Data Analysis", 1977, chapter 11. One part
after the other: S. Mallat and Z. Zhang, "Matching pursuits", IEEE Trans. Signal Processing, 1993.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from assay.fleet.topology.fabric import Fabric, Kind, Part
from assay.fleet.tournament.localise import (
    MAD_TO_SIGMA,
    SIGMA_OF_MEDIAN,
    Floats,
    Ints,
    Mask,
    Pairs,
    quantile,
)

#: A part that costs this share of the tolerance, and more than noise explains, is taken out of the
#: values. Its nodes are then compared with each other, and not named for it.
NOTABLE = 0.5

#: At most this many parts are named in one pass: noise at the limit could make the search go on.
MOST = 16

#: A part is named only if at most this share of the nodes whose pairs cross it is well with it.
WELL = 0.1

#: A block of pairs between the same two switches shows the noise if it has this many.
BLOCK = 3


@dataclass(frozen=True)
class Blame:
    """A slow part of the network.

    :ivar parts: the part; several if every measured pair that crosses one crosses them all.
    :ivar effect: logarithm of the goodness that the part costs its pairs; negative.
    :ivar pairs: indices of the pairs that cross it.
    """

    parts: tuple[Part, ...]
    effect: float
    pairs: Ints

    @property
    def name(self) -> str:
        return " or ".join(map(str, self.parts))


@dataclass(frozen=True)
class Suspicion:
    """What a search found.

    :ivar blamed: the slow parts, the one that explains most first.
    :ivar cost: for each pair, the logarithm of goodness that it lacks by slow parts, and in
        latencies by its trunks. Without this, all pairs are as if they were within one switch.
    :ivar base: the logarithm of goodness of pairs within a switch.
    :ivar distance: number of trunks -> the logarithm that pairs over so many lack; for latencies.
    """

    blamed: tuple[Blame, ...]
    cost: Floats
    base: float
    distance: Mapping[int, float]


class Crossings:
    """Which parts each of some pairs crosses.

    :param ends: the two nodes of each pair.
    """

    def __init__(self, fabric: Fabric, ends: Sequence[tuple[str, str]]) -> None:
        paths = [fabric.path(a, b) for a, b in ends]
        self.hops: Ints = np.array([path.hops for path in paths], dtype=np.int64)
        found: dict[Part, list[int]] = {}
        for number, path in enumerate(paths):
            for part in path.parts:
                found.setdefault(part, []).append(number)
        #: Each part with the indices of the pairs that cross it.
        self.each: dict[Part, Ints] = {
            part: np.array(pairs, dtype=np.int64) for part, pairs in found.items()
        }
        #: Parts with the same pairs cannot be told apart: they are one candidate.
        same: dict[tuple[int, ...], list[Part]] = {}
        for part, pairs in found.items():
            same.setdefault(tuple(pairs), []).append(part)
        self.of: dict[tuple[Part, ...], Ints] = {
            _told(parts): np.array(pairs, dtype=np.int64) for pairs, parts in same.items()
        }


def _told(parts: Iterable[Part]) -> tuple[Part, ...]:
    """The names for equal candidates: something concrete says more than "all paths"."""
    concrete = tuple(part for part in parts if part.kind is not Kind.BETWEEN)
    return concrete or tuple(parts)


def dead_parts(
    crossings: Crossings, ends: Sequence[tuple[int, int]], dead: Mask
) -> list[tuple[tuple[Part, ...], Ints]]:
    """The parts over which no pair had a value, and their pairs; the largest first.

    :param ends: the numbers of the two nodes of each pair.
    :param dead: for each pair, whether it had no value. A trunk is named only if :data:`BLOCK` of
        its pairs are between nodes that had a value with others.
    """
    living = {node for pair, lost in zip(ends, dead.tolist()) if not lost for node in pair}
    taken = np.zeros(len(dead), dtype=np.bool_)
    found = []
    for parts, members in sorted(crossings.of.items(), key=lambda item: -len(item[1])):
        if not dead[members].all() or taken[members].all():
            continue
        pairs = [ends[p] for p in members.tolist()]
        whole = all(part.kind is Kind.SWITCH for part in parts)
        support = [pair for pair in pairs if whole or living.issuperset(pair)]
        if len(support) >= BLOCK and not set.intersection(*map(set, support)):
            found.append((parts, members))
            taken[members] = True
    return found


def search(
    pairs: Pairs, crossings: Crossings, leaf: Ints, threshold: float, distance_costs: bool
) -> Suspicion | None:
    """Find the slow parts of a network; None if no two nodes of one switch were measured.

    :param leaf: the number of the switch of each node.
    :param threshold: how far below the others a part may be; a positive logarithm.
    :param distance_costs: a healthy pair is worse the more trunks it crosses, as for latencies.
        Then a trunk is compared with other trunks only.
    """
    found = _Search(pairs, crossings, leaf, threshold, distance_costs)
    return None if found.base is None else found.run()


class _Search:
    def __init__(
        self, pairs: Pairs, crossings: Crossings, leaf: Ints, threshold: float, costs: bool
    ) -> None:
        self.pairs, self.crossings, self.leaf = pairs, crossings, leaf
        self.threshold, self.costs = threshold, costs
        self.within = dict(self._levels(pairs.values, crossings.hops == 0))
        self.base = better(list(self.within.values())) if self.within else None
        self.noise = self._noise()
        self.cost = np.zeros(len(pairs.values))
        self.distance: dict[int, float] = {}
        self.blamed: list[Blame] = []

    def run(self) -> Suspicion:
        assert self.base is not None
        self._distances()
        candidates = {
            parts: members
            for parts, members in self.crossings.of.items()
            if not self._of_one_node(members)
        }
        # No trunk explains slow pairs within a switch: these accuse the switch first.
        for parts, members in self._slow_within(candidates):
            rest = self.pairs.values - self.base - self.cost
            within = members[self.crossings.hops[members] == 0]
            self._blame(parts, candidates.pop(parts), self._level(rest, within))
        for _ in range(MOST):
            rest = self.pairs.values - self.base - self.cost
            best: tuple[float, tuple[Part, ...], float] | None = None
            for parts, members in candidates.items():
                effect, gain = self._explains(rest, members, len(candidates))
                if gain > 0 and (best is None or gain > best[0]):
                    best = gain, parts, effect
            if best is None:
                break
            self._blame(best[1], candidates.pop(best[1]), best[2])
        return Suspicion(tuple(self.blamed), self.cost, self.base, self.distance)

    def _blame(self, parts: tuple[Part, ...], members: Ints, effect: float) -> None:
        self.cost[members] += effect
        if self.costs and self._by_distance(members):
            self.distance[int(self.crossings.hops[members[0]])] = effect
        elif effect < -self.threshold:
            self.blamed.append(Blame(parts, effect, members))

    def _slow_within(
        self, candidates: Mapping[tuple[Part, ...], Ints]
    ) -> list[tuple[tuple[Part, ...], Ints]]:
        """The switches whose own pairs are slow, and all of whose nodes are affected."""
        assert self.base is not None
        rest = self.pairs.values - self.base - self.cost
        found = []
        for parts, members in candidates.items():
            within = members[self.crossings.hops[members] == 0]
            if len(within) and self._level(rest, within) < -self._limit(
                len(within), len(self.within)
            ):
                _, gain = self._explains(rest, members, len(candidates))
                if gain > 0:
                    found.append((parts, members))
        return found[:MOST]

    def _level(self, values: Floats, members: Ints) -> float:
        """The median over the nodes of some pairs of the medians of their values."""
        node = np.concatenate([self.pairs.first[members], self.pairs.second[members]])
        return better(_medians(node, np.concatenate([values[members], values[members]]))[1])

    def _distances(self) -> None:
        """Takes the typical cost of each distance out, where several switches show what is typical.

        With two switches, all pairs between them cross the same trunk. The search decides then.
        """
        assert self.base is not None
        named = False
        for hops in sorted(set(self.crossings.hops.tolist()) - {0}):
            here = self.crossings.hops == hops
            levels = self._levels(self.pairs.values - self.base, here)
            if len(levels) <= 2:
                continue
            members = np.flatnonzero(here)
            typical = better([level for _, level in levels])
            slow = typical < -max(self.threshold, self._limit(len(members), 1))
            if self.costs:
                self.distance[hops] = typical
            if self.costs or slow:
                self.cost[members] += typical
            if slow and not self.costs and not named:
                named = True
                parts = next(
                    (p for p, m in self.crossings.of.items() if np.array_equal(m, members)),
                    (Part(Kind.BETWEEN, (str(hops),)),),
                )
                self.blamed.append(Blame(parts, typical, members))

    def _levels(self, values: Floats, where: Mask) -> list[tuple[int, float]]:
        """For each switch, the median over its nodes of their medians over some of their pairs."""
        first, second = self.pairs.first[where], self.pairs.second[where]
        node = np.concatenate([first, second])
        both = np.concatenate([values[where], values[where]])
        nodes, middles, _ = _medians(node, both)
        order = np.argsort(self.leaf[nodes], kind="stable")
        leaves, starts = np.unique(self.leaf[nodes][order], return_index=True)
        groups = np.split(middles[order], starts[1:]) if len(nodes) else []
        return [(int(leaf), better(group)) for leaf, group in zip(leaves, groups)]

    def _explains(self, rest: Floats, members: Ints, count: int) -> tuple[float, float]:
        """The effect of a candidate, and how much of what its pairs lack it explains; or zeros."""
        nothing = 0.0, 0.0
        here = rest[members]
        limit = self._limit(len(members), count)
        if float(np.median(here)) > -limit / 2:
            return nothing
        node = np.concatenate([self.pairs.first[members], self.pairs.second[members]])
        _, middles, degrees = _medians(node, np.concatenate([here, here]))
        effect = better(middles)
        if effect >= -limit:
            return nothing
        spread = 2 * SIGMA_OF_MEDIAN * self.noise / np.sqrt(degrees)
        if np.count_nonzero(middles > effect / 2 + spread) > WELL * len(middles):
            return nothing
        return effect, float(np.abs(here).sum() - np.abs(here - effect).sum())

    def _limit(self, count: int, candidates: int) -> float:
        """How far below the standard the level of so many pairs must be."""
        # The standard has a median's error, too: that of the pairs within one switch.
        within = max(1, int(np.count_nonzero(self.crossings.hops == 0)))
        spread = SIGMA_OF_MEDIAN * self.noise * math.sqrt(1 / count + 1 / within)
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
        return MAD_TO_SIGMA * float(np.median(np.abs(np.concatenate(rest))))

    def _of_one_node(self, members: Ints) -> bool:
        """Whether all these pairs have a node in common: it is judged as a node."""
        first, second = self.pairs.first[members], self.pairs.second[members]
        return any(
            bool(((first == node) | (second == node)).all()) for node in (first[0], second[0])
        )

    def _by_distance(self, members: Ints) -> bool:
        """Whether these are all pairs of one distance."""
        hops = self.crossings.hops
        here = hops[members[0]]
        return bool(here) and len(members) == np.count_nonzero(hops == here)


def better(values: Sequence[float] | Floats) -> float:
    """The median; of two middle values the better one, as in :meth:`.localise.Pairs.medians`."""
    return float(np.sort(np.asarray(values))[len(values) // 2])


def _medians(group: Ints, values: Floats) -> tuple[Ints, Floats, Ints]:
    """The groups, the better median of the values of each, and how many values each has."""
    order = np.lexsort((values, group))
    groups, starts, counts = np.unique(group[order], return_index=True, return_counts=True)
    return groups, values[order][starts + counts // 2], counts


def _sigma(values: Floats) -> float:
    return MAD_TO_SIGMA * float(np.median(np.abs(values - np.median(values))))
