"""The tables of the studies cover their tests and figures, and no row of them is empty."""

import ast
import re
import shlex

import pytest
import yaml
from shell import ROOT

from assay import sites

PAGE = ROOT / "docs/studies.md"
#: Study -> tag of its tests, and the list of its figures.
STUDIES = {
    "Broadcast for streaming": ("doc-001", "chu2016"),
    "Nodes with many cores": ("doc-002", "elken2008"),
    "Two clusters over a long link": ("doc-003", "richling2010"),
    "Processes near their network device": ("doc-004", "ganapathi2018"),
}


def _tags_of_tests():
    """Name of each test -> the tags that its class states."""
    found = {}
    for path in sorted((ROOT / "reframe").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.ClassDef) and node.decorator_list):
                continue
            tags = [
                ast.literal_eval(line.value)
                for line in node.body
                if isinstance(line, ast.Assign) and line.targets[0].id == "tags"
            ]
            found[node.name] = tags[0] if tags else set()
    return found


TESTS = _tags_of_tests()


def rows(study, text=None):
    """The rows of the coverage table of a study: measurement, test, figures, where it ran."""
    section = (text or PAGE.read_text()).split(f"\n## {study}\n")[1].split("\n## ")[0]
    table = section.split("| measurement | test | figures | run |\n")[1].split("\n\n")[0]
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
    tag, _ = STUDIES[study]
    named = {name for row in rows(study) for name in re.findall(r"`([A-Z]\w+)`", row[1])}
    assert named <= TESTS.keys()
    assert {name for name, tags in TESTS.items() if tag in tags} <= named


@pytest.mark.parametrize("study", STUDIES)
def test_each_figure_of_the_list_is_in_the_table(study):
    _, listed = STUDIES[study]
    groups = yaml.safe_load((ROOT / f"src/assay/report/{listed}.yaml").read_text())
    shown = " ".join(row[2] for row in rows(study))
    for group in groups:
        assert not [name for name in group["figures"] if name not in shown]


def test_a_row_that_says_nothing_would_be_found(monkeypatch):
    study, read, text = "Nodes with many cores", rows, PAGE.read_text()
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
    for tag in ("paper", *(tag for tag, _ in STUDIES.values())):
        assert re.match(pattern, tag)
        assert tag in {each for tags in TESTS.values() for each in tags}
    assert not re.match(pattern, "smoke")
    assert {
        f"paper-{tag.removeprefix('doc-')}" for tag, _ in STUDIES.values()
    } <= sites.PAPERS.keys()
