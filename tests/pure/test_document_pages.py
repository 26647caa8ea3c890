"""The tables of the studies cover their tests and figures, and nothing of the suite imports one."""

import ast
import re

import pytest
import yaml
from docs import generated
from shell import ROOT

from assay.store import promise

#: The folders of the studies of a document, by number.
STUDIES = {path.name[-3:]: path for path in sorted((ROOT / "studies").glob("doc*"))}


def declared_in(folder):
    """The names of the tests below a folder."""
    return {
        node.name
        for path in folder.rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
        and "rfm.simple_test" in map(ast.unparse, node.decorator_list)
    }


def listed(folder):
    """The cases of a study, as `make paper` selects them."""
    lines = (folder / "tests.txt").read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]


def rows(study, text=None):
    """The rows of the coverage table of a study: measurement, test, figures, where it ran."""
    text = text or (STUDIES[study] / "README.md").read_text()
    table = text.split("| measurement | test | figures | run |\n")[1].split("\n\n")[0]
    lines = table.splitlines()[1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("study", STUDIES)
def test_each_row_is_full_and_says_where_it_ran(study):
    found = rows(study)
    assert len(found) > 5
    for row in found:
        assert len(row) == 4, row
        without_test = row[1].startswith("none")
        assert row[0] and row[1] and row[2] and (row[3] or without_test), row
        assert without_test or re.search(r"\bhere\b|not yet", row[3]), row


@pytest.mark.parametrize("study", STUDIES)
def test_the_table_names_every_test_of_the_study_and_none_that_is_gone(study):
    named = {name for row in rows(study) for name in re.findall(r"`([A-Z]\w+)`", row[1])}
    assert named <= declared_in(ROOT / "reframe") | declared_in(ROOT / "studies")
    assert {re.match(r"\w+", line)[0] for line in listed(STUDIES[study])} <= named


@pytest.mark.parametrize("study", STUDIES)
def test_each_figure_of_the_list_is_in_the_table(study):
    groups = yaml.safe_load((STUDIES[study] / "figures.yaml").read_text())
    shown = " ".join(row[2] for row in rows(study))
    for group in groups:
        assert not [name for name in group["figures"] if name not in shown]


def test_a_row_that_says_nothing_would_be_found(monkeypatch):
    study, read, text = "002", rows, (STUDIES["002"] / "README.md").read_text()
    faults = {
        "here in a node; between nodes not yet": test_each_row_is_full_and_says_where_it_ran,
        "`SpecMpi`, ": test_the_table_names_every_test_of_the_study_and_none_that_is_gone,
    }
    for words, test in faults.items():
        assert words in text
        torn = text.replace(words, "")
        monkeypatch.setitem(globals(), "rows", lambda each, torn=torn: read(each, torn))
        with pytest.raises(AssertionError):
            test(study)


@pytest.mark.parametrize("folder", [ROOT / "studies", *STUDIES.values()], ids=lambda f: f.name)
def test_a_study_has_all_its_own_tests_and_selects_some_of_the_suite(folder):
    """ReFrame matches a pattern with the name of a case without blanks, from its begin."""
    cases = {one.name.replace(" ", "") for one in promise.cases(ROOT / "reframe/cases.txt")}
    own = declared_in(folder) if folder.name != "studies" else set()
    assert own <= {*listed(folder)}
    for line in {*listed(folder)} - own:
        assert any(re.match(line, case) for case in cases), line


def test_the_validation_has_the_cases_that_it_was_published_with():
    cases = promise.cases(ROOT / "reframe/cases.txt")
    pattern = "|".join(listed(ROOT / "studies"))
    selected = [one.name for one in cases if re.match(pattern, one.name.replace(" ", ""))]
    assert "Iozone %sync=o_sync" in selected and "Iozone %sync=direct" not in selected
    assert {name.split()[0] for name in selected} == {
        "BtIo", "GpuHplStudy", "HplStudy", "Iozone", "Osu", "OsuCollective", "OsuGpu",
        "OsuGpuCollective", "OsuGpuRelation", "OsuPy", "OsuRails",
    }  # fmt: skip
    assert {name.split()[1] for name in selected if name[:4] == "BtIo"} == {"%subtype=simple"}


@pytest.mark.parametrize("study", STUDIES)
def test_the_page_of_all_studies_has_the_page_of_each(study):
    text = (ROOT / "docs/studies.md").read_text()
    assert f"{{include}} ../studies/doc{study}/README.md\n" in text


def test_the_page_of_all_studies_has_the_claims_of_each_with_no_empty_cell():
    text = (ROOT / "docs/studies.md").read_text()
    assert {"000", *STUDIES} == generated.DOCUMENTS.keys()
    for number in generated.DOCUMENTS:
        assert f"<!-- generated: claims {number} -->" in text
        for row in generated.claims_of(number).splitlines():
            cells = row.removeprefix("|").removesuffix("|").replace(r"\|", "").split("|")
            assert len(cells) == 7 and all(map(str.strip, cells)), row


def _imported(path):
    """The first name of each module that a file imports from elsewhere than its own package."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name.split(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module.split(".")[0]


def test_no_test_of_the_suite_imports_a_study():
    """import-linter says the same of src/assay, which is a package."""
    files = [*(ROOT / "reframe").rglob("*.py"), *(ROOT / "site-config").rglob("*.py")]
    assert not [path for path in files if "studies" in _imported(path)]
    assert "studies" in _imported(ROOT / "studies/tests/pure/test_crossing.py")
