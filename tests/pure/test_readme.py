"""README.md fits on two screens, and the packages of CONTRIBUTING.md are those of import-linter."""

import re

from shell import ROOT

README = (ROOT / "README.md").read_text()


def test_it_fits_on_two_screens():
    assert len(README.splitlines()) <= 90


def test_the_table_of_packages_is_what_import_linter_checks():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"^\| (?:door|beside|\d) \| (.*?) \|", text, re.M)
    drawn = [name for row in rows for name in re.findall(r"\w+", row)]
    (layers,) = re.findall(
        r"^containers = \[\"assay\"\]\nlayers = \[\n(.*?)^\]$",
        (ROOT / "pyproject.toml").read_text(),
        re.M | re.S,
    )
    assert ["__main__", *drawn] == re.findall(r"\w+", layers)
