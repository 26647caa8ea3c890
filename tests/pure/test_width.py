"""ci/width.py: each count sees one more, and a count above its budget is said and red."""

import re

import pytest
import shell
from shell import ROOT

width = shell.module("ci/width.py")

#: Not one word, because each variable that a file of the repository has is counted.
NEW = "_".join(("ASSAY", "NEW"))


@pytest.fixture
def tree(tmp_path):
    """A repository that has one of each."""
    for name, text in {
        "src/assay/cli.py": "one\ntwo\n",
        "src/assay/judge/peaks.py": 'FILE = "hardware.yaml"\n',
        "src/assay/run/strict.py": "class Base:\n    kind = 1\n\nclass StrictCheck(Base, Theirs):\n"
        "    tags = 1\n    _own: int = 1\n    size: int\n    def read(self): self.rows = self.a\n",
        "reframe/network/osu.py": "class Osu(StrictCheck):\n    mine = 1\n",
        "docs/index.md": "# Three words here\n",
        "docs/runs.csv": NEW,
        "site-config/vocabulary.yaml": "partition: {features: {tcp: TCP}, extras: {pml: the pml}}\n"
        "environment: {extras: {}}\n",
        "site-config/common/spack/config.yaml": "{}\n",
        "site-config/here/references.yaml": "references: []\n",
        "site-config/ratios.yaml": "references: []\n",
        "tests/data/osu.txt": NEW,
        ".venv/lib.py": NEW,
        "Makefile": ".PHONY: help test\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def counted(tree):
    return {name: found for name, found, _ in width.count(tree)}


#: File, what it holds -> the count that sees it, and by how much. The size has its own test.
MORE = {
    ("src/assay/judge/new.py", "\n\n"): ("lines of Python in src/assay", 2),
    ("reframe/network/two.py", "class StrictCheck:\n    a, b, c, d, _e, f = range(6)\n"): (
        "public names above a test of OSU",
        1,
    ),
    ("docs/more/page.md", "two words\n"): ("words of docs", 2),
    ("studies/one/README.md", "two words\n"): ("words of docs", 2),
    ("src/assay/new/__init__.py", ""): ("rooms below src/assay", 1),
    ("ci/new.sh", NEW): ("environment variables of ours", 1),
    ("site-config/new.yaml", "{}\n"): ("kinds of rule files", 1),
    ("tests/data/more/new.txt", ""): ("files in tests/data", 1),
}


@pytest.mark.parametrize(("file", "more"), MORE.items(), ids=lambda each: each[0])
def test_each_count_sees_one_more_and_no_other_does(tree, file, more):
    before, (name, text) = counted(tree), file
    (tree / name).parent.mkdir(parents=True, exist_ok=True)
    (tree / name).write_text(text)
    changed = {key: found - before[key] for key, found in counted(tree).items()}
    assert {key: by for key, by in changed.items() if by} == dict([more])


def test_words_targets_and_sizes_are_counted(tree):
    found = counted(tree)
    assert found["words of a site"] == 2
    assert found["make targets"] == 2
    assert found["public names above a test of OSU"] == 4  # kind, size, read, rows
    assert found["kinds of rule files"] == 3  # vocabulary, hardware, references
    assert found["environment variables of ours"] == 0
    (tree / "tests/data/osu.txt").write_bytes(bytes(2_500_000))
    assert counted(tree)["MB in tests/data"] == 2.5


def test_a_count_above_its_budget_is_said_and_is_red_if_asked(tree, capsys):
    assert width.main(["--check"], tree) == 0
    assert "above its budget" not in capsys.readouterr().out
    (tree / "Makefile").write_text(f".PHONY: {' '.join(f'target{n}' for n in range(25))}\n")
    assert width.main(["--check"], tree) == 1
    assert "width:       25 of     24  make targets  above its budget" in capsys.readouterr().out
    assert width.main(["--print"], tree) == 0


def test_the_page_of_variables_is_that_of_the_code():
    """A variable that the code has and the page lacks, or the other way round, is red."""
    page = ROOT / "docs/variables.md"
    others = [path for path in width.files(ROOT) if path != page]
    read = {name for path in others for name in width.VARIABLE.findall(path.read_text("latin-1"))}
    listed = re.findall(r"^\| (`[^|]+) \|", page.read_text(), re.MULTILINE)
    names = [name for cell in listed for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(names) == sorted(read)
