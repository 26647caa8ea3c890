"""README.md fits on two screens, and the packages of CONTRIBUTING.md are those of import-linter."""

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
