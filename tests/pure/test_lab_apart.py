"""The suite stands without lab/: none of its modules, tests and sites imports one of lab."""

import ast

from shell import ROOT

#: The modules of lab: its sites are files that ReFrame loads, not modules.
OF_LAB = {path.stem for path in (ROOT / "lab").rglob("*.py")} - {"reframe", "conftest"}


def imported(folder):
    """File -> the modules of lab that it imports, of all Python files below a folder."""
    found = {}
    for path in (ROOT / folder).rglob("*.py"):
        names = set()
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                names |= {each.name.partition(".")[0] for each in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names.add(node.module.partition(".")[0])
        if names & {*OF_LAB, "lab"}:
            found[str(path.relative_to(ROOT))] = names & {*OF_LAB, "lab"}
    return found


def test_nothing_of_the_suite_imports_lab():
    for folder in ("src", "reframe", "site-config", "examples"):
        assert not imported(folder)


def test_an_import_of_lab_would_be_seen():
    assert imported("lab/sites")["lab/sites/facts.py"] == {"emulation"}
