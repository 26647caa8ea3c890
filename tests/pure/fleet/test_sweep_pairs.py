"""All pairs at the same time: the slow node is named, and a slow pair is not two slow nodes."""

import pytest

from assay.fleet.sweep import slow_nodes


def rows(nodes, slow, rate=50.0):
    """What mpiGraph finds where the pairs for which `slow` is true have another rate."""
    return [
        {"host": f"node0{a}", "peer_host": f"node0{b}", "bandwidth": rate if slow(a, b) else 112.0}
        for a in range(1, nodes + 1)
        for b in range(1, nodes + 1)
        if a != b
    ]


@pytest.mark.parametrize("nodes", [3, 4, 16])
def test_the_slow_node_is_named_and_no_other(nodes):
    (said,) = slow_nodes(rows(nodes, lambda a, b: 3 in (a, b)), 0.2)

    assert said == "node03: at most 50 MB/s with any node, the others have 112 MB/s"
    assert said.nodes == ("node03",)


@pytest.mark.parametrize(
    ("nodes", "slow", "rate"),
    [
        (4, lambda a, b: {a, b} == {2, 3}, 50.0),  # a slow pair
        (2, lambda a, b: a == 1, 50.0),  # too few to say which
        (4, lambda a, b: 3 in (a, b), 100.0),  # within the tolerance
        (4, lambda a, b: True, 50.0),  # all alike
        (0, lambda a, b: True, 50.0),
    ],
)
def test_nobody_is_accused_of_what_the_others_show_too(nodes, slow, rate):
    assert slow_nodes(rows(nodes, slow, rate), 0.2) == []
