"""The second pass: which pairs show whether the suspects are at fault, and what they show of parts.

A suspected node meets good nodes. A suspected switch or trunk is crossed by one pair at a time, so
that no other traffic of the tournament shares it; pairs within the switches on both sides, and
pairs that cross as many other trunks, are the standard.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from assay.fleet.topology.fabric import Fabric, Kind, Part
from assay.fleet.tournament import localise
from assay.fleet.tournament.localise import NOTABLE, SIGMA_OF_MEDIAN, Crossings, Pairs, quantile
from assay.fleet.tournament.model import Diagnosis, Fault, Finding, Level, Link, Metric
from assay.judge.verdict import LAUNCHES_FOR_95_PERCENT, median_interval

#: How often each suspect is measured in the second pass. The interval that covers a median with
#: 95 % then leaves out one outlier on each side.
PARTNERS = 9

#: How often a pair without a value is tried again: each time may cost the limit of a launch.
TRIES = 3

#: Pairs that cross a suspected part in the second pass.
CROSSINGS = 6

#: At most this many pairs of switches are looked at to find those that a part lies between.
LOOKED_AT = 4000

#: Parts on which pairs of one round would share a rate. A switch carries all its ports at once.
SHARED = (Kind.TRUNK, Kind.UPLINKS)


def second_pass(diagnosis: Diagnosis, fabric: Fabric | None = None) -> list[list[Link]]:
    """Rounds of pairs that show whether the suspects are at fault; empty without suspects.

    Each suspect is measured :data:`PARTNERS` times with good nodes, those of its own switch first.
    A suspected pair is measured again as often. As many pairs of good nodes run at the same time as
    controls, or in between if all good nodes are partners. No node is in two pairs of a round.
    Suspected parts of the network are crossed by :data:`CROSSINGS` pairs each, in later rounds.
    """
    suspects = diagnosis.suspects
    good = [node for node in diagnosis.nodes if node not in set(suspects)]
    accused = [finding.parts for finding in diagnosis.findings if finding.repeatable]
    bad = {part for parts in accused for part in parts}
    if fabric and bad:
        slow = {part.names[0] for part in bad if part.kind is Kind.SWITCH}
        good = [node for node in good if fabric.leaf(node) not in slow] or good
    of_speed = {node for found in diagnosis.findings if found.metric for node in found.nodes}
    links = {f.nodes: bool(f.metric) for f in diagnosis.findings if len(f.nodes) == 2}
    named = {frozenset(link) for link in links}
    alone = {finding.nodes[0] for finding in diagnosis.findings if len(finding.nodes) == 1}
    # If there are too few good nodes, those must do that are only suspected together with another.
    others = good if len(good) > 1 else [node for node in diagnosis.nodes if node not in alone]
    pools = {}
    for node in suspects:
        free = [one for one in others if node != one and frozenset((node, one)) not in named]
        # Those of its own switch, if these are two or more.
        near = [one for one in free if fabric and fabric.leaf(one) == fabric.leaf(node)]
        pools[node] = near if len(near) >= 2 else free
    wanted: list[Link] = []
    for turn in range(PARTNERS):
        wanted += [link for link, speed in links.items() if speed or turn < TRIES]
        for i, (node, pool) in enumerate(pools.items()):
            # Partners are spread over the machine, and two suspects never need the same at once.
            step = turn * max(1, len(pool) // PARTNERS)
            if pool and (node in of_speed or turn < TRIES):
                wanted.append((node, pool[(i + step) % len(pool)]))
    rounds = _packed(wanted, set)
    controls = []
    for turn, pairs in enumerate(rounds):
        taken = {node for link in pairs for node in link}
        idle = [node for node in _turned(good, turn) if node not in taken]
        half = min(len(idle) // 2, len(pairs))
        controls.append(_neighbours(idle, half, fabric))
        pairs.extend(controls[-1])
    lacking = PARTNERS - sum(map(len, controls)) if len(good) > 1 else 0
    without = [turn for turn, there in enumerate(controls) if not there][: max(0, lacking)]
    for turn in reversed(without):
        rounds.insert(turn + 1, _neighbours(_turned(good, turn), 1, fabric))
    if fabric:
        for turn, link in enumerate(_far_controls(diagnosis, fabric, wanted, others, bad)):
            rounds.insert(min(2 * turn + 1, len(rounds)), [link])
        rounds += _of_parts(diagnosis, fabric, good, accused)
    return rounds


def _far_controls(
    diagnosis: Diagnosis,
    fabric: Fabric,
    wanted: Iterable[Link],
    others: Sequence[str],
    bad: Collection[Part],
) -> Iterator[Link]:
    """Pairs to compare latencies with over as many trunks, if their cost is not known."""
    suspected = {finding.metric for finding in diagnosis.findings if finding.nodes}
    of = [m.name for m in diagnosis.metrics if m.distance and m.name in suspected]
    far = {fabric.hops(a, b) for a, b in wanted} - {0} if of else set()
    named = {frozenset(finding.nodes) for finding in diagnosis.findings}
    for hops in sorted(far):
        if any(hops not in diagnosis.levels[name].distance for name in of):
            links = _crossing(fabric, others, None, bad, hops)
            yield from (link for link in links if frozenset(link) not in named)


def _by_switch(fabric: Fabric, nodes: Sequence[str]) -> list[list[str]]:
    return [[nodes[place] for place in leaf] for leaf in fabric.leaves(nodes)]


def _turned(nodes: list[str], turn: int) -> list[str]:
    """The nodes in their order, but another one first at each turn."""
    at = turn % max(1, len(nodes))
    return nodes[at:] + nodes[:at]


def _neighbours(idle: list[str], count: int, fabric: Fabric | None) -> list[Link]:
    """`count` pairs of idle nodes; those of one switch first, where the switches are known."""
    if fabric is None:
        return list(zip(idle[:count], idle[-count:] if count else []))
    groups = _by_switch(fabric, idle)
    within = [(group[at], group[at + 1]) for group in groups for at in range(0, len(group) - 1, 2)]
    left = [group[-1] for group in groups if len(group) % 2]
    return [*within, *zip(left[::2], left[1::2])][:count]


def _of_parts(
    diagnosis: Diagnosis, fabric: Fabric, good: Sequence[str], accused: Sequence[tuple[Part, ...]]
) -> list[list[Link]]:
    """Rounds in which no two pairs share a trunk or a node."""
    suspects = set(diagnosis.suspects)
    well = [node for node in diagnosis.nodes if node not in suspects]
    bad = {part for parts in accused for part in parts}
    wanted: list[Link] = []
    for parts in accused:
        tests = _crossing(fabric, well, parts[0], bad - set(parts))
        tests = tests or _crossing(fabric, well, parts[0], ())
        wanted += tests
        for hops in sorted({0, *(fabric.hops(a, b) for a, b in tests)}):
            wanted += _crossing(fabric, good, None, bad, hops)
    shared = {*SHARED, *(part.kind for part in bad if part.kind is Kind.BETWEEN)}
    return _packed(
        dict.fromkeys(wanted),
        lambda link: {*link, *(p for p in fabric.path(*link).parts if p.kind in shared)},
    )


def _packed(
    wanted: Iterable[Link], takes: Callable[[Link], Collection[str | Part]]
) -> list[list[Link]]:
    """These pairs in rounds, each in the first round in which nothing that it takes is taken."""
    rounds: list[tuple[list[Link], set[str | Part]]] = []
    for link in wanted:
        its = set(takes(link))
        free = next((each for each in rounds if its.isdisjoint(each[1])), None)
        if free is None:
            free = [], set()
            rounds.append(free)
        free[0].append(link)
        free[1].update(its)
    return [links for links, _ in rounds]


def _crossing(
    fabric: Fabric,
    nodes: Sequence[str],
    part: Part | None,
    without: Collection[Part],
    hops: int | None = None,
) -> list[Link]:
    """Up to :data:`CROSSINGS` pairs of nodes that cross a part and none of others.

    :param part: None for pairs of any parts.
    :param hops: only pairs over so many trunks. For a switch, half of the pairs are within it.
    """
    found: dict[bool, list[tuple[list[str], list[str]]]] = {True: [], False: []}
    groups = _by_switch(fabric, nodes)
    spread = itertools.chain.from_iterable(
        ((groups[at], groups[(at + step) % len(groups)]) for at in range(len(groups)))
        for step in range(len(groups) // 2 + 1)
    )
    if part:
        first = [group for group in groups if fabric.leaf(group[0]) == part.names[0]]
        spread = itertools.chain(itertools.product(first, groups), spread)
    for one, other in itertools.islice(spread, LOOKED_AT):
        if one is other and len(one) < 2:
            continue
        path = fabric.path(one[0], other[0])
        mine = found[one is other]
        if (
            len(mine) < CROSSINGS
            and (hops is None or path.hops == hops)
            and (part is None or part in path.parts)
            and set(without).isdisjoint(path.parts)
            and (other, one) not in mine
        ):
            mine.append((one, other))
    kinds = [kind for kind in found.values() if kind]
    made: dict[Link, None] = {}
    for number in range(CROSSINGS * 4):
        if len(made) == CROSSINGS or not kinds:
            break
        blocks = kinds[number % len(kinds)]
        one, other = blocks[number // len(kinds) % len(blocks)]
        turn = number // len(kinds) // len(blocks)
        if one is other:
            shift = 1 + 2 * turn // len(one)
            a, b = one[2 * turn % len(one)], one[(2 * turn + shift) % len(one)]
        else:
            a, b = one[turn % len(one)], other[(turn + turn // len(one)) % len(other)]
        if a != b:
            made.setdefault((min(a, b), max(a, b)))
    return [*made]


def parts_again(  # noqa: PLR0913, PLR0917
    findings: Sequence[Finding], metric: Metric, level: Level,
    pairs: Pairs, crossings: Crossings, suspects: localise.Mask,
) -> tuple[set[Finding], localise.Floats]:  # fmt: skip
    """What the second pass says of suspected parts in one metric, and what each pair lacks by them.

    :param level: what healthy pairs had in the first pass.
    :param suspects: the nodes that are suspects themselves; their pairs show nothing of a part.
    :returns: the findings whose part is healthy; and for each pair the logarithm of goodness that
        it lacks by parts and distance.
    """
    values, hops = pairs.values, crossings.hops
    clean = usable = ~suspects[pairs.first] & ~suspects[pairs.second]
    crossing: dict[Finding, localise.Mask] = {}
    for finding in findings:
        crossing[finding] = members = np.zeros(len(values), dtype=np.bool_)
        for part in finding.parts:
            members[crossings.each.get(part, [])] = True
        clean = clean & ~members
    standard = {
        int(k): float(np.median(values[clean & (hops == k)])) for k in np.unique(hops[clean])
    }
    cost = np.zeros(len(values))
    if metric.distance and 0 in standard:
        for trunks, lack in level.distance.items():
            standard.setdefault(trunks, standard[0] + lack)
        for trunks, its in standard.items():
            cost[hops == trunks] += its - standard[0]
    least = np.nan if metric.distance else standard.get(0, np.nan)
    gaps = values - np.array([standard.get(k, least) for k in hops.tolist()])
    healthy = set()
    # Pairs within a switch show it alone. What is known of switches is then taken out of the
    # values by which trunks are judged, where no pair crosses one trunk only.
    for finding in sorted(crossing, key=lambda f: f.fault is not Fault.SLOW_SWITCH):
        alone = crossing[finding].copy()
        for other in crossing.keys() - {finding}:
            alone &= ~crossing[other]
        here = (alone if (alone & usable).any() else crossing[finding]) & usable & ~np.isnan(gaps)
        if not here.any():
            continue
        within = here & (hops == 0)
        effect = float(np.median(gaps[here]))
        error = math.sqrt(1 / here.sum() + 1 / max(1, clean.sum()))
        limit = max(metric.threshold, quantile(1) * SIGMA_OF_MEDIAN * level.noise * error)
        # A switch slows down the pairs within it, too. If it does not, it is not the switch.
        whole = not within.any() or float(np.median(gaps[within])) < effect / 2
        if effect < -limit and whole:
            gaps = gaps - crossing[finding] * effect
            cost += crossing[finding] * effect
        else:
            healthy.add(finding)
    return healthy, cost


def compared(
    metric: Metric,
    nodes: Collection[str],
    runs: Mapping[frozenset[str], tuple[int, Sequence[float]]],
    suspected: Collection[frozenset[str]],
) -> Repetition | None:
    """How a node or a pair compares in the second pass; None if nothing can be compared with it.

    :param runs: the two nodes of each pair -> the number of trunks whose cost is not known, and the
        logarithms of goodness of its runs. Only pairs with the same number can be compared.
    :param suspected: the nodes and the pairs that the first pass named in this metric.
    """
    accused = frozenset(nodes)
    alone = {node for one in suspected if len(one) == 1 for node in one}
    mine: dict[int, list[float]] = defaultdict(list)
    others: dict[int, list[float]] = defaultdict(list)
    for ends, (hops, its) in runs.items():
        if accused <= ends:
            if alone.isdisjoint(ends - accused):
                mine[hops] += its
        elif ends not in suspected and alone.isdisjoint(ends):
            others[hops] += its
    least = min(mine.keys() & others.keys(), default=None)
    return None if least is None else Repetition(metric, mine[least], others[least])


@dataclass(frozen=True)
class Repetition:
    """The runs of a suspect in the second pass, and those of the others; logarithms of goodness.

    Other work slows all pairs of a machine alike, and makes none faster. The intervals are those
    in which the medians lie, with a probability of 95 %.
    """

    metric: Metric
    mine: Sequence[float]
    others: Sequence[float]

    @property
    def clear(self) -> bool:
        """Whether its whole interval is below that of the others, by half of the tolerance."""
        enough = min(len(self.mine), len(self.others)) >= LAUNCHES_FOR_95_PERCENT
        best, least = median_interval(self.mine)[1], median_interval(self.others)[0]
        return enough and best < least - NOTABLE * self.metric.threshold

    @property
    def well(self) -> bool:
        """Whether the suspect is as good as the others, within the tolerance.

        A suspect that is better than the others over the whole interval is well, but they are not.
        """
        (worst, best), (_, most) = median_interval(self.mine), median_interval(self.others)
        return best > most - self.metric.threshold and worst < most + self.metric.threshold

    def __str__(self) -> str:
        mine, others = (
            " to ".join(map(self.metric.said, median_interval(of)))
            for of in (self.mine, self.others)
        )
        return (
            f"{len(self.mine)} runs again had {mine}, those of the others {others}: this may be "
            "noise; measure on a quiet machine, or longer (option seconds)"
        )
