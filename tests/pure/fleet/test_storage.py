"""Servers of a parallel file system: a slow one is named, and a slow node is not taken for one."""

import importlib
import json
import random
import subprocess
import sys

import pytest
from reframe.core.runtime import temp_runtime
from shell import ROOT

from assay.fleet import advise
from assay.fleet.coordinator_log import parse_coordinator_log
from assay.fleet.storage import MEASURED, SERVERS
from assay.fleet.sweep import Turn
from assay.reframe_compat import testcase

NODES = ("node01", "node02", "node03", "node04")


@pytest.fixture(scope="module")
def script():
    """The script of the nodes, as a module."""
    sys.path.insert(0, str(ROOT / "src/assay/fleet/node"))
    yield importlib.import_module("servers")
    sys.path.pop(0)
    sys.modules.pop("servers", None)


def look(number, rate, at=NODES, turns=2):
    """The turns of one look; `rate(node, server)` is the rate of both operations [KiB/s]."""
    return [
        Turn(node, number, turn, {what: {s: rate(node, s) for s in at} for what in MEASURED})
        for turn in range(turns)
        for node in NODES
    ]


def healthy(node, server):
    return 5e4 if node == server else 2e4


def slow_network(node, server):
    """Whatever crosses the link of node02 is slow."""
    return healthy(node, server) / (4 if node != server and "node02" in (node, server) else 1)


def slow_disk(node, server):
    return healthy(node, server) / (4 if server == "node02" else 1)


def slow_node(node, server):
    """What node02 does itself is slow, but not its files."""
    return healthy(node, server) / (4 if node == "node02" else 1)


@pytest.mark.parametrize(
    ("rate", "cause"),
    [
        (
            slow_network,
            "; node02 itself is slow with the other servers, too: its network or processor",
        ),
        (slow_disk, "; node02 itself is not slow with the other servers: its disk"),
    ],
)
def test_a_slow_server_is_named_with_its_cause(rate, cause):
    first = look(1, rate)
    assert SERVERS.suspects(first, 0.5) == ["node02"]
    assert SERVERS.second_look(first, 0.5, NODES) == [*NODES]
    assert SERVERS.slow(first + look(2, rate), 0.5) == ([
        f"files on node02: {operation} 5000 KiB/s, those on other servers 20000 KiB/s (-75.0 %)"
        f"{cause}"
        for operation in MEASURED
    ], [])  # fmt: skip


@pytest.mark.parametrize("rate", [healthy, slow_node])
def test_healthy_servers_are_not_named_even_beside_a_slow_node(rate):
    first = look(1, rate)
    assert SERVERS.second_look(first, 0.3, NODES) == []
    assert SERVERS.slow(first + look(2, rate), 0.3) == ([], [])


def test_a_disturbance_of_the_first_look_names_nobody():
    found = look(1, slow_network) + look(2, healthy)
    assert SERVERS.suspects(found, 0.5) == ["node02"]
    assert SERVERS.slow(found, 0.5) == ([], [])


def test_servers_that_are_not_nodes_are_named_without_a_cause():
    first = look(1, lambda node, s: 1e3 if s == "oss2" else 1e4, ("oss1", "oss2", "oss3"))
    lines, _ = SERVERS.slow(first, 0.5)
    assert lines[0].endswith("others 10000 KiB/s (-90.0 %)".replace("others", "other servers"))
    assert len(lines) == 2


def test_two_servers_accuse_nobody_where_each_node_is_one():
    """Each node then has only one server over the network, and nothing to compare it with."""
    found = look(1, slow_network, NODES[:2])[:2]
    assert SERVERS.suspects(found, 0.5) == [] and SERVERS.slow(found, 0.5) == ([], [])


def test_two_of_four_servers_are_undecided():
    """Half of the servers are slow: nothing says which half is as it should be."""
    found = look(
        1, lambda node, s: 1e3 if s in ("oss1", "oss2") else 1e4, ("oss1", "oss2", "oss3", "oss4")
    )
    accused, undecided = SERVERS.slow(found, 0.5)
    assert accused == []
    assert len(undecided) == 4
    assert undecided[0].endswith("; nobody is accused: no majority of the 4 agrees")


@pytest.mark.parametrize("seed", range(10))
def test_noise_of_a_shared_disk_accuses_nobody(seed):
    chance = random.Random(seed)

    def noisy(node, server):
        return healthy(node, server) * chance.uniform(0.5, 1.0)

    alarms = sum(any(SERVERS.slow(look(1, noisy) + look(2, noisy), 0.5)) for _ in range(20))
    assert alarms == 0


def test_the_server_is_read_from_what_glusterfs_says(script):
    """Recorded from GlusterFS 10.3 with two bricks."""
    said = (
        "(<DISTRIBUTE:distribute> <POSIX(/scratch/.brick/files):node02:/scratch/.brick/files/x>)\0"
    )
    assert script.server(said) == "node02"
    assert script.server("(<DISTRIBUTE:distribute>)") is None


def log(*entries):
    first = {"asked": 2, "met": {"0": "node01", "1": "node02"}, "absent": []}
    return parse_coordinator_log(
        "".join(json.dumps(e) + "\n" for e in (first, *entries, {"gone": {}, "end": True}))
    )


def test_the_output_of_a_node_is_read_with_the_median_of_its_rounds():
    out = json.dumps({"servers": {"node01": {"write": [1, 9, 2], "read": [3, 4, 5]}}})
    found, failed = SERVERS.turns(log({"node": 1, "look": 1, "turn": 0, "rc": 0, "out": out}))
    assert (
        found == [Turn("node02", 1, 0, {"write": {"node01": 2}, "read": {"node01": 4}})]
        and failed == []
    )


@pytest.mark.parametrize(
    ("rc", "out", "said"),
    [
        (1, "/shared/x.0: nothing names the server of a file: Operation not supported\n", None),
        (None, "", "node01: the files on the servers (out of time): it said nothing"),
        (0, "[1]", "node01: the files on the servers: [1]"),
        (0, '{"servers": {"node01": {"write": []}}}', None),
    ],
)
def test_a_turn_without_rates_is_named(rc, out, said):
    found, failed = SERVERS.turns(log({"node": 0, "look": 1, "turn": 0, "rc": rc, "out": out}))
    assert found == [] and len(failed) == 1
    assert failed[0] == (
        said or f"node01: the files on the servers{' (exit code 1)' * rc}: {out.strip()}"
    )


def test_rank_0_asks_for_the_second_look_by_a_command():
    for name, said in (("servers", "[]"), ("servers-slow-link", "[0, 1, 2, 3]")):
        log = str(ROOT / f"tests/data/shared-files/{name}.jsonl")
        command = advise.advice_command(SERVERS, log, "0.5")
        assert subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout == said


def test_a_recorded_slow_link_is_named_and_healthy_servers_are_not():
    data = ROOT / "tests/data/shared-files"
    said = {}
    for name in ("servers", "servers-slow-link"):
        found, failed = SERVERS.turns(parse_coordinator_log((data / f"{name}.jsonl").read_text()))
        assert failed == [] and len(found) == 4
        said[name], undecided = SERVERS.slow(found, 0.5)
        assert undecided == []
    assert said["servers"] == []
    assert said["servers-slow-link"][0] == (
        "files on node02: write 4037 KiB/s, those on other servers 17980 KiB/s (-77.5 %), "
        "21.5 times the spread of the others (10.7%); "
        "node02 itself is slow with the other servers, too: its network or processor"
    )
    assert len(said["servers-slow-link"]) == 2


def test_a_turn_that_failed_or_ran_out_of_time_measured_nothing() -> None:
    out = json.dumps({"servers": {s: {what: [2e4] for what in MEASURED} for s in NODES}})
    for rc in (1, None):
        with pytest.raises(ValueError):
            SERVERS.values("node01", {"rc": rc, "out": out})
    assert SERVERS.values("node01", {"rc": 0, "out": out})[0]["write"]["node02"] == 2e4


def test_one_node_at_a_time_measures_the_servers() -> None:
    """Nodes that write at the same time would measure how they share the servers."""
    with temp_runtime("<builtin>", "generic"):
        ((test, _),) = testcase.declared(ROOT / "reframe/storage/each_server.py")
        assert (test.width, test.turns) == (1, 2)
