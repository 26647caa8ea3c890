"""``assay report``: the page of a run."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command ``report`` to the command ``assay``."""
    parser = commands.add_parser(
        "report",
        help="write the report of a run and say how it ended",
        description="Write one self-contained HTML page from ReFrame's run report and the "
        "evidence records of its test cases, and print what the run came to. Exit code 0 when at "
        "least one case ran, all have evidence and none failed or stayed undecided, else 1; 2 "
        "when there is nothing to report on or nowhere to write to.",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--session",
        type=Path,
        metavar="FILE",
        help="a run report of ReFrame, or the folder output/TIME of a session (default: the last "
        "one in $ASSAY_RESULTS)",
    )
    source.add_argument(
        "--pipeline",
        type=Path,
        metavar="DIR",
        help="what the jobs of a pipeline left, with the promise of what they were to run",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="the page (default: report.html in $ASSAY_RESULTS, which is results/ if unset, or "
        "here if there is no such directory)",
    )
    parser.add_argument(
        "--figures",
        type=Path,
        metavar="DIR",
        help="also write each figure as SVG, PNG and CSV, and missing.csv: what was not measured",
    )
    parser.add_argument(
        "--study",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="name the figures of this list that the run lacks, such as studies/figures.yaml",
    )
    parser.add_argument(
        "--ledger",
        action="store_true",
        help="write no page, but print the run as a row of the table in docs/hardware-log.md",
    )
    parser.set_defaults(run=command)


def command(args: argparse.Namespace) -> int:
    """Write the page, print the closing lines, return the exit code."""
    from assay.show import summary  # noqa: PLC0415
    from assay.store import pipeline, session  # noqa: PLC0415

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
            return 0
        # Import these only after the input was readable: matplotlib takes a second to import.
        from assay.show import figure, figures, page, validation  # noqa: PLC0415

        sections = figures.sections(run.cases)
        drawn = figure.of(sections)
        absent = validation.absent(run.cases, drawn, args.study)
        history = "history.html" if output.with_name("history.html").exists() else None
        text = page.render(run, sections, absent, output, history)
        page.write(output, text)
        if args.figures:
            figure.write(args.figures, drawn, absent)
    except session.ReportError as error:
        print(f"assay report: {error}", file=sys.stderr)
        return 2
    for line in summary.closing_lines(run):
        print(line)
    print(f"report: {output}")
    if args.figures:
        print(f"figures: {len(drawn)} in {args.figures}")
    return summary.outcome(run).exit_code
