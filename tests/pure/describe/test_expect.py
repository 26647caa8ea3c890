"""A site is one folder: the document names its files, and the example has no others."""

import os
import re

import pytest
import yaml
from shell import ROOT, SITES

from assay import cli
from assay.describe import expect, listing, machine, written
from assay.store import promise

EXAMPLES = listing.find(ROOT / "examples")
FOLDERS = [path.parent for path in SITES.values()]


def files():
    """File -> whether a site needs it, as docs/adding-a-site.md says."""
    text = (ROOT / "docs/adding-a-site.md").read_text()
    table = text.split("| file | needed |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| (`[^|]+) \| (yes|no) \|", table, re.MULTILINE)
    return {name: need == "yes" for names, need in rows for name in re.findall(r"`([^`]+)`", names)}


def test_the_document_names_the_files_that_the_example_has():
    known = files()
    needed = {"reframe.py", "assay.yaml", "promise.yaml"}
    assert {name for name, need in known.items() if need} == needed
    assert EXAMPLES
    for path in EXAMPLES:
        assert {entry.name for entry in path.parent.iterdir()} - {"__pycache__"} == {
            *needed, "references.yaml", "hardware.yaml", "README.md"
        }  # fmt: skip


@pytest.mark.parametrize("site", FOLDERS, ids=lambda path: path.name)
def test_every_site_has_the_files_it_needs_and_no_file_that_the_document_does_not_name(site):
    known = files()
    there = {entry.name + "/" * entry.is_dir() for entry in site.iterdir()} - {"__pycache__/"}
    assert there <= set(known)
    assert {name for name, needed in known.items() if needed} <= there


@pytest.mark.parametrize("config", EXAMPLES, ids=lambda path: path.parent.name)
def test_an_example_loads_and_says_that_it_is_one(config, tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path))
    monkeypatch.delenv("ASSAY_STACK", raising=False)
    _, lines, empty = listing.selected_cases(config)
    assert any(line.startswith("  gpu, stack ") for line in lines)
    assert empty == []
    readme = (config.parent / "README.md").read_text()
    assert "example" in readme.splitlines()[0]
    assert "This cluster does not exist." in readme
    assert "This cluster does not exist" in config.with_name("assay.yaml").read_text()


@pytest.mark.parametrize("site", FOLDERS, ids=lambda path: path.name)
def test_the_file_that_reframe_loads_is_the_same_everywhere(site):
    assert (site / "reframe.py").read_text() == written.REFRAME


#: The sites whose words are the same on each machine.
FIXED = [
    site / "reframe.py"
    for site in FOLDERS
    if not re.search("^(machine|facts):", (site / "assay.yaml").read_text(), re.M)
]


def test_what_must_run_does_not_depend_on_the_machine_that_writes_it(monkeypatch, tmp_path):
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path / "results"))
    monkeypatch.delenv("ASSAY_STACK", raising=False)

    def written(cores):
        processor = {"num_cpus": cores, "num_cpus_per_core": 1, "num_sockets": 1}
        monkeypatch.setattr(machine, "cpuinfo", lambda: processor)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {*range(cores)})
        monkeypatch.setattr(os, "cpu_count", lambda: cores)
        return expect.listed(ROOT / "reframe"), [expect.of_site(site, {}) for site in FIXED]

    assert len(FIXED) > 2
    assert written(1) == written(2)


def test_the_list_and_the_promises_are_current(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path / "results"))
    first, *others = FIXED
    words = ["--check", "--site", first.parent.name, "--folder", first.parents[1].name]
    assert cli.main(["expect", *words]) == 0, capsys.readouterr().out
    for site in others:
        path = site.with_name(promise.FILE)
        assert expect.of_site(site, yaml.safe_load(path.read_text())) == path.read_text()
