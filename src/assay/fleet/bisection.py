"""Bisection and congestion between two switches: all pairs at once, against the theoretical rate.

The first node of one switch meets the first node of the other, the second the second, and so on.
All send at the same time, as in LinkTest of Forschungszentrum Juelich (``--bisection``). What they
move together is compared with the links of all pairs, or the trunk, if the site says that it
carries less. While all pairs but one send, the latency of that one is measured, as in GPCNeT
(Chunduri et al., SC19). What several pairs measure is played twice: a trunk is slow in both.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.accused import Against, How
from assay.fleet.topology.fabric import Fabric, Kind
from assay.fleet.tournament import measured
from assay.fleet.tournament.again import SHARED
from assay.fleet.tournament.measured import Pair
from assay.quantities import number

ALL, LOADED, ALONE = "all pairs at once", "one pair under load", "alone"

#: Share of the theoretical bisection that all pairs must reach together. ngc_multinode_perf of
#: NVIDIA asks for the same share of the rate of a port. A fat tree with D-mod-K routing carries a
#: shift of the nodes, which the pairs are, without contention (Zahavi, "D-Mod-K routing", 2010).
SHARE = 0.9

#: Fewest nodes on a switch: one pair sends, and another one measures.
LEAST = 2

#: The programs of a round start up to 0.1 s one after the other. A latency counts as under load
#: from so long after the start of the last one [s].
SETTLE = 0.5

#: The others send in one launch so many times as long: those of the latency are within it.
LONGER = 2

#: Fewest launches of a latency within the time in which all others sent.
LAUNCHES = 3

#: The tests of ucx_perftest under load.
PROBE, SENDER = "tag_lat", "tag_bw"

#: The source of a rate that the site states for all paths.
TRUNK = "the trunk, as the site states it"

#: By how much the rate of all pairs may be above that of what they share, as a part of it.
ABOVE = 0.05

#: A pair alone fills a way if it reaches this share of its rate: the rest is noise.
FILLS = 0.9


@dataclass(frozen=True)
class Round:
    """Pairs of nodes that are measured at the same time; `where` says what is between them."""

    where: str
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Measured:
    """The rates [MB/s] and latencies [us] of the pairs of a round, which begin at the same time."""

    where: str
    rates: tuple[float, ...]
    latencies: tuple[float, ...]

    @property
    def together(self) -> float:
        """What all pairs moved per second until the last one was done [MB/s].

        The sum of their rates would be too large: the last pair has a shared link for itself.
        """
        return len(self.rates) * min(self.rates)

    def moved(self, alone: float, shared: float) -> float:
        """What all pairs moved [MB/s], to compare it with what they can move together, `shared`.

        If a pair `alone` fills neither that nor what all of them moved, the last pair leaves a part
        of the way idle at the end, and the sum of the rates is closer to the truth.
        """
        fills = alone >= FILLS * min(shared, self.together)
        return self.together if fills else sum(self.rates)


def in_rounds(played: Sequence[Round], pairs: Sequence[Pair]) -> Iterator[Measured]:
    """What each round measured, from the pairs in the order in which they ran.

    :raises ValueError: the pairs are not those of the rounds, or one of them has no value.
    """
    left = list(pairs)
    for turn, round_ in enumerate(played, 1):
        here, left = left[: len(round_.pairs)], left[len(round_.pairs) :]
        if [(pair.a, pair.b) for pair in here] != list(round_.pairs):
            said = ", ".join(f"{pair.a} - {pair.b}" for pair in here) or "none"
            raise ValueError(f"round {turn} ({round_.where}): the log has the pairs {said}")
        # A pair that failed ends its round, so the others have no value either.
        if failed := sorted((pair for pair in here if pair.error), key=lambda pair: pair.follows):
            raise ValueError(f"round {turn} ({round_.where}): {failed[0].error}")
        rates, latencies = (
            tuple(pair.values[metric] for pair in here if metric in pair.values)
            for metric in ("bandwidth", "latency")
        )
        yield Measured(round_.where, rates, latencies)
    if left:
        raise ValueError(f"the log has {len(left)} pairs beyond the {len(played)} rounds")


def alone(played: Sequence[Round], pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs of the rounds that have one pair. Pairs that share a full link lose packets."""
    counts = [len(one.pairs) for one in played for _ in one.pairs]
    return [pair for pair, count in zip(pairs, counts) if count == 1]


@dataclass(frozen=True)
class Stated:
    """What the site states.

    :ivar link: rate of the link of a node [MB/s]; None if the partition does not name it.
    :ivar trunk: rate of all paths between two switches in one direction [MB/s]; None if not stated.
    """

    link: float | None = None
    trunk: float | None = None


@dataclass(frozen=True)
class Sides:
    """Two switches, and the pairs of their nodes."""

    switches: tuple[str, str]
    pairs: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return " - ".join(self.switches)

    def rounds(self) -> list[tuple[str, Round]]:
        """All rounds of the two switches, with what each measures; those of several pairs twice."""
        several = [(what, Round(f"{self}, {what}", self.pairs)) for what in (ALL, LOADED)]
        alone = [(ALONE, Round(f"{self}, {ALONE}", (pair,))) for pair in self.pairs]
        return [*several, *alone, *several]


@dataclass(frozen=True)
class Found:
    """What was measured between two switches.

    :ivar alone: rate of each pair alone [MB/s].
    :ivar looks: all pairs at once, two looks.
    :ivar latency: of the first pair alone, the median over its launches [us].
    :ivar loaded: the same while all other pairs sent, for each look; None if too few launches were
        within the time in which all of them sent.
    """

    sides: Sides
    alone: tuple[float, ...]
    looks: tuple[Measured, ...]
    latency: float
    loaded: tuple[float | None, ...]

    @property
    def latency_loaded(self) -> float | None:
        """The latency under load of the better look [us]; None if one look did not measure it."""
        known = [value for value in self.loaded if value is not None]
        return min(known) if len(known) == len(self.loaded) else None

    @property
    def congestion(self) -> float | None:
        """Latency under load over latency alone; None if not measured."""
        loaded = self.latency_loaded
        return None if loaded is None else loaded / self.latency

    def limits(self, stated: Stated) -> list[tuple[float, str]]:
        """What the site states of this way [MB/s], each with its source; the least first."""
        known = [] if stated.trunk is None else [(stated.trunk, TRUNK)]
        if stated.link is not None:
            count = len(self.sides.pairs)
            known.append((count * stated.link, f"{count} links of {number(stated.link)} MB/s"))
        return sorted(known)

    def theoretical(self, stated: Stated) -> tuple[float, str]:
        """The theoretical bisection [MB/s], and what it follows from; if need be, pairs alone."""
        known = self.limits(stated)
        if stated.link is None:
            known.append((sum(self.alone), f"{len(self.alone)} pairs alone, one after the other"))
        return min(known)

    def moved(self, stated: Stated) -> list[float]:
        """What all pairs moved together in each look [MB/s]."""
        shared, _ = self.theoretical(stated)
        return [look.moved(max(self.alone), shared) for look in self.looks]


def sides(fabric: Fabric, nodes: Sequence[str]) -> list[Sides]:
    """The switches that are measured against each other: each with the next, in a ring.

    :raises ValueError: fewer than two switches have two of the nodes, or a node is on none.
    """
    if lacking := fabric.lacking(nodes):
        raise ValueError(f"the topology has no switch for {', '.join(lacking)}")
    every = ([nodes[place] for place in places] for places in fabric.leaves(nodes))
    there = {fabric.leaf(on[0]): on for on in every if len(on) >= LEAST}
    if len(there) < 2:
        raise ValueError(few(there))
    names = [*there]
    ring = zip(names, [*names[1:], *names[:1]] if len(names) > 2 else names[1:])
    return [Sides(ends, tuple(zip(*(there[end] for end in ends)))) for ends in ring]


def few(enough: Collection[str]) -> str:
    """Why there is no bisection, with the switches that have nodes enough."""
    there = f"only {', '.join(enough)} has" if enough else "no switch has"
    return f"two switches with {LEAST} nodes each are needed: {there} so many"


def possible(fabric: Fabric) -> list[str]:
    """The switches with nodes enough, whichever nodes a job gets."""
    switches = fabric.said()["switches"]
    return [name for name, nodes in switches.items() if len(nodes) >= LEAST]


def nodes_needed(fabric: Fabric) -> int:
    """Nodes that a job needs: it may get the whole largest switch, and one of each other switch."""
    counts = [len(nodes) for nodes in fabric.said()["switches"].values() if nodes]
    return min(max(counts) + len(counts), sum(counts))


def bisection_findings(
    chosen: Sequence[Sides], entries: Sequence[Mapping[str, Any]], pairs: Sequence[Pair]
) -> list[Found]:
    """What each two switches showed; `entries` of the log and `pairs` are the same, in one order.

    :raises ValueError: as :func:`in_rounds`.
    """
    played = [one.rounds() for one in chosen]
    seen = iter([*in_rounds([one for rounds in played for _, one in rounds], pairs)])
    left = iter(entries)
    made = []
    for one, rounds in zip(chosen, played):
        shown: dict[str, list[tuple[Measured, list[Mapping[str, Any]]]]] = defaultdict(list)
        for what, round_ in rounds:
            shown[what].append((next(seen), [next(left) for _ in round_.pairs]))
        alone = tuple(rate for rates, _ in shown[ALONE] for rate in rates.rates)
        looks = tuple(rates for rates, _ in shown[ALL])
        latency = statistics.median(_latencies(shown[ALONE][0][1][0]["runs"]))
        made.append(
            Found(one, alone, looks, latency, tuple(under_load(s) for _, s in shown[LOADED]))
        )
    return made


def under_load(entries: Sequence[Mapping[str, Any]]) -> float | None:
    """The latency of the first pair while all others sent [us]; None if that was too short."""
    probe, *others = entries
    sent = [(run["began"], run["ended"]) for entry in others for run in entry["runs"]]
    first, last = max(sent)[0] + SETTLE, min(ended for _, ended in sent)
    within = [run for run in probe["runs"] if first <= run["began"] and run["ended"] <= last]
    return statistics.median(_latencies(within)) if len(within) >= LAUNCHES else None


def _latencies(runs: Sequence[Mapping[str, Any]]) -> list[float]:
    """The latency of each launch [us]."""
    test = measured.TESTS[PROBE]
    return [measured.value(test, run["client"]["out"]) for run in runs if run["test"] == PROBE]


def impossible(every: Sequence[Found], stated: Stated) -> list[str]:
    """What no such links can do, one line each: the bytes took another way, or not at once."""
    lines = []
    for one in every:
        most = max(look.together for look in one.looks)
        for rate, why in one.limits(stated):
            if most > (1 + ABOVE) * rate:
                lines.append(
                    f"{one.sides}: {len(one.alone)} pairs moved {number(most)} MB/s together, "
                    f"more than the {number(rate)} MB/s of {why}: the bytes took another way, or "
                    "the pairs did not run at the same time"
                )
                break
        # A pair alone is in nobody's way, and shows best what took another one.
        fastest = max(one.alone)
        lines += [
            f"{one.sides}: one pair alone moved {number(fastest)} MB/s, more than the "
            f"{number(limit)} MB/s of {what}: the bytes took another way"
            for limit, what in ((stated.link, "a link"), (stated.trunk, TRUNK))
            if limit is not None and fastest > (1 + ABOVE) * limit
        ]
    return lines


def slow(every: Sequence[Found], stated: Stated, fabric: Fabric) -> tuple[list[str], list[str]]:
    """Faults between switches, one line each: accused by both looks, and by one of them only."""
    accused: list[str] = []
    undecided: list[str] = []
    for one in every:
        rate, why = one.theoretical(stated)
        bound, moved = SHARE * rate, one.moved(stated)
        least, most, needed = map(number, (min(moved), max(moved), bound))
        if max(moved) < bound:
            line = (
                f"{one.sides}: {len(one.sides.pairs)} pairs moved {most} MB/s together, and should "
                f"reach {needed} MB/s ({100 * SHARE:g} % of {number(rate)} MB/s: {why})"
            )
            accused += _explained(line, one, stated, fabric)
        elif min(moved) < bound:
            undecided.append(
                f"{one.sides}: {least} MB/s in one look and {most} MB/s in another, {needed} MB/s "
                "are needed"
            )
    return accused, undecided


def _explained(line: str, one: Found, stated: Stated, fabric: Fabric) -> Iterator[Against]:
    """Accuses some pairs, if only these are slow alone too, and else what all pairs share."""
    bound = SHARE * (stated.link or 0)
    pairs = [(pair, rate) for pair, rate in zip(one.sides.pairs, one.alone) if rate < bound]
    needed = SHARE * one.theoretical(stated)[0]
    if 0 < len(pairs) < len(one.alone) and sum(one.alone) < needed:
        for (a, b), rate in pairs:
            yield Against(f"{line}; {a} - {b} has {number(rate)} MB/s alone", (a, b), How.SLOW)
        return
    low, high = number(min(one.alone)), number(max(one.alone))
    said = f"{line}; a pair alone has {low if low == high else f'{low} to {high}'} MB/s"
    yield Against(said, (), How.SLOW, part(one.sides, fabric))


def part(between: Sides, fabric: Fabric) -> str:
    """The part of the network that the pairs share: the trunk, if there is one only."""
    # Uplinks are several ways to several switches: any of them may be the slow one.
    ways = [one for one in fabric.path(*between.pairs[0]).parts if one.kind in SHARED]
    return str(ways[0]) if [one.kind for one in ways] == [Kind.TRUNK] else f"all paths {between}"


def unseen(every: Sequence[Found]) -> list[str]:
    """A line for each two switches without a latency under load."""
    return [
        f"{one.sides}: fewer than {LAUNCHES} launches of the latency were within the time in which "
        "all other pairs sent"
        for one in every
        if one.congestion is None
    ]


def advice(plan_file: str, log_file: str) -> dict[str, Any]:
    """The rounds as pairs of ranks, for :mod:`assay.fleet.node.pairs`.

    :raises ValueError: as :func:`sides`.
    """
    plan, log = measured.tournament_of_job(plan_file, log_file)
    chosen = sides(measured.fabric_of(plan["topology"], log.nodes), log.nodes)
    rank = {name: place for place, name in enumerate(log.nodes)}
    launches = measured.TESTS[PROBE].launches
    rounds: list[Any] = []
    for what, round_ in (each for one in chosen for each in one.rounds()):
        pairs = [(rank[a], rank[b]) for a, b in round_.pairs]
        tests = [{PROBE: (launches, 1)}, *({SENDER: (1, LONGER)} for _ in pairs[1:])]
        rounds.append({"pairs": pairs, "tests": tests} if what == LOADED else pairs)
    return {"again": False, "rounds": rounds}
