"""The suite on the emulated cluster: four kinds of tests, healthy and then with one fault each.

This is the short form of cluster_matrix.py. Every fault must be reported with the name of its node,
and no other node. The programs run, but what they print are the numbers of a model that reads what
the kernel limits (modelled.py). Whether a real measurement shows a fault is asked by
cluster_matrix.py, on a quiet machine.
"""

import re
import subprocess

import pytest
from bench import REFRAME, ROOT
from emulated import COMMAND, UNJUDGED, reason_to_skip, up
from modelled import Model

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(reason_to_skip() is not None, reason=str(reason_to_skip())),
]

#: Lost packets are counted, so this is no rate. A loaded host makes TCP send some packets again,
#: where none was lost: more than the usual limit, and less than this share.
RESENT = 0.002

#: How long the job of a test may hold the nodes [s].
MOST = 600


@pytest.fixture(scope="module")
def cluster():
    with up() as made:
        yield made


@pytest.fixture(scope="module")
def model(cluster):
    return Model(cluster)


@pytest.fixture
def healthy(cluster):
    yield cluster
    cluster("clear")


def run(cluster, model, tests, *words):
    return cluster.suite(
        *(tests, *words),
        results=cluster.state / "home" / "results",
        site=cluster.site(
            options={"PairsOfNodes.seconds": 0.1}, health={"link_resent_max": RESENT}
        ),
        PATH=model.path(),
    )


def test_a_healthy_cluster_has_no_failure(healthy, model):
    done, cases = run(healthy, model, "Tournament|Census|EachNode")
    assert done.returncode == 0, done.stdout[-3000:]
    ran = {name for name, (result, _) in cases.items() if result == "pass"}
    assert {("Tournament", "inter-node"), ("Census", "inter-node"), ("EachNode", "scratch")} <= ran
    said = healthy.records["Tournament", "inter-node"]
    assert said["tournament"]["failed"] == [] and "unavailable" not in said.get("proof", {})
    assert len({(row["a"], row["b"]) for row in said["parsed"]["rows"]}) == 6


def test_a_benchmark_between_two_nodes_shows_its_world_and_its_path(healthy, model):
    """It prints its own numbers, and nothing judges them."""
    done, cases = run(healthy, model, "NetPipe.*=tcp", *UNJUDGED)
    assert cases["NetPipe", "inter-node"] == ("pass", ""), done.stdout[-3000:]
    record = healthy.records["NetPipe", "inter-node"]
    assert len(record["nodes"]) == record["proof"]["ranks"]["seen"] == 2
    assert {metric["verdict"] for metric in record["metrics"].values()} == {"RECORDED"}


@pytest.mark.parametrize(
    ("fault", "case", "says"),
    [
        (("rate", "node02", "900mbit"), ("Tournament", "inter-node"), "node02: bandwidth"),
        (("delay", "node03", "100"), ("Tournament", "inter-node"), "node03: latency"),
        (("drift", "node03", "mtu"), ("Census", "inter-node"), "node03: network.interfaces eth0"),
        (("disk", "node02", "50"), ("EachNode", "scratch"), "node02: write"),
        (("loss", "node02", "3%"), ("Tournament", "inter-node"), "node02: "),
        (("drain", "node04"), ("Tournament", "inter-node"), "node04 is IDLE+DRAIN (fault)"),
    ],
    ids=["slow link", "late packets", "drift", "slow disk", "losses", "drained"],
)
def test_a_fault_is_caught_and_its_node_is_named(healthy, model, fault, case, says):
    healthy("fault", *fault)
    done, cases = run(healthy, model, case[0])
    result, reason = cases[case]
    said = done.stdout[-3000:], healthy.records.get(case)
    assert done.returncode != 0 and result == "fail", said
    assert says in reason
    accused = {node for said in healthy.records[case]["accused"] for node in said["nodes"]}
    if fault[0] != "loss":
        assert accused == {fault[1]}
    else:  # a pair that failed for its losses accuses both ends
        assert all(fault[1] in said["nodes"] for said in healthy.records[case]["accused"])


def test_a_killed_run_leaves_no_job_in_the_queue(healthy):
    """Another job holds all nodes, so those of the run wait."""
    results = healthy.state / "home" / "killed"
    login = ("run", "login", "--")

    def queue():
        return healthy(*login, "squeue", "--noheader", "--format=%j").stdout.split()

    healthy(*login, "mkdir", "-p", str(results))
    # It ends by itself, and with it the jobs of a run that this test could not kill.
    where = ("--exclusive", "--nodes=4", "--output=/dev/null", "--chdir=/", "--job-name=other")
    healthy(*login, "sbatch", *where, f"--wrap=sleep {MOST}")
    with subprocess.Popen(
        [
            *(str(COMMAND), *login, "env", f"ASSAY_RESULTS={results}", str(REFRAME)),
            *("-C", str(healthy.site() / "reframe.py"), "-c", str(ROOT / "reframe")),
            *("-R", "-r", "-n", "Tournament|EachNode", "--mode", "smoke"),
        ],
        env=healthy.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as suite:
        try:
            while len(queue()) < 2:
                assert suite.poll() is None, suite.stdout.read()
        finally:
            process = re.search(r"process (\d+) of", (results / ".lock").read_text())[1]
            healthy(*login, "kill", "-KILL", process, check=False)
    while len(left := queue()) > 1:
        pass  # squeue takes its time
    healthy(*login, "scancel", "--name=other")
    assert left == ["other"]
    (log,) = results.glob("output/*/reframe.log")
    assert "the run was killed" in log.read_text()
