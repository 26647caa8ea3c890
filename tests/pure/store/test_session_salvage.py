"""A run without its run report: the measurements of its finished cases are still reported."""

import argparse
import json
import shutil

import pytest

from assay.judge import Verdict
from assay.show import report, summary
from assay.store import session


def folder(results):
    (made,) = (results.directory / "output").glob("*")
    return made


def test_every_finished_case_is_there_as_the_run_report_had_it(results):
    whole = {(c.display_name, c.where): c for c in session.load_session(results.file).cases}
    ended = {key: c.verdict for key, c in whole.items() if c.metrics or c.problems}
    results.file.unlink()
    salvaged = {(c.display_name, c.where): c for c in session.load_session(folder(results)).cases}
    assert {key: case.verdict for key, case in salvaged.items() if key in ended} == ended
    for key, case in salvaged.items():
        assert case.metrics == whole[key].metrics


def test_it_is_red_and_says_why(results):
    results.file.unlink()
    run = session.load_session(folder(results))
    assert (
        "the run report is lost: what was not finished is not here" in summary.outcome(run).faults
    )


def test_a_torn_run_report_leads_to_them(results, capsys):
    results.file.write_text("")
    names = ("session", "output", "figures", "junit", "metrics")
    arguments = argparse.Namespace(**dict.fromkeys(names), study=[])
    assert report.report_command(arguments) == 2
    said = capsys.readouterr().err
    assert f"assay report --session {folder(results)}" in said
    arguments.session = folder(results)
    assert report.report_command(arguments) == 1
    assert "the run report is lost" in (results.directory / "report.html").read_text().lower()


def test_a_record_that_was_cut_short_is_a_failed_case(results):
    results.file.unlink()
    (first, *_) = sorted(folder(results).rglob("assay.json"))
    first.write_text(first.read_text()[:100])
    bad = [c for c in session.load_session(folder(results)).cases if "not JSON" in c.why]
    assert [case.verdict for case in bad] == [Verdict.FAIL]


def test_a_case_that_was_not_at_its_end_is_left_out(results):
    results.file.unlink()
    before = session.load_session(folder(results)).cases
    source = next(folder(results).rglob("assay.json"))
    half = results.directory / "stage" / folder(results).name / "half"
    half.mkdir(parents=True)
    shutil.copy(source, half)
    assert len(session.load_session(folder(results)).cases) == len(before)
    record = {**json.loads(source.read_text()), "unique_name": "Half"}
    (half / "assay.json").write_text(json.dumps({**record, "verdict": "FAIL", "problems": ["it"]}))
    after = session.load_session(folder(results)).cases
    assert len(after) == len(before) + 1
    assert "it" in [case.why for case in after]


def test_a_folder_whose_run_report_is_there_is_read_by_it(results):
    assert session.load_session(folder(results)) == session.load_session(results.file)


def test_a_folder_without_records_is_refused(tmp_path):
    with pytest.raises(session.ReportError, match=r"no assay\.json below it; name a run report"):
        session.load_session(tmp_path)
