"""``assay history``: collects the results of many runs, shows them, and finds what changed."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command ``history`` to the command ``assay``."""
    parser = commands.add_parser("history", help="keep the results of many runs, and show them")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    adds = actions.add_parser(
        "add",
        help="add what runs measured",
        description="Each session is added once. A source that is not whole is named and left out. "
        "Exit code 2 when the history itself is damaged or cannot be written: it stays as it is.",
    )
    adds.add_argument("into", type=Path, metavar="DIR", help="the history")
    adds.add_argument(
        "sources", type=Path, nargs="+", metavar="RESULTS", help="results directories"
    )
    adds.set_defaults(run=_run, action="add")
    shows = actions.add_parser(
        "show",
        help="each metric of each case, run by run",
        description="Print the latest runs side by side. The page has the changes first, and the "
        "trend of each metric, scaled to its tolerance.",
    )
    _of(shows)
    shows.add_argument("--last", type=_count, default=10, metavar="N", help="runs (default: 10)")
    shows.add_argument("--page", type=Path, metavar="FILE", help="write HTML, too")
    _judged_by(shows)
    shows.set_defaults(run=_run, action="show")
    finds = actions.add_parser(
        "changes",
        help="when the level of a metric changed, and by how much",
        description="Print each change of level, the newest first: when, case, metric, node, "
        "levels, size, direction. A change counts if the new level lasted for 5 runs, and if its "
        "size is at least half of the tolerance of the metric. A planned change (planned.yaml of "
        "the site) begins a new baseline. Exit code 0 with or without changes.",
    )
    _of(finds)
    _judged_by(finds)
    finds.set_defaults(run=_run, action="changes")
    exports = actions.add_parser(
        "export",
        help="write all values as one table",
        description="Write each value with its session, case and node on a line of its own: CSV, "
        "or JSON lines if FILE ends in .jsonl.",
    )
    _of(exports)
    exports.add_argument("file", type=Path, metavar="FILE", help="the table")
    exports.set_defaults(run=_run, action="export")


def _of(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "store", type=Path, metavar="DIR", help="the history, or the results directory of a site"
    )


def _judged_by(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("site-config"),
        help="of the sites, for tolerances and planned changes (default: site-config)",
    )
    parser.add_argument(
        "--site", help="the site of all results (default: the one with the name of the system)"
    )


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def _run(args: argparse.Namespace) -> int:
    from assay.history import command  # noqa: PLC0415 - imports numpy

    return command.run(args)
