"""Six emulated nodes on two switches: `Bisection` finds a trunk of half the rate it should have.

All pairs really send at once. What they print are the numbers of a model that reads what the kernel
limits (modelled.py): a loaded host starts the programs of a pair one after the other.
"""

import pytest
from emulated import reason_to_skip, up
from modelled import Model

pytestmark = pytest.mark.slow

#: Three pairs of 100 Mbit/s each. A trunk of 150 Mbit/s carries half of it.
LINK, HALF, PAIRS = "100mbit", "150mbit", 3


@pytest.fixture(scope="module")
def cluster():
    if why := reason_to_skip():
        pytest.skip(why)
    with up("--nodes", "6", "--switches", "2", "--rate", LINK) as made:
        yield made


def bisection(cluster, name):
    """Runs it with the programs of the model; returns its result, its reason and its record."""
    model = Model(cluster)
    model.sharing = PAIRS
    _, cases = cluster.suite(
        *("^Bisection", "--system=vcluster:inter-node"),
        results=cluster.state / "home" / name,
        site=cluster.site(
            hardware={"link": "vcluster-100mbit"},
            options={"PairsOfNodes.seconds": 0.05},
            health={"link_resent_max": 0.9},
        ),
        mode="",
        PATH=model.path(),
    )
    ((case, said),) = [(case, said) for case, said in cases.items() if said[0] != "skip"]
    return *said, cluster.records[case]


def test_all_pairs_of_a_healthy_trunk_move_what_their_links_carry(cluster):
    *_, record = bisection(cluster, "healthy")
    # Whether one pair measures its latency while the others send depends on the host.
    assert record["accused"] == []
    assert all("of the latency were within the time" in said for said in record["problems"])
    (row,) = record["parsed"]["rows"]
    assert (row["line"], row["pairs"]) == ("s1 - s2", PAIRS)
    # ucx_perftest prints two digits.
    assert row["together"] == pytest.approx(row["theoretical"], abs=0.01)
    assert row["theoretical"] == 37.5


def test_a_trunk_of_half_the_rate_is_named(cluster):
    cluster("fault", "trunk", HALF)
    try:
        assert cluster.trunk() == 1.5e8
        result, reason, record = bisection(cluster, "half")
    finally:
        cluster("clear")
    assert result == "fail", reason
    assert "s1 - s2: 3 pairs moved 18.75 MB/s together, and should reach 33.75 MB/s" in reason
    (accused,) = record["accused"]
    assert (accused["part"], accused["nodes"]) == ("trunk s1 - core - s2", [])
