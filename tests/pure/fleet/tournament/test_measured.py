"""Segments that were sent again, and the node or link that is the cause."""

import itertools

import pytest
from real_outputs import DATA

from assay.fleet.coordinator_log import CoordinatorLog
from assay.fleet.tournament import measured
from assay.fleet.tournament.measured import Pair, lossy

NODES = ["n1", "n2", "n3", "n4"]


def pairs(again):
    """All pairs with 10 000 segments each. `again` returns how many a pair has sent again."""
    return [
        Pair(*pair, number=1, sent=10_000, again=again(pair))
        for pair in itertools.combinations(NODES, 2)
    ]


@pytest.mark.parametrize(
    ("again", "said"),
    [
        (lambda pair: 0, None),
        (lambda pair: 2, None),
        (lambda pair: 20 * (pair == ("n1", "n3")), None),
        (
            lambda pair: 50 * (pair == ("n1", "n3")),
            "n1 - n3: 50 of 10000 segments were sent again (0.50%)",
        ),
        (
            lambda pair: 100 * ("n2" in pair),
            "n2: 300 of 30000 segments were sent again (1.00%), with every other node",
        ),
        (lambda pair: 10, "all pairs: 60 of 60000 segments were sent again (0.10%)"),
    ],
    ids=["nothing", "the limit itself", "one pair held up", "a link", "a node", "all"],
)
@pytest.mark.parametrize("device", ["eth0", "mlx5_0:1"])
def test_a_link_a_node_or_nobody_is_named(again, said, device):
    assert lossy(pairs(again), device, {}) == ([said] if said else [])


def test_both_passes_count_together():
    twice = [
        Pair("n1", "n2", number=1, sent=100, again=0),
        Pair("n2", "n1", number=2, sent=100, again=5),
    ]
    (line,) = lossy([*twice, Pair("n1", "n3", number=1, sent=100)], "eth0", {})
    assert line.startswith("n1 - n2: 5 of 200")


def test_a_pair_that_counted_nothing_says_nothing():
    assert (
        lossy([Pair("n1", "n2", number=1, error="no value")], "eth0", {"link_resent_max": 0}) == []
    )


@pytest.mark.parametrize(
    ("counted", "uncounted", "said"),
    [
        ([], True, None),
        ([10_000, 10_000], False, None),
        ([8, 8], False, "network device has"),
        (None, False, "network device counts no bytes"),
    ],
    ids=["a device without counters", "enough", "too little", "no such device"],
)
def test_what_the_devices_of_a_pair_count(counted, uncounted, said):
    """The path is not proven here: these runs have no log of UCX."""
    out = (DATA / "ucx-perftest" / "ucx_perftest.1.13.1.tag_lat.txt").read_text()
    side = {"out": out, "log": "", "bytes": counted, "repairs": None}
    run = {"test": "tag_lat", "iterations": 100, "client": side, "server": side}
    entry = {"a": 0, "b": 1, "number": 1, "error": "", "runs": [run]}
    log = CoordinatorLog(2, {0: "n1", 1: "n2"}, (), {}, (entry,), complete=True)

    (pair,) = measured.proven_pairs(log, "rc_verbs", "1.13.1")

    assert pair.uncounted is uncounted
    found = [problem for problem in pair.problems if "network device" in problem]
    assert bool(found) == bool(said)
    assert all(said in problem for problem in found)
