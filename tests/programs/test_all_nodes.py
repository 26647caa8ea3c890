"""Processes that meet: real measurements of pairs over loopback, and their faults."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from bench import ROOT, live_program, live_ucx
from nodes import LAUNCHER, Nodes, need_namespaces

from assay.evidence import transports
from assay.fleet.tournament import measured, schedule

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
            "seconds": 0.1,
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


@pytest.mark.alone
def test_all_meet_all_and_each_pair_is_proven(tournament):
    # Two pairs at a time are more busy processes than two cores can run, so iterations are few.
    job = tournament(4, width=None, seconds=0.02).start(0, 1, 2, 3)
    assert {rc for rc, _ in job.end(within=300).values()} == {0}
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


def test_the_second_pass_is_what_the_advice_says_and_all_again_only_so_often(tournament):
    advice = ["echo", '{"again": true, "rounds": [[[0, 2]]]}']
    job = tournament(3, repeats=2, advice=advice).start(0, 1, 2)
    job.end()
    assert [pair.number for pair in pairs(job)] == [1] * 6 + [2]


def test_without_advice_the_first_pass_is_kept(tournament):
    job = tournament(3, advice=["sh", "-c", "echo no numpy here >&2; exit 1"]).start(0, 1, 2)
    job.end()
    assert [pair.problems for pair in pairs(job)] == [()] * 3
    assert "nobody asked for it" in pairs(job, {})[0].problems[0]
    assert job.coordinator_log().entries[-1] == {"no_second_pass": "no numpy here"}


def test_a_rank_that_never_comes(tournament):
    began = time.monotonic()
    job = tournament(3, patience=2).start(0, 1)
    assert {rc for rc, _ in job.end().values()} == {0}
    assert time.monotonic() - began < 20
    assert job.coordinator_log().problems == ["rank 2 did not come"]
    values = {(pair.a, pair.b): pair for pair in pairs(job)}
    assert values["node01", "node02"].values
    assert "node01 did not meet rank 2: rank 2 did not come" in values["node01", "rank 2"].error


def test_a_node_that_dies_in_the_middle(tournament):
    job = tournament(3, seconds=0.3, limit=20).start(0, 1, 2)
    job.until(lines=1)
    job.processes[2].send_signal(signal.SIGKILL)
    began = time.monotonic()
    assert [rc for rc, _ in job.end().values()] == [0, 0, -signal.SIGKILL]
    assert time.monotonic() - began < 30
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
    job.until(lines=1)
    time.sleep(later)  # it may start a program, run one, or read its output
    for process in job.processes.values():
        process.send_signal(signal.SIGTERM)
    job.end(20)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("assay-pairs-")]
    assert not job.coordinator_log().complete


def test_a_program_that_is_not_there(tournament, tmp_path):
    for name in ("sh", "hostname", "unshare"):
        (tmp_path / name).symlink_to(shutil.which(name))
    job = tournament(2).start(0, 1, PATH=str(tmp_path))
    job.end()
    said = "node01 did not meet node02: node01: ucx_perftest: No such file or directory"
    assert [(pair.number, pair.error) for pair in pairs(job)] == [(0, said), (1, said)]


#: Fails at its first test on node02, and never again.
ONCE = """#!/bin/sh
case "$*" in *tag_*) [ "$(uname -n)" = node02 ] && mkdir {mark} 2>/dev/null && {fault} ;; esac
exec {real} "$@"
"""


def test_a_program_that_hangs_in_a_trial_only(tournament, tmp_path):
    real = live_program("ucx_perftest")
    program = tmp_path / "bin/ucx_perftest"
    program.parent.mkdir()
    program.write_text(ONCE.format(mark=tmp_path / "mark", fault="kill -STOP $$", real=real))
    program.chmod(0o755)
    pairs_of_three = [[(0, 1)], [(0, 2)], [(1, 2)]]  # the first pair has the client on node02
    job = tournament(3, limit=2, rounds=pairs_of_three)
    job.start(0, 1, 2, PATH=f"{program.parent}:{os.environ['PATH']}").end()
    trial, *rounds = pairs(job)
    said = "node01 did not meet node02: node02: ucx_perftest was stopped and never went on"
    assert (trial.number, trial.error, trial.at) == (0, said, ("node02",))
    assert [pair.number for pair in rounds if pair.values] == [1] * 3


@pytest.mark.parametrize(
    ("name", "ends"), [("Tournament", ("node02", "node03")), ("Bisection", ("node01", "node04"))]
)
def test_a_trial_that_failed_is_named_even_if_all_rounds_are_well(bench, tmp_path, name, ends):
    """The second node of `ends` has the client of the first trial."""
    once = ONCE.replace("node02", ends[1]).replace("{mark}", str(tmp_path / "mark"))
    once = once.replace("{fault}", "{{ echo broken; exit 3; }}")
    if name == "Tournament":
        real = machine(bench, nodes=3, tournament={"seconds": 0.05, "width": 1, "resent": 0.9})
        bench.program("live", "ucx_perftest", once.format(real=real))
        run = tournament_of(bench)
    else:
        run = bisection(bench, once)
    said = "{} did not meet {}: {}: ucx_perftest ended with exit code 3: broken"
    said = said.format(*ends, ends[1])
    record = run.says(name, said).record
    assert [one["nodes"] for one in record["accused"] if one["problem"] == said] == [[*ends]]


def test_a_launcher_that_starts_worlds_of_one(tournament):
    job = tournament(2, patience=3).start(0)
    job.until(lines=0)
    first = job.processes.pop(0)
    end = time.monotonic() + 10
    while not (job.folder / "meeting.json").exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    job.start(0)
    ((rc, said),) = job.end().values()
    first.kill()
    first.communicate()
    assert rc == 1
    assert "two processes have rank 0" in said


def test_each_runs_a_command_on_every_node_in_turn(tmp_path):
    need_namespaces()
    command = ["sh", "-c", "uname -n; exit 3"]
    job = Nodes(tmp_path, "each.py", 3, command=command, limit=5, width=1, turns=2)
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
    began = time.monotonic()
    job.end()
    assert time.monotonic() - began < 15
    runs = [entry for entry in job.coordinator_log().entries if "out" in entry]
    assert [run["rc"] for run in runs] == [None, None]


#: Runs the real program, so that its bytes take their real path. The printed rates are those of a
#: quiet machine. If node02 is the client, the printed bandwidth is half of that.
LYING = """#!/bin/sh
case "$*" in *tag_*) ;; *) exec {real} "$@" ;; esac
[ "$(uname -n)" = node02 ] && rate=500 || rate=1000
{real} "$@" >out.$$
rc=$?
awk -v r=$rate 'NF == 8 && $1 ~ /^[0-9]+$/ {{ $0 = "  " $1 " 9 9 9 " r " " r " 111111 111111" }}
  {{ print }}' out.$$
exit $rc
"""


def machine(bench, nodes=4, features=("inter-node", "tcp"), **extras):
    """A partition of this number of "nodes", and a stack with the launcher."""
    need_namespaces()
    real = live_program("ucx_perftest")
    version = live_ucx()
    path = bench.program("live", "mpirun", LAUNCHER)
    bench.partition(
        features=list(features),
        extras={"network_device": "lo", "nodes": nodes, **extras},
    )
    bench.stack("live", ["ucx", "ucx-perftest", "iozone"], path, ucx_version=version)
    return real


def census(bench):
    return bench.run("-n", "Census", path="reframe/node/census.py")


def tournament_of(bench):
    return bench.run("-n", "Tournament", path="reframe/network/tournament.py")


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


@pytest.mark.alone
def test_the_tournament_names_the_slow_node(bench):
    real = machine(bench, nodes=3, tournament={"seconds": 0.1, "width": 1})
    bench.program("live", "ucx_perftest", LYING.format(real=real))
    said = "node02: bandwidth 524.3 MB/s to all 2 others, the others have 1049 MB/s"
    outcome = tournament_of(bench).says("Tournament", said)
    said = outcome.record["tournament"]
    assert [finding["nodes"] for finding in said["findings"]] == [["node02"]]
    assert any(row["pass"] == 2 for row in outcome.record["parsed"]["rows"])


@pytest.mark.alone
@pytest.mark.parametrize("rounds", [pytest.param("all", marks=pytest.mark.long), "sparse"])
def test_the_tournament_names_the_slow_switch(bench, rounds):
    (bench.site / "fabric.yaml").write_text(
        "switches: {s1: 'node[01-02]', s2: 'node[03-04]'}\ntrunks: [[s1, s2]]\n"
    )
    options = {"seconds": 0.05, "width": 1, "topology": "fabric.yaml", "rounds": rounds}
    real = machine(bench, nodes=4, tournament={**options, "resent": 0.9})
    of_switch = LYING.format(real=real).replace(
        '[ "$(uname -n)" = node02 ]', 'uname -n | grep -q "node0[12]"'
    )
    bench.program("live", "ucx_perftest", of_switch)
    outcome = tournament_of(bench).says("Tournament", "switch s1: bandwidth 524.3 MB/s through it")
    (finding,) = outcome.record["tournament"]["findings"]
    assert (finding["fault"], finding["nodes"]) == ("slow switch", [])
    (accused,) = outcome.record["accused"]
    assert (accused["part"], accused["nodes"]) == ("switch s1", [])
    assert any(row["pass"] == 2 for row in outcome.record["parsed"]["rows"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rounds": "few"}, "rounds: 'few' is not all, sparse, or a number from 2 on"),
        ({"topology": "nowhere.yaml"}, "nowhere.yaml: No such file or directory"),
        ({"cpus": [0]}, "cpus: [0] is not the processor of the server and that of the client"),
    ],
)
def test_a_wrong_option_of_the_schedule(bench, options, said):
    machine(bench, tournament=options)
    tournament_of(bench).says("Tournament", f"extras: tournament: {next(iter(options))}: ")
    tournament_of(bench).says("Tournament", said)


def test_rounds_that_cannot_be_drawn_are_those_of_the_plan(tournament):
    job = tournament(3, draw=["sh", "-c", "echo no numpy here >&2; exit 1"]).start(0, 1, 2)
    job.end()
    assert len(pairs(job)) == 3
    assert {"no_draw": "no numpy here"} in job.coordinator_log().entries


def test_the_drawn_rounds_replace_those_of_the_plan(tournament):
    job = tournament(3, draw=["echo", '{"rounds": [[[0, 2]]]}']).start(0, 1, 2)
    job.end()
    assert [(pair.a, pair.b) for pair in pairs(job)] == [("node01", "node03")]


def test_the_tournament_needs_three_nodes(bench):
    machine(bench, nodes=2)
    run = tournament_of(bench)
    assert run.case("Tournament").result == "skip"
    assert "has 2 nodes on offer (extra `nodes`); Tournament takes 3 or more" in run.output


def test_pairs_are_not_measured_over_several_devices(bench):
    machine(bench, nodes=3, network_device="mlx5_0:1,mlx5_1:1")
    run = tournament_of(bench)
    assert run.case("Tournament").result == "skip"
    assert "has several network devices (mlx5_0:1,mlx5_1:1)" in run.output


@pytest.mark.alone
@pytest.mark.parametrize(
    ("bandwidth", "said"),
    [
        pytest.param(2097, "", marks=pytest.mark.long),
        (1500, "2 pairs across moved 2097 MB/s, more than the 1500 MB/s of the link"),
    ],
    ids=["as stated", "faster than it can be"],
)
def test_pairs_across_share_the_link_that_the_site_states(bench, bandwidth, said):
    groups = {"east": "node[01-02]", "west": "node[03-04]"}
    real = machine(
        bench,
        features=["inter-node", "across", "tcp"],
        # All "nodes" have one counter of segments, and a busy machine sends some of them again.
        tournament={"seconds": 0.05, "resent": 0.9},
        # Both are what the program prints, in MB/s and us.
        between={"groups": groups, "bandwidth": bandwidth, "latency": 9},
    )
    bench.program("live", "ucx_perftest", LYING.format(real=real).replace("node02", "nobody"))
    run = bench.run("-n", "CrossingPairs", path="reframe/network/tournament.py")
    outcome = run.says("CrossingPairs", said) if said else run.says("CrossingPairs")
    rows = outcome.record["parsed"]["rows"]
    assert [(row["line"], row["pairs"]) for row in rows] == [
        ("within", 1), ("within", 2), ("across", 1), ("across", 2),
    ]  # fmt: skip


def bisection(bench, program="", **extras):
    """Runs the test of two switches with two nodes each; each pair says that it has 1049 MB/s."""
    (bench.site / "fabric.yaml").write_text(
        "switches: {s1: 'node[01-02]', s2: 'node[03-04]'}\ntrunks: [[s1, s2]]\n"
    )
    options = {"seconds": 0.05, "topology": "fabric.yaml", "resent": 0.9}
    real = machine(bench, tournament={**options, **extras.pop("tournament", {})}, **extras)
    said = LYING.format(real=real).replace("node02", "nobody")
    bench.program("live", "ucx_perftest", program.format(real=real) or said)
    return bench.run("-n", "Bisection", path="reframe/network/tournament.py")


@pytest.mark.alone
@pytest.mark.long
def test_all_pairs_between_two_switches_reach_what_they_reach_alone(bench):
    # One pair must measure its latency three times while the other one sends.
    outcome = bisection(bench, tournament={"seconds": 0.3}).says("Bisection")
    (row,) = outcome.record["parsed"]["rows"]
    assert (row["line"], row["pairs"]) == ("s1 - s2", 2)
    assert row["together"] == row["theoretical"] == pytest.approx(2097, abs=1)
    assert outcome.record["metrics"]["congestion_factor"]["value"] == 1, "all say 9 us"


@pytest.mark.alone
def test_a_slow_trunk_between_two_switches_is_named(bench):
    """Two links of 6818 MB/s, as the site says, and the two pairs move 2097 MB/s."""
    run = bisection(bench, hardware={"link": "infiniband-fdr"})
    outcome = run.says(
        "Bisection",
        "s1 - s2: 2 pairs moved 2097 MB/s together, and should reach 12270 MB/s (90 % of "
        "13640 MB/s: 2 links of 6818 MB/s); a pair alone has 1049 MB/s",
    )
    (accused,) = outcome.record["accused"]
    assert (accused["part"], accused["nodes"]) == ("trunk s1 - s2", [])


@pytest.mark.alone
@pytest.mark.long
def test_more_than_the_trunk_carries_took_another_way(bench):
    said = "2 pairs moved 2097 MB/s together, more than the 1500 MB/s of the trunk"
    bisection(bench, bisection={"trunk": 1500}).says("Bisection", said)


@pytest.mark.alone
@pytest.mark.long
def test_a_pair_between_two_switches_that_fails_is_named(bench):
    dead = """#!/bin/sh
case "$*" in *tag_*) [ "$(uname -n)" = node03 ] && {{ echo broken; exit 3; }} ;; esac
exec {real} "$@"
"""
    said = "node03: ucx_perftest ended with exit code 3: broken"
    bisection(bench, dead).says("Bisection", said)


@pytest.mark.parametrize(
    ("topology", "said"),
    [
        (None, "does not state its switches (extra `tournament`, key `topology`)"),
        ("{s1: 'node[01-04]', s2: 'node05'}", "2 nodes each are needed: only s1 has so many"),
    ],
)
def test_without_two_switches_there_is_no_bisection(bench, topology, said):
    (bench.site / "one.yaml").write_text(f"switches: {topology}\ntrunks: [[s1, s2]]\n")
    machine(bench, tournament={"topology": "one.yaml"} if topology else {})
    run = bench.run("-n", "Bisection", path="reframe/network/tournament.py")
    assert run.case("Bisection").result == "skip"
    assert said in run.output


def test_a_wrong_option_of_the_bisection(bench):
    run = bisection(bench, bisection={"share": 90})
    run.says("Bisection", "extras: bisection: share: 90 is above 1; 0.9 stands for 90 %")


def test_a_misspelt_option_of_the_tournament(bench):
    machine(bench, tournament={"widht": 1})
    tournament_of(bench).says("Tournament", "unknown key 'widht'; did you mean 'width'?")


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


@pytest.mark.alone
def test_the_disk_of_each_node_in_turn(bench, tmp_path):
    live_program("iozone")
    run = each_node(bench, tmp_path, nodes=3, each_node={"tolerance": 0.99})
    assert [row["turns"] for row in run.says("EachNode").record["parsed"]["rows"]] == [3, 3, 3]
    assert list((tmp_path / "scratch").iterdir()) == [], "no file is left behind"


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
    """They import only the standard library and modules of their own folder."""
    for script in ("pairs.py", "each.py"):
        path = ROOT / "src" / "assay" / "onnode" / script
        code = f"import sys; sys.path.insert(0, {str(path.parent)!r}); import {path.stem}"
        subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)
