"""``assay report``: counts, closing lines and exit codes, for each reason that makes a run red."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from report_results import BTIO, HEALTH, HPCC, HPL, LOADS

from assay import cli


def report(capsys, *arguments):
    """Exit code, lines on stdout, text on stderr."""
    code = cli.main(["report", *map(str, arguments)])
    said = capsys.readouterr()
    return code, said.out.splitlines(), said.err


def test_a_run_in_which_all_passed_is_green(results, capsys):
    results.only(HPCC, HEALTH, BTIO)
    code, lines, err = report(capsys)
    assert (code, err) == (0, "")
    page = results.directory / "report.html"
    assert page.is_file()
    assert lines[-1] == f"report: {page}"
    assert "verdict: PASS" in lines
    assert any(
        "2 of 3 cases ran: 1 PASS, 0 FAIL, 0 INCONCLUSIVE, 1 RECORDED (measured, not judged);"
        " 1 not run" in line
        for line in lines
    )


def test_a_failed_case_is_red_and_named_with_its_cause(results, capsys):
    results.only(HPCC, LOADS)
    code, lines, _ = report(capsys)
    assert code == 1
    cause = json.loads(results.record(LOADS).read_text())["problems"][0]
    assert any(
        line.startswith(f"FAIL SuiteLoads @local:intra-node+system: {cause}") for line in lines
    )
    assert "verdict: FAIL: 1 case failed" in lines


def test_each_reason_for_not_running_is_told_once(results, capsys):
    results.only(HPCC, BTIO, HPL)
    _, lines, _ = report(capsys)
    told = [line for line in lines if line.startswith("not run: ")]
    assert len(told) == 2
    assert told[0].startswith("not run: this stack has no btio")
    assert told[1].startswith("not run: this stack has no hpl")


@pytest.mark.parametrize(
    ("names", "said"),
    [([], "no test was selected"), ([BTIO, HPL], "no test ran")],
    ids=["no case", "only skipped cases"],
)
def test_a_run_of_nothing_is_red(results, capsys, names, said):
    results.only(*names)
    code, lines, _ = report(capsys)
    assert code == 1
    assert f"verdict: FAIL: {said}" in lines


def undecided(results):
    def change(record):
        record["verdict"] = "INCONCLUSIVE"
        record["metrics"]["hpl_per_dgemm"].update(verdict="INCONCLUSIVE", why="straddles")

    results.edit_record(HPCC, change)


@pytest.mark.parametrize(
    ("spoil", "first", "verdict"),
    [
        (
            lambda results: results.record(HPCC).unlink(),
            "no evidence: the test left no assay.json",
            "FAIL: 1 case failed",
        ),
        (
            undecided,
            "INCONCLUSIVE Hpcc @local:intra-node+system: hpl_per_dgemm: straddles",
            "INCONCLUSIVE: 1 case could not be decided",
        ),
        (lambda results: results.first(result="abort"), "", "INTERRUPTED: 1 of 2 finished"),
    ],
    ids=["no evidence", "undecided", "aborted"],
)
def test_a_case_that_does_not_pass_makes_the_run_red(results, capsys, spoil, first, verdict):
    results.only(HPCC, HEALTH)
    spoil(results)
    code, lines, _ = report(capsys)
    assert code == (1 if verdict.startswith("FAIL") else 3)
    assert lines[0].endswith(first)
    assert f"verdict: {verdict}" in lines


BUSY = "other work took 1.8 of 2 cores"


def busy(record):
    why = f"the machine was busy: {BUSY}; hpl_per_dgemm: 0.01 is below the lower bound 0.07"
    record.update(verdict="INCONCLUSIVE", problems=[why], busy=BUSY)
    record["metrics"]["hpl_per_dgemm"].update(verdict="INCONCLUSIVE", why="0.01 is below")


def test_a_busy_machine_is_named_and_red(results, capsys):
    results.only(HPCC, HEALTH)
    results.edit_record(HPCC, busy)
    code, lines, _ = report(capsys)
    assert code == 3
    assert lines[0].startswith(
        "INCONCLUSIVE Hpcc @local:intra-node+system: the machine was busy: other work took 1.8 of 2"
    )
    said = f"the machine was busy: {BUSY}; 1 case could not be decided"
    assert f"verdict: INCONCLUSIVE: {said}" in lines
    page = (results.directory / "report.html").read_text()
    assert f"<strong>{said.capitalize()}.</strong>" in page
    assert "<title>INCONCLUSIVE: local" in page


def test_beside_a_failure_a_busy_machine_excuses_nothing(results, capsys):
    results.only(HPCC, HEALTH)
    results.edit_record(HPCC, busy)
    results.record(HEALTH).unlink()
    code, lines, _ = report(capsys)
    assert code == 1
    assert (
        f"verdict: FAIL: 1 case failed; the machine was busy: {BUSY}; 1 case could not be decided"
    ) in lines


def test_another_session_and_another_place(results, capsys, tmp_path):
    results.only(HPCC)
    other = results.file.with_name("run-report-7.json")
    other.write_text("torn")
    page = tmp_path / "page.html"
    code, lines, _ = report(capsys, "--session", results.file, "--output", page)
    assert code == 0
    assert lines[-1] == f"report: {page}"
    assert "Hpcc" in page.read_text()


@pytest.mark.parametrize(
    ("spoil", "named"),
    [(lambda file: file.write_text("{"), "run-report-0.json"), (Path.unlink, "")],
    ids=["broken", "missing"],
)
def test_nothing_to_report_on_is_one_line_and_exit_code_2(results, capsys, spoil, named):
    spoil(results.file)
    code, lines, err = report(capsys)
    assert (code, lines) == (2, [])
    named = results.directory / "reports" / named
    assert err.startswith(f"assay report: {named}: ")
    assert err.count("\n") == 1
    assert not (results.directory / "report.html").exists()


@pytest.mark.parametrize(
    "place", ["reports", "nowhere/report.html", "reframe.log/report.html", "x" * 300]
)
def test_an_unwritable_place_is_one_line_and_leaves_nothing(results, capsys, place):
    results.only(HPCC)
    before = sorted(results.directory.rglob("*"))
    code, lines, err = report(capsys, "--output", results.directory / place)
    assert (code, lines) == (2, [])
    assert err.startswith(f"assay report: {results.directory / place}: cannot be written")
    assert "--output FILE" in err
    assert err.count("\n") == 1
    assert sorted(results.directory.rglob("*")) == before


def test_a_full_disk_leaves_the_old_report_whole(results, capsys, monkeypatch):
    results.only(HPCC)
    page = results.directory / "report.html"
    page.write_text("the run before")
    before = sorted(results.directory.iterdir())

    def full(self, text):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile._TemporaryFileWrapper.write", full, raising=False)
    code, _, err = report(capsys)
    assert code == 2
    assert "No space left on device" in err
    assert page.read_text() == "the run before"
    assert sorted(results.directory.iterdir()) == before


def test_others_may_read_the_page(results, capsys):
    results.only(HPCC)
    report(capsys)
    page, plain = results.directory / "report.html", results.directory / "plain"
    plain.touch()
    assert page.stat().st_mode == plain.stat().st_mode
