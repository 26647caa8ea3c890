"""Eight emulated nodes on two switches: slow trunk, switch, node and link are told apart and named.

Each fault is injected into the running cluster, and the suite's tournament and `assay nodes` must
name it and nothing else. The programs run between all nodes; the numbers that they print are those
of a model that reads what the kernel limits (modelled.py), since the nodes share a few cores.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from bench import ROOT
from emulated import reason_to_skip, up
from modelled import Model

from assay.fleet.topology import sources
from assay.show import nodes
from assay.store import session

#: The trunk is all that Slurm knows between the two switches: a switch above both stands for it.
TRUNK = "trunk s1 - core - s2"

#: Words of `vcluster fault` -> what must be named.
FAULTS = {
    ("trunk", "500mbit"): TRUNK,
    ("switch", "s2", "700mbit"): "switch s2",
    ("rate", "node03", "700mbit"): "node03",
    ("delay", "node02", "400", "node04"): "node02 - node04",
    ("delay", "node02", "400", "node06"): "node02 - node06",
}

#: What the model says of a healthy link.
REFERENCES = """
references:
  - for: {partition: inter-node, test: Tournament}
    metrics:
      latency_median: {value: 140, unit: us, lower: -0.1, upper: 0.1}
      bandwidth_median: {value: 125, unit: MB/s, lower: -0.1, upper: 0.1}
    source: the model of lab/tests/clusters/modelled.py
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster():
    if why := reason_to_skip():
        pytest.skip(why)
    with up("--nodes", "8", "--switches", "2") as made:
        yield made


@pytest.fixture(scope="module")
def model(cluster):
    return Model(cluster)


def tournament(cluster, model, results):
    """Runs the tournament; returns its process, its result and the rows of `assay nodes`."""
    # A loaded host makes TCP send packets again. Losses are not among these faults.
    site = cluster.site(options={"PairsOfNodes.seconds": 0.05}, health={"link_resent_max": 0.9})
    (site / "calibrated.yaml").write_text(REFERENCES)
    done, cases = cluster.suite("^Tournament", results=results, site=site, PATH=model.path())
    result = {name: said for name, said in cases.items() if said[0] != "skip"}
    file = session.newest(results)
    run = session.load_session(file)
    return done, result, nodes.rows(run), run


def test_slurm_shows_the_two_switches(cluster):
    said = cluster("run", "login", "--", "scontrol", "show", "topology").stdout
    fabric = sources.of_slurm(said)
    assert [fabric.leaf(f"node0{k}") for k in (1, 4, 5, 8)] == ["s1", "s1", "s2", "s2"]
    assert TRUNK in map(str, fabric.path("node01", "node08").parts)


def test_a_healthy_network_passes_and_no_node_is_drained(cluster, model):
    results = cluster.state / "home/healthy"
    done, result, rows, _ = tournament(cluster, model, results)
    assert [said for said, _ in result.values()] == ["pass"], done.stdout
    assert {row.name: row.parts["network"].verdict for row in rows} == {
        f"node0{k}": "PASS" for k in range(1, 9)
    }
    said = subprocess.run(
        [sys.executable, "-m", "assay", "nodes"],
        env={**os.environ, "ASSAY_RESULTS": str(results), "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 4, said.stdout  # only the network was measured
    assert "scontrol" not in said.stdout


@pytest.mark.parametrize("words", FAULTS, ids=" ".join)
def test_a_fault_is_named_and_nothing_else(cluster, model, words):
    cluster("fault", *words)
    try:
        where = cluster.state / f"home/{'-'.join(words)}"
        done, result, rows, run = tournament(cluster, model, where)
    finally:
        cluster("clear")
    assert [said for said, _ in result.values()] == ["fail"], done.stdout
    bad = [row for row in rows if row.verdict == "FAIL"]
    assert [row.name for row in bad] == [FAULTS[words]], [row.reasons for row in bad]
    drained = [line.split()[2] for line in nodes.drains(run, rows)[0]]
    assert drained == (["nodename=node03"] if words[0] == "rate" else [])


def test_the_kernel_limits_what_a_fault_says(cluster):
    every = [f"node0{k}" for k in range(1, 9)]
    assert cluster.trunk() is None
    try:
        cluster("fault", "trunk", "500mbit")
        cluster("fault", "switch", "s2", "700mbit")
        assert cluster.trunk() == 5e8
        assert [cluster.rate(node) for node in every] == [1e9] * 4 + [7e8] * 4
    finally:
        cluster("clear")
    assert cluster.trunk() is None
    assert [cluster.rate(node) for node in every] == [1e9] * 8
