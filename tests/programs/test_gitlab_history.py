"""The history of what ReFrame ran: the jobs of two pipelines, added by two commands at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from bench import HPL, Bench

from assay.archive.history import page, store
from assay.cli import main
from assay.store import run_folder, session

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The results of two runs of ReFrame, as from two jobs of two pipelines."""
    found = []
    for number in ("41", "42"):
        bench = Bench(tmp_path_factory.mktemp(f"run{number}"))
        run = bench.replayed_hpl(HPL, "--session-extras", f"pipeline={number}")
        assert run.returncode == 0, run.output
        found.append(bench.results)
    return found


def latest(folder: Path) -> list[list[str]]:
    with store.open_history(folder) as connection:
        return page.runs_table(store.latest_runs(connection, 10))


def test_two_runs_are_two_columns_however_often_they_are_added(
    results: list[Path], tmp_path: Path
) -> None:
    into = tmp_path / "history"
    for sources in (results[:1], results, results):
        assert main(["history", "add", str(into), *map(str, sources)]) == 0
    head, *rows = latest(into)
    assert [title.split()[-1] for title in head[2:]] == ["41", "42"]
    # Both pipelines replay the same recorded run, so their numbers are equal and side by side.
    assert all(first and first == second for *_, first, second in rows)
    (report,) = run_folder.run_reports(results[0] / "reports")
    (case,) = session.load_session(report).cases
    assert len(rows) == len(case.metrics) > 0


def test_reframe_keeps_no_second_store(results: list[Path]) -> None:
    assert not [path.name for path in results[0].iterdir() if path.suffix == ".db"]


def test_two_that_add_at_once_lose_nothing(results: list[Path], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "assay", "history", "add", str(tmp_path / "history")]
    both = [subprocess.Popen([*command, str(each)]) for each in results]
    assert [process.wait() for process in both] == [0, 0]
    assert [title.split()[-1] for title in latest(tmp_path / "history")[0][2:]] == ["41", "42"]
