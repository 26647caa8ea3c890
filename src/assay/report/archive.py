"""``assay archive``: a run in one file, with the page, the outputs and the provenance.

The file is a zip archive, which any desktop opens. The page in it links to the outputs in it, by
relative links. ``SHA256SUMS`` lists every file: ``sha256sum -c SHA256SUMS`` checks them.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

from assay import files
from assay.report.figure import slug
from assay.results import run_folder, session
from assay.results.cases import Session
from assay.results.session import ReportError

#: The page and the list of hashes, in the folder of the archive.
PAGE, SUMS = "report.html", "SHA256SUMS"

#: The first time that a zip archive can hold, for a run without a time.
EARLIEST = (1980, 1, 1, 0, 0, 0)


def root(run: Session) -> Path:
    """The folder that holds all files of a run; links of the page are relative to it."""
    there = [path.resolve() for path in kept(run)]
    if not there:
        return run.file.resolve().parent
    return Path(os.path.commonpath([path.parent for path in there]))


def kept(run: Session) -> list[Path]:
    """Every file of a run: the run report, and of each attempt the outputs, plan and log."""
    found = dict.fromkeys([run.file] if run.file.is_file() else [])
    for case in run.attempts or run.cases:
        for path in case.outputs:
            found[path] = None
        for folder in case.outputs[0].parents if case.outputs else ():
            own = [folder / name for name in (run_folder.PLAN, run_folder.LOG)]
            if own[0].is_file():
                found.update(dict.fromkeys(path for path in own if path.is_file()))
                break
    return list(found)


def name(run: Session) -> str:
    """The name of the archive and of the folder in it: the site and the time."""
    when = run.start.strftime("%Y%m%dT%H%M%S") if run.start else run.file.stem
    return "-".join(filter(None, ("assay", slug(*run.systems), when)))


def pack(run: Session, page: str, base: Path) -> bytes:
    """The archive. The same run and page give the same bytes.

    :param page: the page, rendered with the links of a page in `base`.
    :param base: the result of :func:`root`.
    :raises ReportError: a file cannot be read.
    """
    contents = {PAGE: page.encode()}
    for path in kept(run):
        try:
            contents[os.path.relpath(path.resolve(), base)] = path.read_bytes()
        except OSError as error:
            raise ReportError(f"{path}: cannot be read ({error.strerror})") from None
    contents[SUMS] = sums(contents.items())
    stream = io.BytesIO()
    when = max(run.start.timetuple()[:6], EARLIEST) if run.start else EARLIEST
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for within, content in sorted(contents.items()):
            entry = zipfile.ZipInfo(f"{name(run)}/{within}", when)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return stream.getvalue()


def sums(contents: Iterable[tuple[str, bytes]]) -> bytes:
    """The hash of each file, as ``sha256sum`` writes it."""
    lines = [f"{hashlib.sha256(data).hexdigest()}  {within}\n" for within, data in sorted(contents)]
    return "".join(lines).encode()


def command(args: argparse.Namespace) -> int:
    """Write the archive and print its name; 2 if it cannot be written."""
    from assay.report import figure, figures, page, validation  # noqa: PLC0415

    results = Path(os.environ.get("ASSAY_RESULTS") or "results")
    try:
        run = session.load(args.session or session.newest(results))
        base = root(run)
        sections = figures.sections(run.cases)
        absent = validation.absent(run.cases, figure.of(sections))
        packed = pack(run, page.render(run, sections, absent, base / PAGE), base)
        output = args.output or results / f"{name(run)}.zip"
        try:
            files.write(output, packed)
        except OSError as error:
            raise ReportError(
                f"{output}: cannot be written ({error.strerror}); name another place with "
                "--output FILE"
            ) from None
    except ReportError as error:
        print(f"assay archive: {error}", file=sys.stderr)
        return 2
    print(f"archive: {output} ({len(packed) / 1e6:.1f} MB, {len(kept(run)) + 2} files)")
    return 0
