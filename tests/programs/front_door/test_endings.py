"""Each way in which a run ends, and the exit code of each command that speaks of the last run."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from certificates import DATA
from shell import ROOT
from tests.programs.archive.certificate.test_signature import Signed

from assay import cli
from assay.store import run_folder

PAGE = (ROOT / "docs/command-line.md").read_text(encoding="utf-8")
HEAD, _, *ROWS = [
    [cell.strip() for cell in line.split("|")[1:-1]]
    for line in PAGE[PAGE.index("| the last run |") :].partition("\n\n")[0].splitlines()
]
CELLS = [
    (row[0], command.strip("`"), int(code))
    for row in ROWS
    for command, code in zip(HEAD[1:], row[1:])
]


class Ended:
    """The results of a recorded run that passed, changed so that it ended in another way."""

    def __init__(self, folder: Path) -> None:
        self.data = shutil.copytree(DATA, folder / "data")
        self.results = self.data / "results"
        self.report = self.results / "reports/run-report-0.json"
        (self.plan,) = self.results.rglob("session.json")
        self.marks(f"session {self.plan.parent.name}")

    def marks(self, session: str) -> None:
        with (self.results / run_folder.LOCK).open("w+") as lock:
            run_folder.mark(lock, f"process 1 of here, since 2026-11-28 12:00, {session}")

    def edit(self, path: Path, change: Callable[[Any], None]) -> None:
        said = json.loads(path.read_text())
        change(said)
        path.write_text(json.dumps(said))

    def failed(self) -> None:
        """One case fails before it leaves a record."""

        def change(report: dict[str, Any]) -> None:
            entries = report["runs"][0]["testcases"]
            next(e for e in entries if e["result"] == "skip")["result"] = "fail"

        self.edit(self.report, change)

    def undecided(self) -> None:
        """Other work keeps the case that is judged from a decision."""

        def change(report: dict[str, Any]) -> None:
            entries = [entry for run in report["runs"] for entry in run["testcases"]]
            [entry for entry in entries if entry["unique_name"] == "Hpl"][-1]["result"] = "fail"

        def judged(record: dict[str, Any]) -> None:
            record.update(verdict="INCONCLUSIVE", busy="another program took 1.0 cores")
            for metric in record["metrics"].values():
                metric["verdict"] = "INCONCLUSIVE"

        self.edit(self.report, change)
        (record,) = self.results.rglob("output/*/bench/here/system/Hpl_retry5/assay.json")
        self.edit(record, judged)


def _more(plan: dict[str, Any]) -> None:
    more = {"display_name": "More", "unique_name": "More", "hashcode": "0"}
    plan["cases"].append({**plan["cases"][0], **more})


ENDINGS: dict[str, Callable[[Ended], object]] = {
    "did not start": lambda it: it.marks("no session"),
    "has not ended": lambda it: None,
    "was interrupted": lambda it: it.edit(it.plan, _more),
    "lost its run report": lambda it: it.report.write_text(it.report.read_text()[:500]),
    "PASS": lambda it: None,
    "FAIL": Ended.failed,
    "INCONCLUSIVE": Ended.undecided,
    "PARTIAL": lambda it: it.edit(it.plan, lambda p: p["promise"].update(narrowed=["-n Hpl"])),
}


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ended]:
    made = Ended(tmp_path)
    monkeypatch.setenv("ASSAY_RESULTS", str(made.results))
    yield made


def test_the_table_has_every_ending() -> None:
    assert [row[0] for row in ROWS] == [*ENDINGS]


@pytest.mark.parametrize(("ending", "command", "code"), CELLS)
def test_a_command_ends_as_the_last_run_did(
    ended: Ended, tmp_path: Path, ending: str, command: str, code: int
) -> None:
    ENDINGS[ending](ended)
    _, *name = command.split()
    words = {
        "archive": ("--folder", ended.data / "site-config"),
        "certify": ("--folder", ended.data / "site-config", "--key", Signed(tmp_path).ours),
    }.get("".join(name), ())
    with (ended.results / run_folder.LOCK).open() as lock:
        if ending == "has not ended":
            fcntl.flock(lock, fcntl.LOCK_EX)
        assert cli.main([*name, *map(str, words)]) == code
