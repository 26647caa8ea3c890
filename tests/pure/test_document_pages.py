"""The tables of the studies cover their tests and figures, and nothing of the suite imports one."""

import ast
import re
import shlex

import pytest
import yaml
from shell import ROOT

from assay import sites

#: The folders of the studies of a document, by number.
STUDIES = {path.name[-3:]: path for path in sorted((ROOT / "studies").glob("doc*"))}


def _tags_of_tests():
    """Name of each test -> the tags that its class states."""
    found = {}
    for path in [*(ROOT / "reframe").rglob("*.py"), *(ROOT / "studies").glob("doc*/*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.ClassDef) and node.decorator_list):
                continue
            tags = [
                ast.literal_eval(line.value)
                for line in node.body
                if isinstance(line, ast.Assign) and getattr(line.targets[0], "id", "") == "tags"
            ]
            found[node.name] = tags[0] if tags else set()
    return found


TESTS = _tags_of_tests()


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
def test_the_table_names_every_test_of_the_tag_and_none_that_is_gone(study):
    named = {name for row in rows(study) for name in re.findall(r"`([A-Z]\w+)`", row[1])}
    assert named <= TESTS.keys()
    assert {name for name, tags in TESTS.items() if f"doc-{study}" in tags} <= named


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
        "`SpecMpi`, ": test_the_table_names_every_test_of_the_tag_and_none_that_is_gone,
    }
    for words, test in faults.items():
        assert words in text
        torn = text.replace(words, "")
        monkeypatch.setitem(globals(), "rows", lambda each, torn=torn: read(each, torn))
        with pytest.raises(AssertionError):
            test(study)


def test_the_mode_of_all_documents_selects_the_tests_of_each():
    """ReFrame matches the tag from its begin, and reads the options of a mode as a shell does."""
    (pattern,) = shlex.split(sites.PAPERS["paper-all"])
    for tag in ("paper", *(f"doc-{study}" for study in STUDIES)):
        assert re.match(pattern, tag)
        assert tag in {each for tags in TESTS.values() for each in tags}
    assert not re.match(pattern, "smoke")
    assert {f"paper-{study}" for study in STUDIES} <= sites.PAPERS.keys()


@pytest.mark.parametrize("study", STUDIES)
def test_the_page_of_all_studies_has_the_page_of_each(study):
    text = (ROOT / "docs/studies.md").read_text()
    assert f"{{include}} ../studies/doc{study}/README.md\n" in text


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
