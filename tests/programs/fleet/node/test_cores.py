"""EachCore: the script of a node, its second look, and the run under ReFrame."""

import json
import os
import subprocess
import sys

import pytest
from bench import ROOT
from nodes import LAUNCHER, Nodes, need_namespaces

from assay.fleet import advise
from assay.fleet.cores import CORES, UNITS

SCRIPT = ROOT / "src/assay/fleet/node/cores.py"

#: Stands for sh: nodes of two cores with made values; those of one node are set by `values`.
SWAYED = """#!/bin/sh
case "$*" in *cores.py*) ;; *) exec /bin/sh "$@" ;; esac
a=40 b=41; [ "$(uname -n)" != node02 ] || {{ {values}; }}
rest='"copy": [8], "latency": [100]'
echo '{{"cores": {{"0": {{"dgemm": ['$a'], '"$rest"'}}, "1": {{"dgemm": ['$b'], '"$rest"'}}}},' \\
  '"bytes": 4096, "clock": {{}}}}'
"""


def test_the_script_measures_each_core_of_this_machine():
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "0.02", "2"], capture_output=True, text=True, check=True
    )
    said = json.loads(done.stdout)
    assert said["cores"] and said["bytes"] > 4096
    for values in said["cores"].values():
        assert {name: len(windows) for name, windows in values.items()} == dict.fromkeys(UNITS, 2)
        assert all(value > 0 for windows in values.values() for value in windows)


def test_a_python_without_numpy_says_so(tmp_path):
    (tmp_path / "numpy.py").write_text('raise ImportError("there is none")\n')
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "0.02", "1"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "cannot measure: there is none" in done.stderr


def test_the_second_look_is_for_the_slow_node_and_others(tmp_path):
    need_namespaces()
    (tmp_path / "sh").write_text(SWAYED.format(values="b=20"))
    (tmp_path / "sh").chmod(0o755)
    command = [str(tmp_path / "sh"), "-c", "cores.py"]
    advice = advise.advice_command(CORES, "coordinator_log.jsonl", "0.2")
    job = Nodes(
        tmp_path, "each.py", 3, command=command, limit=20, width=None, turns=2, advice=advice
    )
    job.start(0, 1, 2).end()
    found, failed = CORES.turns(job.coordinator_log())
    assert failed == []
    assert [turn.node for turn in found if turn.look == 2].count("node02") == 2
    accused, undecided = CORES.slow(found, 0.2)
    assert undecided == []
    assert accused == [
        "node02: dgemm 20 GFLOP/s on cpu1 of 2 cores, the median of the other cores is 40 GFLOP/s "
        "(-50.0 %), 27.8 times the spread of the others (2.5%)"
    ]


def each_core(bench, values, nodes=3, **extras):
    need_namespaces()
    path = bench.program("live", "mpirun", LAUNCHER)
    bench.program("live", "sh", SWAYED.format(values=values))
    bench.partition(
        features=["inter-node", "tcp"],
        extras={"network_device": "lo", "nodes": nodes, **extras},
    )
    bench.stack("live", ["osu"], path)
    return bench.run("-n", "EachCore", path="reframe/compute/each_core.py")


@pytest.mark.slow
def test_the_slow_core_is_named_with_its_node(bench):
    outcome = each_core(bench, "b=20").says("EachCore", "node02: dgemm 20 GFLOP/s on cpu1 of 2 ")
    record = outcome.record
    assert record["second_look"] == ["node01", "node02", "node03"]
    assert list(record["population"]["dgemm"]["outliers"]) == ["node02 cpu1"]
    assert [said["nodes"] for said in record["accused"]] == [["node02"]]


@pytest.mark.slow
def test_equal_cores_pass(bench):
    record = each_core(bench, "true").says("EachCore").record
    assert record["metrics"]["dgemm_worst"]["value"] == 40
    assert record["metrics"]["latency_worst"]["value"] == 100
    assert record["second_look"] == []


@pytest.mark.slow
def test_of_two_nodes_neither_is_accused(bench):
    outcome = each_core(bench, "a=20 b=20", nodes=2).case("EachCore")
    assert outcome.record["verdict"] == "INCONCLUSIVE"
    assert outcome.record["accused"] == []
    assert "nobody is accused: no majority of the 4 agrees" in outcome.reason


@pytest.mark.slow
def test_a_misspelt_option(bench):
    run = each_core(bench, "true", options={"EachCore.widht": 1})
    run.says(
        "EachCore", "options: EachCore.widht: EachCore has no option 'widht'; did you mean 'width'?"
    )


@pytest.mark.slow
@pytest.mark.long
def test_a_long_run_keeps_the_worst_value_and_the_drift(bench):
    record = each_core(bench, "true", options={"EachCore.hours": 0.001}).says("EachCore").record
    said = record["drift"]["dgemm"]
    assert said["turns"] == 120
    assert said["worst"]["value"] == 40 and said["nodes"] == dict.fromkeys(
        ("node01", "node02", "node03"), 1.0
    )


@pytest.mark.slow
def test_hours_that_are_no_time(bench):
    run = each_core(bench, "true", options={"EachCore.hours": -1})
    run.says("EachCore", "options: EachCore.hours: -1 is not a number above 0")
