"""Pairs of nodes at the same time: within two groups of nodes, and across the link between them.

Each round has k = 1, 2, 4, ... pairs. Within the groups, pairs must not disturb each other. Across,
they share the link: what they move together must reach what the link can carry, and must not exceed
it. Fabric and link are judged in one job.

Rank 0 runs this file as a program when the nodes of the job are known: ``python crossing.py
plan.json coordinator_log.jsonl`` prints the rounds.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from assay.fleet import coordinator_log
from assay.fleet.bisection import ABOVE, Measured, Round
from assay.prove import groups
from assay.prove.groups import Between
from assay.quantities import number

WITHIN, ACROSS = "within", "across"

#: By how much a rate may be below what it should be, and how far the latency may be from the stated
#: one, as parts of the value.
SHORT, LATENCY = 0.1, 0.25


def trials(size: int, seconds: float, between: Between) -> tuple[int, int]:
    """Most iterations of the first trial of a latency and of a bandwidth across.

    The usual first trial would take minutes on a slow link.

    :param size: of a message of the bandwidth [B]; `seconds`: intended duration [s].
    """
    round_trips = seconds * 1e6 / (2 * between.latency)
    messages = seconds * between.bandwidth * 1e6 / size
    return max(1, int(round_trips)), max(1, int(messages))


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
    """The rounds as pairs of ranks, for :mod:`assay.fleet.node.pairs`."""
    plan = json.loads(Path(plan_file).read_text(encoding="utf-8"))
    nodes = coordinator_log.parse_coordinator_log(Path(log_file).read_text(encoding="utf-8")).nodes
    number = {name: rank for rank, name in enumerate(nodes)}
    return {
        "again": False,
        "rounds": [
            [(number[a], number[b]) for a, b in one.pairs]
            for one in rounds(nodes, groups.parse_groups(plan["between"]))
        ],
    }


if __name__ == "__main__":
    json.dump(advice(*sys.argv[1:]), sys.stdout)
