"""EachCore on the emulated cluster: the sweep of the cores names the node, no network needed.

Every core is really measured. All nodes share the cores and the memory of one host, so the numbers
are those of a model that reads the limits of each node (modelled.py).
"""

import pytest
from emulated import reason_to_skip, up
from modelled import Model

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(reason_to_skip() is not None, reason=str(reason_to_skip())),
]


@pytest.fixture(scope="module")
def cluster():
    with up() as made:
        yield made


@pytest.fixture
def model(cluster):
    return Model(cluster)


@pytest.fixture
def healthy(cluster):
    yield cluster
    cluster("clear")


def each_core(cluster, model):
    """Runs it; returns its result, its reason and its record."""
    results = cluster.state / "home" / "results"
    site = cluster.site(options={"EachCore.width": None, "EachCore.seconds": 0.05})
    _, cases = cluster.suite("EachCore", results=results, site=site, PATH=model.path())
    # Partitions of one node skip it.
    (name,) = [name for name, (result, _) in cases.items() if result != "skip"]
    return *cases[name], cluster.records[name]


def test_equal_nodes_are_not_named(healthy, model):
    result, reason, record = each_core(healthy, model)
    assert result == "pass", reason
    assert {row["node"] for row in record["parsed"]["rows"]} == {f"node0{k}" for k in range(1, 5)}
    assert record["second_look"] == []


def test_a_slow_processor_is_named(healthy, model):
    healthy("fault", "cpu", "node03", "50")
    result, reason, record = each_core(healthy, model)
    assert result == "fail"
    assert "node03: dgemm" in reason
    assert [said["nodes"] for said in record["accused"]] == [["node03"]]


def test_a_co_runner_is_named(healthy, model):
    """A program beside EachCore takes half of the memory's rate from it."""
    model.memory["node02"] = 0.5
    result, reason, record = each_core(healthy, model)
    assert result == "fail"
    assert "node02: copy" in reason
    assert {node for said in record["accused"] for node in said["nodes"]} == {"node02"}
