"""A run split over jobs: every promised case is present, or it is a FAIL that names its job."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report_results import DATA
from shell import module

from assay.judge import Verdict
from assay.show import summary
from assay.store import session
from assay.store.session import ReportError

pipeline = module("ci/gitlab/gather.py")
WHOLE = session.load_session(DATA / "reports" / "run-report-0.json")
COUNTS = summary.Counts.of(WHOLE.cases)


class Run:
    """The files of two jobs: the recorded session, with one part of the cases for each job."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        entries = json.loads((DATA / "reports" / "run-report-0.json").read_text())
        cases = entries["runs"][0]["testcases"]
        self.parts = {"first": cases[: len(cases) // 2], "second": cases[len(cases) // 2 :]}
        for name, part in self.parts.items():
            there = folder / "jobs" / name / "1"
            shutil.copytree(DATA, there)
            entries["runs"][0]["testcases"] = part
            (there / "reports" / "run-report-0.json").write_text(json.dumps(entries))
        self.promise: dict[str, Any] = {
            "schema": 1,
            "node_hours": None,
            "jobs": [
                {"folder": name, "title": f"{name} job", "cases": [_case(e) for e in part]}
                for name, part in self.parts.items()
            ],
        }
        self.write()

    def write(self) -> None:
        (self.folder / "promise.json").write_text(json.dumps(self.promise))

    def red(self) -> list[str]:
        return list(summary.outcome(pipeline.gather(self.folder)).faults)

    def said(self, capsys: pytest.CaptureFixture[str], code: int) -> str:
        page = self.folder / "page.html"
        assert pipeline.main([str(self.folder), str(page)]) == code
        captured = capsys.readouterr()
        return captured.out + captured.err


def _case(entry: dict[str, Any]) -> dict[str, str]:
    where = f"{entry['system']}:{entry['partition']}+{entry['environ']}"
    return {"name": entry["display_name"], "where": where}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_all_jobs_together_are_the_run_that_was_split(run: Run) -> None:
    gathered = pipeline.gather(run.folder)
    assert summary.Counts.of(gathered.cases) == COUNTS
    assert {(c.display_name, c.where) for c in gathered.cases} == {
        (c.display_name, c.where) for c in WHOLE.cases
    }
    assert gathered.start == WHOLE.start
    assert gathered.host == WHOLE.host


def test_a_job_that_left_nothing_is_named_for_each_of_its_cases(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(run.folder / "jobs" / "second")
    said = run.said(capsys, 1).splitlines()
    for entry in run.parts["second"]:
        case = _case(entry)
        assert (
            f"FAIL {case['name']} @{case['where']}: missing: the job 'second job' left no run "
            "report: it did not run, or was lost"
        ) in said
    lost, promised = len(run.parts["second"]), len(WHOLE.cases)
    first = [tuple(_case(entry).values()) for entry in run.parts["first"]]
    there = [case for case in WHOLE.cases if (case.display_name, case.where) in first]
    ran = sum(case.verdict is not None for case in there)
    (counts,) = [line for line in said if line.startswith("promise of ")]
    assert f": {ran} of {promised} cases ran: " in counts
    assert counts.endswith(f", {lost} missing")
    assert said[-2].startswith(f"verdict: FAIL: {lost} of {promised} promised cases are missing; ")
    failed = sum(case.verdict is Verdict.FAIL for case in there)
    assert f"; {failed} case" in said[-2]
    assert f"<b>{lost}</b> missing" in re.sub(r"\s+", " ", (run.folder / "page.html").read_text())


def test_a_case_that_its_job_did_not_run_is_missing(run: Run) -> None:
    run.promise["jobs"][0]["cases"].append({"name": "Hpl", "where": "local:x+system"})
    run.write()
    (missing,) = (c for c in pipeline.gather(run.folder).cases if c.partition == "x")
    assert (missing.system, missing.environ, missing.test) == ("local", "system", "Hpl")
    assert missing.verdict is Verdict.FAIL
    assert missing.why == "missing: the job 'first job' did not run it"


def test_a_torn_report_is_no_report(run: Run) -> None:
    torn = run.folder / "jobs" / "first" / "1" / "reports" / "run-report-0.json"
    torn.write_text('{"runs": [')
    why = [c.why for c in pipeline.gather(run.folder).cases if c.why.startswith("missing")]
    assert len(why) == len(run.parts["first"])
    assert all("left a run report that cannot be read" in each for each in why)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda first: (first / "reports/run-report-0.json").write_text("{"), "cannot be read"),
        (lambda first: shutil.rmtree(first / "reports"), "left no run report"),
        (lambda first: first.rename(first.with_name("1.part")), "left no run report"),
        (
            lambda first: (first / "cancelled").write_text("SIGTERM\n"),
            "was cancelled: what it left",
        ),
    ],
    ids=["torn", "empty", "its runner died", "cancelled"],
)
def test_a_lost_attempt_is_a_fault_though_the_next_one_passed(
    run: Run, spoil: Callable[[Path], object], said: str
) -> None:
    again = run.folder / "jobs" / "first" / "2"
    shutil.copytree(again.with_name("1"), again)
    spoil(again.with_name("1"))
    gathered = pipeline.gather(run.folder)
    assert not [case for case in gathered.cases if case.why.startswith("missing")]
    (fault,) = gathered.faults
    assert fault.startswith("job 'first job', attempt 1: ")
    assert said in fault


def test_a_job_started_again_cannot_take_back_a_failure(run: Run) -> None:
    again = run.folder / "jobs" / "first" / "2"
    shutil.copytree(again.with_name("1"), again)
    first = again.with_name("1") / "reports" / "run-report-0.json"
    report = json.loads(first.read_text())
    good = next(
        case for case in WHOLE.cases if case.verdict is Verdict.RECORDED and case.parsed.rows
    )
    (entry,) = (
        entry
        for entry in report["runs"][0]["testcases"]
        if _case(entry) == {"name": good.display_name, "where": good.where}
    )
    entry.update(result="fail", fail_reason="sanity error: the link is slow", outputdir=None)
    first.write_text(json.dumps(report))
    (case,) = (
        case
        for case in pipeline.gather(run.folder).cases
        if (case.display_name, case.where) == (good.display_name, good.where)
    )
    assert case.verdict is Verdict.INCONCLUSIVE
    assert case.why == "failed in attempt 1 of 2 (the link is slow), then passed"


def test_a_copy_is_read_where_it_lies(run: Run) -> None:
    """The paths in a run report are paths in the checkout of the job."""
    outputs = [file for case in pipeline.gather(run.folder).cases for file in case.outputs]
    assert outputs
    assert all(run.folder in file.parents for file in outputs)


def test_node_hours_above_the_budget_are_a_fault(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    used = pipeline.node_hours(list(WHOLE.attempts))
    assert used * 3600 >= sum(case.seconds.benchmark for case in WHOLE.attempts) > 0
    run.promise["node_hours"] = used * 1.01
    run.write()
    assert not any("node-hours" in fault for fault in run.red())
    run.promise["node_hours"] = used / 2
    run.write()
    assert "node-hours are above the budget of" in run.said(capsys, 1).splitlines()[-2]


def test_time_above_the_budget_is_a_fault(run: Run) -> None:
    run.promise["minutes"] = WHOLE.elapsed / 60 * 1.01
    run.write()
    assert not any("minutes" in fault for fault in run.red())
    run.promise["minutes"] = WHOLE.elapsed / 60 / 2
    run.write()
    assert any("minutes are above the budget of" in fault for fault in run.red())


def test_results_of_another_pipeline_or_of_last_year_are_no_evidence(run: Run) -> None:
    run.promise["extras"] = {"pipeline": "77"}
    run.promise["planned"] = "20270101T000000+0000"
    run.write()
    said = pipeline.gather(run.folder).faults
    assert "job 'first job': its results are of pipeline None, not 77" in said
    assert any("are older than the plan" in fault for fault in said)
    report = run.folder / "jobs/first/1/reports/run-report-0.json"
    session_of_job = json.loads(report.read_text())
    session_of_job["session_info"]["pipeline"] = "77"
    report.write_text(json.dumps(session_of_job))
    assert not any(
        "'first job': its results are of" in f for f in pipeline.gather(run.folder).faults
    )


def test_a_job_that_was_not_planned_is_a_fault(run: Run) -> None:
    shutil.copytree(run.folder / "jobs" / "second", run.folder / "jobs" / "third")
    assert pipeline.gather(run.folder).faults == (
        "the job of 'third' left results, and no such job was planned",
    )


def test_what_the_site_promises_and_the_plan_lacks_is_a_fault(run: Run) -> None:
    run.promise["site"] = {"faults": ["1 of 9 promised cases are missing: Hpl"], "promised": 9}
    run.write()
    gathered = pipeline.gather(run.folder)
    assert gathered.faults == ("1 of 9 promised cases are missing: Hpl",)
    assert gathered.promised == 9
    run.promise["site"] = {"narrowed": ["-t node"], "there": 8, "promised": 9, "faults": []}
    run.write()
    assert pipeline.gather(run.folder).partial == ("8 of 9 promised cases selected by -t node",)


def test_a_setting_that_one_job_saw_makes_the_pipeline_partial(run: Run) -> None:
    (path, *_) = sorted((run.folder / "jobs").glob("**/assay.json"))
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "doubts": ["MALLOC_ARENA_MAX=1 was set"]}))
    assert pipeline.gather(run.folder).partial == ("MALLOC_ARENA_MAX=1 was set",)


def test_a_skip_without_leave_is_a_fault_of_the_pipeline(run: Run) -> None:
    run.promise["site"] = {"may_skip": {}, "faults": []}
    run.write()
    skipped = sum(case.verdict is None for case in WHOLE.cases)
    faults = [fault for fault in run.red() if fault.startswith("skip not allowed: ")]
    assert skipped
    assert faults


def test_a_part_that_cannot_run_on_this_machine_makes_the_pipeline_partial(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "1 skipped: incomplete: 2 ranks are needed"
    monkeypatch.setattr(pipeline, "unlisted", lambda *_: ([], [why]))
    assert why in pipeline.gather(run.folder).partial


def test_a_lost_case_is_missing_in_its_own_figure(run: Run) -> None:
    figure = {"kind": "curve", "name": "GPUs: latency", "at": "", "column": ""}
    lost = {"name": "OsuGpu %benchmark=latency", "where": "local:x+system", "figures": [figure]}
    run.promise["jobs"][0]["cases"].append(lost)
    run.write()
    (missing,) = (c for c in pipeline.gather(run.folder).cases if c.partition == "x")
    assert [one.name for one in missing.figures] == ["GPUs: latency"]


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (None, "No such file or directory: no case was planned, so none ran"),
        ("{", "not a promise of schema 1"),
        ('{"schema": 2, "jobs": []}', "not a promise of schema 1"),
        ('{"schema": 1, "jobs": [{}]}', "not a promise of schema 1"),
        ('{"schema": 1, "jobs": []}', "promises no case"),
    ],
)
def test_without_a_promise_there_is_no_verdict(
    tmp_path: Path, content: str | None, cause: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / "promise.json").write_text(content)
    with pytest.raises(ReportError, match=cause):
        pipeline.gather(tmp_path)
    assert pipeline.main([str(tmp_path), str(tmp_path / "page.html")]) == 2
    captured = capsys.readouterr()
    assert len(captured.err.splitlines()) == 1
    assert not captured.out
