"""The core alone: the rooms beside it are deleted, and it still tests a machine."""

from __future__ import annotations

import ast
import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import shell
from bench import DATA, HPL, REFRAME, ROOT, Bench, Recorded

from assay.exits import Exit

pytestmark = pytest.mark.slow

width = shell.module("ci/width.py")

#: Imports each module of the library but the scripts of nodes, and prints the names of all.
IMPORTED = """
import importlib, pkgutil, sys
import assay
for found in pkgutil.walk_packages(assay.__path__, "assay."):
    if not found.name.startswith(("assay.__main__", "assay.node.")):
        importlib.import_module(found.name)
print(*sorted(name for name in sys.modules if name.startswith("assay.")))
"""


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports, at its head or anywhere else."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from (f"{node.module}.{name.name}" for name in node.names)


def needs_a_room(path: Path) -> bool:
    beside = tuple(f"assay.{room}." for room in width.BESIDE)
    return any(f"{name}.".startswith(beside) for name in imported(path))


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout without the rooms, and without the tests of the suite that need one."""
    tree = tmp_path_factory.mktemp("core")
    without = shutil.ignore_patterns("__pycache__", *width.BESIDE)
    shutil.copytree(ROOT / "src/assay", tree / "src/assay", ignore=without)
    for name in ("spack.lock", "spack.lock.seal.yaml"):
        shutil.copy(ROOT / name, tree)
    for name in ("reframe", "site-config"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (tree / "reframe").rglob("*.py"):
        if needs_a_room(path):
            path.unlink()
    return tree


def run(core: Path, *words: object, code: int = 0, **variables: str) -> str:
    """What a command prints that has the core as its library and ends with this code."""
    place = {"PYTHONPATH": str(core / "src")}
    done = shell.run(*words, cwd=core, **place, **variables)
    assert done.returncode == code, done.stdout
    return str(done.stdout)


def test_each_module_of_the_core_loads(core):
    names = run(core, sys.executable, "-c", IMPORTED).split()
    assert {"assay.cli", "assay.run.osu", "assay.show.page", "assay.sites"} <= {*names}
    assert not [name for name in names if name.split(".")[1] in width.BESIDE]


def test_the_tests_of_the_mission_need_no_room(core):
    left = {path.stem for path in (core / "reframe").rglob("*.py")}
    assert {"osu", "hpl", "hpcc", "stream", "iozone", "btio"} <= left
    assert not {"tournament", "each_gpu", "imb", "census"} & left


def test_the_door_offers_only_what_is_there(core):
    said = run(core, sys.executable, "-m", "assay", "--help")
    assert "report" in said and "parse" in said
    assert not re.findall(r"^ +(archive|calibrate|history|judge|sites) ", said, re.M)


def test_outputs_are_read(core):
    files = [DATA / "hpl/plain.np2.txt", *sorted((DATA / "osu").glob("*.txt"))[:2]]
    said = run(core, sys.executable, "-m", "assay", "parse", *files)
    assert [json.loads(line)["family"] for line in said.splitlines()] == ["hpl", "osu", "osu"]


def test_reframe_lists_the_tests_on_a_site(core, tmp_path):
    words = ("-C", "site-config/ibisco/reframe.py", "--system=ibisco", "-c", "reframe", "-R", "-l")
    said = run(core, sys.executable, REFRAME, *words, ASSAY_RESULTS=str(tmp_path))
    for name in ("Osu ", "Hpl ", "Hpcc ", "Iozone ", "BtIo "):
        assert f"\n- {name}" in said
    assert int(re.findall(r"Found (\d+) check", said)[0]) > 100


def test_recorded_runs_pass_and_the_page_is_written(core, tmp_path):
    bench = Bench(tmp_path)
    bench.partition(launcher="replay")
    bench.storage(tmp_path, name="files", launcher="replay")
    built = {"btio_built": {"classes": ["S"], "subtypes": ["full"]}}
    bench.replays("xhpl", ["hpl"], {"hpl": HPL})
    bench.replays("bt.S.x.mpi_io_full", ["btio"], {"btio": Recorded.load("btio-full")}, **built)
    library = str(core / "src")
    names = ("-n", "^(Hpl|BtIo.*full.*ompio)", "--mode", "smoke")
    done = bench.run(*names, path=core / "reframe", PYTHONPATH=library)
    assert {case.result for case in done.cases.values()} == {"pass"}, done.output
    assert {name.split()[0] for name, *_ in done.cases} == {"Hpl", "BtIo"}
    page = tmp_path / "page.html"
    words = (sys.executable, "-m", "assay", "report", "--output", page)
    said = run(core, *words, code=Exit.PARTIAL, ASSAY_RESULTS=str(bench.results))
    assert "2 of 2 cases ran" in said
    text = page.read_text()
    assert "Hpl" in text and "BtIo" in text
