"""The suite on the emulated cluster: four kinds of tests, healthy and then with one fault each.

This is the short form of `make faults`. Every fault must be reported with the name of its node.
"""

import pytest
from emulated import reason_to_skip, up

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(reason_to_skip() is not None, reason=str(reason_to_skip())),
]


@pytest.fixture(scope="module")
def cluster():
    with up() as made:
        yield made


@pytest.fixture
def healthy(cluster):
    yield cluster
    cluster("clear")


def run(cluster, tests):
    return cluster.suite(tests, results=cluster.state / "home" / "results")


def test_a_healthy_cluster_has_no_failure(healthy):
    done, cases = run(healthy, "Tournament|Census|EachNode|NetPipe.*=tcp")
    assert done.returncode == 0, done.stdout[-3000:]
    ran = {name for name, (result, _) in cases.items() if result == "pass"}
    assert {
        ("Tournament", "inter-node"),
        ("Census", "inter-node"),
        ("EachNode", "scratch"),
        ("NetPipe", "inter-node"),
    } <= ran


@pytest.mark.parametrize(
    ("fault", "case", "says"),
    [
        (("rate", "node02", "900mbit"), ("Tournament", "inter-node"), "node02: bandwidth"),
        (("drift", "node03", "mtu"), ("Census", "inter-node"), "node03: network.interfaces eth0"),
        (("disk", "node02", "20"), ("EachNode", "scratch"), "node02: write"),
        (("cpu", "node03", "20"), ("Tournament", "inter-node"), "node03: "),
        (("loss", "node02", "1%"), ("Tournament", "inter-node"), "node02: "),
        (("drain", "node04"), ("Tournament", "inter-node"), "node04 is IDLE+DRAIN (fault)"),
    ],
    ids=["slow link", "drift", "slow disk", "slow processor", "losses", "drained"],
)
def test_a_fault_is_caught_and_its_node_is_named(healthy, fault, case, says):
    healthy("fault", *fault)
    done, cases = run(healthy, case[0])
    result, reason = cases[case]
    assert done.returncode != 0 and result == "fail", done.stdout[-3000:]
    assert says in reason
