"""The file of a history: what is added to it, once and whole, and what harm is named."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import threading
from pathlib import Path

import histories
import pytest
from certificates import REPORT, archive
from report_results import Results

from assay.archive.history import page, store
from assay.archive.history.store import StoreError
from assay.cli import main
from assay.judge import Verdict
from assay.store import session

MORE = [histories.session(day, histories.case(float(day))) for day in range(1, 4)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return histories.write(tmp_path / "history", MORE)


def latest(folder: Path, last: int = 10) -> list[list[str]]:
    with store.open_history(folder) as connection:
        return page.runs_table(store.latest_runs(connection, last))


def values(folder: Path) -> list[str]:
    return [cell for row in latest(folder)[1:] for cell in row[2:]]


def rows(folder: Path, query: str = "SELECT * FROM history ORDER BY start, session") -> list[dict]:
    with store.open_history(folder) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(query)]


def test_the_latest_runs_are_columns_in_order_of_time(folder: Path) -> None:
    histories.write(folder, [histories.session(0, histories.case(7.5), pipeline="17")])
    head, (case, metric, *cells) = latest(folder)
    assert (case, metric, cells) == ("Made @made:net+mpi", "bandwidth [GB/s]", ["7.5", *"123"])
    assert head[2].endswith(" 17")
    assert latest(folder, 2)[1][2:] == ["2", "3"]


def test_the_sessions_of_a_pipeline_are_one_run(folder: Path) -> None:
    histories.write(
        folder,
        [
            histories.session(8, histories.case(5.0), pipeline="17"),
            histories.session(9, histories.case(6.0, name="Other"), pipeline="17"),
        ],
    )
    assert [row[-1] for row in latest(folder)] == [latest(folder)[0][-1], "5", "6"]
    assert latest(folder)[0][-1].endswith(" 17")


@pytest.mark.parametrize(
    ("case", "cell"),
    [
        (histories.case(None), "failed"),
        (histories.case(metrics=(), verdict=Verdict.FAIL), "failed"),
        (histories.case(metrics=(), verdict=Verdict.RECORDED), "passed"),
        (histories.case(5.0, nodes=(), proves={}), "5"),
        (histories.case(5.0, verdict=Verdict.FAIL), "5"),
        (histories.case(verdict=None), None),
    ],
)
def test_a_case_that_measured_nothing_hides_no_other(folder, case, cell) -> None:
    histories.write(folder, [histories.session(4, case)])
    assert len(latest(folder)[0]) == 6
    assert [row[-1] for row in latest(folder)[1:] if row[-1]] == ([cell] if cell else [])
    assert set("123") <= set(values(folder))
    assert main(["history", "changes", str(folder)]) == 0


def test_every_value_is_a_row_of_the_view_with_where_it_is_from(folder: Path) -> None:
    plain = histories.case(name="Plain", metrics=(), verdict=Verdict.FAIL)
    several = histories.case(4.0, nodes=("node01", "node02"))
    histories.write(folder, [histories.session(4, histories.case(None, "node07"), plain, several)])
    found = rows(folder)
    assert [row["value"] for row in found[:3]] == [1.0, 2.0, 3.0]
    assert found[0] == {
        "start": "1970-01-02T00:00:00Z", "run": "00000001", "session": "00000001-made",
        "test": "Made", "system": "made", "partition": "net", "environ": "mpi", "node": "node01",
        "metric": "bandwidth", "value": 1.0, "unit": "GB/s", "verdict": "PASS",
    }  # fmt: skip
    assert {(row["test"], row["node"], row["value"], row["verdict"]) for row in found[3:]} == {
        ("Made", "node07", None, "PASS"),
        ("Plain", "node01", None, "FAIL"),
        ("Made", "", 4.0, "PASS"),
    }


def test_an_empty_history_is_shown(tmp_path: Path, capsys) -> None:
    folder = histories.write(tmp_path / "history", [])
    target = tmp_path / "page.html"
    assert main(["history", "show", str(folder), "--page", str(target)]) == 0
    assert capsys.readouterr().out == "case | metric\n"
    assert "No metric changed its level." in target.read_text()


# --- adding ---------------------------------------------------------------------------------------


def added(capsys: pytest.CaptureFixture[str], folder: Path, *sources: Path) -> tuple[str, str]:
    """What the command says, on both channels; a source that is left out makes it red."""
    code = main(["history", "add", "--any-signer", str(folder), *map(str, sources)])
    said = capsys.readouterr()
    assert code == (2 if said.err else 0)
    return said.out, said.err


def test_a_session_is_added_once_from_its_records(results: Results, tmp_path, capsys) -> None:
    into = tmp_path / "history"
    assert added(capsys, into, results.directory) == (
        f"assay history: 1 new sessions, 1 in {into}\n", ""
    )  # fmt: skip
    once = rows(into)
    assert "0 new sessions" in added(capsys, into, results.directory, results.directory)[0]
    assert rows(into) == once
    run = session.load_session(results.file)
    ran = [case for case in run.cases if case.verdict]
    assert len(once) == sum(len(case.metrics) or 1 for case in ran) > 10
    known = {(row["test"], row["partition"], row["metric"]): row for row in once}
    for case in ran:
        for metric in case.metrics:
            row = known[case.display_name, case.partition, metric.name]
            assert (row["value"], row["unit"]) == (metric.value, metric.unit)
            assert row["verdict"] == case.verdict.value
            assert row["node"] == (case.hosts[0] if len(case.hosts) == 1 else "")


def test_show_adds_what_a_results_directory_has(results: Results, capsys) -> None:
    for _ in range(2):
        assert main(["history", "show", str(results.directory)]) == 0
        said = capsys.readouterr().out
        assert len(said.splitlines()) > 10
    assert (results.directory / store.FILE).is_file()


def test_the_bundles_of_two_histories_are_merged(results: Results, tmp_path, capsys) -> None:
    bundle = tmp_path / "run.zip"
    assert archive(bundle) == 0
    capsys.readouterr()
    into = tmp_path / "history"
    assert added(capsys, into, bundle, results.directory)[0].startswith("assay history: 2 new ")
    assert added(capsys, into, REPORT.parents[1])[0].startswith("assay history: 0 new ")
    assert {row["system"] for row in rows(into)} == {"bench", "local"}


def cut(results: Results) -> None:
    results.file.write_text(results.file.read_text()[:1000])


def of_no_time(results: Results) -> None:
    results.edit(lambda report: report["session_info"].pop("time_start"))


def without_records(results: Results) -> None:
    for path in results.directory.rglob("assay.json"):
        path.unlink()


def without_report_and_plan(results: Results) -> None:
    results.file.unlink()
    for path in results.directory.rglob("session.json"):
        path.unlink()


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (cut, "run-report-0.json: not JSON"),
        (of_no_time, "run-report-0.json: does not say when the session began"),
        (without_records, "run-report-0.json: no case left a record"),
        (without_report_and_plan, "results: no run report is in it"),
    ],
)
def test_a_harmed_source_is_named_and_the_others_are_added(
    results: Results, tmp_path, capsys, harm, said
) -> None:
    harm(results)
    out, err = added(capsys, tmp_path / "history", results.directory, REPORT.parents[1])
    (line,) = err.splitlines()
    assert line.startswith("assay history: left out: ")
    assert said in line
    # What the cases of a torn report measured is also in their records.
    assert f"{2 if harm is cut else 1} new sessions" in out


def test_a_forged_bundle_is_named_and_left_out(tmp_path, capsys) -> None:
    bundle = tmp_path / "run.zip"
    archive(bundle)
    bundle.write_bytes(bundle.read_bytes()[:-100])
    capsys.readouterr()
    out, err = added(capsys, tmp_path / "history", bundle, tmp_path / "nothing")
    assert "0 new sessions" in out
    assert "run.zip: the file is truncated, or is no bundle" in err
    assert "nothing: no run report is in it" in err


def test_an_unsigned_bundle_is_added_only_if_somebody_says_so(tmp_path, capsys) -> None:
    bundle = tmp_path / "run.zip"
    archive(bundle)
    capsys.readouterr()
    assert main(["history", "add", str(tmp_path / "history"), str(bundle)]) == 2
    said = capsys.readouterr()
    assert "0 new sessions" in said.out
    assert "run.zip: UNSIGNED: " in said.err


def test_the_finished_cases_of_a_killed_session_are_added_once(tmp_path, capsys) -> None:
    results = tmp_path / "results"
    shutil.copytree(REPORT.parents[1], results)
    (output,) = (results / "output").iterdir()
    plan = {
        "schema": 1,
        "started": "20260101T000000+0000",
        "host": "vm",
        "command": [],
        "cases": [],
    }
    (output / "session.json").write_text(json.dumps(plan))
    (results / "reports" / REPORT.name).unlink()
    assert added(capsys, tmp_path / "history", results)[0].startswith("assay history: 1 new ")
    assert added(capsys, tmp_path / "history", results)[0].startswith("assay history: 0 new ")
    assert {row["session"] for row in rows(tmp_path / "history")} == {
        f"{output.name}-vm-20260101T000000+0000"
    }


def test_a_job_that_ran_nothing_is_no_loss(tmp_path, capsys) -> None:
    (tmp_path / "job").mkdir()
    assert "0 new sessions" in added(capsys, tmp_path / "history", tmp_path / "job")[0]


def test_a_session_that_cannot_be_written_leaves_nothing_of_itself(folder: Path) -> None:
    odd = histories.session(4, histories.case(4.0), histories.case(5.0, name="\ud800"))
    with pytest.raises(UnicodeEncodeError):
        histories.write(folder, [odd])
    assert values(folder) == ["1", "2", "3"]
    histories.write(folder, [histories.session(4, histories.case(4.0))])
    assert values(folder) == ["1", "2", "3", "4"]


# --- harm -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("harm", ["text", "torn", "other version", "emptied", "no tables"])
@pytest.mark.parametrize("action", ["show", "add"])
def test_a_harmed_history_stays_as_it_is(folder: Path, capsys, harm: str, action: str) -> None:
    path = folder / store.FILE
    if harm == "text":
        path.write_text("this is no history\n" * 500)
    elif harm == "torn":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    elif harm == "emptied":
        path.write_bytes(b"")
    else:
        with sqlite3.connect(path) as connection:
            if harm == "no tables":
                connection.executescript("DROP VIEW history; DROP TABLE measured")
            else:
                connection.execute("PRAGMA user_version = 999")
        connection.close()
    before = path.read_bytes()
    more = [str(REPORT.parents[1])] if action == "add" else []
    assert main(["history", action, str(folder), *more]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"assay history: {path}: ")
    assert ("remove it to begin anew" if harm == "emptied" else "move it away") in line
    assert path.read_bytes() == before


def test_a_history_that_is_not_there_is_one_line(tmp_path: Path, capsys) -> None:
    assert main(["history", "show", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "history.db: there is no history; make it: assay history add" in line
    assert list(tmp_path.iterdir()) == []


def test_where_nobody_may_write_the_history_is_read(folder: Path, monkeypatch) -> None:
    whole = sqlite3.connect

    def read_only(file: str, **more: object) -> sqlite3.Connection:
        return whole(re.sub("mode=rwc?", "mode=ro", file), **more)

    monkeypatch.setattr(sqlite3, "connect", read_only)
    assert values(folder) == ["1", "2", "3"]
    with pytest.raises(StoreError, match="readonly database"):
        histories.write(folder, [histories.session(4, histories.case())])


def test_a_history_that_another_process_writes_is_waited_for(folder: Path) -> None:
    other = sqlite3.connect(folder / store.FILE, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    answers: list[list[str]] = []
    reader = threading.Thread(target=lambda: answers.append(values(folder)))
    reader.start()
    assert answers == []
    other.execute("ROLLBACK")
    other.close()
    reader.join()
    assert answers == [["1", "2", "3"]]


def test_a_history_that_stays_locked_is_one_line(folder: Path, monkeypatch) -> None:
    monkeypatch.setattr(store, "PATIENCE", 0.1)
    other = sqlite3.connect(folder / store.FILE, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match=r"history\.db: database is locked; free space, or end"):
        values(folder)
    other.close()


def test_the_history_keeps_no_write_ahead_log(folder: Path) -> None:
    with store.open_history(folder) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_a_report_that_is_added_again_is_not_read(results: Results, tmp_path, monkeypatch) -> None:
    into = tmp_path / "history"
    assert main(["history", "add", str(into), str(results.directory)]) == 0
    monkeypatch.setattr(session, "load_session", lambda *_, **__: pytest.fail("it was read again"))
    assert main(["history", "add", str(into), str(results.directory)]) == 0
