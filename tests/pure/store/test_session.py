"""A run report and its records: what the report accepts, and a case without evidence."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_results import BTIO, DATA, HEALTH, HPCC, LOADS, Results, key

from assay.judge import Verdict
from assay.show.summary import closing_lines, outcome
from assay.show.view import View
from assay.store import cases, run_folder, session
from assay.store.record import CALIBRATION

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


def load_one(results: Results, name: str) -> cases.Case:
    cases = {f"{c.display_name}@{c.partition}": c for c in session.load_session(results.file).cases}
    return cases[name]


def test_the_real_session_is_read_as_its_records_say(results):
    run = session.load_session(results.file)
    assert [case.display_name for case in run.cases] == [
        entry["display_name"] for entry in results.entries()
    ]
    for entry, case in zip(results.entries(), run.cases):
        if entry["result"] == "skip":
            assert case.verdict is None
        else:
            record = json.loads(results.record(key(entry)).read_text())
            assert case.verdict.value == record["verdict"]
            assert [m.name for m in case.metrics] == list(record.get("metrics", {}))
            assert len(case.parsed.rows) == len(record["parsed"]["rows"])
            assert case.seconds.benchmark == record["seconds"]["benchmark"]


def test_a_moved_results_directory_still_has_its_outputs(results):
    case = load_one(results, HPCC)
    assert [path.name for path in case.outputs] == ["rfm_job.out", "rfm_job.err", "assay.json"]
    assert all(path.is_relative_to(results.directory) for path in case.outputs)


def test_outputs_that_reframe_left_in_the_stage_directory_count(results):
    kept = results.record(HPCC).parent
    left = Path(str(kept).replace("/results/output/", "/results/stage/"))
    left.parent.mkdir(parents=True, exist_ok=True)
    kept.rename(left)
    kept.mkdir()
    case = load_one(results, HPCC)
    assert case.verdict is Verdict.PASS
    assert {path.parent for path in case.outputs} == {left}


def test_a_skip_has_the_reason_that_reframe_logged_and_is_told_without_a_log(results):
    case = load_one(results, BTIO)
    assert case.verdict is None
    assert case.why.startswith("this stack has no btio")
    (results.directory / "reframe.log").unlink()
    assert load_one(results, BTIO).why == session.NOT_RUN["skip"]


def test_the_cause_of_a_failure_is_its_first_problem(results):
    problems = json.loads(results.record(LOADS).read_text())["problems"]
    case = load_one(results, LOADS)
    assert case.verdict is Verdict.FAIL
    assert case.why.startswith(problems[0])


def test_a_failure_is_not_told_by_a_problem_that_decides_nothing():
    """A real session: a latency is above its bound, and a point of the curve is only doubtful."""
    faulty = session.load_session(DATA.parents[1] / "faults/delay/reports/run-report-0.json")
    (case,) = (c for c in faulty.cases if c.test == "NetPipe" and c.verdict is Verdict.FAIL)
    assert case.problems[0].startswith("INCONCLUSIVE: ")
    assert case.why == (
        "latency_8B: 202.8 us (range 199.7 to 206.6, n=3) is above the upper bound 184.3 us "
        "(and 1 more)"
    )


def test_a_failure_without_a_record_has_the_reason_of_reframe(results):
    results.record(LOADS).unlink()
    (entry,) = (e for e in results.entries() if key(e) == LOADS)
    case = load_one(results, LOADS)
    assert case.verdict is Verdict.FAIL
    assert case.why
    assert case.why in " ".join(entry["fail_reason"].split())


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda path: path.unlink(), "left no assay.json"),
        (lambda path: path.write_text(path.read_text()[:-20]), "not JSON"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "not JSON"),
        (lambda path: path.write_text("[]"), "not a record of schema 1"),
        (
            lambda path: path.write_text('{"schema": 2, "verdict": "PASS"}'),
            "not a record of schema",
        ),
        (lambda path: path.write_text('{"schema": 1}'), "no verdict"),
        (lambda path: path.write_text('{"schema": 1, "verdict": "GOOD"}'), "no verdict"),
        (
            lambda path: path.write_text('{"schema": 1, "verdict": "PASS", "unique_name": "Osu"}'),
            "belongs to another test case",
        ),
        (lambda path: os.utime(path, (1_000_000_000, 1_000_000_000)), "older than this session"),
        (
            lambda path: path.parent.rename(path.parent.with_name("elsewhere")),
            "its output directory is gone",
        ),
    ],
)
def test_a_pass_without_a_believable_record_is_a_fail(results, spoil, why):
    spoil(results.record(HPCC))
    case = load_one(results, HPCC)
    assert case.verdict is Verdict.FAIL
    assert case.why.startswith("no evidence: ")
    assert why in case.why


@pytest.mark.parametrize(
    ("change", "why"),
    [
        *(({"value": value}, "not a finite number") for value in (math.nan, math.inf, None)),
        *(({"value": value}, "not a finite number") for value in ("12", True)),
        *(({"verdict": word}, word) for word in ("FAIL", "INCONCLUSIVE", "GOOD")),
    ],
)
def test_a_case_is_no_better_than_its_worst_metric(results, change, why):
    results.edit_record(HPCC, lambda r: r["metrics"]["fft"].update(change))
    case = load_one(results, HPCC)
    assert case.verdict is Verdict.FAIL
    assert case.why.startswith("no evidence: assay.json says ")
    assert f", but fft is {why}" in case.why


def test_a_case_that_was_not_judged_beside_other_work_is_no_pass_by_its_other_metrics(results):
    change = {"verdict": "RECORDED", "not_judged": ["fft: 0.1 is below"], "busy": "other work"}
    results.edit_record(HPCC, lambda record: record.update(change))
    case = load_one(results, HPCC)
    assert Verdict.PASS in {metric.verdict for metric in case.metrics}
    assert case.verdict is Verdict.RECORDED


def test_a_record_that_could_not_decide_is_inconclusive_though_reframe_says_fail(results):
    def undecided(record):
        record.update(problems=[], verdict="INCONCLUSIVE")

    results.edit_record(LOADS, undecided)
    assert load_one(results, LOADS).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("result", "reason", "verdict", "why"),
    [
        ("xfail", "", "FAIL", "neither pass nor fail"),
        ("xpass", "", "FAIL", "neither pass nor fail"),
        ("<unknown>", "", "FAIL", "neither pass nor fail"),
        (None, "", "FAIL", "neither pass nor fail"),
        ("fail_deps", "", None, "depends"),
        ("abort", "aborted due to SIGINT", None, "aborted due to SIGINT"),
    ],
)
def test_only_pass_is_a_pass_and_what_did_not_finish_has_not_failed(
    results, result, reason, verdict, why
):
    results.only(HPCC)
    results.first(result=result, fail_reason=reason)
    case = load_one(results, HPCC)
    assert case.verdict is (Verdict[verdict] if verdict else None)
    assert why in case.why
    assert case.aborted is (result == "abort")


PASSED, SKIPPED = {"result": "pass"}, {"result": "skip", "fail_reason": None}
FAILED = {"result": "fail", "fail_reason": "sanity error: cut off"}


@pytest.mark.parametrize(
    ("first", "second", "verdict", "why"),
    [
        (FAILED, PASSED, "INCONCLUSIVE", "failed in attempt 1 of 2 (cut off), then passed"),
        (FAILED, SKIPPED, "FAIL", "cut off"),
        (PASSED, FAILED, "FAIL", ""),
    ],
    ids=["failed, passed", "failed, skipped", "passed, failed"],
)
def test_no_attempt_takes_back_a_failure(results, first, second, verdict, why):
    results.only(HEALTH)
    results.again(first, second)
    (case,) = session.load_session(results.file).cases
    assert case.verdict is Verdict[verdict]
    assert not why or case.why == why


def test_a_fixture_is_a_case_only_if_it_failed(results):
    results.only(HEALTH, LOADS)

    def fixtures(report):
        for entry in report["runs"][0]["testcases"]:
            entry["fixture"] = True

    results.edit(fixtures)
    assert [case.test for case in session.load_session(results.file).cases] == ["SuiteLoads"]


def test_a_case_of_another_suite_is_in_no_verdict_if_the_plan_agrees(results):
    results.only(HPCC, HEALTH)

    def others(report):
        for entry in report["runs"][0]["testcases"]:
            if key(entry) == HEALTH:
                del entry["purpose"]

    results.edit(others)
    found = session.load_session(results.file)
    assert [case.test for case in found.cases] == ["Hpcc"]
    assert [(case.test, case.why) for case in found.others] == [("NodeHealth", "pass")]

    entry = next(entry for entry in results.entries() if key(entry) == HEALTH)
    plan = {"schema": 1, "started": "", "host": "", "command": [], "promise": {}}
    folder = Path(results.report()["session_info"]["prefix_output"])
    file = results.directory / folder.relative_to("/srv/assay/results") / run_folder.PLAN
    for more, count in (({}, 2), ({"foreign": True}, 1)):
        file.write_text(json.dumps({**plan, "cases": [{**entry, "fixture": False, **more}]}))
        assert len(session.load_session(results.file).cases) == count


def test_the_newest_run_report_has_the_highest_number(results, tmp_path):
    for number in (2, 10):
        (results.directory / "reports" / f"run-report-{number}.json").write_text("{}")
    assert session.newest(results.directory).name == "run-report-10.json"
    with pytest.raises(session.ReportError, match="reports: no run-report"):
        session.newest(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", "{}", '{"session_info": {}, "runs": []}',
        '{"session_info": {"time_elapsed": "long"}, "runs": []}',
        '{"session_info": {"time_elapsed": NaN}, "runs": []}',
        '{"session_info": {"time_elapsed": 1}, "runs": [{}]}',
        '{"session_info": {"time_elapsed": 1}, "runs": [{"testcases": [1]}]}',
        '{"session_info": {"time_elapsed": 1}, "runs": 1}', "[" * 100_000,
    ],
)  # fmt: skip
def test_a_broken_run_report_is_one_line_that_names_it(tmp_path, text):
    file = tmp_path / "run-report-0.json"
    file.write_text(text)
    with pytest.raises(session.ReportError) as error:
        session.load_session(file)
    assert str(error.value).startswith(f"{file}: ")
    assert "\n" not in str(error.value)
    assert "--session FILE" in str(error.value)


@pytest.mark.parametrize("place", [".", "missing.json"])
def test_a_run_report_that_cannot_be_read_is_one_line(tmp_path, place):
    with pytest.raises(session.ReportError, match="--session FILE"):
        session.load_session(tmp_path / place)


def test_a_run_report_cut_anywhere_is_never_half_read(results):
    whole = results.file.read_text()
    for end in range(0, len(whole) - 2, 997):
        results.file.write_text(whole[:end])
        with pytest.raises(session.ReportError):
            session.load_session(results.file)


ENTRY = ("name", "result", "stagedir", "outputdir", "fixture", "hashcode", "fail_reason", "kind")
RECORD = ("verdict", "metrics", "parsed", "proof", "problems", "seconds", "provenance", "version")


@given(entry=st.dictionaries(st.sampled_from(ENTRY), JSON), info=JSON)
def test_no_test_case_makes_the_reader_raise(tmp_path_factory, entry, info):
    file = tmp_path_factory.mktemp("results") / "run-report-0.json"
    about = {"time_elapsed": 1.0, "log_files": info, "time_start": info, "prefix_output": info}
    file.write_text(json.dumps({"session_info": about, "runs": [{"testcases": [entry]}]}))
    try:
        session.load_session(file)
    except session.ReportError as error:
        assert str(file) in str(error)


@given(record=st.dictionaries(st.sampled_from(RECORD), JSON))
def test_no_record_makes_the_reader_raise(tmp_path_factory, record):
    directory = tmp_path_factory.mktemp("results")
    (directory / "out").mkdir()
    (directory / "out" / session.RECORD).write_text(json.dumps({**record, "schema": 1}))
    file: Path = directory / "run-report-0.json"
    out = str(directory / "out")
    entry = {"name": "Osu", "purpose": "acceptance", "result": "pass", "outputdir": out}
    file.write_text(
        json.dumps({"session_info": {"time_elapsed": 1}, "runs": [{"testcases": [entry]}]})
    )
    (case,) = session.load_session(file).cases
    assert case.verdict in Verdict


METRIC = {
    "m": {"value": 1.0, "unit": "1", "verdict": "PASS", "why": "", "lower": 0.9, "upper": 1.1}
}


def test_a_calibration_is_not_an_acceptance(results):
    def unjudged(record):
        for metric in record["metrics"].values():
            metric.update(verdict="RECORDED", why=CALIBRATION)

    assert not any(
        "calibrate" in fault for fault in outcome(session.load_session(results.file)).faults
    )
    results.edit_record(HPCC, unjudged)
    found = outcome(session.load_session(results.file)).faults
    assert "1 case measured to calibrate, and not judged" in found


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"verdict": None}, "assay.json has no verdict: nothing was judged"),
        ({"verdict": "PASS", "metrics": {}}, "assay.json says PASS without a metric"),
        (
            {"verdict": "PASS", "metrics": METRIC, "problems": ["it broke"]},
            "assay.json says PASS, but it has a problem: it broke",
        ),
        (
            {"verdict": "PASS", "metrics": {"m": {**METRIC["m"], "verdict": "RECORDED"}}},
            "assay.json says PASS, but none of its metrics was judged",
        ),
        (
            {"verdict": "PASS", "metrics": {"m": {**METRIC["m"], "value": 5.0}}},
            "assay.json says PASS, but m = 5 is outside of its own bounds",
        ),
        (
            {"verdict": "PASS", "metrics": {"m": {**METRIC["m"], "samples": [0.5, 0.6, 1.0]}}},
            "assay.json says PASS, but m = 1 is not the median of its samples, 0.6",
        ),
    ],
)
def test_a_case_that_was_not_judged_is_no_pass(results, change, why):
    """Its performance phase did not run, or left nothing."""
    results.edit_record(HEALTH, lambda record: record.update(change))
    case = load_one(results, HEALTH)
    assert (case.verdict, case.why) == (Verdict.FAIL, f"no evidence: {why}")


def test_a_setting_that_may_have_changed_a_number_makes_the_run_partial(results):
    results.only(HPCC)
    doubt = "MALLOC_ARENA_MAX=1 was set outside of the test and may change what is measured"
    results.edit_record(HPCC, lambda record: record.update(doubts=[doubt]))
    run = session.load_session(results.file)
    assert run.partial == run.doubts == (doubt,)
    assert closing_lines(View.of(run))[-1] == f"verdict: PARTIAL: {doubt}"
    results.edit_record(HPCC, lambda record: record.update(doubts=[f"d{n}" for n in range(40)]))
    run = session.load_session(results.file)
    assert len(run.doubts) == 40
    assert run.partial[-1] == "and 28 more"


def test_a_setting_that_only_prints_is_stated_and_nothing_more(results):
    results.only(HPCC)
    before = closing_lines(View.of(session.load_session(results.file)))
    results.edit_record(HPCC, lambda record: record.update(notes=["UCX_VFS_ENABLE=n was set"]))
    assert closing_lines(View.of(session.load_session(results.file))) == before
