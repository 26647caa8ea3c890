"""Eight emulated nodes on two switches: slow trunk, switch, node and link are told apart and named.

Each fault is injected into the running cluster, and the suite's tournament and `assay nodes` must
name it and nothing else. ASSAY_SWITCHES_TRIES=5 tries each fault five times.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from bench import ROOT
from emulated import reason_to_skip, up

from assay.fleet.topology import sources
from assay.report import nodes
from assay.results import session

TRIES = int(os.environ.get("ASSAY_SWITCHES_TRIES", "1"))

#: The trunk is all that Slurm knows between the two switches: a switch above both stands for it.
TRUNK = "trunk s1 - core - s2"

#: Words of `vcluster fault` -> what must be named.
FAULTS = {
    ("trunk", "500mbit"): TRUNK,
    ("switch", "s2", "700mbit"): "switch s2",
    ("rate", "node03", "700mbit"): "node03",
    ("delay", "node02", "400", "node06"): "node02 - node06",
}

CALIBRATED = ROOT / "site-config/vcluster/calibrated.yaml"

pytestmark = [pytest.mark.alone, pytest.mark.long]


@pytest.fixture(scope="module")
def cluster():
    if why := reason_to_skip():
        pytest.skip(why)
    with up("--nodes", "8", "--switches", "2") as made:
        yield made


def tournament(cluster, results):
    """Runs the tournament; returns its process, its result and the rows of `assay nodes`."""
    done, cases = cluster.suite("^Tournament", results=results, timeout=1500)
    result = {name: said for name, said in cases.items() if said[0] != "skip"}
    file = session.newest(results)
    return done, result, nodes.rows(session.load(file).cases)


def test_slurm_shows_the_two_switches(cluster):
    said = cluster("run", "login", "--", "scontrol", "show", "topology").stdout
    fabric = sources.of_slurm(said)
    assert [fabric.leaf(f"node0{k}") for k in (1, 4, 5, 8)] == ["s1", "s1", "s2", "s2"]
    assert TRUNK in map(str, fabric.path("node01", "node08").parts)


def test_a_healthy_network_passes_and_no_node_is_drained(cluster):
    results = cluster.state / "home/healthy"
    done, result, rows = tournament(cluster, results)
    assert [said for said, _ in result.values()] == ["pass"], done.stdout
    # Without calibrated.yaml no number has a reference, so the nodes are compared but not judged.
    verdict = "PASS" if CALIBRATED.exists() else "not judged"
    assert {row.name: row.verdict for row in rows} == {f"node0{k}": verdict for k in range(1, 9)}
    said = subprocess.run(
        [sys.executable, "-m", "assay", "nodes"],
        env={**os.environ, "ASSAY_RESULTS": str(results), "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stdout
    assert "scontrol" not in said.stdout


@pytest.mark.parametrize("attempt", range(TRIES))
@pytest.mark.parametrize("words", FAULTS, ids=" ".join)
def test_a_fault_is_named_and_nothing_else(cluster, words, attempt):
    cluster("fault", *words)
    try:
        done, result, rows = tournament(cluster, cluster.state / f"home/{words[0]}{attempt}")
    finally:
        cluster("clear")
    assert [said for said, _ in result.values()] == ["fail"], done.stdout
    bad = [row for row in rows if row.verdict == "FAIL"]
    assert [row.name for row in bad] == [FAULTS[words]], [row.reasons for row in bad]
    drained = [line.split()[2] for line in nodes.drains(rows)]
    assert drained == (["nodename=node03"] if words[0] == "rate" else [])
