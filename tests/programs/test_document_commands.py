"""The command lines of the documents; document_commands.yaml says what runs each.

The pages are followed in a copy of the checkout. A block of code that begins with the name of its
file (`# site-config/mycluster/reframe.py`) is that file in the copy.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import shell
import yaml
from bench import ROOT

pytestmark = pytest.mark.slow

ENTRIES: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("document_commands.yaml").read_text(encoding="utf-8")
)
PAGES = [
    "CONTRIBUTING.md",
    *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
    *sorted(f"studies/{path.parent.name}/README.md" for path in (ROOT / "studies").glob("*/*.md")),
]

#: This page is followed in the folder that holds the checkout.
BESIDE = "docs/my-benchmark.md"

#: What lies in a checkout and does not belong to it.
NOT_COPIED = (".git", ".venv", ".cache", "results", "build", ".hypothesis")

#: The pages describe a cluster with modules and Slurm, and this machine has neither.
HERE = {
    "modules_system: lmod": "modules_system: nomod",
    '"login[0-9]+.mycluster"': '".*"',
    "scheduler: slurm": "scheduler: local",
    "launcher: srun": "launcher: mpirun",
    "    modules: [openmpi, osu-micro-benchmarks, hpl]\n": "",
}


@dataclass(frozen=True)
class Line:
    """A command line of a page; `red`: the page says that it fails."""

    text: str
    red: bool


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def lines(page: str) -> list[Line]:
    found = []
    for block in blocks(page, "sh"):
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            command, _, comment = line.partition("  #")
            if command.strip():
                found.append(Line(command.strip(), comment.strip().startswith("red")))
    return found


@pytest.fixture(scope="module")
def fresh_lines() -> set[str]:
    """The lines that ci/fresh.py runs, and those that it takes from the README before them."""
    fresh = shell.module("ci/fresh.py")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    run = {**fresh.blocks(readme), **fresh.machines(readme)}
    return {part for each in run.values() for line in each for part in line.text.split(" && ")} | {
        line.text for each in run.values() for line in each
    }


def test_every_line_has_an_entry_and_every_entry_a_line() -> None:
    shown = {(page, line.text) for page in PAGES for line in lines(page)}
    listed = {(page, text) for page, entries in ENTRIES.items() for text in entries}
    assert not shown - listed, "document_commands.yaml: say what runs these lines"
    assert not listed - shown, "document_commands.yaml: no page has these lines"


@pytest.mark.parametrize("page", [p for p in PAGES if p in ENTRIES])
def test_what_an_entry_names_is_there(page: str, fresh_lines: set[str]) -> None:
    for text, how in ENTRIES[page].items():
        if how == "run" or "as" in how:
            continue
        assert list(how) in (["by"], ["not"]), text
        if how.get("by") == "ci/fresh.py":
            assert text in fresh_lines, text
        elif "by" in how:
            file, _, test = how["by"].partition("::")
            assert re.search(rf"^def {test}\(", (ROOT / file).read_text(), re.M), how["by"]
        if text.startswith("make "):
            plan = shell.run("bash", "-c", f"make -n {text[5:]}", cwd=ROOT)
            assert plan.returncode == 0, plan.stdout


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the checkout, with the environment of this one."""
    made = tmp_path / "assay"
    made.mkdir()
    for path in ROOT.iterdir():
        if path.name in NOT_COPIED or path.name.endswith("_cache"):
            continue
        if path.is_dir():
            shutil.copytree(path, made / path.name, symlinks=True)
        else:
            shutil.copy(path, made)
    (made / ".venv").symlink_to(Path(sys.executable).parents[1])
    # Other tests may keep this machine busy, and nothing is judged by its numbers here.
    tolerances = made / "site-config/tolerances.yaml"
    tolerances.write_text(tolerances.read_text().replace("other_work: 0.3", "other_work: 1000"))
    return made


def localised(text: str) -> str:
    for there, here in HERE.items():
        text = text.replace(there, here)
    return text


def follow(page: str, folder: Path) -> None:
    """Writes the files that the page shows, and runs its lines in their order."""
    for text in (text for language in ("python", "yaml") for text in blocks(page, language)):
        name = re.match(r"# ([\w./-]+)\n", text)
        if name:
            file = folder / name[1]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(localised(text))
    for line in lines(page):
        how = ENTRIES[page][line.text]
        if how != "run" and "as" not in how:
            continue
        command = line.text if how == "run" else how["as"]
        variables = {**os.environ, "HOME": folder, "RFM_COLORIZE": "no"}
        done = shell.run("bash", "-c", command, cwd=folder, **variables)
        assert (done.returncode != 0) is line.red, f"{page}: {command}\n{done.stdout[-3000:]}"


def runs_something(page: str) -> bool:
    return any(how == "run" or "as" in how for how in ENTRIES.get(page, {}).values())


@pytest.mark.parametrize(
    "page",
    [
        # This page measures several times.
        pytest.param(page, marks=pytest.mark.long if page == "docs/my-cluster.md" else ())
        for page in PAGES
        if runs_something(page) and page != BESIDE
    ],
)
def test_the_page_does_what_it_says(page: str, copy: Path) -> None:
    follow(page, copy)


@pytest.mark.long
def test_a_test_outside_of_the_checkout_runs_on_an_installed_assay(copy: Path) -> None:
    """docs/my-benchmark.md: the package is built, installed, and used from elsewhere."""
    folder = copy.parent
    follow(BESIDE, folder)
    python = folder / "venv/bin/python"
    said = shell.run(python, "-c", "import assay; print(assay.__file__)", cwd=folder)
    assert Path(said.stdout.strip()).is_relative_to(folder / "venv")
    reports = sorted((folder / "mybench/results/reports").glob("run-report-*.json"))
    good, torn = (yaml.safe_load(report.read_text())["runs"][0]["testcases"] for report in reports)
    assert [case["result"] for case in good] == ["pass"]
    assert "incomplete" in torn[0]["fail_reason"]
    assert (folder / "mybench/results/report.html").stat().st_size > 0
