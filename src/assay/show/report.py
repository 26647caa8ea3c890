"""``assay report``: the page of a run, and what other programs read of it."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from assay import files
from assay.exits import Exit
from assay.show import junit, openmetrics, summary
from assay.store import pipeline, session


def command(args: argparse.Namespace) -> int:
    """Write the page, print the closing lines, return the exit code."""
    results = Path(os.environ.get("ASSAY_RESULTS") or "results")
    # ReFrame without a site of Assay makes no such directory.
    output = args.output or (results if results.is_dir() else Path()) / "report.html"
    try:
        if args.pipeline:
            run = pipeline.gather(args.pipeline)
        else:
            run = session.load(args.session or session.newest(results))
        if args.ledger:
            print("\n".join(summary.ledger(run)))
            return Exit.PASS
        # Import these only after the input was readable: matplotlib takes a second to import.
        from assay.show import figure, figures, page, validation  # noqa: PLC0415

        sections = figures.sections(run.cases)
        drawn = figure.of(sections)
        absent = validation.absent(run.cases, drawn, args.study)
        history = "history.html" if output.with_name("history.html").exists() else None
        text = page.render(run, sections, absent, output, history)
        files.write(output, text, session.ReportError, files.ELSEWHERE)
        for other, made in ((args.junit, junit.render), (args.metrics, openmetrics.render)):
            if other:
                files.write(other, made(run), session.ReportError, files.ELSEWHERE)
        if args.figures:
            figure.write(args.figures, drawn, absent)
    except session.ReportError as error:
        print(f"assay report: {error}", file=sys.stderr)
        return Exit.UNKNOWN
    for line in summary.closing_lines(run):
        print(line)
    print(f"report: {output}")
    if args.figures:
        print(f"figures: {len(drawn)} in {args.figures}")
    return summary.exit_code(run)
