"""``assay report``: one HTML page and the closing lines of a run."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from assay.report import session, summary


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand ``report`` to the command ``assay``."""
    parser = subparsers.add_parser(
        "report",
        help="write the report of a run and say how it ended",
        description="Writes one self-contained HTML page from ReFrame's run report and the "
        "evidence records of its test cases, and prints the verdict. The exit code is 0 only if "
        "at least one case ran, all have evidence, and none failed or stayed undecided.",
    )
    parser.add_argument(
        "--session", type=Path, metavar="FILE", help="a run report (default: the newest one)"
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="the page (default: report.html in results)"
    )
    parser.add_argument(
        "--max-harness",
        type=float,
        metavar="PERCENT",
        help="red if more of the wall time than this went outside of benchmarks",
    )
    parser.set_defaults(command=command)


def command(arguments: argparse.Namespace) -> int:
    """Write the page, print the closing lines.

    :returns: 0 for a run that stands, 1 for one that is red, 2 where there is nothing to report
        on or nowhere to write to.
    """
    results = Path(os.environ.get("ASSAY_RESULTS") or "results")
    output = arguments.output or results / "report.html"
    try:
        file = arguments.session or session.newest(results)
        run = session.load(file)
        # Matplotlib takes a second to import: only after the input has turned out readable.
        from assay.report import page  # noqa: PLC0415

        write(output, page.render(run, output, arguments.max_harness))
    except session.ReportError as error:
        print(f"assay report: {error}", file=sys.stderr)
        return 2
    for line in summary.closing_lines(run, arguments.max_harness):
        print(line)
    print(f"report: {output}")
    return 1 if summary.faults(run, arguments.max_harness) else 0


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all, readable for all whom the umask lets.

    :raises ReportError: it cannot be written.
    """
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as stream:
            temporary = Path(stream.name)
            stream.write(text)
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise session.ReportError(
            f"{path}: cannot be written ({error.strerror}); name another place with --output FILE"
        ) from None
