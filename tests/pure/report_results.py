"""A results directory that tests may damage: a copy of the real session in tests/data/report."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data" / "report" / "results"

#: Cases of the session: one that passed, was recorded, failed, and two that were skipped.
HPCC = "Hpcc@intra-node"
HEALTH = "NodeHealth@scratch"
LOADS = "SuiteLoads@intra-node"
BTIO = "StackHas %program=btio@intra-node"
HPL = "StackHas %program=hpl@intra-node"


class Results:
    """A copy of the session whose files can be edited."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "results"
        shutil.copytree(DATA, self.directory)
        self.file = self.directory / "reports" / "run-report-0.json"

    def report(self) -> dict[str, Any]:
        return json.loads(self.file.read_text())

    def edit(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Changes the run report."""
        report = self.report()
        change(report)
        self.file.write_text(json.dumps(report))

    def first(self, **change: Any) -> None:
        """Changes the first case of the run report."""
        self.edit(lambda report: report["runs"][0]["testcases"][0].update(change))

    def again(self, first: dict[str, Any], second: dict[str, Any]) -> None:
        """Makes two attempts of the only case, each with its change."""

        def change(report: dict[str, Any]) -> None:
            (entry,) = report["runs"][0]["testcases"]
            report["runs"] = [{"testcases": [{**entry, **changed}]} for changed in (first, second)]

        self.edit(change)

    def entries(self) -> list[dict[str, Any]]:
        return self.report()["runs"][0]["testcases"]

    def only(self, *names: str) -> None:
        """Keeps the cases whose display name and partition are `name@partition`."""

        def change(report: dict[str, Any]) -> None:
            run = report["runs"][0]
            run["testcases"] = [e for e in run["testcases"] if key(e) in names]
            assert len(run["testcases"]) == len(names)

        self.edit(change)

    def record(self, name: str) -> Path:
        """The assay.json of a case."""
        (entry,) = (e for e in self.entries() if key(e) == name)
        there = entry["outputdir"] if entry["result"] == "pass" else entry["stagedir"]
        return self.directory / Path(there).relative_to("/srv/assay/results") / "assay.json"

    def edit_record(self, name: str, change: Callable[[dict[str, Any]], None]) -> None:
        path = self.record(name)
        record = json.loads(path.read_text())
        change(record)
        path.write_text(json.dumps(record))


def key(entry: dict[str, Any]) -> str:
    return f"{entry['display_name']}@{entry['partition']}"
