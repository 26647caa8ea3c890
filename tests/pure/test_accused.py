"""A problem keeps the nodes that it accuses, from each diagnosis to the case of a report."""

from __future__ import annotations

import copy
import json
import pickle
from types import SimpleNamespace

import msgspec
import report_records

from assay.accused import Against, How, accusations
from assay.fleet import census, coordinator_log
from assay.fleet.storage import DISKS
from assay.fleet.sweep import Turn
from assay.fleet.tournament.measured import Pair, lossy
from assay.prove import node_state
from assay.store.cases import with_record

AGAINST_N2 = Against("n2: it differs", ["n2"], How.DIFFERS)


def nodes_of(problems):
    return [([*one.nodes], one.how) for one in accusations(problems)]


def found(**changed):
    """What four nodes report; `changed` are those of n2."""
    same = {"kernel": "6.1", "memory": {"MemTotal": 1000, "limit": 1000}}
    return {f"n{i}": {**same, **(changed if i == 2 else {})} for i in range(1, 5)}


def test_it_is_a_line_like_any_other():
    problem = Against("n2: it is slow", ["n2"], How.SLOW)
    assert problem == "n2: it is slow"
    assert json.dumps([problem]) == '["n2: it is slow"]'
    assert list(dict.fromkeys([problem, "n2: it is slow"])) == [problem]


def test_a_copy_still_accuses():
    problem = Against("n2: it is slow", ["n2"], How.SLOW)
    for made in (copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        assert nodes_of([made]) == [(["n2"], "slower than the others")]


def test_only_problems_with_nodes_are_kept():
    assert accusations(["it is slow", Against("all are slow", [], How.SLOW)]) == ()


def test_the_census_accuses_the_minority():
    assert nodes_of(census.differences(found(kernel="5.10"))) == [(["n2"], "differs")]
    assert nodes_of(census.differences(found(memory={"MemTotal": 10, "limit": 10})))[0][0] == ["n2"]
    assert nodes_of(
        census.clocks({"n1": 0, "n2": 9, "n3": 0}, dict.fromkeys(("n1", "n2", "n3"), 0))
    )
    settings = {"/etc/ucx/ucx.conf": "UCX_TLS = all"}
    (line,) = census.differences(found(settings=settings))
    assert line == "n2: settings /etc/ucx/ucx.conf is UCX_TLS = all, absent on 3 others"
    half = found()
    half["n1"] = half["n2"] = {**half["n1"], "kernel": "5.10"}
    assert census.differences(half)
    assert nodes_of(census.differences(half)) == []


def test_the_census_accuses_all_nodes_of_a_value_and_not_only_those_that_it_names():
    nodes = {f"n{i:02}": found()["n1"] for i in range(20)}
    for i in range(6):
        nodes[f"n{i:02}"] = {**nodes[f"n{i:02}"], "kernel": "5.10"}
    ((accused, _),) = nodes_of(census.differences(nodes))
    assert len(accused) == 6


def test_the_sweep_accuses_the_slow_node():
    turns = [
        Turn(
            f"n{i}",
            1,
            number,
            {"write": {f"n{i}": 10.0 if i == 2 else 100.0}, "read": {f"n{i}": 100.0}},
        )
        for i in range(1, 5)
        for number in range(3)
    ]
    assert nodes_of(DISKS.slow(turns, 0.3)[0]) == [(["n2"], "slower than the others")]


def test_links_that_lose_data_accuse_a_node_or_a_pair():
    names = [("n1", "n2"), ("n1", "n3"), ("n2", "n3"), ("n1", "n4"), ("n2", "n4"), ("n3", "n4")]
    of_node = [Pair(a, b, number=1, sent=1000, again=50 if "n2" in (a, b) else 0) for a, b in names]
    assert nodes_of(lossy(of_node, "eth0", {"link_resent_max": 0.01})) == [(["n2"], "loses data")]
    of_pair = [
        Pair(*ends, number=1, sent=1000, again=500 if ends == names[0] else 0) for ends in names
    ]
    assert nodes_of(lossy(of_pair, "mlx5_0:1", {"link_resent_max": 0.001})) == [
        (["n1", "n2"], "loses data")
    ]


def test_a_node_that_left_or_never_came_is_accused():
    log = coordinator_log.parse_coordinator_log(
        '{"met": {"0": "n1", "1": "n2"}, "asked": 3, "absent": ["n3"]}\n'
        '{"end": true, "gone": {"n2": "connection lost"}}\n'
    )
    assert nodes_of(log.problems) == [(["n3"], "failed"), (["n2"], "failed")]


def test_a_node_out_of_service_is_accused():
    lines = ["NodeName=n1 State=IDLE", "NodeName=n2 State=IDLE+DRAIN Reason=fault [root@now]"]
    nodes = [SimpleNamespace(descr=line) for line in lines]
    scheduler = SimpleNamespace(
        registered_name="slurm",
        allnodes=lambda: nodes,
        filternodes=lambda job, all_nodes: all_nodes,
    )
    assert nodes_of(node_state.in_service(scheduler, None, 2)[1]) == [(["n2"], "out of service")]
    assert nodes_of(node_state.lost(scheduler, ["n1", "n2"])) == [(["n2"], "out of service")]


def test_a_record_tells_the_case_and_damage_to_it_accuses_nobody():
    bare = report_records.case("Census", problems=["n2: it differs"])
    accused = msgspec.json.decode(msgspec.json.encode(accusations([AGAINST_N2])))
    (one,) = with_record(bare, {"accused": accused}).accused
    assert (one.nodes, one.how, one.problem) == (("n2",), "differs", "n2: it differs")
    for damaged in (None, "n2", [None, "n2", {"nodes": "n2"}, {"nodes": []}, {"problem": "n2"}]):
        assert with_record(bare, {"accused": damaged}).accused == ()
