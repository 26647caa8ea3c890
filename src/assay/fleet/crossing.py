"""Pairs of nodes at the same time: within two groups of nodes, and across the link between them.

Each round has k = 1, 2, 4, ... pairs. Within the groups, pairs must not disturb each other. Across,
they share the link: what they move together must reach what the link can carry, and must not exceed
it. Fabric and link are judged in one job.

Rank 0 runs this module as a program when the nodes of the job are known: ``python -m
assay.fleet.crossing plan.json coordinator_log.jsonl`` prints the rounds.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.evidence import groups
from assay.evidence.groups import Between
from assay.fleet.tournament.measured import Pair
from assay.outputs import coordinator_log
from assay.quantities import number

WITHIN, ACROSS = "within", "across"

#: By how much a rate may be below what it should be, by how much the rate of all pairs may be above
#: that of the link, and how far the latency may be from the stated one, as parts of the value.
SHORT, ABOVE, LATENCY = 0.1, 0.05, 0.25


#: A pair alone fills a way if it reaches this share of its rate: the rest is noise.
FILLS = 0.9


def trials(size: int, seconds: float, between: Between) -> tuple[int, int]:
    """Most iterations of the first trial of a latency and of a bandwidth across.

    The usual first trial would take minutes on a slow link.

    :param size: of a message of the bandwidth [B]; `seconds`: intended duration [s].
    """
    round_trips = seconds * 1e6 / (2 * between.latency)
    messages = seconds * between.bandwidth * 1e6 / size
    return max(1, int(round_trips)), max(1, int(messages))


@dataclass(frozen=True)
class Round:
    """Pairs of nodes that are measured at the same time.

    :ivar where: :data:`WITHIN` or :data:`ACROSS`; the two switches in
        :mod:`assay.fleet.bisection`.
    """

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

        All pairs move the same number of bytes. The sum of their rates would be too large: if they
        share the link unequally, the last pair has the link for itself at the end.
        """
        return len(self.rates) * min(self.rates)

    def moved(self, alone: float, shared: float) -> float:
        """What all pairs moved, to compare it with what they share [MB/s].

        :param alone: what one pair moves alone. If it fills neither what they share nor what all of
            them moved, the last pair leaves a part of the way idle at the end, and the sum of the
            rates is closer to the truth.
        :param shared: what all pairs can move together.
        """
        fills = alone >= FILLS * min(shared, self.together)
        return self.together if fills else sum(self.rates)


def rounds(nodes: Sequence[str], between: Between) -> list[Round]:
    """Rounds of 1, 2, 4, ... and of all pairs, first within both groups in turn, then across.

    :raises ValueError: a node is in no group, or a group has fewer than two nodes.
    """
    sides = [[node for node in nodes if between.group_of(node) == name] for name in between.groups]
    if problems := between.astray(nodes):
        raise ValueError(problems[0])
    if min(map(len, sides)) < 2:
        raise ValueError("each group needs two nodes, or nothing is measured within it")
    inside = [(side[at], side[at + 1]) for at in range(0, len(sides[0]) - 1, 2) for side in sides]
    return [
        Round(where, tuple(pairs[:count]))
        for where, pairs in ((WITHIN, inside), (ACROSS, list(zip(*sides))))
        for count in _counts(len(pairs))
    ]


def _counts(most: int) -> list[int]:
    """1, 2, 4, ... up to `most`, which is the last one."""
    return [*(1 << k for k in range(most.bit_length()) if 1 << k < most), most]


def measured(played: Sequence[Round], pairs: Sequence[Pair]) -> Iterator[Measured]:
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
        yield Measured(
            round_.where,
            *(
                tuple(pair.values[metric] for pair in here if metric in pair.values)
                for metric in ("bandwidth", "latency")
            ),
        )
    if left:
        raise ValueError(f"the log has {len(left)} pairs beyond the {len(played)} rounds")


def alone(played: Sequence[Round], pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs of the rounds that have one pair. Pairs that share a full link lose packets."""
    counts = [len(one.pairs) for one in played for _ in one.pairs]
    return [pair for pair, count in zip(pairs, counts) if count == 1]


def impossible(found: Sequence[Measured], between: Between) -> list[str]:
    """What no such link can do, one line each: the bytes took another way, or not at once."""
    problems = []
    for one in found:
        if one.where == ACROSS and one.together > (1 + ABOVE) * between.bandwidth:
            problems.append(
                f"{len(one.rates)} pairs across moved {number(one.together)} MB/s, more than the "
                f"{number(between.bandwidth)} MB/s of the link: the bytes took another way, or the "
                "pairs did not run at the same time"
            )
    shortest = min(_latencies_across(found))
    if shortest < (1 - LATENCY) * between.latency:
        problems.append(
            f"the latency across is {number(shortest)} us, less than the "
            f"{number(between.latency)} us of the link: the messages took another way"
        )
    return problems


def faults(found: Sequence[Measured], between: Between) -> list[str]:
    """Faults of the link and of the fabric of the groups, one line each."""
    within = [one for one in found if one.where == WITHIN]
    alone, every = within[0].rates[0], within[-1].rates
    # The pair alone may be the slow one. Of pairs that disturb each other, it is the fastest.
    usual = max(alone, statistics.median(every))
    lines = []
    if alone < (1 - SHORT) * usual:
        lines.append(
            f"one pair alone within the groups has {number(alone)} MB/s, the median of the "
            f"{len(every)} pairs at once is {number(usual)} MB/s: is one of its nodes slow?"
        )
    for one in within:
        least = min(one.rates)
        if least < (1 - SHORT) * alone:
            lines.append(
                f"{len(one.rates)} pairs within the groups disturb each other: the slowest has "
                f"{number(least)} MB/s, one pair alone {number(alone)} MB/s"
            )
    last = [one for one in found if one.where == ACROSS][-1]
    reachable = min(between.bandwidth, len(last.rates) * usual)
    moved = last.moved(usual, between.bandwidth)
    if moved < (1 - SHORT) * reachable:
        lines.append(
            f"{len(last.rates)} pairs across moved {number(moved)} MB/s together, and should "
            f"reach {number(reachable)} MB/s"
        )
    longest = max(_latencies_across(found))
    if longest > (1 + LATENCY) * between.latency:
        lines.append(
            f"the latency across is {number(longest)} us, that of the link "
            f"{number(between.latency)} us"
        )
    return lines


def _latencies_across(found: Sequence[Measured]) -> list[float]:
    """The latency of each pair of each round across [us]: any pair may take another way."""
    return [latency for one in found if one.where == ACROSS for latency in one.latencies]


def advice(plan_file: str, log_file: str) -> dict[str, object]:
    """The rounds as pairs of ranks, for :mod:`assay.onnode.pairs`."""
    plan = json.loads(Path(plan_file).read_text(encoding="utf-8"))
    nodes = coordinator_log.parse(Path(log_file).read_text(encoding="utf-8")).nodes
    number = {name: rank for rank, name in enumerate(nodes)}
    return {
        "again": False,
        "rounds": [
            [(number[a], number[b]) for a, b in one.pairs]
            for one in rounds(nodes, groups.parse(plan["between"]))
        ],
    }


if __name__ == "__main__":
    json.dump(advice(*sys.argv[1:]), sys.stdout)
