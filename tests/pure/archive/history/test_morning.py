"""``assay`` alone: changes, proofs, what is overdue, drains, and the command that measures."""

import time
from pathlib import Path

import histories
import pytest
from msgspec import structs

from assay import cli
from assay.accused import Accusation
from assay.archive.history import morning
from assay.exits import Exit
from assay.judge import Verdict
from assay.show import nodes

TODAY = int(time.time() // histories.DAY)


def bad(node, test="Made", verdict=Verdict.FAIL):
    said = (Accusation((node,), "slower than the others", f"{node}: slow"),)
    case = histories.case(5.0, node, test, verdict=verdict)
    return structs.replace(case, accused=said, problems=(said[0].problem,))


@pytest.fixture
def alone(tmp_path, monkeypatch, capsys):
    """Runs `assay` on a history of made sessions, and returns its exit code and its lines."""

    def run(*sessions, days=30):
        plan = structs.replace(sessions[-1]).plan
        plan = type(plan)(1, "", "", (), (), {"proven_within_days": days})
        last = structs.replace(sessions[-1], plan=plan)
        monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path))
        # Each made test proves all that a node has.
        monkeypatch.setattr(nodes, "PARTS", {"part": ("rate",)})
        histories.write(tmp_path, sessions)
        monkeypatch.setattr(morning.session, "newest", lambda _: Path())
        monkeypatch.setattr(morning.session, "load_session", lambda _: last)
        code = cli.main([])
        return code, capsys.readouterr().out.splitlines()

    return run


def days_ago(days, *cases):
    return histories.session(TODAY - days, *cases)


def two(value=10.0):
    return histories.case(value, "n1"), histories.case(10.0, "n2")


def test_a_healthy_site_is_one_table_and_nothing_to_do(alone):
    code, lines = alone(days_ago(2, *two()), days_ago(1, *two(10.1)))
    assert code == Exit.PASS
    assert lines[0] == "made: verdict: PASS"
    assert lines[1].endswith(": none")
    assert [line.split(" | ")[::2] for line in lines[-2:]] == [["n1", "Made"], ["n2", "Made"]]


def test_a_change_has_node_metric_from_and_to_since_the_last_accepted_run(alone):
    part = structs.replace(days_ago(2, *two(9.0)), partial=("by -n",))
    code, lines = alone(days_ago(3, *two()), part, days_ago(1, *two(8.0)))
    assert lines[1].startswith("changes since the last accepted run, ")
    assert lines[2:4] == ["n1 | Made @net+mpi | bandwidth | 10 GB/s -> 8 GB/s (-20.0 %)", ""]
    assert code == Exit.PASS, "what is within its bounds is no fault"


def test_without_an_accepted_run_the_last_whole_one_is_named_as_such(alone):
    _, lines = alone(days_ago(3, *two(), bad("n3", "Other")), days_ago(1, *two(8.0)))
    assert lines[1].startswith("changes since the last whole run (none was accepted), ")
    assert "10 GB/s -> 8 GB/s" in lines[2]


def test_a_value_that_is_lost_is_a_change(alone):
    _, lines = alone(days_ago(2, *two()), days_ago(1, *two(None)))
    assert lines[2] == "n1 | Made @net+mpi | bandwidth | 10 GB/s -> no value"


def test_what_is_overdue_is_named_with_the_command_that_measures_exactly_that(alone):
    recent = histories.case(10.0, "n2")
    code, lines = alone(days_ago(9, *two()), days_ago(1, recent), days=7)
    assert code == Exit.PARTIAL
    assert next(line for line in lines if "not proven within 7 days" in line).startswith("n1 | ")
    args = "-n '^Made' --distribute=all -J nodelist=n1"
    assert lines[-1] == f'make acceptance SITE=made REFRAME_ARGS="{args}"'


def test_an_accused_node_is_drained_with_its_evidence_until_the_same_test_passes(alone):
    found = days_ago(3, histories.case(10.0, "n1"), bad("n2", "Slow"))
    other = days_ago(2, histories.case(10.0, "n2", "Other"))
    code, lines = alone(found, other)
    assert code == Exit.FAIL
    assert "scontrol update nodename=n2 state=drain 'reason=assay: slow'" in lines
    args = "-n '^Other|^Slow' --distribute=all -J nodelist=n2"
    assert lines[-1] == f'make acceptance SITE=made REFRAME_ARGS="{args}"'
    code, lines = alone(days_ago(1, histories.case(10.0, "n2", "Slow")))
    assert code == Exit.PASS
    assert "scontrol" not in str(lines)


def test_an_undecided_node_is_neither_well_nor_drained(alone):
    code, lines = alone(days_ago(1, *two(), bad("n3", verdict=Verdict.INCONCLUSIVE)))
    assert code == Exit.INCONCLUSIVE
    assert "scontrol" not in str(lines)


def test_a_name_that_a_shell_would_read_is_in_no_command(alone):
    code, lines = alone(days_ago(9, *two(), histories.case(10.0, "$(reboot)")), days=7)
    assert code == Exit.PARTIAL
    assert "reboot" not in lines[-1]
    assert lines[-1].endswith('-J nodelist=n1,n2"')
