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
    (cells,) = cluster_page.table(cluster_page.groups([CAUGHT, other, UNSURE]))
    assert cells[:6] == ["link rate", "-10 %", "2 of 3", "Tournament 2", "1 of 3", "40 s"]
    assert cells[6] == "`node02: bandwidth 107 MB/s`"


def test_what_a_fault_cannot_have_done_does_not_count_as_caught():
    disk = {"EachNode @scratch": "sanity error: node02: read 1 KiB/s"}
    blind = run({**PASSED, "EachNode @scratch": "fail"}, disk)
    assert cluster_page.verdicts(blind)["EachNode"] == "DISTURBED"
    assert not cluster_page.names_it(blind) and cluster_page.message(blind) == ""
    (cells,) = cluster_page.table(cluster_page.groups([blind]))
    assert cells[2:4] == ["0 of 1", "**none**; disturbed: EachNode 1"]

    other = {"EachNode @scratch": "sanity error: node04: read 1 KiB/s"}
    wrong = run({"EachNode @scratch": "fail"}, other, kind="slow disk")
    assert cluster_page.verdicts(wrong)["EachNode"] == "DISTURBED"
    right = run({"EachNode @scratch": "fail"}, disk, kind="slow disk")
    assert cluster_page.verdicts(right)["EachNode"] == "FAIL"
    # In a healthy run, every failure counts.
    alarm = run({"EachNode @scratch": "fail"}, other, kind="healthy")
    assert cluster_page.verdicts(alarm)["EachNode"] == "FAIL"


def test_a_fault_that_nothing_catches_is_said_so():
    found = cluster_page.groups([run(PASSED)])
    (cells,) = cluster_page.table(found)
    assert cells[2:4] == ["0 of 1", "**none**"]
    said = "0 of 1 faults were caught in each of their runs; link rate -10 % in 0 of 1."
    assert cluster_page.sums(found) == said
    caught = cluster_page.groups([CAUGHT])
    assert cluster_page.sums(caught) == "1 of 1 faults were caught in each of their runs."


def test_false_alarms_of_healthy_runs_are_counted_and_named():
    healthy = [run(PASSED, kind="healthy"), CAUGHT | {"kind": "healthy"}, UNSURE]
    lines = cluster_page.healthy_lines(healthy)
    assert "3 runs" in lines[0] and "6 cases" in lines[0]
    assert "1 FAIL (16.7 % of the cases), 1 INCONCLUSIVE (16.7 %)" in lines[0]
    assert lines[2].startswith("- false alarm of Tournament")


@pytest.mark.skipif(not cluster_page.RUNS.exists(), reason="the faults have not been run yet")
def test_the_page_is_that_of_the_runs():
    page, runs = cluster_page.PAGE.read_text(), cluster_page.load()
    told = "type python lab/tests/clusters/cluster_matrix.py --page"
    assert page == cluster_page.replaced(page, cluster_page.document(runs)), told
    assert cluster_page.TABLE.read_text() == cluster_page.written(runs), told
