"""Pairs of nodes in the suite: all of them, and those between two switches."""

import pytest
from nodes import ONCE, machine

from assay.accused import How
from assay.fleet.tournament.again import PARTNERS

pytestmark = pytest.mark.slow

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

#: The topology of two switches, with a place for the nodes of the second.
SWITCHES = "SwitchName=s1 Nodes=node[01-02] Switches=s2\nSwitchName=s2 Nodes={}\n"

#: All "nodes" have one counter of segments, and a busy machine sends some of them again.
LOSSY = {"link_resent_max": 0.9}

#: What is said of the client of the second node if it failed.
FAILED = "{0} did not meet {1}: {1}: ucx_perftest ended with exit code 3: broken"


def tournament_of(bench):
    return bench.run("-n", "Tournament", path="reframe/network/tournament.py")


def failing_once(tmp_path, node, program):
    """The same program, but its first client on this node ends with an error."""
    once = ONCE.replace("node02", node).replace("{mark}", str(tmp_path / "mark"))
    once = once.replace("{fault}", "{{ echo broken; exit 3; }}")
    return once.replace('exec {real} "$@"\n', program.removeprefix("#!/bin/sh\n"))


@pytest.mark.long
def test_the_tournament_names_the_slow_node_and_both_ends_of_a_trial_that_failed(bench, tmp_path):
    real = machine(
        bench, nodes=3, options={"PairsOfNodes.seconds": 0.1, "PairsOfNodes.width": 1}, health=LOSSY
    )
    program = failing_once(tmp_path, "node03", LYING)
    bench.program("live", "ucx_perftest", program.format(real=real))
    said = "node02: bandwidth 524.3 MB/s to all 2 others, the others have 1049 MB/s"
    failed = FAILED.format("node02", "node03")
    outcome = tournament_of(bench).says("Tournament", said, failed)
    findings = outcome.record["tournament"]["findings"]
    assert [finding["nodes"] for finding in findings] == [["node02"]]
    assert [(one["nodes"], one["how"]) for one in outcome.record["accused"]] == [
        (["node02", "node03"], How.FAILED.value),
        (["node02"], How.SLOW.value),
    ]
    again = [row for row in outcome.record["parsed"]["rows"] if row["pass"] == 2]
    assert sum("node02" in (row["a"], row["b"]) for row in again) == PARTNERS


@pytest.mark.long
@pytest.mark.parametrize("rounds", ["all", "sparse"])
def test_the_tournament_names_the_slow_switch(bench, rounds):
    (bench.site / "topology.conf").write_text(SWITCHES.format("node[03-04]"))
    said = {"seconds": 0.05, "width": 1, "topology": "topology.conf", "rounds": rounds}
    options = {f"PairsOfNodes.{name}": value for name, value in said.items()}
    real = machine(bench, nodes=4, options=options, health=LOSSY)
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
    ("name", "value", "said"),
    [
        ("rounds", "few", "rounds: 'few' is not all or sparse"),
        ("topology", "nowhere.conf", "nowhere.conf: No such file or directory"),
        ("cpus", [0], "cpus: [0] is not the processor of the server and that of the client"),
        ("tolerances", {"speed": 0.1}, "tolerances: {'speed': 0.1} is not shares of "),
        ("tolerances", {"bandwidth": 30}, "tolerances: {'bandwidth': 30} is not shares of "),
    ],
)
def test_a_wrong_option_of_the_schedule(bench, name, value, said):
    machine(bench, options={f"PairsOfNodes.{name}": value})
    tournament_of(bench).says("Tournament", said)


@pytest.mark.parametrize(
    ("name", "ends"),
    [
        ("Tournament", ("node02", "node03")),
        pytest.param("Bisection", ("node01", "node04"), marks=pytest.mark.long),
    ],
)
def test_a_trial_that_failed_is_named_even_if_all_rounds_are_well(bench, tmp_path, name, ends):
    """The second node of `ends` has the client of the first trial."""
    program = failing_once(tmp_path, ends[1], LYING.replace("node02", "nobody"))
    if name == "Tournament":
        real = machine(
            bench,
            nodes=3,
            options={"PairsOfNodes.seconds": 0.05, "PairsOfNodes.width": 1},
            health=LOSSY,
        )
        bench.program("live", "ucx_perftest", program.format(real=real))
        run = tournament_of(bench)
    else:
        run = bisection(bench, program)
    said = FAILED.format(*ends)
    accused = run.says(name, said).record["accused"]
    assert [one["nodes"] for one in accused if one["problem"] == said] == [[*ends]]
    assert not any(one["how"] == How.SLOW.value for one in accused)


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


def bisection(bench, program="", **extras):
    """Runs the test of two switches with two nodes each; each pair says that it has 1049 MB/s."""
    (bench.site / "topology.conf").write_text(SWITCHES.format("node[03-04]"))
    stated = {"PairsOfNodes.seconds": 0.05, "PairsOfNodes.topology": "topology.conf"}
    real = machine(bench, options=stated | extras.pop("options", {}), health=LOSSY, **extras)
    said = LYING.format(real=real).replace("node02", "nobody")
    bench.program("live", "ucx_perftest", program.format(real=real) or said)
    return bench.run("-n", "Bisection", path="reframe/network/tournament.py")


@pytest.mark.long
def test_all_pairs_between_two_switches_reach_what_they_reach_alone(bench):
    # Whether one pair measures its latency while the other one sends depends on the machine.
    record = bisection(bench).case("Bisection").record
    assert record.get("accused", []) == []
    (row,) = record["parsed"]["rows"]
    assert (row["line"], row["pairs"]) == ("s1 - s2", 2)
    assert row["together"] == row["theoretical"] == pytest.approx(2097, abs=1)


@pytest.mark.long
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


@pytest.mark.long
def test_more_than_the_trunk_carries_took_another_way(bench):
    said = "2 pairs moved 2097 MB/s together, more than the 1500 MB/s of the trunk"
    bisection(bench, options={"Bisection.trunk": 1500}).says("Bisection", said)


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
        (None, "does not state its switches (option topology)"),
        ("topology.conf", "2 nodes each are needed: only s1 has so many"),
    ],
)
def test_without_two_switches_there_is_no_bisection(bench, topology, said):
    (bench.site / "topology.conf").write_text(SWITCHES.format("node03"))
    machine(bench, options={"PairsOfNodes.topology": topology} if topology else {})
    run = bench.run("-n", "Bisection", path="reframe/network/tournament.py")
    assert run.case("Bisection").result == "skip"
    assert said in run.output


def test_a_wrong_option_of_the_bisection(bench):
    run = bisection(bench, options={"Bisection.trunk": 0})
    run.says("Bisection", "options: Bisection.trunk: 0 is not a number above 0")


def test_a_misspelt_option_of_the_tournament(bench):
    machine(bench, options={"PairsOfNodes.widht": 1})
    tournament_of(bench).says("Tournament", "has no option 'widht'; did you mean 'width'?")
