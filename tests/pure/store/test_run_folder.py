"""Reads the files that a session leaves: its plan, its log, its run report, its lock."""

import fcntl
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.reframe_compat import log
from assay.store import run_folder

PLAN = {
    "schema": 1,
    "started": "20261122T120000+0000",
    "host": "login1",
    "command": ["reframe", "-r"],
    "cases": [{"display_name": "Osu", "fixture": False}, {"display_name": "Get", "fixture": True}],
}

LOG = """\
[2026-11-22T12:00:00] info: reframe: [ RUN      ] Osu /1a @here:node+system
[2026-11-22T12:00:00] info: reframe: [ \x1b[33m    SKIP\x1b[0m ] ( 1/12) Hpl /2b @here:node+system [no [hpl] here]
[2026-11-22T12:00:01] info: reframe: [     FAIL ] ( 2/12) Osu %size=1 /1a @here:node+system
[2026-11-22T12:00:02] info: reframe: [       OK ] (12/12) Census /3c @here:node+system
"""  # noqa: E501


def test_a_plan_has_the_cases_without_fixtures(tmp_path):
    (tmp_path / run_folder.PLAN).write_text(json.dumps(PLAN))
    plan = run_folder.read_plan(tmp_path)
    assert (plan.host, plan.started) == ("login1", "20261122T120000+0000")
    assert [case["display_name"] for case in plan.cases] == ["Osu"]


@given(raw=st.one_of(st.text(), st.dictionaries(st.sampled_from(list(PLAN)), st.integers())))
def test_no_plan_makes_the_reader_raise(tmp_path_factory, raw):
    folder = tmp_path_factory.mktemp("session")
    (folder / run_folder.PLAN).write_text(raw if isinstance(raw, str) else json.dumps(raw))
    assert run_folder.read_plan(folder) is None


def test_a_log_says_who_was_skipped_failed_and_passed(tmp_path):
    (tmp_path / run_folder.LOG).write_text(LOG)
    read = log.read_reframe_log(tmp_path / run_folder.LOG)
    where = "here:node+system"
    assert read.skipped == {("2b", where): "no [hpl] here"}
    assert read.failed == {("1a", where)}
    assert read.passed == {("3c", where)}
    assert log.read_reframe_log(tmp_path / "nothing") is None


def test_the_run_report_of_a_session_is_found_by_its_folder(tmp_path):
    (tmp_path / "reports").mkdir()
    folder = tmp_path / "output" / "20261122T120000"
    for number, name in ((1, "20261122T110000"), (2, folder.name), (3, "20261122T130000")):
        info = {"prefix_output": f"/elsewhere/output/{name}"}
        text = json.dumps({"session_info": info})
        (tmp_path / "reports" / f"run-report-{number}.json").write_text(text)
    (tmp_path / "reports" / "run-report-4.json").write_text("{")
    assert run_folder.run_report(folder) == tmp_path / "reports" / "run-report-2.json"
    assert run_folder.run_report(folder.with_name("20261122T140000")) is None


def test_who_holds_the_results(tmp_path):
    assert run_folder.holder(tmp_path) == ""
    with (tmp_path / run_folder.LOCK).open("w") as held:
        held.write("process 7 of here")
        held.flush()
        assert run_folder.holder(tmp_path) == ""
        fcntl.flock(held, fcntl.LOCK_EX)
        assert run_folder.holder(tmp_path) == "process 7 of here"
    assert run_folder.holder(tmp_path) == ""


@pytest.mark.parametrize("named", ["20261122T120000", ""])
def test_a_session_has_a_new_folder(tmp_path, monkeypatch, named):
    pytest.importorskip("reframe")
    from reframe.core.exceptions import ConfigError

    from assay.store import running

    monkeypatch.setattr(running.runner, "around", lambda _: None)
    monkeypatch.setenv("ASSAY_SESSION", named)
    monkeypatch.setattr(running.time, "strftime", lambda *_: "20261122T120000")
    (tmp_path / "output" / "20261122T120000").mkdir(parents=True)
    if named:
        with pytest.raises(ConfigError, match="20261122T120000: no new folder for this session"):
            running.begin_session(tmp_path)
    else:
        assert running.begin_session(tmp_path).name == "20261122T120000-2"
    running._held.clear()
