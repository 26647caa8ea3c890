"""``assay report --figures DIR``: every figure as SVG, PNG and CSV, for a paper or a program."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from assay import files
from assay.report import plots
from assay.report.figure import Figure, slug
from assay.report.validation import Absent
from assay.results.session import ReportError

#: Names of two files beside those of the figures: the missing parts, and the index of the figures.
MISSING, INDEX = "missing", "figures"

ENDINGS = ("svg", "png", "csv")


def write(directory: Path, figures: Iterable[Figure], absent: Sequence[Absent]) -> int:
    """Write ``NAME.svg``, ``NAME.png``, ``NAME.csv`` of each, ``figures.csv``, ``missing.csv``.

    Each file is written whole or not at all; a file of the same name is replaced. Figures that the
    ``figures.csv`` of an earlier run lists are deleted, so that a folder shows one run. Other files
    stay.

    :returns: how many figures there are.
    :raises ReportError: the directory cannot be made or written.
    """
    drawn = named(figures)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        index = directory / f"{INDEX}.csv"
        before = _indexed(index)
        for name, figure in drawn.items():
            files.write(directory / f"{name}.svg", figure.document)
            files.write(directory / f"{name}.png", plots.png(figure.canvas))
            files.write(
                directory / f"{name}.csv", table(figure.numbers.header, figure.numbers.rows)
            )
        files.write(directory / f"{MISSING}.csv", missing(absent))
        # Delete them before the new index replaces the old one.
        for name in before - {*drawn, MISSING, INDEX}:
            for ending in ENDINGS:
                (directory / f"{name}.{ending}").unlink(missing_ok=True)
        rows = [[name, figure.title, figure.caption] for name, figure in drawn.items()]
        files.write(index, table(("file", "title", "caption"), rows))
    except OSError as error:
        raise ReportError(
            f"{directory}: figures cannot be written here ({error.strerror}); "
            "name another folder with --figures DIR"
        ) from None
    return len(drawn)


def named(figures: Iterable[Figure]) -> dict[str, Figure]:
    """Figures by the name of their files; if two names are equal, the second gets a number."""
    found: dict[str, Figure] = {}
    for figure in figures:
        name = base = slug(figure.name)[:120].rstrip("-") or "figure"
        number = 1
        while name in found or name in (MISSING, INDEX):
            number += 1
            name = f"{base}-{number}"
        found[name] = figure
    return found


def _indexed(index: Path) -> set[str]:
    """The names of the figures that an earlier run wrote, from its index."""
    try:
        rows = list(csv.reader(io.StringIO(index.read_text(encoding="utf-8"))))
    except (OSError, UnicodeDecodeError, csv.Error):
        return set()
    return {row[0] for row in rows[1:] if row and slug(row[0]) == row[0]}


def table(header: Sequence[str], rows: Iterable[Sequence[str | float]]) -> str:
    """Rows as CSV (RFC 4180, lines ended by a line feed), each number with all its digits."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return stream.getvalue()


def missing(absent: Iterable[Absent]) -> str:
    """The parts that were not measured, as CSV; `part` is empty if the whole figure is missing."""
    header = ("figure", "at", "part", "test", "why")
    return table(header, [[_plain(getattr(item, name)) for name in header] for item in absent])


def _plain(text: str) -> str:
    """Text with ordinary blanks, which any program recognises."""
    return text.replace("\N{NO-BREAK SPACE}", " ")
