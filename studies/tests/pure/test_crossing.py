"""Two groups of nodes and the link between them: which pairs meet, and what their rates say."""

import json

import pytest

from assay.fleet.bisection import Measured, alone, in_rounds
from assay.fleet.tournament.measured import Pair
from assay.prove import groups
from studies.doc003 import crossing
from studies.doc003.crossing import ACROSS, WITHIN

SITE = {
    "groups": {"east": "node[01-04]", "west": "node[05-08]"},
    "bandwidth": 200,
    "latency": 145,
}
NODES = [f"node{n:02d}" for n in range(1, 9)]
LINK = groups.parse_groups(SITE)


@pytest.mark.parametrize(
    ("latency", "bandwidth", "iterations"),
    [(10_100, 0.5, (24, 1)), (145, 10, (1724, 4)), (9e6, 1e-3, (1, 1))],
)
def test_a_first_trial_is_short_on_a_slow_link(latency, bandwidth, iterations):
    link = groups.parse_groups({**SITE, "latency": latency, "bandwidth": bandwidth})
    assert crossing.trials(1 << 20, 0.5, link) == iterations


def test_rounds_have_more_and_more_pairs_and_each_node_once():
    played = crossing.rounds(NODES, LINK)
    assert [(one.where, len(one.pairs)) for one in played] == [
        *((WITHIN, k) for k in (1, 2, 4)),
        *((ACROSS, k) for k in (1, 2, 4)),
    ]
    for one in played:
        met = [node for pair in one.pairs for node in pair]
        assert len(met) == len(set(met))
        for pair in one.pairs:
            sides = {LINK.group_of(node) for node in pair}
            assert len(sides) == (2 if one.where == ACROSS else 1)
    # Both groups are measured, not one of them.
    assert {LINK.group_of(a) for a, _ in played[1].pairs} == {"east", "west"}


def test_three_nodes_of_a_group_are_one_pair_within_and_three_across():
    few = [node for node in NODES if node not in ("node04", "node08")]
    assert [len(one.pairs) for one in crossing.rounds(few, LINK)] == [1, 2, 1, 2, 3]


@pytest.mark.parametrize(
    "nodes,reason",
    [
        (["node01", "node05"], "each group needs two nodes"),
        (NODES[:5], "not half on each side"),
        ([*NODES, "other"], "other: in no group"),
    ],
)
def test_nodes_that_cannot_be_paired_are_refused(nodes, reason):
    with pytest.raises(ValueError, match=reason):
        crossing.rounds(nodes, LINK)


def test_the_nodes_are_told_the_rounds_as_ranks(tmp_path):
    plan, log = tmp_path / "plan.json", tmp_path / "log.jsonl"
    plan.write_text(json.dumps({"between": SITE}))
    met = {str(rank): node for rank, node in enumerate(reversed(NODES))}
    log.write_text(json.dumps({"met": met, "asked": 8, "absent": []}) + "\n")
    said = crossing.advice(str(plan), str(log))
    assert said["again"] is False
    assert said["rounds"][0] == [(4, 5)], "ranks 4 to 7 are the east"
    assert said["rounds"][-1] == [(4, 0), (5, 1), (6, 2), (7, 3)]


def pairs(rate=lambda where, k: 100.0, latency=lambda where: 145.0):
    """What healthy or other pairs would report."""
    return [
        Pair(
            a,
            b,
            {"bandwidth": rate(one.where, len(one.pairs)), "latency": latency(one.where)},
            number=2,
        )
        for one in crossing.rounds(NODES, LINK)
        for a, b in one.pairs
    ]


def healthy(where, k):
    """100 MB/s for a pair, and 195 MB/s for all that cross."""
    return 100.0 if where == WITHIN else min(100.0, 195 / k)


def found(rate=healthy, latency=lambda where: 2.0 if where == WITHIN else 147.0):
    return list(in_rounds(crossing.rounds(NODES, LINK), pairs(rate, latency)))


def said(one):
    return [*crossing.impossible(one, LINK), *crossing.faults(one, LINK)]


def test_a_link_that_is_shared_and_groups_that_are_not_pass():
    assert said(found()) == []
    assert [round(one.together) for one in found() if one.where == ACROSS] == [100, 195, 195]


@pytest.mark.parametrize(
    "one,reason",
    [
        (
            found(rate=lambda where, k: 100.0),
            "4 pairs across moved 400 MB/s, more than the 200 MB/s of the link: the bytes took",
        ),
        (
            found(rate=lambda where, k: 100.0 if where == WITHIN else min(100.0, 150 / k)),
            "4 pairs across moved 150 MB/s together, and should reach 200 MB/s",
        ),
        (
            found(rate=lambda where, k: 100 / k if where == WITHIN else healthy(where, k)),
            "2 pairs within the groups disturb each other: the slowest has 50 MB/s, one pair alone",
        ),
        (
            found(latency=lambda where: 2.0),
            "the latency across is 2 us, less than the 145 us of the link: the messages took",
        ),
        (
            found(latency=lambda where: 2.0 if where == WITHIN else 300.0),
            "the latency across is 300 us, that of the link 145 us",
        ),
    ],
    ids=["beside the link", "slow link", "shared switch", "short way", "long way"],
)
def test_each_fault_is_named(one, reason):
    assert [line for line in said(one) if line.startswith(reason)], said(one)


@pytest.mark.parametrize(
    ("rates", "reason"),
    [
        (
            (50.0, 100.0),
            "one pair alone within the groups has 50 MB/s, the median of the 2 pairs at",
        ),
        ((100.0, 50.0), "2 pairs within the groups disturb each other: the slowest has 50 MB/s"),
    ],
    ids=["first pair", "second pair"],
)
def test_a_slow_pair_within_a_group_is_named_wherever_it_is(rates, reason):
    found = [
        Measured(WITHIN, rates[:1], (2.0,)),
        Measured(WITHIN, rates, (2.0, 2.0)),
        Measured(ACROSS, (100.0,), (145.0,)),
        Measured(ACROSS, (100.0, 100.0), (145.0, 145.0)),
    ]
    (line,) = said(found)
    assert line.startswith(reason)


@pytest.mark.parametrize(
    ("latency", "reason"),
    [
        (300.0, "the latency across is 300 us, that of the link 145 us"),
        (2.0, "the latency across is 2 us, less than the 145 us of the link"),
    ],
)
def test_another_way_of_the_last_pair_across_is_named(latency, reason):
    *before, last = found()
    (line,) = said([*before, Measured(ACROSS, last.rates, (*last.latencies[1:], latency))])
    assert line.startswith(reason)


def test_lost_packets_count_only_where_a_pair_has_the_link_for_itself():
    found = alone(crossing.rounds(NODES, LINK), pairs())
    assert [(pair.a, pair.b) for pair in found] == [("node01", "node02"), ("node01", "node05")]


def test_a_pair_that_ends_last_and_alone_does_not_add_to_what_the_link_carried():
    """Two pairs share 200 MB/s as 3 to 2. When the first one ends, the second has it all."""
    assert Measured(ACROSS, (120.0, 100.0), (145.0, 145.0)).together == 200


def test_a_link_that_no_pair_fills_alone_is_not_accused_of_unequal_shares():
    """Eight pairs of at most 15 MB/s share 100 MB/s. The last one cannot use all that is left."""
    link = groups.parse_groups({**SITE, "bandwidth": 100})
    found = [
        Measured(WITHIN, (15.0,), (2.0,)),
        Measured(ACROSS, (15.0,), (145.0,)),
        Measured(ACROSS, (*[13.04] * 7, 10.11), (145.0,) * 8),
    ]
    assert crossing.faults(found, link) == []
    found[-1] = Measured(ACROSS, (*[11.0] * 7, 10.0), (145.0,) * 8)
    assert crossing.faults(found, link) == [
        "8 pairs across moved 87 MB/s together, and should reach 100 MB/s"
    ]


def test_few_pairs_need_not_fill_the_link():
    slow = [Measured(WITHIN, (40.0,), (2.0,)), Measured(ACROSS, (39.0, 40.0), (145.0, 145.0))]
    assert said(slow) == []


@pytest.mark.parametrize(
    "change,reason",
    [
        (lambda found: found[1:], r"round 2 \(within\): the log has the pairs node05 - node06, no"),
        (
            lambda found: found[:-1],
            r"round 6 \(across\): the log has the pairs node01 - node05, no",
        ),
        (lambda found: [*found, found[0]], "1 pairs beyond the 6 rounds"),
        (
            lambda found: [
                Pair(found[0].a, found[0].b, error="node02: dead", number=2),
                *found[1:],
            ],
            r"round 1 \(within\): node02: dead",
        ),
        (
            lambda found: [
                found[0],
                Pair(found[1].a, found[1].b, error="another pair failed", number=2, follows=True),
                Pair(found[2].a, found[2].b, error="node06: dead", number=2),
                *found[3:],
            ],
            r"round 2 \(within\): node06: dead",
        ),
    ],
)
def test_a_log_that_is_not_of_these_rounds_is_an_error(change, reason):
    played = crossing.rounds(NODES, LINK)
    with pytest.raises(ValueError, match=reason):
        list(in_rounds(played, change(pairs())))
