"""README.md fits on two screens, and its drawing of the packages is that of import-linter."""

import re

from shell import ROOT

README = (ROOT / "README.md").read_text()


def test_it_fits_on_two_screens():
    assert len(README.splitlines()) <= 90


def test_its_drawing_is_what_import_linter_checks():
    (drawing,) = re.findall(r"^```text\n(.*?)^```$", README, re.M | re.S)
    drawn = [re.findall(r"\w+", layer) for layer in drawing.split(">")]
    text = (ROOT / "pyproject.toml").read_text()
    (layers,) = re.findall(r"^layers = \[\n(.*?)^\]$", text, re.M | re.S)
    checked = [re.findall(r"\w+", layer) for layer in re.findall(r'"(.*)"', layers)]
    assert [["__main__"], *drawn] == checked
