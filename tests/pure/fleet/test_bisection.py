"""Pairs between two switches: which ones meet, and what made numbers say of trunk and pairs."""

import json
from dataclasses import replace

import pytest

from assay.fleet import bisection
from assay.fleet.bisection import ALL, ALONE, LOADED, Stated
from assay.fleet.topology.fabric import Fabric
from assay.fleet.tournament.measured import Pair

NODES = [f"node{n:02d}" for n in range(1, 9)]
SWITCHES = {"s1": NODES[:4], "s2": NODES[4:], "core": []}
FABRIC = Fabric(SWITCHES, [("s1", "core"), ("core", "s2")])
STATED = Stated(link=125)

#: What ucx_perftest prints of a latency. The numbers of this line are made.
OUTPUT = """\
+--------------+--------------+------------------------------+---------------------+-----------------------+
|              |              |       overhead (usec)        |   bandwidth (MB/s)  |  message rate (msg/s) |
+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+
|    Stage     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |
+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+
Final:                    100  {0:>8.3f}  {0:>8.3f}  {0:>8.3f}       {1:.2f}       {1:.2f}       {2:.0f}       {2:.0f}
"""  # noqa: E501


def runs(latency, last=9):
    """The launches of a latency, one each second."""
    out = OUTPUT.format(latency, 8 / latency / 1.048576, 1e6 / latency)
    return [
        {"test": "tag_lat", "client": {"out": out}, "began": t, "ended": t + 0.9}
        for t in range(last)
    ]


def sender(began=0.0, ended=10.0):
    return {"runs": [{"test": "tag_bw", "began": began, "ended": ended}]}


def played(together=(115.0, 115.0), alone=lambda at: 118.0, loaded=40.0, last=9):
    """Pairs and entries of all rounds. `together`: rate of a pair in each look at all at once."""
    (sides,) = bisection.sides(FABRIC, NODES)
    pairs, entries, looks = [], [], iter(together)
    for what, round_ in sides.rounds():
        if what == ALL:
            rate = next(looks)
        for at, (a, b) in enumerate(round_.pairs):
            values = {"latency": 20.0}
            if what == LOADED:
                values = {"bandwidth": 100.0} if at else {"latency": loaded}
                entries.append(sender() if at else {"runs": runs(loaded, last=last)})
            else:
                values["bandwidth"] = rate if what == ALL else alone(sides.pairs.index((a, b)))
                entries.append({"runs": runs(20.0)})
            pairs.append(Pair(a, b, values, number=2))
    return pairs, entries


def found(**numbers):
    pairs, entries = played(**numbers)
    return bisection.bisection_findings(bisection.sides(FABRIC, NODES), entries, pairs)


def judged(one, stated=STATED):
    return bisection.slow(one, stated, FABRIC)


def test_each_node_of_a_switch_meets_one_of_the_other():
    (sides,) = bisection.sides(FABRIC, [*reversed(NODES)])
    assert sides.switches == ("s1", "s2")
    assert sides.pairs[0] == ("node04", "node08")
    assert [(what, len(one.pairs)) for what, one in sides.rounds()] == [
        *((ALL, 4), (LOADED, 4)), *[(ALONE, 1)] * 4, *((ALL, 4), (LOADED, 4)),
    ]  # fmt: skip


def test_three_switches_are_a_ring_and_one_with_a_single_node_is_left_out():
    fabric = Fabric(
        {"a": ["n1", "n2"], "b": ["n3", "n4", "n5"], "c": ["n6", "n7"], "d": ["n8"], "top": []},
        [(leaf, "top") for leaf in "abcd"],
    )
    every = bisection.sides(fabric, [f"n{n}" for n in range(1, 9)])
    assert [(str(one), len(one.pairs)) for one in every] == [
        ("a - b", 2), ("b - c", 2), ("c - a", 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "nodes,reason",
    [
        (NODES[:5], "two switches with 2 nodes each are needed: only s1 has so many"),
        (["node01", "node05"], "no switch has so many"),
        ([*NODES, "other"], "the topology has no switch for other"),
    ],
)
def test_nodes_without_two_switches_are_refused(nodes, reason):
    with pytest.raises(ValueError, match=reason):
        bisection.sides(FABRIC, nodes)


def test_a_healthy_trunk_passes_and_its_numbers_are_kept():
    (one,) = every = found()
    assert judged(every) == ([], [])
    assert bisection.impossible(every, STATED) == []
    assert bisection.unseen(every) == []
    assert one.moved(STATED) == [460, 460]
    assert one.theoretical(STATED) == (500, "4 links of 125 MB/s")
    assert one.congestion == 2


def test_a_trunk_at_half_its_rate_is_named():
    ((line,), undecided) = judged(found(together=(62.5, 60.0)))
    assert line == (
        "s1 - s2: 4 pairs moved 250 MB/s together, and should reach 450 MB/s (90 % of 500 MB/s: "
        "4 links of 125 MB/s); a pair alone has 118 MB/s"
    )
    assert (line.part, line.nodes, undecided) == ("trunk s1 - core - s2", (), [])


def test_a_trunk_that_the_site_states_is_the_bound():
    """It carries 250 MB/s. Two links fill it, so the slowest pair counts."""
    narrow = Stated(link=125, trunk=250)
    assert judged(found(together=(60.0, 61.0)), narrow) == ([], [])
    ((line,), _) = judged(found(together=(30.0, 31.0)), narrow)
    assert (
        "4 pairs moved 124 MB/s together, and should reach 225 MB/s (90 % of 250 MB/s: the" in line
    )


def test_without_a_named_link_the_pairs_alone_are_the_measure():
    ((line,), _) = judged(found(together=(50.0, 50.0)), Stated())
    assert "4 pairs moved 200 MB/s together, and should reach 424.8 MB/s" in line
    assert "472 MB/s: 4 pairs alone, one after the other" in line
    # A pair alone is a measurement, which may be too low.
    assert bisection.impossible(found(together=(400.0, 400.0)), Stated()) == []


@pytest.mark.parametrize(
    "stated,reason",
    [
        (STATED, "4 pairs moved 800 MB/s together, more than the 500 MB/s of 4 links of 125 MB/s"),
        (Stated(trunk=300), "4 pairs moved 800 MB/s together, more than the 300 MB/s of the trunk"),
    ],
)
def test_more_than_there_can_be_is_an_error_of_evidence(stated, reason):
    (line,) = bisection.impossible(found(together=(115.0, 200.0)), stated)
    assert reason in line
    assert "the bytes took another way" in line


def test_a_pair_that_is_slow_alone_explains_it_and_its_nodes_are_accused():
    every = found(together=(60.0, 60.0), alone=lambda at: 30.0 if at == 2 else 118.0)
    ((line,), _) = judged(every)
    assert line.endswith("node03 - node07 has 30 MB/s alone")
    assert (line.nodes, line.part) == (("node03", "node07"), "")


def test_a_trunk_below_the_rate_of_one_link_is_not_blamed_on_its_pairs():
    ((line,), _) = judged(found(together=(15.0, 15.0), alone=lambda at: 60.0))
    assert line.part == "trunk s1 - core - s2"
    assert line.endswith("a pair alone has 60 MB/s")


def test_one_look_of_two_leaves_it_undecided():
    accused, undecided = judged(found(together=(62.5, 115.0)))
    assert accused == []
    assert undecided == [
        "s1 - s2: 250 MB/s in one look and 460 MB/s in another, 450 MB/s are needed"
    ]


def test_congestion_is_recorded_and_not_judged():
    every = found(loaded=200.0)
    assert every[0].congestion == 10
    assert judged(every) == ([], [])


def test_a_latency_counts_only_while_all_others_send():
    assert bisection.under_load([{"runs": runs(40.0)}, sender(), sender()]) == 40
    late, early = sender(began=6.0), sender(ended=2.5)
    assert bisection.under_load([{"runs": runs(40.0)}, sender(), late]) is None
    assert bisection.under_load([{"runs": runs(40.0)}, early, sender()]) is None
    (line,) = bisection.unseen(found(last=2))
    assert line.startswith("s1 - s2: fewer than 3 launches of the latency")


@pytest.mark.parametrize(
    "change,reason",
    [
        (lambda pairs: pairs[:-1], r"s1 - s2, one pair under load\): the log has the pairs"),
        (
            lambda pairs: [Pair("node01", "node05", error="node05: dead", number=2), *pairs[1:]],
            r"round 1 \(s1 - s2, all pairs at once\): node05: dead",
        ),
    ],
    ids=["missing", "failed"],
)
def test_a_pair_that_is_missing_is_an_error(change, reason):
    pairs, entries = played()
    with pytest.raises(ValueError, match=reason):
        bisection.bisection_findings(bisection.sides(FABRIC, NODES), entries, change(pairs))


def test_the_nodes_are_told_the_rounds_as_ranks_and_who_sends_under_load(tmp_path):
    plan, log = tmp_path / "plan.json", tmp_path / "log.jsonl"
    plan.write_text(json.dumps({"topology": FABRIC.said()}))
    met = {str(rank): f"{node}.cluster" for rank, node in enumerate(reversed(NODES))}
    log.write_text(json.dumps({"met": met, "asked": 8, "absent": []}) + "\n")
    rounds = bisection.advice(str(plan), str(log))["rounds"]
    pairs = [(4, 0), (5, 1), (6, 2), (7, 3)]
    assert rounds[0] == pairs
    assert rounds[1] == {"pairs": pairs, "tests": [{"tag_lat": (6, 1)}, *[{"tag_bw": (1, 2)}] * 3]}
    assert rounds[2:6] == [[pair] for pair in pairs]


def test_a_slow_trunk_that_two_pairs_share_unequally_is_seen():
    """A trunk of 80 MB/s: the pairs have 52 and 40, and the sum of their rates is too large."""
    chosen = bisection.Sides(("s1", "s2"), (("node01", "node05"), ("node02", "node06")))
    looks = (bisection.Measured("", (52.0, 40.0), (20.0, 20.0)),) * 2
    one = bisection.Found(chosen, (80.0, 79.0), looks, 20.0, (40.0, 40.0))
    narrow = Stated(link=100, trunk=100)
    assert one.moved(narrow) == [80, 80]
    ((line,), _) = judged([one], narrow)
    assert "2 pairs moved 80 MB/s together, and should reach 90 MB/s" in line


def test_one_pair_that_carries_more_than_the_trunk_took_another_way():
    (line,) = bisection.impossible(found(together=(24.0, 24.0)), Stated(trunk=100))
    assert line == (
        "s1 - s2: one pair alone moved 118 MB/s, more than the 100 MB/s of the trunk, as the site "
        "states it: the bytes took another way"
    )


def test_one_look_at_the_latency_under_load_is_not_enough():
    (one,) = found(loaded=200.0)
    (half,) = (replace(one, loaded=(None, 200.0)),)
    assert (half.latency_loaded, half.congestion) == (None, None)
    assert len(bisection.unseen([half])) == 1


def test_the_switches_of_several_ways_are_not_taken_for_one_trunk():
    links = [("s1", "c"), ("c", "d1"), ("c", "d2"), ("d1", "s2"), ("d2", "s2")]
    wide = Fabric({**SWITCHES, "core": [], "c": [], "d1": [], "d2": []}, links)
    (chosen,) = bisection.sides(FABRIC, NODES)
    assert "trunk" not in bisection.part(chosen, wide)


@pytest.mark.parametrize(
    "switches,needed",
    [
        ({"s1": NODES[:4], "s2": NODES[4:]}, 6),
        ({"s1": NODES[:6], "s2": NODES[6:]}, 8),
        ({"s1": NODES[:3], "s2": NODES[3:6], "s3": NODES[6:]}, 6),
    ],
)
def test_a_job_needs_nodes_enough_whichever_it_gets(switches, needed):
    fabric = Fabric({**switches, "core": []}, [(name, "core") for name in switches])
    assert bisection.nodes_needed(fabric) == needed
