"""``assay check TEST``: what a test is, and the lines of a site that judge it."""

import re
import shutil

import pytest
from docs import cards
from shell import ROOT

from assay import cli
from assay.judge import Peak, References, Verdict, judge

EDR = {"system": "ibisco", "partition": "infiniband", "environ": "spack", "profile": "full"}
OSU_BW = {**EDR, "test": "Osu", "benchmark": "bw", "transport": "rc_mlx5"}


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A copy of the site ibisco, in the folder where a person works."""
    shutil.copytree(ROOT / "site-config/ibisco", tmp_path / "site-config/ibisco")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "site-config/ibisco"


def said(capsys, *words):
    code = cli.main(["check", *map(str, words)])
    return code, *capsys.readouterr()


@pytest.mark.parametrize("test", ["Osu", "OsuPy", "NodeHealth"])
def test_the_card_of_a_test_is_printed(test, capsys):
    (path,) = (path for path in cards.FILES if f"class {test}(" in path.read_text())
    code, out, _ = said(capsys, test)
    assert code == 0
    assert cards.card(path) in out and str(path.relative_to(ROOT)) in out
    assert "references.yaml:" not in out


def test_a_misspelt_test_and_nothing_at_all_are_refused(capsys):
    assert said(capsys, "Oso")[::2] == (64, "assay check: no test 'Oso'; did you mean 'Osu'?\n")
    assert said(capsys)[::2] == (64, "assay check: name a test, or a configuration by -C FILE\n")


def test_a_threshold_is_changed_in_one_line_of_one_file(site, capsys):
    """The guide in docs/adding-a-site.md."""

    def verdict():
        references = References.load(site / "references.yaml")
        found = references.find(OSU_BW, "bandwidth_1MiB", "MB/s", Peak("link", 12500))
        return judge([12000.0], found).verdict

    assert verdict() is Verdict.PASS
    code, out, _ = said(capsys, "Osu", "-C", "site-config/ibisco/reframe.py")
    (found,) = re.findall(r"^(\S+):(\d+): .*benchmark: bw.*: bandwidth_1MiB: .*$", out, re.M)
    assert (code, found[0]) == (0, "site-config/ibisco/references.yaml")
    lines = (site / "references.yaml").read_text().splitlines(keepends=True)
    at = int(found[1]) - 1
    lines[at] = re.sub(r"(bandwidth_1MiB: \D*)\d+", r"\g<1>24000", lines[at])
    (site / "references.yaml").write_text("".join(lines))
    assert verdict() is Verdict.FAIL


def test_the_lines_are_those_that_may_judge_the_test(site, capsys):
    (site / "references.yaml").write_text(
        "references:\n"
        "- {for: {partition: '*', test: [Hpl, Osu]}, metrics: {a: '>= 1 MB/s'}, source: a tender}\n"
        "- for: {partition: x}\n"
        "  metrics:\n"
        "    b: {value: 1, unit: MB/s, lower: 0, upper: null}\n"
        "    c: '>= 2 MB/s'\n"
        "  source: the tender\n"
        "- {for: {partition: '*', test: Hpl}, metrics: {d: '>= 1 MB/s'}, source: a tender}\n"
        "recorded:\n"
        "- {for: {partition: '*', test: Hpl}, why: not of this test}\n"
        "- {for: {partition: '*'}, why: nothing is known}\n"
    )
    config = site / "reframe.py"
    places = re.findall(r"references.yaml:(\d+): .*: (\S+:) ", said(capsys, "Osu", "-C", config)[1])
    assert [int(line) for line, _ in places] == [2, 5, 6, 11]
    (site / "references.yaml").write_text("references: {}\n")
    assert said(capsys, "Osu", "-C", config)[0] == 2
    (site / "references.yaml").unlink()
    assert said(capsys, "Osu", "-C", config)[0] == 0
