"""The simulated cluster: which collectives a slow link affects."""

import sys

import pytest
from bench import ROOT

sys.path.insert(0, str(ROOT / "studies" / "scale"))

import page
import simgrid

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(simgrid.missing()), reason=simgrid.missing() or "it is there"),
]

HOSTS = 8
BARRIER, SMALL, LARGE = ("barrier", 0), ("allreduce", 8), ("allreduce", 2**20)
ALLTOALL = ("alltoall", 2**16)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return simgrid.build(tmp_path_factory.mktemp("simgrid"))


def test_a_slow_link_slows_what_is_bound_by_bandwidth_and_nothing_else(program):
    cluster = simgrid.Cluster(HOSTS)
    healthy = simgrid.run(program, cluster)
    slow = simgrid.run(program, cluster, slow_host=3, left=0.1)
    factor = {key: slow[key] / healthy[key] for key in healthy}
    assert factor[BARRIER] == pytest.approx(1, abs=0.05)
    assert factor[SMALL] == pytest.approx(1, abs=0.05)
    assert 5 < factor[LARGE] <= 10
    assert 5 < factor[ALLTOALL] <= 10


def test_times_follow_from_the_platform(program):
    """Each rank sends to all others what its link carries. There is no protocol and no factor."""
    cluster = simgrid.Cluster(HOSTS)
    healthy = simgrid.run(program, cluster)
    least = 1e6 * (HOSTS - 1) * ALLTOALL[1] / cluster.rate
    assert least < healthy[ALLTOALL] < 1.5 * least
    assert simgrid.run(program, cluster) == healthy  # exactly
    # A simulation at half the rate takes twice the time.
    half = simgrid.run(program, simgrid.Cluster(HOSTS, rate=cluster.rate / 2))
    assert half[ALLTOALL] / healthy[ALLTOALL] == pytest.approx(2, abs=0.2)


def test_the_page_has_what_the_simulation_gives(program):
    healthy = simgrid.run(program, simgrid.Cluster(32))
    rows = page.written("simgrid").splitlines()
    for (name, size), us in healthy.items():
        assert any(row.startswith(f"| 32 | {name} | {size} | {us:.1f} us |") for row in rows)
