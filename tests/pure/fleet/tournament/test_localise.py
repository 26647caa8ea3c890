"""Slow switches and trunks in the diagnosis of a tournament, on simulated networks."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.fleet.topology.fabric import Fabric
from assay.fleet.tournament import measured, schedule
from assay.fleet.tournament.again import CROSSINGS, second_pass
from assay.fleet.tournament.diagnosis import conclude, diagnose
from assay.fleet.tournament.model import Fault, Measurement, Metric
from assay.judge import Verdict

BANDWIDTH = Metric("bandwidth", "MB/s", True, 0.05)
LATENCY = Metric("latency", "us", False, 0.25)
BOTH = (BANDWIDTH, LATENCY)
SEED = st.integers(0, 10**6)


class Network:
    """Leaf switches with nodes: two with a trunk between them, more of them below a spine.

    :param shared: factor of the bandwidth between switches while all pairs of a round run at once.
    :param hop: factor of the latency for each trunk.
    """

    def __init__(self, switches=2, nodes=4, **others):
        self.nodes = [f"node{i + 1:02}" for i in range(switches * nodes)]
        leaves = {f"s{k + 1}": self.nodes[k * nodes :][:nodes] for k in range(switches)}
        trunks = [("s1", "s2")] if switches == 2 else [(name, "spine") for name in leaves]
        self.fabric = Fabric({**leaves, **({} if switches == 2 else {"spine": []})}, trunks)
        self.noise = others.get("noise", 0.005)
        self.random = random.Random(others.get("seed", 0))
        self.shared, self.hop = others.get("shared", 1.0), others.get("hop", 1.0)
        self.faults = {}

    def slow(self, who, bandwidth=1.0, latency=1.0):
        """`who` is a node, a pair `a - b`, or the name of a part."""
        self.faults[who] = bandwidth, latency
        return self

    def run(self, a, b, alone):
        path = self.fabric.path(a, b)
        there = {a, b, f"{a} - {b}", f"{b} - {a}", *map(str, path.parts)}
        factors = [factor for who, factor in self.faults.items() if who in there]
        bandwidth = 119 * math.prod(f for f, _ in factors)
        latency = 130 * math.prod(f for _, f in factors) * self.hop**path.hops
        if path.hops and not alone:
            bandwidth *= self.shared
        if 0 in (bandwidth, latency):
            return Measurement(a, b, error="timed out")
        noise = [math.exp(self.random.gauss(0, self.noise)) for _ in BOTH]
        return Measurement(a, b, {"bandwidth": bandwidth * noise[0], "latency": latency * noise[1]})

    def first(self, pairs=None, known=True):
        runs = [self.run(a, b, False) for a, b in pairs or combinations(self.nodes, 2)]
        return diagnose(self.nodes, BOTH, runs, self.fabric if known else None)

    def both(self, pairs=None):
        first = self.first(pairs)
        again = [pair for pairs in second_pass(first, fabric=self.fabric) for pair in pairs]
        return conclude(first, [self.run(a, b, True) for a, b in again], self.fabric)


def named(diagnosis):
    return {f.part or " - ".join(f.nodes) for f in diagnosis.findings}


@given(st.integers(2, 5), st.integers(2, 6), SEED)
@settings(max_examples=40)
def test_a_healthy_network_passes_with_and_without_its_topology(switches, nodes, seed):
    network = Network(switches, nodes, seed=seed)
    for known in (True, False):
        diagnosis = network.first(known=known)
        assert diagnosis.verdict is Verdict.PASS
        assert not diagnosis.doubts
        assert second_pass(diagnosis, fabric=network.fabric) == []


@pytest.mark.parametrize("switches", [2, 3, 4])
@pytest.mark.parametrize("seed", range(3))
def test_distance_and_shared_trunks_are_no_faults(switches, seed):
    network = Network(switches, seed=seed, shared=0.6, hop=1.3)
    diagnosis = network.both()
    assert diagnosis.verdict is Verdict.PASS
    (remark,) = diagnosis.remarks
    assert remark.endswith("not so in the second pass")


@pytest.mark.parametrize("switches", [2, 3, 4])
@pytest.mark.parametrize(
    "fault", ["switch s1", "switch s2", "trunk", "node03", "node01 - node02", "node01 - node05"]
)
@pytest.mark.parametrize("shared", [1.0, 0.7])
@given(SEED)
@settings(max_examples=5)
def test_switch_trunk_node_and_pair_are_told_apart(switches, fault, shared, seed):
    if fault == "trunk":
        fault = "trunk s1 - s2" if switches == 2 else "trunk s1 - spine"
    network = Network(switches, seed=seed, shared=shared, hop=1.2).slow(fault, bandwidth=0.7)
    diagnosis = network.both()
    assert named(diagnosis) == {fault}
    (finding,) = diagnosis.findings
    assert finding.metric == "bandwidth"
    if shared == 1:
        assert finding.deviation == pytest.approx(-0.3, rel=0.1)


@pytest.mark.parametrize("fault", ["switch s2", "trunk s2 - spine", "node03"])
@pytest.mark.parametrize("seed", range(3))
def test_latencies_tell_them_apart_too(fault, seed):
    network = Network(3, seed=seed, hop=1.2).slow(fault, latency=1.8)
    assert named(network.both()) == {fault}


@pytest.mark.parametrize("hop", [1.0, 1.5])
@pytest.mark.parametrize("b", ["node04", "node06"])
@pytest.mark.parametrize("switches", [2, 3])
def test_a_pair_with_a_long_way_is_named_on_one_switch_and_across_two(switches, b, hop):
    network = Network(switches, hop=hop).slow(f"node02 - {b}", latency=2.4)
    (finding,) = network.both().findings
    assert (finding.fault, finding.nodes) == (Fault.SLOW_PAIR, ("node02", b))


def test_a_node_on_a_slow_switch_is_not_named():
    first = Network(3).slow("switch s1", bandwidth=0.5).first()
    (finding,) = first.findings
    assert (finding.fault, finding.nodes, finding.part) == (Fault.SLOW_SWITCH, (), "switch s1")
    assert first.suspects == ()
    assert finding.reason.startswith("switch s1: bandwidth 59.")
    assert "pairs of nodes without it have 119" in finding.reason


def test_a_slow_node_is_found_beside_a_slow_trunk():
    network = Network(3).slow("trunk s1 - spine", bandwidth=0.6).slow("node10", bandwidth=0.7)
    assert named(network.both()) == {"trunk s1 - spine", "node10"}


def test_some_slow_nodes_of_a_switch_are_nodes():
    network = Network(3).slow("node01", bandwidth=0.7).slow("node02", bandwidth=0.7)
    assert named(network.both()) == {"node01", "node02"}


@pytest.mark.parametrize("switches", [2, 3])
@pytest.mark.parametrize("fault", ["switch s1", "trunk", "node03", "node01 - node05"])
def test_dead_parts_and_dead_nodes_are_told_apart(switches, fault):
    if fault == "trunk":
        fault = "trunk s1 - s2" if switches == 2 else "trunk s1 - spine"
    network = Network(switches).slow(fault, bandwidth=0)
    first = network.first()
    for diagnosis in (first, network.both()):
        assert named(diagnosis) == {fault}
        assert diagnosis.verdict is Verdict.FAIL
        assert diagnosis.findings[0].fault.value.startswith("dead ")
    if fault.startswith(("switch", "trunk")):
        assert first.findings[0].reason.endswith("pairs through it (timed out)")
        assert second_pass(first, fabric=network.fabric) == []


def test_two_dead_nodes_are_no_dead_trunk():
    network = Network(3).slow("node01", bandwidth=0).slow("node06", bandwidth=0)
    assert named(network.both()) == {"node01", "node06"}


def test_a_slow_node_is_found_beside_a_dead_trunk():
    network = Network(3).slow("trunk s1 - spine", bandwidth=0).slow("node10", bandwidth=0.7)
    assert named(network.both()) == {"trunk s1 - spine", "node10"}


def test_what_was_slow_once_is_a_remark():
    network = Network(3).slow("trunk s1 - spine", bandwidth=0.6)
    first = network.first()
    network.faults.clear()
    again = [pair for pairs in second_pass(first, fabric=network.fabric) for pair in pairs]
    final = conclude(first, [network.run(a, b, True) for a, b in again], network.fabric)
    assert final.verdict is Verdict.PASS
    assert final.remarks == (f"{first.findings[0].reason}; not so in the second pass",)


def test_a_part_that_is_not_measured_again_stays_named():
    network = Network(3).slow("trunk s1 - spine", bandwidth=0.6)
    first = network.first()
    assert conclude(first, [], network.fabric).findings == first.findings


def test_a_suspected_trunk_is_crossed_by_one_pair_at_a_time_and_both_halves_are_measured():
    network = Network(2).slow("trunk s1 - s2", bandwidth=0.6)
    rounds = second_pass(network.first(), fabric=network.fabric)
    across = [[p for p in pairs if network.fabric.hops(*p)] for pairs in rounds]
    assert [len(pairs) for pairs in across if pairs] == [1] * CROSSINGS
    within = [p for pairs in rounds for p in pairs if not network.fabric.hops(*p)]
    assert {network.fabric.leaf(a) for a, _ in within} == {"s1", "s2"}
    for pairs in rounds:
        busy = [node for pair in pairs for node in pair]
        assert len(busy) == len(set(busy))


def test_the_diagnosis_can_be_written_as_json():
    diagnosis = Network(3).slow("switch s1", bandwidth=0.5).both()
    said = json.loads(json.dumps(dataclasses.asdict(diagnosis)))
    assert said["findings"][0]["parts"] == [{"kind": "switch", "names": ["s1"]}]


@pytest.mark.parametrize("fault", ["", "switch s3", "trunk s3 - spine", "node70"])
def test_a_sparse_tournament_by_switches_finds_it(fault):
    network = Network(12, 16, noise=0.01)
    if fault:
        network.slow(fault, bandwidth=0.85)
    groups = network.fabric.leaves(network.nodes)
    rounds = schedule.by_switch(groups, schedule.sparse(len(network.nodes)))
    pairs = [(network.nodes[a], network.nodes[b]) for met in rounds for a, b in met]
    assert named(network.both(pairs)) == ({fault} if fault else set())


@given(st.lists(st.integers(1, 7), min_size=1, max_size=6), st.integers(1, 9))
def test_a_round_by_switches_has_each_node_once_and_half_of_the_rounds_are_within(sizes, limit):
    if sum(sizes) < 2:
        sizes = [2]
    starts = [sum(sizes[:k]) for k in range(len(sizes))]
    groups = [list(range(start, start + size)) for start, size in zip(starts, sizes)]
    rounds = schedule.by_switch(groups, limit)
    assert 1 <= len(rounds) <= limit
    within = 0
    for met in rounds:
        busy = [node for pair in met for node in pair]
        assert len(busy) == len(set(busy)) >= 2
        assert all(0 <= a < b < sum(sizes) for a, b in met)
        assert sum(sizes) - len(busy) <= 1
        of = {node: k for k, group in enumerate(groups) for node in group}
        within += sum(of[a] == of[b] for a, b in met) >= sum(size // 2 for size in sizes)
    if max(sizes) > limit:
        assert within >= limit // 2


def test_rank_0_draws_the_rounds_by_the_names_that_came(tmp_path):
    network = Network(2)
    nodes = [network.nodes[i] for i in (0, 4, 1, 5, 2, 6, 3, 7)]
    plan = {"sparse": 6, "topology": network.fabric.said()}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    met = {"met": dict(enumerate(nodes)), "asked": 8, "absent": []}
    (tmp_path / "log").write_text(json.dumps(met) + "\n")
    said = measured.draw(str(tmp_path / "plan.json"), str(tmp_path / "log"))
    hops = [[network.fabric.hops(nodes[a], nodes[b]) for a, b in r] for r in said["rounds"]]
    assert len(hops) == 6
    assert hops[:3] == [[0] * 4] * 3
    assert 1 in {hop for met in hops[3:] for hop in met}


def test_a_topology_that_lacks_a_node_is_not_used():
    said = Network(2).fabric.said()
    assert measured.known_fabric(said, ["node01", "node08"]) is not None
    assert measured.known_fabric(said, ["node01", "node09"]) is None
    assert measured.known_fabric(None, ["node01"]) is None
    whole = measured.known_fabric(said, ["node01.hpc.example", "node05.hpc.example"])
    assert whole.hops("node01.hpc.example", "node05.hpc.example") == 1
