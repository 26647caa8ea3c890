"""Segments that were sent again, and the node or link that is the cause."""

import itertools

from assay.fleet.tournament.measured import RESENT, Pair, lossy

NODES = ["n1", "n2", "n3", "n4"]


def pairs(again, nodes=NODES):
    """All pairs with 10 000 segments each. `again` returns how many a pair has sent again."""
    return [
        Pair(a, b, 1, sent=10_000, again=again(a, b)) for a, b in itertools.combinations(nodes, 2)
    ]


def test_links_that_lose_nothing_are_no_finding():
    assert lossy(pairs(lambda a, b: 0), RESENT) == []
    assert lossy(pairs(lambda a, b: 2), RESENT) == [], "the limit itself"


def test_a_node_is_named_that_loses_with_everybody():
    (line,) = lossy(pairs(lambda a, b: 100 if "n2" in (a, b) else 0), RESENT)
    assert line == "n2: 300 of 30000 segments were sent again (1.00%), with every other node"


def test_a_link_is_named_that_loses_alone():
    (line,) = lossy(pairs(lambda a, b: 50 if (a, b) == ("n1", "n3") else 0), RESENT)
    assert line.startswith("n1 - n3: 50 of 10000")


def test_one_pair_that_was_held_up_is_no_finding():
    assert lossy(pairs(lambda a, b: 20 if (a, b) == ("n1", "n3") else 0), RESENT) == []


def test_where_all_lose_nobody_is_named():
    assert lossy(pairs(lambda a, b: 10), RESENT) == [
        "all pairs: 60 of 60000 segments were sent again (0.10%)"
    ]


def test_both_passes_count_together():
    twice = [Pair("n1", "n2", 1, sent=100, again=0), Pair("n2", "n1", 2, sent=100, again=5)]
    (line,) = lossy([*twice, Pair("n1", "n3", 1, sent=100)], RESENT)
    assert line.startswith("n1 - n2: 5 of 200")


def test_a_pair_that_counted_nothing_says_nothing():
    assert lossy([Pair("n1", "n2", 1, error="no value")], 0) == []
