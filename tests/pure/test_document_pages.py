"""The pages of documents cover their tests and figures, and no row of their tables is empty."""

import ast
import re
import shlex

import pytest
import yaml
from shell import ROOT

from assay import sites

#: Page -> tag of its tests, and the list of its figures.
PAGES = {
    "streaming": ("doc-001", "chu2016"),
    "many-cores": ("doc-002", "elken2008"),
    "affinity": ("doc-004", "ganapathi2018"),
    "two-clusters": ("doc-003", "richling2010"),
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


def rows(page):
    """The rows of the coverage tables of a page, without their headings."""
    section = (ROOT / f"docs/{page}.md").read_text().split("## Coverage")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    heads = [n for n, line in enumerate(lines) if line.startswith("|-")]
    kept = [line for n, line in enumerate(lines) if n not in heads and n + 1 not in heads]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in kept]


@pytest.mark.parametrize("page", PAGES)
def test_no_cell_is_empty_and_each_row_says_where_it_ran(page):
    found = rows(page)
    assert len(found) > 5
    for row in found:
        assert len(row) == 3, row
        without_test = row[1].startswith("none")
        assert row[0] and row[1] and (row[2] or without_test), row
        assert without_test or re.search(r"\bhere\b|not yet", row[2], re.I), row


@pytest.mark.parametrize("page", PAGES)
def test_the_tables_name_every_test_with_the_tag_and_no_test_that_is_not_there(page):
    tag, _ = PAGES[page]
    named = {name for row in rows(page) for name in re.findall(r"`([A-Z]\w+)`", row[1])}
    assert named <= TESTS.keys()
    assert {name for name, tags in TESTS.items() if tag in tags} <= named


@pytest.mark.parametrize("page", PAGES)
def test_each_figure_of_the_list_is_in_the_table(page):
    _, listed = PAGES[page]
    groups = yaml.safe_load((ROOT / f"src/assay/report/{listed}.yaml").read_text())
    shown = " ".join(row[0] for row in rows(page))
    for group in groups:
        if page != "two-clusters":  # its table has the talk's names of the figures
            assert not [name for name in group["figures"] if name not in shown]


def test_a_row_that_says_nothing_would_be_found(tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    text = "## Coverage\n| a | b | c |\n|---|---|---|\n" + "| x | `Osu` |  |\n" * 6
    (tmp_path / "docs/many-cores.md").write_text(text)
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    with pytest.raises(AssertionError):
        test_no_cell_is_empty_and_each_row_says_where_it_ran("many-cores")
    with pytest.raises(AssertionError):
        test_the_tables_name_every_test_with_the_tag_and_no_test_that_is_not_there("many-cores")


def test_the_mode_of_all_documents_selects_the_tests_of_each():
    """ReFrame matches the tag from its begin, and reads the options of a mode as a shell does."""
    (pattern,) = shlex.split(sites.PAPERS["paper-all"])
    for tag in ("paper", *(tag for tag, _ in PAGES.values())):
        assert re.match(pattern, tag)
        assert tag in {each for tags in TESTS.values() for each in tags}
    assert not re.match(pattern, "smoke")
    assert {f"paper-{tag.removeprefix('doc-')}" for tag, _ in PAGES.values()} <= sites.PAPERS.keys()
