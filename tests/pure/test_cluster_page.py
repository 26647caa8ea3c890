"""The page of the cluster's faults agrees with the runs, and counts as a reader would."""

import cluster_page
import pytest


def run(verdicts, reasons=(), kind="link rate", severity="-10 %", seconds=40.0):
    return {
        "kind": kind,
        "severity": severity,
        "number": 0,
        "seconds": seconds,
        "returncode": int(bool(reasons)),
        "verdicts": verdicts,
        "reasons": dict(reasons),
    }


PASSED = {"Tournament %transport=tcp @inter-node": "pass", "Census @inter-node": "pass"}
CAUGHT = run(
    {**PASSED, "Tournament %transport=tcp @inter-node": "fail"},
    {"Tournament %transport=tcp @inter-node": "sanity error: node02: bandwidth 107 MB/s; more"},
)
UNSURE = run(
    {**PASSED, "Tournament %transport=tcp @inter-node": "fail"},
    {"Tournament %transport=tcp @inter-node": "performance error: bandwidth: INCONCLUSIVE: noise"},
)


def test_a_test_is_its_worst_case_and_inconclusive_is_no_failure():
    assert cluster_page.verdicts(CAUGHT) == {"Tournament": "FAIL", "Census": "PASS"}
    assert cluster_page.verdicts(UNSURE)["Tournament"] == "INCONCLUSIVE"
    skipped = run({"Census @shared": "skip", "Census @inter-node": "pass"})
    assert cluster_page.verdicts(skipped) == {"Census": "PASS"}


def test_a_row_counts_the_runs_that_were_caught_and_that_named_the_node():
    other = run(CAUGHT["verdicts"], {"Tournament %transport=tcp @inter-node": "sanity error: slow"})
    (line,) = cluster_page.table(cluster_page.groups([CAUGHT, other, UNSURE]))[2:]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[:6] == ["link rate", "-10 %", "2 of 3", "Tournament 2", "1 of 3", "40 s"]
    assert cells[6] == "`node02: bandwidth 107 MB/s`"


def test_what_a_fault_cannot_have_done_does_not_count_as_caught():
    disk = {"EachNode @scratch": "sanity error: node02: read 1 KiB/s"}
    blind = run({**PASSED, "EachNode @scratch": "fail"}, disk)
    assert cluster_page.verdicts(blind)["EachNode"] == "DISTURBED"
    assert not cluster_page.names_it(blind) and cluster_page.message(blind) == ""
    (line,) = cluster_page.table(cluster_page.groups([blind]))[2:]
    assert "0 of 1 | **none**; disturbed: EachNode 1 |" in line

    other = {"EachNode @scratch": "sanity error: node04: read 1 KiB/s"}
    wrong = run({"EachNode @scratch": "fail"}, other, kind="slow disk")
    assert cluster_page.verdicts(wrong)["EachNode"] == "DISTURBED"
    right = run({"EachNode @scratch": "fail"}, disk, kind="slow disk")
    assert cluster_page.verdicts(right)["EachNode"] == "FAIL"
    # In a healthy run, every failure counts.
    alarm = run({"EachNode @scratch": "fail"}, other, kind="healthy")
    assert cluster_page.verdicts(alarm)["EachNode"] == "FAIL"


def test_a_fault_that_nothing_catches_is_said_so():
    (line,) = cluster_page.table(cluster_page.groups([run(PASSED)]))[2:]
    assert "**none**" in line and "0 of 1" in line


def test_false_alarms_of_healthy_runs_are_counted_and_named():
    healthy = [run(PASSED, kind="healthy"), CAUGHT | {"kind": "healthy"}, UNSURE]
    lines = cluster_page.healthy_lines(healthy)
    assert "3 runs" in lines[0] and "6 cases" in lines[0]
    assert "1 FAIL (16.7 % of the cases), 1 INCONCLUSIVE (16.7 %)" in lines[0]
    assert lines[2].startswith("- false alarm of Tournament")


@pytest.mark.skipif(not cluster_page.RUNS.exists(), reason="make faults has not been run yet")
def test_the_page_is_that_of_the_runs():
    page = cluster_page.PAGE.read_text()
    assert page == cluster_page.replaced(page, cluster_page.document(cluster_page.load())), (
        "docs/sensitivity.md is old: python tests/clusters/cluster_matrix.py --page"
    )
