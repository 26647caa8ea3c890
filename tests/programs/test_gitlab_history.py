"""The history of many runs: merging of results that ReFrame stored, and handling of damage."""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bench import HPL, Bench, run_reframe

from assay.cli import main
from assay.history import adding, index, table

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The results of two runs of ReFrame, as from two jobs of two pipelines."""
    found = []
    for number in ("41", "42"):
        bench = Bench(tmp_path_factory.mktemp(f"run{number}"))
        # Two lines with the same second and the same numbers would count as one case, stored twice.
        time.sleep(1 - time.time() % 1)
        run = bench.replayed_hpl(HPL, "--session-extras", f"pipeline={number}")
        assert run.returncode == 0, run.output
        found.append(bench.results)
    return found


@pytest.fixture
def results(stored: list[Path], tmp_path: Path) -> list[Path]:
    """Copies of the stored results."""
    return [shutil.copytree(each, tmp_path / each.parent.name) for each in stored]


def content(folder: Path) -> tuple[bytes, bytes]:
    return (folder / "results.db").read_bytes(), (folder / "perflog.jsonl").read_bytes()


def latest(folder: Path) -> list[list[str]]:
    return table.rows(index.ask(folder, lambda connection: table.runs(connection, 10)))


def counted(folder: Path) -> tuple[int, int]:
    with sqlite3.connect(folder / "results.db") as store:
        sessions = store.execute("SELECT count(*) FROM sessions").fetchone()[0]
        cases = store.execute("SELECT count(*) FROM testcases").fetchone()[0]
    return sessions, cases


def test_two_runs_are_two_columns_however_often_they_are_added(
    results: list[Path], tmp_path: Path
) -> None:
    into = tmp_path / "history"
    assert adding.add(into, results[:1]) == (1, [])
    assert adding.add(into, results) == (1, [])
    once = content(into)
    assert adding.add(into, results) == (0, [])
    assert content(into) == once
    head, *rows = latest(into)
    assert [title.split()[-1] for title in head[2:]] == ["41", "42"]
    assert rows
    # Both pipelines replay the same recorded run, so their numbers are equal and side by side.
    assert all(first and first == second for *_, first, second in rows)
    assert counted(into) == (2, 2)
    assert len((into / "perflog.jsonl").read_text().splitlines()) == 2


def test_reframe_goes_on_with_what_was_merged(results: list[Path], bench: Bench) -> None:
    adding.add(bench.results, results)
    assert bench.replayed_hpl(HPL).returncode == 0
    listed = run_reframe(bench.write(), bench.results, "--list-stored-sessions").output
    assert re.findall(r" (4\d) +\S$", listed, re.MULTILINE) == ["41", "42"]
    assert counted(bench.results) == (3, 3)


DAMAGES = ["torn", "empty", "no store", "another schema"]


@pytest.mark.parametrize("damage", [*DAMAGES, "torn session"])
def test_a_damaged_source_is_named_and_the_others_are_added(
    results: list[Path], tmp_path: Path, damage: str
) -> None:
    into = tmp_path / "history"
    harm(results[0] / "results.db", damage)
    new, (why,) = adding.add(into, results)
    assert new == 1
    assert why.startswith(f"{results[0] / 'results.db'}: ")
    assert counted(into) == (1, 1)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_history_stays_as_it_is(
    results: list[Path], tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    into = tmp_path / "history"
    adding.add(into, results[:1])
    harm(into / "results.db", damage)
    before = content(into)
    assert main(["history", "add", str(into), *map(str, results)]) == 2
    assert content(into) == before
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].startswith(f"assay history: {into / 'results.db'}: ")


def test_a_torn_session_of_the_history_is_named_until_it_is_mended(
    results: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    into = tmp_path / "history"
    adding.add(into, results[:1])
    whole = (into / "results.db").read_bytes()
    harm(into / "results.db", "torn session")
    (into / "history.db").unlink()  # the index still has the numbers of the session
    for _ in range(2):
        _, (why,) = adding.add(into, results)
        assert re.fullmatch(r"session \S+ is torn", why)
    assert main(["history", "show", str(into)]) == 0
    said = capsys.readouterr()
    assert said.err == f"assay history: left out: {why}\n"
    assert said.out.splitlines()[0].split()[-1] == "42"
    (into / "results.db").write_bytes(whole)
    assert adding.add(into, results) == (1, [])
    assert [title.split()[-1] for title in latest(into)[0][2:]] == ["41", "42"]


def harm(store: Path, damage: str) -> None:
    if damage == "torn":
        with store.open("r+b") as stream:
            stream.truncate(store.stat().st_size // 2)
    elif damage == "empty":
        store.write_bytes(b"")
    elif damage == "no store":
        store.write_text("this is no store of results\n" * 100)
    else:
        change = {
            "another schema": "UPDATE metadata SET schema_version = '9.0'",
            "torn session": "UPDATE sessions SET json_blob = substr(json_blob, 1, 1000)",
        }
        with sqlite3.connect(store) as connection:
            connection.execute(change[damage])
        connection.close()


def test_half_a_line_of_the_perflog_is_left_out(results: list[Path], tmp_path: Path) -> None:
    log = results[0] / "perflog.jsonl"
    log.write_text(log.read_text() + '{"completed": "2026')
    adding.add(tmp_path / "history", results)
    assert len((tmp_path / "history/perflog.jsonl").read_text().splitlines()) == 2


def test_a_perflog_that_cannot_be_written_leaves_the_store_as_it_is(
    results: list[Path], tmp_path: Path
) -> None:
    into = tmp_path / "history"
    adding.add(into, results[:1])
    (into / "perflog.jsonl").unlink()
    (into / "perflog.jsonl").mkdir()
    with pytest.raises(OSError, match=r"perflog\.jsonl"):
        adding.add(into, results[1:])
    assert counted(into) == counted(results[0])


def test_a_failed_case_has_its_place(results: list[Path], tmp_path: Path) -> None:
    with sqlite3.connect(results[1] / "results.db") as store:
        # ReFrame stores no values for a case with failed evidence.
        store.execute(
            "UPDATE sessions SET json_blob = json_set(json_blob, "
            "'$.runs[0].testcases[0].result', 'fail', "
            "'$.runs[0].testcases[0].perfvalues', json('{}'))"
        )
    store.close()
    adding.add(tmp_path / "history", results)
    _, *rows = latest(tmp_path / "history")
    (failed,) = [row for row in rows if row[1] == "result"]
    assert failed[2:] == ["", "failed"]
    assert all(row[3] == "" for row in rows if row is not failed)


def test_the_page_needs_nothing_beside_itself_and_trusts_no_name(
    results: list[Path], tmp_path: Path
) -> None:
    name = "'$.runs[0].testcases[0].display_name', '<script>alert(1)</script>'"
    with sqlite3.connect(results[0] / "results.db") as store:
        store.execute(f"UPDATE sessions SET json_blob = json_set(json_blob, {name})")
    store.close()
    adding.add(tmp_path / "history", results)
    page = tmp_path / "history.html"
    assert main(["history", "show", str(tmp_path / "history"), "--page", str(page)]) == 0
    text = page.read_text()
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "http" not in text


def test_two_that_add_at_once_lose_nothing(results: list[Path], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "assay", "history", "add", str(tmp_path / "history")]
    both = [subprocess.Popen([*command, str(each)]) for each in results]
    assert [process.wait() for process in both] == [0, 0]
    assert counted(tmp_path / "history") == (2, 2)
