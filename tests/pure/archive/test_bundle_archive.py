"""The archive: whole, with links that lead into it, and hashes that ordinary programs check."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import urllib.parse
import zipfile
from pathlib import Path

import pytest
from certificates import DATA, archive
from tests.pure.show.test_page import Document

from assay.archive import bundle
from assay.cli import main
from assay.store import session


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("archive") / "run.zip"
    assert archive(path) == 0
    return path


def test_every_link_leads_to_a_file_of_the_archive(packed, tmp_path):
    with zipfile.ZipFile(packed) as found:
        found.extractall(tmp_path)
    document = Document((tmp_path / "report.html").read_text())
    links = [urllib.parse.unquote(h) for h in document.all("href") if not h.startswith("#")]
    assert len(links) > 10
    for link in links:
        target = (tmp_path / link).resolve()
        assert target.is_file(), link
        assert target.is_relative_to(tmp_path.resolve())
    inside = {href[1:] for href in document.all("href") if href.startswith("#")}
    assert inside <= set(document.all("id"))


def test_nothing_of_the_run_is_left_out(packed):
    run = session.load_session(DATA / "results/reports/run-report-0.json")
    outputs = [path for case in run.attempts for path in case.outputs]
    assert len(outputs) > 10
    (folder,) = (DATA / "results/output").iterdir()
    own = [run.file, folder / "session.json", folder / "reframe.log"]
    names = {path.relative_to(DATA).as_posix() for path in [*outputs, *own] if path.is_file()}
    assert names <= set(zipfile.ZipFile(packed).namelist())


def test_the_hashes_are_those_of_the_files(packed):
    with zipfile.ZipFile(packed) as found:
        lines = found.read(bundle.SUMS).decode().splitlines()
        assert len(lines) == len(found.namelist()) - 1
        for line in lines:
            digest, _, name = line.partition("  ")
            assert hashlib.sha256(found.read(name)).hexdigest() == digest


def link(path: Path, folder: Path) -> None:
    (folder / "secret").write_text("of the signer alone")
    path.with_name("x.log").symlink_to(folder / "secret")


def link_inside(path: Path, folder: Path) -> None:
    path.with_name("x.log").symlink_to(path)


def link_to_folder(path: Path, folder: Path) -> None:
    shutil.move(path.parent, folder / "moved")
    path.parent.symlink_to(folder / "moved")


def large(path: Path, folder: Path) -> None:
    with path.with_name("x.log").open("wb") as stream:
        stream.truncate(bundle.MOST_OF_MEMBER + 1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (link, "x.log: is a symbolic link; put a readable file there"),
        (link_inside, "x.log: is a symbolic link; put a readable file there"),
        (link_to_folder, r"/Hpcc/\S+: lies outside of .*; move it below, and try again"),
        (large, f"x.log: has more than {bundle.MOST_OF_MEMBER} B; put a readable file there"),
    ],
)
def test_an_archive_holds_only_what_is_below_the_run(results, tmp_path, capsys, change, said):
    results.only("Hpcc@intra-node")
    change(results.record("Hpcc@intra-node"), tmp_path)
    assert main(["archive"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(said, line), line
    assert not list(results.directory.glob("*.zip"))


def test_a_pipe_in_a_case_is_no_output(results, capsys):
    results.only("Hpcc@intra-node")
    os.mkfifo(results.record("Hpcc@intra-node").with_name("x.log"))
    assert main(["archive"]) == 0
    (made,) = results.directory.glob("assay-local-*.zip")
    assert not [name for name in bundle.read_bundle(made).members if name.endswith("x.log")]


def test_results_may_be_a_symbolic_link(results, tmp_path, monkeypatch, capsys):
    results.only("Hpcc@intra-node")
    (tmp_path / "linked").symlink_to(results.directory)
    monkeypatch.setenv("ASSAY_RESULTS", str(tmp_path / "linked"))
    assert main(["archive"]) == 0
    (made,) = results.directory.glob("assay-local-*.zip")
    assert [name for name in bundle.read_bundle(made).members if name.endswith("/Hpcc/assay.json")]


def test_the_command_names_the_archive_and_refuses_what_it_cannot_read(results, capsys, tmp_path):
    results.only("Hpcc@intra-node")
    assert main(["archive"]) == 0
    said = capsys.readouterr().out
    (made,) = results.directory.glob("assay-local-*.zip")
    assert f": {made} (" in said.splitlines()[-1]
    assert bundle.read_bundle(made).signature is None
    assert main(["archive", "--output", str(tmp_path / "no" / "such.zip")]) == 2
    assert "name another place with --output FILE" in capsys.readouterr().err
    results.file.write_text("{")
    assert main(["archive", "--session", str(results.file)]) == 2
    assert "not JSON" in capsys.readouterr().err
