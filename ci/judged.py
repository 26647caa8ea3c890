#!/usr/bin/env python3
"""How many cases of a site have a judged metric before anything ran, and by which yardstick.

ci/judged.py SITE/reframe.py [...]   one line a site; a case counts for its strongest yardstick

A case that the site selects counts, also if it would be skipped at its setup. A case without
metrics (it proves by its evidence alone) is not counted. Peaks that a run measures itself are taken
as known.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from reframe.core import config, runtime

from assay.judge import YARDSTICKS, Reference
from assay.run.site import site_references

ROOT = Path(__file__).resolve().parents[1]


class _Output:
    """An output of which each number is 1."""

    rows: tuple[Any, ...] = ()
    facts: dict[str, Any] = {}

    def cells(self, *_: Any, **__: Any) -> list[float]:
        return [1.0]

    def at(self, *_: Any, **__: Any) -> str:
        return "GFLOP/s"


def count(site_file: Path) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Yardstick -> number of cases, "" for none; that of places with hardware; tests without."""
    loaded = config.load_config("<builtin>", str(site_file))
    loaded.select_subconfig(site_file.parent.name)
    runtime.init_runtime(loaded)
    path = ROOT / "reframe/node/suite.py"
    spec = importlib.util.spec_from_file_location("suite", path)
    assert spec and spec.loader
    suite = importlib.util.module_from_spec(spec)
    sys.modules["suite"] = suite
    spec.loader.exec_module(suite)
    references = site_references()
    found, known, bare = Counter[str](), Counter[str](), Counter[str]()
    for file in sorted((ROOT / "reframe").rglob("*.py")):
        made = [m for test, its in suite.testcase.declared(file) for m in suite.make(test, its)]
        for test in made:
            for case, units in suite.cases([test]):
                if not units:
                    continue
                of = {p.name: p for p in runtime.runtime().system.partitions}[case["partition"]]
                test._current_partition = of
                test._current_environ = next(e for e in of.environs if e.name == case["environ"])
                peaks = {}
                try:
                    test.num_tasks = test.num_tasks or 2
                    peaks = dict(test.peaks(_Output()))
                except Exception as error:
                    print(f"{test.name}: {type(error).__name__}: {error}", file=sys.stderr)
                named = of.extras.get("hardware", {})
                used = {
                    reference.yardstick
                    for name, unit in units.items()
                    if isinstance(
                        reference := references.find(case, name, unit, peaks.get(name), named),
                        Reference,
                    )
                    and not test._emulated
                }
                best = next((name for name in YARDSTICKS if name in used), "")
                found[best] += 1
                known[best] += bool(named)
                bare[case["test"]] += not best
    return found, known, +bare


def main() -> int:
    if sys.argv[1] == "--one":
        found, known, bare = count(Path(sys.argv[2]))
        total, judged = sum(found.values()), sum(found.values()) - found[""]
        by = ", ".join(f"{n} {name}" for name, n in found.most_common() if name)
        of = ", ".join(f"{name} ({n})" for name, n in bare.most_common(6))
        print(f"{Path(sys.argv[2]).parent.name}: {judged} of {total} judged: {by}; none: {of}")
        there = sum(known.values()) - known[""]
        more = there - known["any machine"]
        said = f"{more} of {there} by more than any machine ({more / max(there, 1):.0%})"
        print(f"  judged where the place names its hardware: {said}")
        return 0
    for site in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as scratch:
            environment = {**os.environ, "ASSAY_RESULTS": scratch}
            command = [sys.executable, __file__, "--one", str(Path(site).resolve())]
            subprocess.run(command, env=environment, check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
