"""A long run: the worst value is kept, and a node that becomes worse than the others is named."""

import pytest

from assay.fleet import cores
from assay.fleet.sweep import Turn

NODES = ("node01", "node02", "node03", "node04")
HEALTHY = {"dgemm": 40.0, "copy": 8.0, "latency": 100.0}


def run(change, turns=12, nodes=NODES):
    """The turns of a run; `change(node, turn)` has a factor for each quantity that it changes."""
    found = []
    for turn in range(turns):
        for node in nodes:
            factors = change(node, turn)
            names = (f"{node} cpu0", f"{node} cpu1")
            values = {q: value * factors.get(q, 1) for q, value in HEALTHY.items()}
            of_cores = {q: dict.fromkeys(names, value) for q, value in values.items()}
            found.append(Turn(node, 1, turn, of_cores))
    return found


def hotter(node, turn):
    """node03 slows down step by step, to 60 %."""
    return {"dgemm": 1 - 0.4 * turn / 11} if node == "node03" else {}


def test_a_node_that_becomes_slower_is_named_with_its_drift():
    accused, undecided = cores.worse(run(hotter), 0.2)
    assert undecided == []
    assert accused == [
        "node03: dgemm became 30.8% worse against the other nodes, from the first to the last "
        "third of 12 turns"
    ]
    assert accused[0].nodes == ("node03",)


def test_a_latency_that_grows_is_worse_and_one_that_falls_is_not():
    grows = run(lambda node, turn: {"latency": 1 + turn / 10} if node == "node01" else {})
    assert [line.split()[:2] for line in cores.worse(grows, 0.2)[0]] == [["node01:", "latency"]]
    falls = run(lambda node, turn: {"latency": 2 - turn / 12} if node == "node01" else {})
    assert cores.worse(falls, 0.2) == ([], [])


def test_a_drift_of_all_nodes_is_recorded_and_names_nobody():
    found = run(lambda node, turn: {"dgemm": 1 - 0.4 * turn / 11})
    assert cores.worse(found, 0.2) == ([], [])
    said = cores.drift(found)["dgemm"]
    assert said["all"] == pytest.approx((1 - 0.4 * 9.5 / 11) / (1 - 0.4 * 1.5 / 11))
    assert set(said["nodes"].values()) == {1.0}


def test_a_node_that_was_slow_from_the_beginning_has_no_drift():
    """It is an outlier of the turns, and not of the drift."""
    found = run(lambda node, turn: {"copy": 0.5} if node == "node02" else {})
    assert cores.worse(found, 0.2) == ([], [])


def test_the_worst_value_is_kept_with_its_core_and_turn():
    found = run(lambda node, turn: {"latency": 9} if (node, turn) == ("node04", 5) else {})
    worst = cores.drift(found)["latency"]["worst"]
    assert worst == {"value": 900.0, "unit": "ns", "core": "node04 cpu1", "turn": 5}
    assert cores.drift(found)["dgemm"]["worst"]["value"] == 40.0


def test_of_two_nodes_neither_is_accused():
    accused, undecided = cores.worse(run(hotter, nodes=NODES[1:3]), 0.2)
    assert accused == []
    assert undecided[0].endswith("; nobody is accused: no majority of the 2 agrees")


def test_a_short_run_has_no_drift():
    assert cores.drift(run(hotter, turns=cores.LEAST_TURNS - 1)) == {}
    assert cores.drift([]) == {}
