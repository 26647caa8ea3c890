"""`assay nodes`: verdicts, drains and exit codes, from recorded sessions and simulated accusations.

tests/data/faults has sessions of the emulated cluster, each with one fault in node02.
"""

from __future__ import annotations

import dataclasses
import json

import pytest
from report_results import DATA

from assay import cli
from assay.judge import Verdict
from assay.show import nodes
from assay.store import session
from assay.store.cases import Accusation

FAULTS = DATA.parents[1] / "faults"
SLOW = "slower than the others"


def run(name):
    return session.load(FAULTS / name / "reports" / "run-report-0.json")


def accused(name, *accusations, verdict=Verdict.FAIL):
    """The cases of a session; its first case that ran accuses nothing but these."""
    cases = list(run(name).cases)
    first = next(k for k, case in enumerate(cases) if case.hosts)
    said = tuple(one.problem for one in accusations)
    cases[first] = dataclasses.replace(
        cases[first], verdict=verdict, accused=accusations, problems=said, metrics=()
    )
    return [cases[first]]


def verdicts(rows):
    return {row.name: (row.kind, row.verdict) for row in rows}


@pytest.mark.parametrize("name", ["drift-mtu", "disk-full", "memory", "node-drained"])
def test_the_faulty_node_fails(name):
    found = nodes.rows(run(name).cases)
    assert verdicts(found)["node02"] == ("node", "FAIL")
    assert {f"node0{k}" for k in range(1, 5)} <= {row.name for row in found}


def test_nodes_of_a_case_that_accuses_only_others_pass():
    found = verdicts(nodes.rows(run("drift-mtu").cases))
    assert [found[f"node0{k}"][1] for k in (1, 3, 4)] == ["PASS"] * 3


def test_a_failed_case_with_another_problem_acquits_nobody():
    (case,) = accused("drift-mtu", Accusation(("node02",), SLOW, "node02: slow"))
    case = dataclasses.replace(case, problems=("node02: slow", "no output"))
    found = nodes.rows([case])
    assert verdicts(found)["node01"] == ("node", "not judged")
    assert "took part in failed cases" in next(r for r in found if r.name == "node01").reasons[0]


def test_a_switch_is_a_device_and_a_trunk_and_a_pair_are_cables():
    cases = accused(
        "drift-mtu",
        Accusation((), SLOW, "switch s1: bandwidth 50 MB/s", "switch s1"),
        Accusation((), SLOW, "trunk s1 - s2: bandwidth 50 MB/s", "trunk s1 - s2"),
        Accusation(("node01", "node04"), SLOW, "node01 - node04: bandwidth 50 MB/s"),
    )
    found = nodes.rows(cases)
    assert verdicts(found) == {
        "switch s1": ("device", "FAIL"),
        "trunk s1 - s2": ("cable", "FAIL"),
        "node01 - node04": ("cable", "FAIL"),
        **{f"node0{k}": ("node", "PASS") for k in (2, 3)},
        **{f"node0{k}": ("node", "not judged") for k in (1, 4)},
    }
    assert nodes.drains(found) == []


def test_a_drain_names_the_node_and_the_reason_and_is_safe_in_a_shell():
    problem = "node02: it's slow; $(reboot)\N{EN DASH}\N{SNOWMAN}" + "x" * 200
    (line,) = nodes.drains(nodes.rows(accused("drift-mtu", Accusation(("node02",), SLOW, problem))))
    assert line.startswith("scontrol update nodename=node02 state=drain 'reason=assay: it'\"'\"'s")
    assert line.isascii()
    assert "..." in line
    assert len(line) < 200


def test_a_node_that_is_drained_already_is_not_drained_again():
    found = nodes.rows(run("node-drained").cases)
    assert nodes.drains(found) == []
    assert nodes.drains(nodes.rows(run("drift-mtu").cases)) != []


def test_an_undecided_case_drains_nothing():
    one = Accusation(("node02",), SLOW, "node02: slow")
    found = nodes.rows(accused("drift-mtu", one, verdict=Verdict.INCONCLUSIVE))
    assert verdicts(found)["node02"] == ("node", "INCONCLUSIVE")
    assert nodes.drains(found) == []
    assert nodes.repeats(run("drift-mtu"), found) == [
        "make acceptance SITE=vcluster REFRAME_ARGS=\"-n '^Census'\""
    ]


def test_a_name_that_is_no_test_does_not_enter_a_command():
    (case,) = accused("drift-mtu", Accusation(("node02",), SLOW, "node02: slow"))
    found = nodes.rows([dataclasses.replace(case, test="x'; reboot #")])
    assert nodes.repeats(run("drift-mtu"), found) == []


def call(capsys, *words):
    code = cli.main(["nodes", *map(str, words)])
    return code, capsys.readouterr()


def test_exit_codes(capsys, tmp_path, monkeypatch, results):
    # A case of this session failed, and accuses nobody.
    assert call(capsys, "--session", DATA / "reports/run-report-0.json")[0] == 1
    results.only("Hpcc@intra-node")
    assert call(capsys, "--session", results.file)[0] == 0
    code, said = call(capsys, "--session", FAULTS / "drift-mtu/reports/run-report-0.json")
    assert code == 1
    assert "To drain the failed nodes (not executed):\nscontrol update nodename=node02" in said.out
    assert "To confirm, run these tests again:\nmake acceptance" in said.out
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path))
    code, said = call(capsys)
    assert (code, said.out) == (2, "")
    assert said.err.startswith("assay nodes: ")
    assert said.err.count("\n") == 1


def test_json_has_the_failures_and_the_commands(capsys):
    code, said = call(capsys, "--json", "--session", FAULTS / "drift-mtu/reports/run-report-0.json")
    found = json.loads(said.out)
    assert (code, found["failures"]) == (1, ["node02"])
    assert found["rows"][0]["name"] == "node02"
    assert found["drain"][0].startswith("scontrol update nodename=node02 state=drain")
    assert len(found["again"]) == 1


def test_a_node_that_is_slow_does_not_explain_a_pair_that_failed():
    case = accused(
        "drift-mtu",
        Accusation(("node02", "node03"), "failed", "node02 did not meet node03"),
        Accusation(("node02",), SLOW, "node02: slow"),
    )
    found = {row.name: row for row in nodes.rows(case)}
    assert found["node02"].reasons == ("slow",)
    pair = next(row for row in found.values() if "node03" in row.name and row.kind != "node")
    assert (pair.verdict, pair.reasons) == ("FAIL", ("node02 did not meet node03",))


def test_a_node_that_failed_explains_a_pair_that_failed():
    case = accused(
        "drift-mtu",
        Accusation(("node02", "node03"), "failed", "node02 did not meet node03"),
        Accusation(("node02",), "failed", "node02: no value from any pair"),
    )
    assert not any(row.kind != "node" for row in nodes.rows(case))
