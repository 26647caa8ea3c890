"""``assay report``: the page of a run."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from assay import files
from assay.show import summary
from assay.store import session
from assay.store.cases import Session


def command(args: argparse.Namespace) -> int:
    """Write the page, print the closing lines, return the exit code."""
    results = Path(os.environ.get("ASSAY_RESULTS") or "results")
    # ReFrame without a site of Assay makes no such directory.
    output = args.output or (results if results.is_dir() else Path()) / "report.html"
    try:
        run = session.load(args.session or session.newest(results))
        if args.ledger:
            print("\n".join(summary.ledger(run)))
            return 0
        return write(run, output, args.figures, args.study)
    except session.ReportError as error:
        print(f"assay report: {error}", file=sys.stderr)
        return 2


def write(
    run: Session, output: Path, folder: Path | None = None, studies: Sequence[Path] = ()
) -> int:
    """Write the page of a run, print the closing lines, return the exit code.

    :param folder: for the files of each figure.
    :param studies: lists of figures that the run should have.
    :raises ReportError: a file cannot be written, or a list cannot be read.
    """
    # Import these only after the input was readable: matplotlib takes a second to import.
    from assay.show import figure, figures, page, validation  # noqa: PLC0415

    sections = figures.sections(run.cases)
    drawn = figure.of(sections)
    absent = validation.absent(run.cases, drawn, studies)
    history = "history.html" if output.with_name("history.html").exists() else None
    text = page.render(run, sections, absent, output, history)
    files.write(output, text, session.ReportError, files.ELSEWHERE)
    if folder:
        figure.write(folder, drawn, absent)
    for line in summary.closing_lines(run):
        print(line)
    print(f"report: {output}")
    if folder:
        print(f"figures: {len(drawn)} in {folder}")
    return 1 if summary.outcome(run).faults else 0
