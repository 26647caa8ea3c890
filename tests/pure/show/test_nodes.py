"""`assay nodes`: verdicts, drains and exit codes, from recorded sessions and simulated accusations.

tests/data/faults has sessions of the emulated cluster, each with one fault in node02.
"""

from __future__ import annotations

import json
import shlex

import msgspec
import pytest
from msgspec.structs import replace
from report_results import DATA

from assay import cli
from assay.accused import Accusation
from assay.declared import OF_NETWORK, proven_by
from assay.judge import Verdict
from assay.show import nodes
from assay.store import session
from assay.store.cases import Case, Session
from assay.store.record import Metric
from assay.store.run_folder import NO_PLAN

FAULTS = DATA.parents[1] / "faults"
SESSIONS = sorted(path.parents[1].name for path in FAULTS.glob("*/reports/run-report-0.json"))
SLOW = "slower than the others"
ALL = tuple(f"node0{k}" for k in range(1, 5))


#: What tests prove, as they declare it.
PROVES = {
    "EachCore": {"processor": "dgemm_worst", "memory": "copy_worst"},
    "EachNode": {"write": "write_worst", "read": "read_worst"},
    "GpuHplStudy": {"GPU": "performance"},
    "Hpcc": {"processor": "hpl|dgemm_star", "memory": "stream_copy_star"},
    "Iozone": {"write": "write", "read": "read"},
    "Stream": {"memory": "copy"},
    **dict.fromkeys(("MpiGraph", "NetPipe", "Osu", "Tournament"), OF_NETWORK),
}


def proving(case):
    """The part of a record that says what the metrics of a case prove."""
    names = [metric.name for metric in case.metrics]
    return {"proves": proven_by(PROVES.get(case.test, {}), names)}


def of_slurm(run, *names, **promise):
    """The run as a suite of today writes it: its records name the scheduler, its plan the words."""
    words = {"words": {"inter-node": ["inter-node"], "scratch": ["storage"]}}
    plan = msgspec.structs.replace(run.plan, promise={**run.plan.promise, **words, **promise})
    more = {"scheduler": "squeue", **({"nodes": list(names)} if names else {})}
    cases = (replace(c, **({} if c.proves else proving(c)), **more) for c in run.cases)
    return replace(run, cases=tuple(cases), plan=plan)


def run(name, **promise):
    return of_slurm(
        session.load_session(FAULTS / name / "reports" / "run-report-0.json"), **promise
    )


def accused(name, *accusations, verdict=Verdict.FAIL):
    """A session; its first case that ran accuses nothing but these, and is its only case."""
    found = run(name)
    first = next(case for case in found.cases if case.hosts)
    said = tuple(one.problem for one in accusations)
    case = replace(first, verdict=verdict, accused=accusations, problems=said, metrics=())
    return replace(found, cases=(case,))


def case(test, *metrics, hosts=ALL, verdict=Verdict.PASS, **more):
    """A case whose metrics have its verdict."""
    its = tuple(Metric(name, 1.0, "1", verdict) for name in metrics)
    made = Case(test, test, test, "s", "p", "e", verdict, metrics=its, **more)
    return replace(made, nodes=tuple(hosts), **proving(made))


#: What would show a fault of each part that the nodes of `of_slurm` have.
PROVEN = (
    case("EachCore", "dgemm_worst", "copy_worst"),
    case("Tournament", "latency_median", "bandwidth_median"),
    case("EachNode", "write_worst", "read_worst"),
)


def only(*cases):
    """A run with these cases alone."""
    made = Session(FAULTS, "", "", None, 1.0, "", "", cases, plan=NO_PLAN)
    return of_slurm(made)


def verdicts(rows):
    return {row.name: (row.kind, row.verdict) for row in rows}


def busy(case):
    """The case as on a machine with other work: it accuses, and is not decided."""
    if case.verdict is not Verdict.FAIL:
        return case
    why = "other work took 1.9 of 2 cores"
    return replace(case, verdict=Verdict.INCONCLUSIVE, busy=why)


@pytest.mark.parametrize("quiet", [True, False], ids=["quiet", "busy"])
@pytest.mark.parametrize("name", SESSIONS)
def test_no_accused_node_returns_and_no_healthy_node_is_drained(name, quiet):
    found = run(name)
    # All parts of all nodes are proven beside what the session measured.
    cases = [*PROVEN, *(each if quiet else busy(each) for each in found.cases)]
    found = of_slurm(replace(found, cases=tuple(cases)))
    rows = {row.name: row for row in nodes.rows(found)}
    red = [each for each in cases if each.verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE)]
    for node in {node for each in red for one in each.accused for node in one.nodes}:
        assert rows[node].verdict in ("FAIL", "UNDECIDED"), node
    for node in {node for each in red if not each.accused for node in each.hosts}:
        assert rows[node].verdict != "PASS", node
    for each in red:
        if each.verdict is Verdict.INCONCLUSIVE:
            assert "PASS" not in {rows[node].verdict for node in each.hosts or ALL}
    drained, _ = nodes.drains(found, rows.values())
    names = [shlex.split(line)[2] for line in drained]
    in_service = name not in ("crash", "node-drained")
    assert names == (["nodename=node02"] if quiet and in_service else [])


@pytest.mark.parametrize("name", SESSIONS)
def test_without_a_proof_of_each_part_no_node_is_pass(name):
    rows = nodes.rows(run(name))
    assert {row.verdict for row in rows} <= {"FAIL", "UNDECIDED", "NOT MEASURED"}
    for row in rows:
        assert {row.parts[kind].verdict for kind in ("processor", "memory")} == {"NOT MEASURED"}


def test_a_node_is_pass_if_each_part_was_judged():
    rows = nodes.rows(only(*PROVEN))
    assert verdicts(rows) == dict.fromkeys(ALL, ("node", "PASS"))
    assert {kind: str(part) for kind, part in rows[0].parts.items()} == {
        "processor": "PASS EachCore", "memory": "PASS EachCore", "network": "PASS Tournament",
        "disk": "PASS EachNode",
    }  # fmt: skip


@pytest.mark.parametrize("left_out", range(len(PROVEN)))
@pytest.mark.parametrize("quiet", [True, False])
def test_a_part_that_nothing_judged_is_not_measured(left_out, quiet):
    part = replace(PROVEN[left_out], verdict=Verdict.RECORDED)
    part = replace(part, metrics=tuple(replace(m, verdict=part.verdict) for m in part.metrics))
    part = part if quiet else replace(part, busy="other work", not_judged=("slow",))
    found = only(*PROVEN[:left_out], part, *PROVEN[left_out + 1 :])
    word = "NOT MEASURED" if quiet else "UNDECIDED"
    assert verdicts(nodes.rows(found)) == dict.fromkeys(ALL, ("node", word))


@pytest.mark.parametrize(
    ("kind", "other"),
    [
        ("network", case("UcxPerftest", "latency_8B", "bandwidth_1MiB", hosts=ALL[:1])),
        ("network", case("Osu", "latency_8B", "bandwidth_1MiB", hosts=ALL[:1])),
        ("network", case("Osu", "latency_8B")),  # a slow link has the latency of a good one
        ("network", case("MpiGraph", "bandwidth_worst")),
        ("disk", case("Iozone", "write", "read", parameters={"sync": "cached"})),
        ("disk", case("EachNode", "write_worst")),
        ("disk", case("MdtestHard", "read")),
        ("processor", case("GpuHplStudy", "performance")),
        ("processor", case("Census", "nodes")),
        ("memory", case("EachCore", "copy_median")),
    ],
)
def test_what_would_not_show_a_fault_proves_nothing(kind, other):
    (node,) = (row for row in nodes.rows(only(other)) if row.name == "node01")
    assert node.parts[kind].verdict == "NOT MEASURED"


def test_a_time_and_a_rate_of_two_tests_prove_a_network():
    found = only(case("Osu", "latency_8B"), case("MpiGraph", "bandwidth_worst"))
    assert {row.parts["network"].verdict for row in nodes.rows(found)} == {"PASS"}


def test_a_part_is_demanded_unless_the_site_says_that_there_is_none():
    one = case("Hpcc", "hpl", "stream_copy_star", hosts=ALL[:1])
    alone = of_slurm(only(one), words={"here": ["posix"]})
    assert verdicts(nodes.rows(alone)) == {"node01": ("node", "PASS")}
    for words in ({"here": ["gpu"]}, {"here": ["inter-node"]}, {"here": ["storage"]}, None, {}):
        (row,) = nodes.rows(of_slurm(only(one), words=words))
        assert row.verdict == "NOT MEASURED", words
    several = of_slurm(only(replace(one, nodes=tuple(ALL), proves={})), words={"here": ["posix"]})
    assert nodes.rows(several)[0].verdict == "NOT MEASURED"  # there is a network between them


@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.INCONCLUSIVE])
@pytest.mark.parametrize("hosts", [ALL, ()])
def test_a_case_that_accuses_nobody_leaves_its_nodes_undecided(verdict, hosts):
    found = only(*PROVEN, case("Stream", "copy", hosts=hosts, verdict=verdict))
    rows = nodes.rows(found)
    assert verdicts(rows) == dict.fromkeys(ALL, ("node", "UNDECIDED"))
    assert str(rows[0].parts["memory"]) == "UNDECIDED Stream"
    assert nodes.drains(of_slurm(found, *ALL), rows) == ([], [])
    assert nodes.repeats(found, rows) == ["make acceptance SITE=s REFRAME_ARGS=\"-n '^Stream'\""]


def test_one_slow_number_of_a_sweep_measures_again_and_drains_nobody(capsys):
    file = FAULTS / "disk-full/reports/run-report-0.json"
    found = run("disk-full")
    node01 = next(row for row in nodes.rows(found) if row.name == "node01")
    assert node01.verdict == "UNDECIDED"
    code, said = call(capsys, "--session", file)
    assert code == 1
    assert "To measure again:\nmake acceptance SITE=vcluster" in said.out


#: What a host may say of itself, and what somebody may write into a record.
HOSTILE = [
    "ALL", "all", "node[01-04]", "node01,node02", "node02 node03", "node02\nscontrol shutdown",
    "\x1b[2J", "-x", "", "node02;reboot", "node02=x", "n\u00f8de",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("given", [True, False])
def test_no_drain_line_names_what_slurm_did_not_give(name, given, capsys):
    one = Accusation((name,), "failed", f"{name}: broken")
    found = of_slurm(accused("drift-mtu", one), *([name, *ALL] if given else ALL))
    commands, refused = nodes.drains(found, nodes.rows(found))
    assert commands == []
    assert len(refused) == 1
    nodes._show(found, nodes.rows(found))
    assert "\nscontrol" not in capsys.readouterr().out


def test_a_node_that_slurm_did_not_give_is_not_drained():
    one = Accusation(("node07",), "failed", "node07: broken")
    found = accused("drift-mtu", one)
    said = "'node07' is no name of a node that Slurm gave to a job of this run"
    assert nodes.drains(found, nodes.rows(found)) == ([], [said])
    bare = replace(found, cases=tuple(replace(c, nodes=()) for c in found.cases))
    said = "no record says that Slurm gave a node to a job of this run"
    assert nodes.drains(bare, nodes.rows(bare)) == ([], [said])


def test_a_host_with_a_domain_is_the_node_of_slurm():
    one = Accusation(("node02.cluster.example",), "failed", "node02: broken")
    found = accused("drift-mtu", one)
    ((line,), refused) = nodes.drains(found, nodes.rows(found))
    assert "nodename=node02 " in line
    assert refused == []


@pytest.mark.parametrize(("share", "lines"), [(0.1, 0), (0.25, 0), (0.5, 2), (1.0, 2), (None, 0)])
def test_more_than_a_share_of_the_nodes_is_not_drained(share, lines):
    both = [Accusation((node,), "failed", f"{node}: broken") for node in ALL[:2]]
    found = accused("drift-mtu", *both)
    promise = {"drain_at_most": share} if share else {}
    found = of_slurm(found, **promise)
    commands, refused = nodes.drains(found, nodes.rows(found))
    assert len(commands) == lines
    if not lines:
        (said,) = refused
        assert said.startswith("2 of 4 nodes failed, and drain_at_most of promise.yaml is ")
        assert "the check or the fabric is at fault" in said


@pytest.mark.parametrize("name", ["drift-mtu", "disk-full", "memory", "node-drained"])
def test_the_faulty_node_fails(name):
    found = nodes.rows(run(name))
    assert verdicts(found)["node02"] == ("node", "FAIL")
    assert {f"node0{k}" for k in range(1, 5)} <= {row.name for row in found}


def test_a_case_that_accuses_only_others_leaves_a_node_as_it_is():
    cases = (*PROVEN, *run("drift-mtu").cases)
    found = verdicts(nodes.rows(of_slurm(replace(run("drift-mtu"), cases=cases))))
    assert [found[f"node0{k}"][1] for k in (1, 3, 4)] == ["PASS"] * 3


def test_a_failed_case_with_another_problem_acquits_nobody():
    found = accused("drift-mtu", Accusation(("node02",), SLOW, "node02: slow"))
    (case,) = found.cases
    case = replace(case, problems=("node02: slow", "no output"))
    found = nodes.rows(replace(found, cases=(*PROVEN, case)))
    assert verdicts(found)["node01"] == ("node", "UNDECIDED")
    assert (
        "took part in failed or undecided cases of Census"
        in next(r for r in found if r.name == "node01").reasons[0]
    )


def test_a_switch_is_a_device_and_a_trunk_and_a_pair_are_cables():
    run = accused(
        "drift-mtu",
        Accusation((), SLOW, "switch s1: bandwidth 50 MB/s", "switch s1"),
        Accusation((), SLOW, "trunk s1 - s2: bandwidth 50 MB/s", "trunk s1 - s2"),
        Accusation(("node01", "node04"), SLOW, "node01 - node04: bandwidth 50 MB/s"),
    )
    found = nodes.rows(replace(run, cases=(*PROVEN, *run.cases)))
    assert verdicts(found) == {
        "switch s1": ("device", "FAIL"),
        "trunk s1 - s2": ("cable", "FAIL"),
        "node01 - node04": ("cable", "FAIL"),
        **{f"node0{k}": ("node", "PASS") for k in (2, 3)},
        **{f"node0{k}": ("node", "UNDECIDED") for k in (1, 4)},
    }
    assert nodes.drains(run, found) == ([], [])


def test_a_drain_names_the_node_and_the_reason_and_is_safe_in_a_shell():
    problem = "node02: it's slow; $(reboot)\N{EN DASH}\N{SNOWMAN}" + "x" * 200
    run = accused("drift-mtu", Accusation(("node02",), SLOW, problem))
    ((line,), _) = nodes.drains(run, nodes.rows(run))
    assert line.startswith("scontrol update nodename=node02 state=drain 'reason=assay: it'\"'\"'s")
    assert line.isascii()
    assert "..." in line
    assert len(line) < 200


def test_a_node_that_is_drained_already_is_not_drained_again():
    for name, commands in (("node-drained", 0), ("drift-mtu", 1)):
        found = run(name)
        drained, refused = nodes.drains(found, nodes.rows(found))
        assert (len(drained), refused) == (commands, [])


def test_an_undecided_case_drains_nothing():
    one = Accusation(("node02",), SLOW, "node02: slow")
    run = accused("drift-mtu", one, verdict=Verdict.INCONCLUSIVE)
    run = replace(run, cases=(*PROVEN, *run.cases))
    found = nodes.rows(run)
    assert verdicts(found)["node02"] == ("node", "UNDECIDED")
    assert nodes.drains(run, found) == ([], [])
    assert nodes.repeats(run, found)[-1:] == [
        "make acceptance SITE=vcluster REFRAME_ARGS=\"-n '^Census'\""
    ]


def test_a_name_that_is_no_test_does_not_enter_a_command():
    run = accused("drift-mtu", Accusation(("node02",), SLOW, "node02: slow"))
    hostile = tuple(replace(case, test="x'; reboot #") for case in run.cases)
    run = replace(run, cases=(*PROVEN, *hostile))
    assert nodes.repeats(run, nodes.rows(run)) == []


def call(capsys, *words):
    code = cli.main(["nodes", *map(str, words)])
    return code, capsys.readouterr()


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ((), 0),
        ((case("Stream", "copy", verdict=Verdict.FAIL),), 1),
        ((case("Stream", "copy", verdict=Verdict.INCONCLUSIVE),), 3),
        ((case("Stream", "copy", hosts=("node09",)),), 4),
    ],
)
def test_exit_codes(capsys, monkeypatch, more, code):
    monkeypatch.setattr(session, "load_session", lambda _: only(*PROVEN, *more))
    assert call(capsys, "--session", FAULTS)[0] == code


def test_exit_code_of_no_run_and_of_a_run_without_nodes(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path))
    code, said = call(capsys)
    assert (code, said.out) == (2, "")
    assert said.err.startswith("assay nodes: ")
    assert said.err.count("\n") == 1
    monkeypatch.setattr(
        session, "load_session", lambda _: only(case("Stream", hosts=(), verdict=None))
    )
    code, said = call(capsys, "--session", FAULTS)
    assert code == 4
    assert "no node: " in said.out


def test_the_table_says_what_to_do(capsys, monkeypatch):
    found = run("drift-mtu")
    monkeypatch.setattr(session, "load_session", lambda _: found)
    code, said = call(capsys, "--session", FAULTS)
    assert code == 1
    assert "To drain the failed nodes (not executed):\nscontrol update nodename=node02" in said.out
    assert "To measure again:\nmake acceptance SITE=vcluster\n" in said.out
    head, first, *_ = said.out.splitlines()
    assert head.split() == ["verdict", "what", "name", *nodes.PARTS, "why"]
    assert first.startswith("FAIL")


def test_json_has_the_failures_the_parts_and_the_commands(capsys, monkeypatch):
    found = run("drift-mtu")
    monkeypatch.setattr(session, "load_session", lambda _: found)
    code, said = call(capsys, "--json", "--session", FAULTS)
    said = json.loads(said.out)
    assert (code, said["failures"], said["not_drained"]) == (1, ["node02"], [])
    assert said["rows"][0]["name"] == "node02"
    nothing = {"verdict": "NOT MEASURED", "tests": [], "loss": None}
    assert said["rows"][0]["parts"]["disk"] == nothing
    assert said["drain"][0].startswith("scontrol update nodename=node02 state=drain")
    assert len(said["again"]) == 1


def test_a_node_that_is_slow_does_not_explain_a_pair_that_failed():
    case = accused(
        "drift-mtu",
        Accusation(("node02", "node03"), "failed", "node02 did not meet node03"),
        Accusation(("node02",), SLOW, "node02: slow"),
    )
    found = {row.name: row for row in nodes.rows(case)}
    assert found["node02"].reasons[0] == "slow"
    pair = next(row for row in found.values() if "node03" in row.name and row.kind != "node")
    assert (pair.verdict, pair.reasons) == ("FAIL", ("node02 did not meet node03",))


def test_a_node_that_failed_explains_a_pair_that_failed():
    case = accused(
        "drift-mtu",
        Accusation(("node02", "node03"), "failed", "node02 did not meet node03"),
        Accusation(("node02",), "failed", "node02: no value from any pair"),
    )
    assert not any(row.kind != "node" for row in nodes.rows(case))
