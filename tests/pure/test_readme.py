"""README.md fits on two screens, and its drawing of the packages is that of import-linter."""

import re
import shutil

from shell import ROOT

from assay import cli

README = (ROOT / "README.md").read_text()


def test_it_fits_on_two_screens():
    assert len(README.splitlines()) <= 90


def test_the_verdict_that_it_shows_is_that_of_a_recorded_run(tmp_path, capsys):
    shutil.copytree(ROOT / "tests/data/faults/disk-slow", tmp_path / "results")
    report = tmp_path / "results/reports/run-report-0.json"
    assert cli.main(["report", "--session", str(report), "--output", str(tmp_path / "page")]) == 1
    said = capsys.readouterr().out
    (shown,) = re.findall(r"^```text\n(FAIL .*?\nverdict: .*?)\n```$", README, re.M | re.S)
    assert all(line in said for line in shown.splitlines())


def test_its_drawing_is_what_import_linter_checks():
    (drawing,) = re.findall(r"^```text\n(cli\n.*?)^```$", README, re.M | re.S)
    drawn = [re.findall(r"\w+", layer) for layer in drawing.split(">")]
    text = (ROOT / "pyproject.toml").read_text()
    (layers,) = re.findall(r"^layers = \[\n(.*?)^\]$", text, re.M | re.S)
    checked = [re.findall(r"\w+", layer) for layer in re.findall(r'"(.*)"', layers)]
    assert [["__main__"], *drawn] == checked
