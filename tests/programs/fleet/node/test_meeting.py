"""Processes that meet: their scripts over loopback, the census, and the disk of each node."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from bench import ROOT, live_program, live_ucx
from nodes import LAUNCHER, ONCE, Nodes, machine, need_namespaces

from assay.fleet.tournament import measured, schedule
from assay.prove import transports

pytestmark = pytest.mark.slow


@pytest.fixture
def tournament(tmp_path):
    """Makes a tournament of this number of nodes over loopback."""
    need_namespaces()
    live_program("ucx_perftest")
    version = live_ucx()

    def make(nodes, **plan):
        tests = {
            name: {
                "options": ["-f", "-t", name, "-s", str(test.size)],
                "launches": 2,
                "iterations": test.trial,
            }
            for name, test in measured.TESTS.items()
        }
        defaults = {
            "rounds": schedule.rounds(nodes),
            "width": 1,
            "cpus": None,
            "tests": tests,
            "seconds": 0.02,  # more busy processes than cores: few iterations
            "limit": 60,
            "environment": transports.environment("tcp", version, "lo"),
            "repeats": 1,
            "advice": ["echo", '{"again": false, "rounds": []}'],
            "transport": "tcp",
            "ucx_version": version,
            "tolerances": {},
        }
        return Nodes(tmp_path, "pairs.py", nodes, **{**defaults, **plan})

    return make


def pairs(job, asked=None):
    asked = job.plan["environment"] if asked is None else asked
    return list(measured.pairs(job.coordinator_log(), "tcp", job.plan["ucx_version"], asked))


def test_all_meet_all_and_each_pair_is_proven(tournament):
    job = tournament(4, width=None).start(0, 1, 2, 3)
    assert {rc for rc, _ in job.end().values()} == {0}
    minutes = job.coordinator_log()
    assert minutes.problems == []
    found = pairs(job)
    assert len({(pair.a, pair.b) for pair in found}) == 6
    for pair in found:
        assert not pair.error
        assert pair.problems == ()
        assert set(pair.values) == {"latency", "bandwidth"}
    for entry in minutes.entries:
        assert {run["serving"] for run in entry["runs"]} == {entry["a"], entry["b"]}


def test_rounds_are_those_that_were_drawn_and_advised_and_all_again_only_so_often(tournament):
    drawn = ["echo", '{"rounds": [[[0, 2]]]}']
    advice = ["echo", '{"again": true, "rounds": [[[0, 1]]]}']
    job = tournament(3, draw=drawn, repeats=2, advice=advice).start(0, 1, 2)
    job.end()
    assert [(pair.number, pair.a, pair.b) for pair in pairs(job)] == [
        *[(1, "node01", "node03")] * 2,
        (2, "node01", "node02"),
    ]


@pytest.mark.long
def test_without_a_draw_and_without_advice_the_rounds_of_the_plan_are_kept(tournament):
    fails = ["sh", "-c", "echo no numpy here >&2; exit 1"]
    job = tournament(3, draw=fails, advice=fails).start(0, 1, 2)
    job.end()
    assert [pair.problems for pair in pairs(job)] == [()] * 3
    assert "was set outside of the test" in pairs(job, {})[0].problems[0]
    entries = job.coordinator_log().entries
    assert {"no_draw": "no numpy here"} in entries
    assert entries[-1] == {"no_second_pass": "no numpy here"}


def test_a_rank_that_never_comes(tournament):
    job = tournament(3, patience=5).start(0, 1)
    assert {rc for rc, _ in job.end().values()} == {0}
    assert job.coordinator_log().problems == ["rank 2 did not come"]
    values = {(pair.a, pair.b): pair for pair in pairs(job)}
    assert values["node01", "node02"].values
    assert "node01 did not meet rank 2: rank 2 did not come" in values["node01", "rank 2"].error


#: Waits on node03, as long as the script that started it lives.
WAITS = """#!/bin/sh
case "$*" in *tag_*|*-p*) [ "$(uname -n)" = node03 ] && {{
  : >{mark}; while kill -0 $PPID 2>/dev/null; do sleep 0.1; done; exit 1; }} ;; esac
exec {real} "$@"
"""


def test_a_node_that_dies_in_the_middle(tournament, tmp_path):
    program, mark = tmp_path / "bin/ucx_perftest", tmp_path / "mark"
    program.parent.mkdir()
    program.write_text(WAITS.format(mark=mark, real=live_program("ucx_perftest")))
    program.chmod(0o755)
    pairs_of_three = [[(0, 1)], [(0, 2)], [(1, 2)]]
    job = tournament(3, rounds=pairs_of_three)
    job.start(0, 1, 2, PATH=f"{program.parent}:{os.environ['PATH']}").until(mark.exists)
    job.processes[2].send_signal(signal.SIGKILL)
    assert [rc for rc, _ in job.end().values()] == [0, 0, -signal.SIGKILL]
    minutes = job.coordinator_log()
    assert list(minutes.gone) == ["node03"]
    assert any("node03 left before the end" in problem for problem in minutes.problems)
    found = {(pair.a, pair.b): pair for pair in pairs(job)}
    assert found["node01", "node02"].values, "the others are kept"
    assert "node03: " in found["node01", "node03"].error
    assert "node03: " in found["node02", "node03"].error


@pytest.mark.parametrize("later", [0, 0.01, 0.02, 0.04])
def test_a_cancelled_job_leaves_nothing_behind(tournament, tmp_path, later):
    job = tournament(2, seconds=60, limit=100).start(0, 1, TMPDIR=str(tmp_path))
    job.until(job.lines)
    time.sleep(later)  # it may start a program, run one, or read its output
    for process in job.processes.values():
        process.send_signal(signal.SIGTERM)
    job.end()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("assay-pairs-")]
    assert not job.coordinator_log().complete


def test_a_program_that_is_not_there(tournament, tmp_path):
    for name in ("sh", "hostname", "unshare"):
        (tmp_path / name).symlink_to(shutil.which(name))
    job = tournament(2).start(0, 1, PATH=str(tmp_path))
    job.end()
    said = "node01 did not meet node02: node01: ucx_perftest: No such file or directory"
    assert [(pair.number, pair.error) for pair in pairs(job)] == [(0, said), (1, said)]


@pytest.mark.long
def test_a_program_that_hangs_in_a_trial_only(tournament, tmp_path):
    real = live_program("ucx_perftest")
    program = tmp_path / "bin/ucx_perftest"
    program.parent.mkdir()
    program.write_text(ONCE.format(mark=tmp_path / "mark", fault="kill -STOP $$", real=real))
    program.chmod(0o755)
    pairs_of_three = [[(0, 1)], [(0, 2)], [(1, 2)]]  # the first pair has the client on node02
    # The rounds that are well must end within this limit on a busy machine, too.
    job = tournament(3, limit=60, rounds=pairs_of_three)
    job.start(0, 1, 2, PATH=f"{program.parent}:{os.environ['PATH']}").end()
    trial, *rounds = pairs(job)
    said = "node01 did not meet node02: node02: ucx_perftest was stopped and never went on"
    assert (trial.number, trial.error, trial.at) == (0, said, ("node02",))
    assert [pair.number for pair in rounds if pair.values] == [1] * 3


def test_a_launcher_that_starts_worlds_of_one(tournament):
    job = tournament(2).start(0)
    job.until((job.folder / "meeting.json").exists)
    first = job.processes.pop(0)
    job.start(0)
    ((rc, said),) = job.end().values()
    first.kill()
    first.communicate()
    assert rc == 1
    assert "two processes have rank 0" in said


def test_each_runs_a_command_on_every_node_in_turn(tmp_path):
    need_namespaces()
    command = ["sh", "-c", "uname -n; exit 3"]
    job = Nodes(tmp_path, "each.py", 3, command=command, limit=3600, width=1, turns=2)
    job.start(0, 1, 2).end()
    entries = job.coordinator_log().entries
    runs = [(entry["node"], entry["rc"], entry["out"]) for entry in entries if "out" in entry]
    assert runs == [(n, 3, f"node0{n + 1}\n") for n in (0, 1, 2)] * 2
    clocks = [entry for entry in entries if "ahead" in entry]
    assert len(clocks) == 3
    assert all(abs(entry["ahead"]) <= entry["within"] + 0.01 for entry in clocks)


def test_a_command_that_does_not_end_costs_its_limit(tmp_path):
    need_namespaces()
    job = Nodes(
        tmp_path, "each.py", 2, command=["sleep", "100"], limit=0.5, width=None, turns=1
    ).start(0, 1)
    job.end()
    runs = [entry for entry in job.coordinator_log().entries if "out" in entry]
    assert [run["rc"] for run in runs] == [None, None]


def census(bench):
    return bench.run("-n", "Census", path="reframe/node/census.py")


def each_node(bench, folder, iozone=None, **extras):
    """Runs the test of the disk of each node on a directory in `folder`."""
    need_namespaces()
    path = bench.program("live", "mpirun", LAUNCHER)
    if iozone:
        bench.program("live", "iozone", iozone)
    (folder / "scratch").mkdir()
    bench.storage(folder / "scratch", extras=extras)
    bench.stack("live", ["iozone"], path)
    return bench.run("-n", "EachNode", path="reframe/storage/each_node.py")


def test_the_census_of_equal_nodes_passes_and_each_is_held_to_the_limits(bench):
    machine(bench, nodes=3)
    outcome = census(bench).says("Census")
    assert outcome.record["metrics"]["nodes"]["value"] == 3
    assert set(outcome.record["nodes_found"]) == {"node01", "node02", "node03"}


def test_the_census_names_the_node_that_differs(bench):
    machine(bench, nodes=3, health={"memory_available_min": 1.1})
    other = '#!/bin/sh\n[ "$(uname -n)" = node03 ] && echo "ucx 9.9" || echo "ucx 1.1"\n'
    bench.program("live", "ucx_info", other)
    outcome = census(bench).case("Census")
    assert outcome.result == "fail"
    assert "node03: programs ucx is ucx 9.9, ucx 1.1 on 2 others" in outcome.record["problems"]
    assert sum("of the memory is free" in text for text in outcome.record["problems"]) == 3


def test_the_node_that_the_launcher_cannot_reach_is_named(bench):
    machine(bench, nodes=3)
    bench.program(
        "live",
        "mpirun",
        "#!/bin/sh\necho 'srun: error: Task launch failed on node node03: no route' >&2\nexit 1\n",
    )
    census(bench).says("Census", "failed on node node03: no route")


#: Runs the real program on a small file. The printed rates are those of a quiet disk, and lower
#: if `rule` is true.
SWAYED = """#!/bin/sh
node=$(uname -n)
turn=$(cat {here}/turn.$node 2>/dev/null || echo 0)
echo $((turn + 1)) >{here}/turn.$node
rate=1000000
{rule} && rate=100000
{real} -i 0 -i 1 -e -c -o -s 1024k -r 1024k -f {here}/file.$node | awk -v r=$rate '
  NF == 6 && $1 == 1024 {{ $0 = sprintf("%16d%8d%9d%9d%9d%9d", 1024, 1024, r, r, r, r) }}
  {{ print }}'
"""


def test_the_disk_of_each_node_in_turn(bench, tmp_path):
    script = SWAYED.format(here=tmp_path, real=live_program("iozone"), rule="false")
    run = each_node(bench, tmp_path, script, nodes=3)
    assert [row["turns"] for row in run.says("EachNode").record["parsed"]["rows"]] == [3, 3, 3]
    assert list((tmp_path / "scratch").iterdir()) == [], "no file is left behind"


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        pytest.param("[ $node = node02 ] && [ $turn -lt 2 ]", [], marks=pytest.mark.long),
        ("[ $node = node02 ]", ["node02", "node02"]),
    ],
    ids=["busy in two turns", "slow for good"],
)
def test_a_node_is_named_when_a_second_look_finds_it_slow_again(bench, tmp_path, rule, named):
    script = SWAYED.format(here=tmp_path, real=live_program("iozone"), rule=rule)
    outcome = each_node(bench, tmp_path, script, nodes=3).case("EachNode")
    assert [line.split(":")[0] for line in outcome.record["problems"]] == named, outcome.reason
    assert outcome.result == ("fail" if named else "pass")
    assert "node02" in outcome.record["second_look"]


def test_the_scripts_need_nothing_but_python():
    """They import only the standard library and scripts of the suite."""
    for script in ("pairs.py", "each.py"):
        path = ROOT / "src" / "assay" / "fleet" / "node" / script
        code = f"import sys; sys.path.insert(0, {str(path.parent)!r}); import {path.stem}"
        subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)
