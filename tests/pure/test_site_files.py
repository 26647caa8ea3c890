"""A site is one folder: the document names its files, and the example has no others."""

import os
import re
import runpy

import pytest
from shell import ROOT, SITES

from assay import catalogue
from assay.onnode import provenance
from assay.sites import ideal, listing, machine

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
    needed = {"reframe.py", "references.yaml", "expected.yaml"}
    assert {name for name, need in known.items() if need} == needed
    assert EXAMPLES
    for path in EXAMPLES:
        assert {entry.name for entry in path.parent.iterdir()} - {"__pycache__"} == {
            *needed, "hardware.yaml", "README.md"
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
    lines = listing.describe(*listing.load(config), set(catalogue.WORDS))
    assert any(line.startswith("partition gpu: ") for line in lines)
    readme = (config.parent / "README.md").read_text()
    assert "example" in readme.splitlines()[0]
    assert "This cluster does not exist." in readme
    assert "This cluster does not exist" in config.read_text()


@pytest.mark.parametrize("site", FOLDERS, ids=lambda path: path.name)
def test_what_must_run_on_a_site_does_not_depend_on_the_machine_that_writes_it(
    site, monkeypatch, tmp_path
):
    monkeypatch.setenv(ideal.VARIABLE, "1")
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("ASSAY_VCLUSTER", str(tmp_path / "none"))
    monkeypatch.delenv("ASSAY_STACK", raising=False)

    def no_program(*_):
        raise FileNotFoundError

    monkeypatch.setattr(provenance, "bounded", no_program)

    def places(cores):
        processor = {**ideal.PROCESSOR, "num_cpus": cores, "num_cpus_per_socket": cores}
        monkeypatch.setattr(machine, "cpuinfo", lambda: processor)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {*range(cores)})
        monkeypatch.setattr(os, "cpu_count", lambda: cores)
        loaded = runpy.run_path(str(site / "reframe.py"))["site_configuration"]
        keys = ("name", "features", "environs", "processor")
        return [[p.get(k) for k in keys] for s in loaded["systems"] for p in s["partitions"]]

    assert places(1) == places(96)
