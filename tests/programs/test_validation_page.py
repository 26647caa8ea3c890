"""docs/studies.md covers what `make paper` runs, and has no empty row."""

import re

import pytest
from bench import ROOT, run_reframe
from ci import wanted

from assay.show.validation import BETWEEN, IN_NODE
from assay.store import run_folder, session

pytestmark = pytest.mark.slow

LISTS = [ROOT / "studies/figures.yaml"]
PAGE = (ROOT / "docs/studies.md").read_text()


def rows():
    """The rows of the coverage table, without their heading."""
    section = PAGE.split("## The validation of a cluster\n")[1]
    table = section.split("| measurement | test | figures | run |\n")[1].split("\n\n")[0]
    return table.splitlines()[1:]


def test_no_row_is_empty():
    assert len(rows()) > 10
    for row in rows():
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert len(cells) == 4, row
        assert all(cells), row
        assert re.search(r"\bhere\b|not yet", cells[3]), row


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """The planned cases of the paper on ibisco; the deadline ends the run before the first one."""
    results = tmp_path_factory.mktemp("paper")
    config = ROOT / "site-config/ibisco/reframe.py"
    lines = (ROOT / "studies/tests.txt").read_text().splitlines()
    selected = f"^(?!{'|'.join(line for line in lines if not line.startswith('#'))})"
    arguments = ("-c", "reframe", "-R", "--system=ibisco", "--mode", "paper-full", "-x", selected)
    given = {"ASSAY_DEADLINE": "1s", "ASSAY_HPL_GPU": "/opt/hpl.sif"}
    run = run_reframe(config, results, *arguments, "-r", **given)
    plan = run_folder.read_plan(results / run_folder.LATEST)
    assert plan is not None, run.output
    return plan.cases


def test_every_test_of_the_paper_is_in_the_table_and_nothing_else(cases):
    selected = {case["display_name"].split()[0] for case in cases}
    assert "GpuHplStudy" in selected
    named = {name for row in rows() for name in re.findall(r"`(\w+)`", row)}
    # The Python ports of OSU replace its programs if a stack lacks them.
    assert selected - {"OsuPy"} == named & selected
    assert named - selected == {"configuration"}


def test_the_cases_have_the_figures_of_the_document_and_no_others(cases):
    declared = {
        (figure.name, figure.where("any file system", place))
        for case in wanted.named(map(session.case_named, cases))
        for figure in case.figures
        for place in (IN_NODE, BETWEEN)
        if figure.name and figure.at
    }
    assert declared == {(one.declared, one.at) for one in wanted.wanted([], LISTS)}
