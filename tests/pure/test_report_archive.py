"""The archive: whole, the same each time, and with links that lead into it."""

from __future__ import annotations

import hashlib
import io
import urllib.parse
import zipfile

import pytest
from test_report_page import Document

from assay.cli import main
from assay.report import archive, page
from assay.results import session


def packed(results) -> zipfile.ZipFile:
    """The archive of the session, without figures, which take long to draw."""
    run = session.load(results.file)
    base = archive.root(run)
    text = page.render(run, [], (), base / archive.PAGE)
    return zipfile.ZipFile(io.BytesIO(archive.pack(run, text, base)))


def test_every_link_leads_to_a_file_of_the_archive(results, tmp_path):
    with packed(results) as found:
        found.extractall(tmp_path / "mailed")
    (folder,) = (tmp_path / "mailed").iterdir()
    document = Document((folder / archive.PAGE).read_text())
    links = [urllib.parse.unquote(h) for h in document.all("href") if not h.startswith("#")]
    assert len(links) > 10
    for link in links:
        target = (folder / link).resolve()
        assert target.is_file(), link
        assert target.is_relative_to(folder.resolve())
    inside = {href[1:] for href in document.all("href") if href.startswith("#")}
    assert inside <= set(document.all("id"))


def test_nothing_of_the_run_is_left_out(results):
    run = session.load(results.file)
    with packed(results) as found:
        names = {name.partition("/")[2] for name in found.namelist()}
    outputs = [path for case in run.cases for path in case.outputs]
    assert len(outputs) > 10
    base = archive.root(run)
    assert {str(path.resolve().relative_to(base)) for path in [*outputs, results.file]} <= names


def test_the_hashes_are_those_of_the_files(results):
    with packed(results) as found:
        top = archive.name(session.load(results.file))
        lines = found.read(f"{top}/{archive.SUMS}").decode().splitlines()
        assert len(lines) == len(found.namelist()) - 1
        for line in lines:
            digest, _, name = line.partition("  ")
            assert hashlib.sha256(found.read(f"{top}/{name}")).hexdigest() == digest


def test_the_same_run_gives_the_same_bytes(results):
    run = session.load(results.file)
    base = archive.root(run)
    assert archive.pack(run, "page", base) == archive.pack(run, "page", base)


def test_a_lost_output_is_refused_in_one_line(results):
    run = session.load(results.file)
    lost = run.cases[0].outputs[0]
    lost.unlink()
    with pytest.raises(session.ReportError, match=r"rfm_job.*: cannot be read \(No such file"):
        archive.pack(run, "page", archive.root(run))


def test_the_command_names_the_archive_and_refuses_what_it_cannot_read(results, capsys, tmp_path):
    results.only("Hpcc@intra-node")
    assert main(["archive"]) == 0
    said = capsys.readouterr().out
    (made,) = results.directory.glob("assay-local-*.zip")
    assert said.startswith(f"archive: {made} (")
    assert zipfile.is_zipfile(made)
    assert main(["archive", "--output", str(tmp_path / "no" / "such.zip")]) == 2
    assert "name another place with --output FILE" in capsys.readouterr().err
    results.file.write_text("{")
    assert main(["archive", "--session", str(results.file)]) == 2
    assert "not JSON" in capsys.readouterr().err
