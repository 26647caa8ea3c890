"""``assay report --figures``: the files, their names and their numbers."""

from __future__ import annotations

import csv
import dataclasses
import os
import xml.etree.ElementTree as ET

import matplotlib.image
import pytest
import report_records as records
from ci import wanted
from shell import ROOT

from assay import cli
from assay.show import figure, figures, plots
from assay.store.session import ReportError

CASES = [
    *records.hpl_study(),
    *(c for c in records.hosts() if c.parameters["benchmark"] == "latency"),
    records.iozone("nvme", "cached", 9e6),
    records.btio("nvme", 4, 90.0, 40.0),
]
DRAWN = figure.all_figures(figures.sections(CASES))
LISTS = [ROOT / "studies/figures.yaml"]
ABSENT = wanted.absent(CASES, DRAWN, LISTS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    directory = tmp_path_factory.mktemp("figures")
    # Own drawings: if another test has drawn a figure, it gets a second, slightly other layout.
    drawn = figure.all_figures(figures.sections(CASES))
    assert figure.write_figures(directory, drawn, ABSENT) == len(drawn)
    return directory


def rows(path):
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_each_figure_is_three_files_with_a_readable_name(folder):
    names = sorted(path.stem for path in folder.glob("*.svg"))
    assert names == [
        "bt-io-class-e-simple-ompio-spack-throughput-of-computing",
        "bt-io-class-e-simple-ompio-spack-throughput-of-io",
        "bt-io-class-e-simple-ompio-spack-total-time-and-time-of-io",
        "hpl-study-execution-time-t-infiniband-spack",
        "hpl-study-fraction-of-peak-spf-infiniband-spack",
        "hpl-study-speed-up-s-infiniband-spack",
        "hpl-study-sustained-performance-sp-infiniband-spack",
        "iozone-read-cached-nvme",
        "iozone-write-cached-nvme",
        "osu-latency-intra-node",
    ]
    files = {path.name for path in folder.iterdir()}
    of_figures = {f"{name}.{end}" for name in names for end in ("svg", "png", "csv")}
    assert files == of_figures | {"missing.csv", "figures.csv"}
    assert {row["file"]: row["title"] for row in rows(folder / "figures.csv")} == {
        name: found.title for name, found in figure.figures_by_name(DRAWN).items()
    }


def test_a_folder_shows_one_run_and_keeps_what_is_not_of_the_suite(tmp_path):
    figure.write_figures(tmp_path, DRAWN[:2], ABSENT)
    (tmp_path / "my-own.png").write_text("mine")
    ours = tmp_path / f"{next(iter(figure.figures_by_name(DRAWN[1:2])))}.csv"
    ours.write_text("of the run before")
    figure.write_figures(tmp_path, DRAWN[1:3], ABSENT)
    assert {path.stem for path in tmp_path.glob("*.png")} == {
        *figure.figures_by_name(DRAWN[1:3]), "my-own"
    }  # fmt: skip
    assert (tmp_path / "my-own.png").read_text() == "mine"
    assert ours.read_text() != "of the run before"


@pytest.mark.parametrize("index", ["", "file\n../up\n/etc/x\nmissing\nfigures\n", "\0\xff"])
def test_an_index_of_whoever_removes_nothing(tmp_path, index):
    folder = tmp_path / "figures"
    folder.mkdir()
    (folder / "figures.csv").write_text(index)
    (tmp_path / "up.png").touch()
    figure.write_figures(folder, DRAWN[:1], ABSENT)
    assert (tmp_path / "up.png").exists()
    assert (folder / "missing.csv").exists()


def test_a_png_is_as_large_as_its_figure(folder):
    for name, found in figure.figures_by_name(DRAWN).items():
        pixels = matplotlib.image.imread(folder / f"{name}.png")
        width, height = found.canvas.get_size_inches() * plots.DPI
        assert pixels.shape[:2] == (int(height), int(width))
        assert pixels[..., :3].min() < 0.2
        # The border is white, as for paper, and no part of the figure is cut off.
        assert pixels[[0, -1], :, :].min() == pixels[:, [0, -1], :].min() == 1


def test_an_svg_says_what_it_shows_and_how_large_it_is(folder):
    for name, found in figure.figures_by_name(DRAWN).items():
        root = ET.parse(folder / f"{name}.svg").getroot()
        assert root.get("width").endswith("pt")
        space = "{http://www.w3.org/2000/svg}"
        assert root.find(f"{space}title").text == found.title
        assert root.find(f"{space}desc").text == found.description


def test_the_same_session_gives_the_same_files(folder, tmp_path):
    again = figure.all_figures(figures.sections(CASES))
    figure.write_figures(tmp_path, again, wanted.absent(CASES, again, LISTS))
    for path in folder.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes(), path.name


def test_the_numbers_of_a_file_are_those_of_the_records_unrounded(folder):
    found = rows(folder / "hpl-study-sustained-performance-sp-infiniband-spack.csv")
    numbers = {
        (row["P"], float(row["order N"])): float(row["sustained performance SP(P, N) [GFLOP/s]"])
        for row in found
    }
    assert numbers == {
        (case.parameters["nodes"], float(row["n"])): row["performance"]
        for case in CASES
        if case.test == "HplStudy"
        for row in case.parsed.rows
    }
    found = rows(folder / "hpl-study-speed-up-s-infiniband-spack.csv")
    assert {row["N"] for row in found} == {"40000", "80000", "120000"}


def test_the_numbers_of_a_file_are_those_that_are_drawn(folder):
    (curves,) = [f for f in DRAWN if f.title.startswith("osu_latency")]
    (axes,) = curves.canvas.axes
    found = rows(folder / "osu-latency-intra-node.csv")
    for line in axes.get_lines():
        mine = [row for row in found if row["line"] == line.get_label()]
        assert [float(row["size [B]"]) for row in mine] == list(line.get_xdata())
        assert [float(row["latency [us]"]) for row in mine] == list(line.get_ydata())
    times = rows(folder / "bt-io-class-e-simple-ompio-spack-total-time-and-time-of-io.csv")
    assert [tuple(row.values()) for row in times] == [
        ("nvme, total time", "4.0", "90.0"), ("nvme, time of I/O", "4.0", "40.0"),
    ]  # fmt: skip


def test_what_was_not_measured_is_a_table_of_its_own(folder):
    found = rows(folder / "missing.csv")
    assert len(found) == len(ABSENT)
    whole = {(row["figure"], row["at"]): row for row in found if not row["part"]}
    bcast = whole["bcast", "between GPUs in a node"]
    assert (bcast["test"], bcast["why"]) == ("", "no case was selected")
    # IOzone ran without SYNC only.
    assert whole["IOzone: SYNC write", "nvme"]["why"] == "no case was selected"
    parts = {(row["part"], row["why"]) for row in found if row["part"]}
    assert ("P = 16", "not run: 16 nodes are needed, infiniband has 8") in parts
    assert ("sysv", "not run: UCX 1.20.0 cannot run sysv") in parts
    assert "\N{NO-BREAK SPACE}" not in (folder / "missing.csv").read_text()


def test_equal_names_get_a_number_and_none_is_taken_for_the_table_of_missing(folder):
    drawn = DRAWN[0]
    odd = dataclasses.replace(drawn, name="../\N{SNOWMAN}")
    called = dataclasses.replace(drawn, name="Missing")
    names = list(figure.figures_by_name([drawn, drawn, odd, called]))
    assert names == ["osu-latency-intra-node", "osu-latency-intra-node-2", "figure", "missing-2"]


def test_a_file_that_cannot_be_written_leaves_what_was_there(tmp_path, monkeypatch):
    (tmp_path / "missing.csv").write_text("of the run before")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ReportError, match="No space left on device"):
        figure.write_figures(tmp_path, DRAWN[:1], [])
    assert [path.name for path in tmp_path.iterdir()] == ["missing.csv"]
    assert (tmp_path / "missing.csv").read_text() == "of the run before"


def test_the_command_makes_the_folder_and_says_what_is_in_it(results, capsys, tmp_path):
    results.only("Osu %transport=posix %benchmark=latency@intra-node")
    folder = tmp_path / "for" / "paper"
    # 1, because the one case has no metric with a reference: nothing was judged.
    assert cli.main(["report", "--figures", str(folder)]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == f"figures: 1 in {folder}"
    assert {path.name for path in folder.iterdir()} == {
        "missing.csv", "figures.csv", "osu-latency-intra-node.svg", "osu-latency-intra-node.png",
        "osu-latency-intra-node.csv",
    }  # fmt: skip


@pytest.mark.parametrize("place", ["reframe.log", "reframe.log/figures", "x" * 300])
def test_a_folder_that_cannot_be_written_is_one_line_and_exit_code_2(results, capsys, place):
    results.only("NodeHealth@scratch")
    folder = results.directory / place
    assert cli.main(["report", "--figures", str(folder)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"assay report: {folder}: figures cannot be written here (")
    assert "--figures DIR" in said
    assert said.count("\n") == 1
