"""The matrix of faults over verbs, and the script of restarts and losses: what needs no cluster."""

import importlib
import sys

import cluster_page
import pytest
import verbs_matrix
import verbs_spread
from shell import ROOT


@pytest.fixture
def faults(monkeypatch, tmp_path):
    """The module lab/vcluster/faults.py."""
    monkeypatch.setenv("ASSAY_VCLUSTER", str(tmp_path))
    monkeypatch.syspath_prepend(str(ROOT / "lab/vcluster"))
    names = {path.stem for path in (ROOT / "lab/vcluster").glob("*.py")}
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module("faults")
    for name in names:
        sys.modules.pop(name, None)


def test_the_matrix_has_every_fault_that_such_a_node_can_have(faults):
    tried = {fault.words[0] for fault in verbs_matrix.FAULTS if fault.words}
    assert tried == faults.WITH_KERNEL | faults.OF_VERBS
    assert all(fault.tests and fault.partition for fault in verbs_matrix.FAULTS)


def test_the_page_shows_the_runs_of_the_file():
    page, made = cluster_page.PAGE.read_text(), verbs_matrix.document()
    told = "type python lab/tests/clusters/verbs_matrix.py --page"
    assert page == cluster_page.replaced(page, made, verbs_matrix.BEGIN, verbs_matrix.END), told
    runs = cluster_page.load(verbs_matrix.RUNS)
    assert verbs_matrix.TABLE.read_text() == cluster_page.written(runs), told


def test_only_counters_that_grew_are_shown():
    before = {"node01": {"sent_pkts": 5, "duplicate_request": 0}, "node02": {"sent_pkts": 1}}
    after = {"node01": {"sent_pkts": 9, "duplicate_request": 0}, "node02": {"sent_pkts": 1}}
    assert verbs_spread.grown(before, after) == {"node01": {"sent_pkts": 4}, "node02": {}}
