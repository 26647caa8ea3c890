"""``assay report``: the page of a run, and what other programs read of it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from assay import files
from assay.exits import Exit
from assay.show import junit, openmetrics, summary
from assay.show.view import View
from assay.store import run_folder, session
from assay.store.cases import Session

if TYPE_CHECKING:
    from assay.show.figure import Absent, Figure


def report_command(args: argparse.Namespace) -> int:
    results = session.results()
    # ReFrame without a site of Assay makes no such directory.
    output = args.output or (results if results.is_dir() else Path()) / "report.html"
    try:
        run = session.load_session(args.session or session.newest(results))
        return write_report(run, output, args.figures, None, args.junit, args.metrics)
    except session.NoAnswer as error:
        run_folder.no_answer(str(error), output, args.junit, args.metrics)
        print(f"assay report: {error}", file=sys.stderr)
        return Exit.UNKNOWN
    except session.ReportError as error:
        print(f"assay report: {error}", file=sys.stderr)
        return Exit.UNKNOWN


def write_report(  # noqa: PLR0913, PLR0917
    run: Session,
    output: Path,
    folder: Path | None = None,
    lacks: Callable[[Sequence[Figure]], list[Absent]] | None = None,
    to_junit: Path | None = None,
    to_metrics: Path | None = None,
) -> Exit:
    """Write the page of a run, print the closing lines, return the exit code.

    :param lacks: what the drawn figures lack; by default only parts of themselves.
    :raises ReportError: a file cannot be written, or `lacks` raised it.
    """
    # Import these only after the input was readable: matplotlib takes a second to import.
    from assay.show import figure, figures, page, validation  # noqa: PLC0415

    view = View.of(run)
    sections = figures.sections(run.cases, view.whole)
    few = not view.whole and (folder or lacks)
    drawn = figure.all_figures(figures.sections(run.cases) if few else sections)
    absent = (lacks or validation.incomplete)(drawn)
    history = output.with_name("history.html")
    # The next run, of this site or another one, writes its page to the same place.
    ours = run.folder.is_dir() and run.folder.parents[1:2] == (output.parent.resolve(),)
    kept = [run.folder / output.name] if ours else []
    for path in (output, *kept):
        address = os.path.relpath(history, path.parent) if history.exists() else None
        text = page.render_page(view, sections, absent, path, address)
        files.write_file(path, text, session.ReportError, files.ELSEWHERE)
    for other, made in ((to_junit, junit.render_junit), (to_metrics, openmetrics.render_metrics)):
        if other:
            files.write_file(other, made(view), session.ReportError, files.ELSEWHERE)
    if folder:
        figure.write_figures(folder, drawn, absent)
    for line in summary.closing_lines(view):
        print(line)
    print(f"report: {output}")
    if folder:
        print(f"figures: {len(drawn)} in {folder}")
    return view.code
