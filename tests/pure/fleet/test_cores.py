"""Every core against all others: a slow core, memory or clock is named with its node."""

import importlib
import json
import random
import sys

import numpy
import pytest
from shell import ROOT

from assay.accused import How
from assay.fleet.coordinator_log import parse_coordinator_log
from assay.fleet.cores import CORES, UNITS
from assay.fleet.sweep import Turn

NODES = ("node01", "node02", "node03", "node04")
HEALTHY = {"dgemm": 40.0, "copy": 8.0, "latency": 100.0, "clock": 2800.0}


@pytest.fixture(scope="module")
def script():
    """The script of the nodes, as a module."""
    sys.path.insert(0, str(ROOT / "src/assay/fleet/node"))
    yield importlib.import_module("cores")
    sys.path.pop(0)
    sys.modules.pop("cores", None)


def look(number, fault=None, nodes=NODES, *, clock=True, noise=0.01):
    """The turns of one look; `fault(node, cpu)` has a factor for each quantity that it changes."""
    chance = random.Random(number)
    found = []
    for turn in range(3):
        for node in nodes:
            of_node = {quantity: {} for quantity in HEALTHY if clock or quantity != "clock"}
            for cpu in "0123":
                factors = fault(node, cpu) if fault else {}
                for quantity, its in of_node.items():
                    value = HEALTHY[quantity] * factors.get(quantity, 1)
                    its[f"{node} cpu{cpu}"] = value * (1 + chance.uniform(-noise, noise))
            found.append(Turn(node, number, turn, of_node, "67108864 B"))
    return found


def slow_core(node, cpu):
    """Another process shares one core."""
    return {"dgemm": 0.5, "copy": 0.6} if (node, cpu) == ("node02", "3") else {}


def slow_memory(node, cpu):
    """A co-runner, or a missing DIMM, takes half of the bandwidth of one node."""
    return {"copy": 0.5, "latency": 1.6} if node == "node03" else {}


def low_clock(node, cpu):
    return {"dgemm": 0.6, "clock": 0.6} if node == "node04" else {}


@pytest.mark.parametrize(
    ("fault", "node", "quantities", "which"),
    [
        (slow_core, "node02", ["dgemm", "copy"], "cpu3 of 4 cores"),
        (slow_memory, "node03", ["copy", "latency"], "each of its cores"),
        (low_clock, "node04", ["dgemm", "clock"], "each of its cores"),
    ],
)
def test_a_fault_is_named_with_its_node_by_both_looks(fault, node, quantities, which):
    first = look(1, fault)
    again = CORES.second_look(first, 0.2)
    assert again[0] == node and len(again) == 4
    accused, undecided = CORES.slow(first + look(2, fault, again), 0.2)
    assert undecided == []
    assert [line.split()[:2] for line in accused] == [[f"{node}:", q] for q in quantities]
    assert all(which in line and "times the spread of the others" in line for line in accused)
    assert all((line.nodes, line.how) == ((node,), How.SLOW) for line in accused)


def test_the_line_says_how_much():
    accused, _ = CORES.slow(look(1, slow_core, noise=0) + look(2, slow_core, noise=0), 0.2)
    assert accused == [
        "node02: dgemm 20 GFLOP/s on cpu3 of 4 cores, the median of the other cores is 40 GFLOP/s "
        "(-50.0 %)",
        "node02: copy 4.8 GB/s on cpu3 of 4 cores, the median of the other cores is 8 GB/s "
        "(-40.0 %)",
    ]


def test_healthy_cores_are_not_named():
    first = look(1, noise=0.05)
    assert CORES.second_look(first, 0.2) == []
    assert CORES.slow(first, 0.2) == ([], [])


def test_a_disturbance_of_the_first_look_names_nobody():
    first = look(1, slow_memory)
    again = CORES.second_look(first, 0.2)
    assert CORES.slow(first + look(2, None, again), 0.2) == ([], [])


def test_one_slow_core_of_two_nodes_is_named_but_not_one_of_two_nodes():
    pair = NODES[1:3]
    accused, _ = CORES.slow(look(1, slow_core, pair), 0.2)
    assert [line.split(":")[0] for line in accused] == ["node02", "node02"]
    accused, undecided = CORES.slow(look(1, slow_memory, pair), 0.2)
    assert accused == []
    assert [line.split(":")[0] for line in undecided] == ["node03", "node03"]
    assert all(
        line.endswith("nobody is accused: no majority of the 8 agrees") for line in undecided
    )


def test_a_clock_that_not_all_nodes_state_is_not_judged():
    mixed = look(1, low_clock, NODES[:1]) + look(1, None, NODES[1:], clock=False)
    assert list(CORES.quantities(mixed)) == ["dgemm", "copy", "latency"]
    assert list(CORES.quantities(look(1))) == ["dgemm", "copy", "latency", "clock"]


def test_nodes_with_other_arrays_cannot_be_compared():
    other = Turn("node09", 1, 0, {}, "1048576 B")
    assert CORES.unlike(look(1)) == []
    (line,) = CORES.unlike([*look(1), other])
    assert line.startswith("nodes cannot be compared, their arrays differ with their free memory: ")
    assert "node09: 1048576 B" in line


def log(*entries):
    first = {"asked": 2, "met": {"0": "node01", "1": "node02"}, "absent": []}
    return parse_coordinator_log(
        "".join(json.dumps(e) + "\n" for e in (first, *entries, {"gone": {}, "end": True}))
    )


def entry(out, rc=0):
    return {"node": 1, "look": 1, "turn": 2, "rc": rc, "out": out}


def test_the_output_of_a_node_is_read_with_the_median_of_its_windows():
    values = {"dgemm": [1, 9, 2], "copy": [3, 4, 5], "latency": [80.0]}
    said = {"cores": {"0": values, "64": values}, "bytes": 4096, "clock": {"0": 2800.0}}
    found, failed = CORES.turns(log(entry(json.dumps(said))))
    names = ("node02 cpu0", "node02 cpu64")
    of_cores = {q: dict.fromkeys(names, v) for q, v in zip(UNITS, (2, 4, 80))}
    assert found == [Turn("node02", 1, 2, of_cores, "4096 B")] and failed == []
    said["clock"]["64"] = 2700
    ((turn,), _) = CORES.turns(log(entry(json.dumps(said))))
    assert turn.values["clock"] == dict(zip(names, (2800, 2700)))


@pytest.mark.parametrize(
    ("out", "rc", "said"),
    [
        ("python3 cannot measure: No module named 'numpy'\n", 1, "(exit code 1): python3"),
        ("", None, "(out of time): it said nothing"),
        ("{}", 0, "measured: {}"),
        ('{"cores": {}, "bytes": 1, "clock": {}}', 0, "measured: {"),
        ('{"cores": {"0": {"dgemm": []}}, "bytes": 1, "clock": {}}', 0, "measured: {"),
        (
            '{"cores": {"0": {"dgemm": [0], "copy": [1], "latency": [1]}}, "bytes": 1, '
            '"clock": {}}', 0, "measured: {",
        ),
    ],
)  # fmt: skip
def test_a_turn_without_values_is_named(out, rc, said):
    found, failed = CORES.turns(log(entry(out, rc)))
    assert found == []
    (line,) = failed
    assert line.startswith("node02: its cores were not measured") and said in line
    assert line.nodes == ("node02",)


def test_one_processor_of_each_core_works(script):
    pairs = {0: "0,4", 1: "1,5", 4: "0,4", 5: "1,5"}
    assert script.one_of_each_core(pairs, pairs.get) == [0, 1]
    assert script.one_of_each_core({5, 4}, pairs.get) == [4, 5]
    assert script.one_of_each_core({3, 2}, lambda cpu: "") == [2, 3]


def test_arrays_fit_into_the_memory_and_are_equal_on_equal_nodes(script):
    assert script.size(1 << 40, 128) == script.BYTES
    one, other = (script.size(free, 128) for free in (20e9, 22e9))
    assert one == other == 1 << 23
    assert 3 * 128 * one <= 20e9 / 4
    assert script.free_memory({"MemAvailable": 5120, "limit": 9216}) == 5120
    assert script.free_memory({"MemAvailable": 5120, "limit": 4096}) == 4096
    with pytest.raises(SystemExit, match="does not say how much memory is free"):
        script.free_memory({"MemAvailable": None, "limit": 9216})


def test_the_cycle_visits_every_place_once(script):
    places = script.cycle(numpy, 1000, seed=7)
    seen, at = [], 0
    for _ in range(1000):
        seen.append(at)
        at = places[at]
    assert at == 0 and sorted(seen) == list(range(1000))
