"""ci/width.py: each count sees one more, and a count above its budget is said and red."""

import pytest
import shell

width = shell.module("ci/width.py")


@pytest.fixture
def tree(tmp_path):
    """A repository that has one of each."""
    for name, text in {
        "src/assay/cli.py": "one = 1\n\ndef parse(): ...\n",
        "src/assay/parse/hpl.py": "def parse(): ...\ndef _own(): ...\n",
        "src/assay/fleet/census.py": "\n",
        "src/assay/run/strict.py": "class Base:\n    pass\n",
        "docs/index.md": "# Three words here\n",
        "site-config/here/reframe.py": "from assay import sites\n",
        "tests/pure/run/test_strict.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_lines_and_words_are_counted(tree):
    assert width.modules(tree) == {
        "cli.py": 3, "fleet/census.py": 1, "parse/hpl.py": 2, "run/strict.py": 2,
    }  # fmt: skip
    (tree / "studies/one").mkdir(parents=True)
    (tree / "studies/one/README.md").write_text("two words\n")
    assert width.pages(tree) == {"docs/index.md": 4, "studies/one/README.md": 2}
    assert width.site_lines(tree, "here") == 1


def test_a_name_counts_from_its_third_module_on(tree):
    assert not width.shared_names(tree)
    (tree / "src/assay/run/osu.py").write_text("def parse(): ...\n")
    assert width.shared_names(tree) == {"parse": 3}
    (tree / "src/assay/node").mkdir()
    (tree / "src/assay/node/each.py").write_text("def parse(): ...\n")
    assert width.shared_names(tree) == {"parse": 3}


def test_a_module_has_a_test_at_its_path(tree):
    assert width.untested(tree) == ["cli.py", "parse/hpl.py"]
    (tree / "tests/programs/parse").mkdir(parents=True)
    (tree / "tests/programs/parse/test_hpl.py").touch()
    assert width.untested(tree) == ["cli.py"]


LIBRARY = {
    "src/assay/__init__.py": "",
    "src/assay/base.py": "from assay import deep\n\nclass Base(deep.Deep):\n"
    "    def _hidden(self): ...\n    @run_after('setup')\n    def hook(self): ...\n",
    "src/assay/deep.py": "class Deep:\n    def seen(self): ...\n    def other(self): ...\n",
    "src/assay/never.py": "",
    "reframe/network/osu.py": "from assay.base import Base\n\nclass Osu(Base):\n    pass\n",
}


def test_private_methods_and_hooks_above_a_test_count(tmp_path):
    for name, text in LIBRARY.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        first = "def run_after(phase): return lambda method: method\n" if "hook" in text else ""
        (tmp_path / name).write_text(first + text)
    assert width.child(tmp_path, "above", "Osu") == {
        "classes": 2, "files": 2, "hooks": 1, "methods": 4, "lines": 7,
    }  # fmt: skip
    assert width.child(tmp_path, "closure", "reframe/network/osu.py") == {"modules": 3, "lines": 10}


def test_a_value_is_found_wherever_it_is():
    assert width.holds({"a": [(1, 2.5)]}, 2.5)
    assert not width.holds({"a": [(1, 2.25)]}, 2.5)
    assert width.holds(width.argparse.Namespace(), 2.5) is False


def test_a_count_above_its_budget_is_said_and_is_red(monkeypatch, capsys):
    one_more = {**width.BUDGETS, "lines of the core": 20_001}
    monkeypatch.setattr(width, "counts", lambda tree: iter(one_more.items()))
    assert width.main([]) == 1
    assert "20,001 of 20,000  lines of the core  above its budget" in capsys.readouterr().out
    (aim,) = width.AIMS
    monkeypatch.setattr(width, "counts", lambda tree: iter({**width.BUDGETS, aim: 99_999}.items()))
    assert width.main([]) == 0
    assert f"{aim}  above its budget" in capsys.readouterr().out
    monkeypatch.setattr(width, "counts", lambda tree: iter(width.BUDGETS.items()))
    assert width.main([]) == 0
    monkeypatch.setattr(width, "counts", lambda tree: iter([]))
    assert width.main([]) == 1
    assert "not counted: lines of src/assay, " in capsys.readouterr().out
