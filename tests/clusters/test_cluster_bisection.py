"""Six emulated nodes on two switches: `Bisection` finds a trunk of half the rate it should have.

The links have 100 Mbit/s, so that all pairs at once need only a part of the cores of the host.
"""

import pytest
from emulated import reason_to_skip, up

pytestmark = [pytest.mark.alone, pytest.mark.long]

#: Three pairs of 100 Mbit/s each. A trunk of 150 Mbit/s carries half of it.
LINK, HALF = "100mbit", "150mbit"


@pytest.fixture(scope="module")
def cluster():
    if why := reason_to_skip():
        pytest.skip(why)
    with up("--nodes", "6", "--switches", "2", "--rate", LINK) as made:
        yield made


def bisection(cluster, name):
    done, cases = cluster.suite(
        *("^Bisection", "--system=vcluster:inter-node"),
        results=cluster.state / "home" / name,
        timeout=1500,
        mode="",
    )
    return done, {case: said for case, said in cases.items() if said[0] != "skip"}


def test_all_pairs_of_a_healthy_trunk_move_what_their_links_carry(cluster):
    done, cases = bisection(cluster, "healthy")

    assert [result for result, _ in cases.values()] == ["pass"], done.stdout


def test_a_trunk_of_half_the_rate_is_named(cluster):
    cluster("fault", "trunk", HALF)
    try:
        done, cases = bisection(cluster, "half")
    finally:
        cluster("clear")
    ((result, reason),) = cases.values()
    assert result == "fail", done.stdout
    assert "s1 - s2: 3 pairs moved" in reason
