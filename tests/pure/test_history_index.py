"""The index of a history: it follows the store, whatever is in it, and survives harm."""

from __future__ import annotations

import csv
import json
import math
import sqlite3
import threading
from pathlib import Path
from typing import Any

import histories
import pytest

from assay.cli import main
from assay.history import adding, index, sessions, table
from assay.results import store
from assay.results.store import StoreError

MORE = [histories.session(day, histories.case(float(day))) for day in range(1, 4)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return histories.write(tmp_path / "history", MORE)


def latest(folder: Path) -> list[list[str]]:
    return table.rows(index.ask(folder, lambda connection: table.runs(connection, 10)))


def values(folder: Path) -> list[str]:
    return [cell for row in latest(folder)[1:] for cell in row[2:]]


def test_the_latest_runs_are_columns_in_order_of_time(folder: Path) -> None:
    histories.write(folder, [histories.session(0, histories.case(7.5), pipeline=17)])
    head, (case, metric, *cells) = latest(folder)
    assert (case, metric, cells) == ("Made @made:net+mpi", "bandwidth [GB/s]", ["7.5", *"123"])
    assert head[2].endswith(" 17")
    two = index.ask(folder, lambda connection: table.runs(connection, 2))
    assert [list(run.values.values()) for run in two] == [[2.0], [3.0]]


def test_the_index_follows_the_store(folder: Path) -> None:
    assert values(folder) == ["1", "2", "3"]
    histories.write(folder, [histories.session(4, histories.case(4.0))])
    assert values(folder) == ["1", "2", "3", "4"]
    with sqlite3.connect(folder / store.DATABASE) as connection:
        connection.execute("DELETE FROM sessions WHERE uuid LIKE '%2-made'")
    connection.close()
    assert values(folder) == ["1", "3", "4"]
    with sqlite3.connect(folder / index.INDEX) as connection:
        assert connection.execute("SELECT count(*) FROM measured").fetchone() == (3,)
    connection.close()


def test_a_question_does_not_read_sessions_that_are_in_the_index(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values(folder)
    monkeypatch.setattr(sessions, "read", lambda *_: pytest.fail("a session was read again"))
    assert values(folder) == ["1", "2", "3"]


ODD = {
    "null value": (histories.session(4, histories.case(None)), "failed"),
    "not finite": (histories.session(4, histories.case(math.nan)), "failed"),
    "huge whole number": (histories.session(4, histories.case(10**400)), "failed"),
    "text for a value": (histories.session(4, histories.case("fast")), "failed"),
    "no values": (histories.session(4, histories.case(perfvalues=None, result="fail")), "failed"),
    "no node": (histories.session(4, histories.case(5.0, job_nodelist=None)), "5"),
    "no result": (histories.session(4, histories.case(5.0, result=None)), "5"),
    "no cases": ({**histories.session(4), "runs": [{}]}, ""),
    "null cases": ({**histories.session(4), "runs": [{"testcases": None}, None]}, ""),
    "no runs": ({"session_info": histories.session(4)["session_info"]}, ""),
    "no time": (histories.session(4, histories.case(5.0), time_start_unix=None), "5"),
}


@pytest.mark.parametrize("odd", ODD)
def test_what_is_missing_in_a_session_hides_no_other(folder: Path, odd: str) -> None:
    document, cell = ODD[odd]
    histories.write(folder, [document])
    assert latest(folder)[0][2:]
    shown = values(folder)
    assert set("123") <= set(shown)
    assert len(latest(folder)[0]) == 6
    assert shown.count(cell) >= 1
    assert main(["history", "changes", str(folder)]) == 0


@pytest.mark.parametrize("torn", ['{"session_info": {"uu', "[]", "null", '{"session_info": {}}'])
def test_a_torn_session_is_named_and_the_others_are_shown(
    folder: Path, capsys: pytest.CaptureFixture[str], torn: str
) -> None:
    with sqlite3.connect(folder / store.DATABASE) as connection:
        connection.execute("UPDATE sessions SET json_blob = ? WHERE uuid LIKE '%2-made'", (torn,))
    connection.close()
    assert main(["history", "show", str(folder)]) == 0
    assert capsys.readouterr().err == ("assay history: left out: session 00000002-made is torn\n")
    assert values(folder) == ["1", "3"]


def test_a_damage_in_the_middle_of_the_store_is_named_when_it_is_met(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = histories.case(1.0, descr="long " * 4000)
    folder = histories.write(
        tmp_path / "history", [histories.session(day, long) for day in range(1, 30)]
    )
    path = folder / store.DATABASE
    content = bytearray(path.read_bytes())
    at = content.index(b"long long", len(content) // 2) // 4096 * 4096
    content[at : at + 4096] = b"\xff" * 4096  # a page of the text of one session
    path.write_bytes(content)
    store.refuse_damaged(path)  # reading all of it would take minutes at the size of years
    assert main(["history", "show", str(folder), "--last", "40"]) == 0
    said = capsys.readouterr()
    assert said.err.count("left out: session ") >= 1
    assert all(
        "cannot be read (database disk image is malformed)" in line or "is torn" in line
        for line in said.err.splitlines()
    )
    assert "Made @made:net+mpi" in said.out


@pytest.mark.parametrize("harm", ["text", "torn", "other version"])
def test_a_harmed_index_is_built_anew(folder: Path, harm: str) -> None:
    values(folder)
    path = folder / index.INDEX
    if harm == "text":
        path.write_text("this is no index\n" * 500)
    elif harm == "torn":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    else:
        with sqlite3.connect(path) as connection:
            connection.execute("DELETE FROM measured")
            connection.execute("PRAGMA user_version = 999")
        connection.close()
    assert values(folder) == ["1", "2", "3"]


def test_a_store_that_is_not_there_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", "show", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("results.db: there is no store of results")
    assert list(tmp_path.iterdir()) == []


def test_where_nobody_may_write_a_copy_answers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "_writable", lambda _: False)
    assert values(folder) == ["1", "2", "3"]
    assert not (folder / index.INDEX).exists()


def test_an_index_that_another_process_writes_is_waited_for(folder: Path) -> None:
    values(folder)
    other = sqlite3.connect(folder / index.INDEX, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    answers: list[list[str]] = []
    reader = threading.Thread(target=lambda: answers.append(values(folder)))
    reader.start()
    assert answers == []
    other.execute("ROLLBACK")
    other.close()
    reader.join()
    assert answers == [["1", "2", "3"]]


def test_an_index_that_stays_locked_is_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "PATIENCE", 0.1)
    values(folder)
    other = sqlite3.connect(folder / index.INDEX, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match=r"history\.db: database is locked; delete it if"):
        values(folder)
    other.close()


def test_a_file_system_without_locks_is_refused_by_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(adding.fcntl, "flock", none)
    with pytest.raises(StoreError, match="has no locks"):
        adding.add(folder, [folder])


def test_neither_file_keeps_a_write_ahead_log(folder: Path) -> None:
    values(folder)
    for name in (index.INDEX, store.DATABASE):
        with sqlite3.connect(folder / name) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        connection.close()


# --- adding ---------------------------------------------------------------------------------------


def source(tmp_path: Path, day: int, *lines: str) -> Path:
    found = histories.write(
        tmp_path / f"job{day}", [histories.session(day, histories.case(float(day)))]
    )
    (found / store.PERFLOG).write_text("".join(f"{line}\n" for line in lines))
    return found


def test_lines_of_the_perflog_are_added_once_also_without_the_index(
    tmp_path: Path, folder: Path
) -> None:
    first, second = source(tmp_path, 4, '{"a": 1}', '{"a": 2}'), source(tmp_path, 5, '{"a": 2}')
    adding.add(folder, [first])
    (folder / index.INDEX).unlink()
    assert adding.add(folder, [second, first]) == (1, [])
    assert (folder / store.PERFLOG).read_text() == '{"a": 1}\n{"a": 2}\n'
    assert values(folder) == ["1", "2", "3", "4", "5"]


def test_what_a_killed_process_left_of_a_line_is_removed(tmp_path: Path, folder: Path) -> None:
    adding.add(folder, [source(tmp_path, 4, '{"a": 1}')])
    with (folder / store.PERFLOG).open("a") as log:
        log.write('{"a": 2}\n{"a": ')
    adding.add(folder, [source(tmp_path, 5, '{"a": 3}', '{"a": 2}')])
    assert (folder / store.PERFLOG).read_text() == '{"a": 1}\n{"a": 2}\n{"a": 3}\n'


def test_a_perflog_that_was_replaced_is_read_anew(tmp_path: Path, folder: Path) -> None:
    adding.add(folder, [source(tmp_path, 4, '{"a": 1}', '{"a": 2}')])
    (folder / store.PERFLOG).write_text('{"a": 2}\n')
    adding.add(folder, [source(tmp_path, 5, '{"a": 1}')])
    assert (folder / store.PERFLOG).read_text() == '{"a": 2}\n{"a": 1}\n'


# --- export ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_every_value_is_exported_with_where_it_is_from(
    tmp_path: Path, folder: Path, suffix: str
) -> None:
    plain = histories.case(perfvalues={}, display_name="Plain", result="fail")
    histories.write(folder, [histories.session(4, histories.case(None, "node07"), plain)])
    target = tmp_path / f"all.{suffix}"
    assert main(["history", "export", str(folder), str(target)]) == 0
    rows: list[dict[str, Any]]
    if suffix == "csv":
        with target.open(newline="") as stream:
            rows = list(csv.DictReader(stream))
    else:
        rows = [json.loads(line) for line in target.read_text().splitlines()]
    missing = "" if suffix == "csv" else None
    assert [row["value"] for row in rows] == [
        *(each if suffix == "jsonl" else str(each) for each in (1.0, 2.0, 3.0)), missing, missing,
    ]  # fmt: skip
    assert rows[0]["start"] == "1970-01-02T00:00:00+00:00"
    assert rows[3]["node"] == "node07"
    assert [rows[4][key] for key in ("case", "result", "metric")] == ["Plain", "fail", missing]
    assert [rows[0][key] for key in ("system", "partition", "environ", "metric", "unit")] == [
        "made", "net", "mpi", "bandwidth", "GB/s",
    ]  # fmt: skip


def test_an_export_that_fails_leaves_the_old_file(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "all.csv"
    target.write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert main(["history", "export", str(folder), str(target)]) == 2
    assert target.read_text() == "old"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["all.csv", "history"]
