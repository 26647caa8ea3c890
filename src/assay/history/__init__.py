"""``assay history``: collects what many runs measured, shows it, and finds what changed."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command ``history`` to the command ``assay``."""
    parser = commands.add_parser("history", help="keep what many runs measured, and show it")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    adds = actions.add_parser(
        "add",
        help="add what runs measured",
        description="Each session is added once. A source that is not whole is named and left out. "
        "Exit code 2 when the history itself is damaged or cannot be written.",
    )
    _history(adds)
    adds.add_argument(
        "sources",
        type=Path,
        nargs="+",
        metavar="RESULTS",
        help="results directories, and files of `assay archive` and `assay certify`",
    )
    adds.set_defaults(run=_run, action=_add)
    shows = actions.add_parser(
        "show",
        help="each metric of each case, run by run",
        description="Print the latest runs side by side. The page has the changes first, and the "
        "trend of each metric, scaled to its tolerance.",
    )
    _history(shows)
    shows.add_argument("--last", type=_count, default=10, metavar="N", help="runs (default: 10)")
    shows.add_argument("--page", type=Path, metavar="FILE", help="write HTML, too")
    _folder(shows)
    shows.set_defaults(run=_run, action=_show)
    finds = actions.add_parser(
        "changes",
        help="when the level of a metric changed, and by how much",
        description="Print each change of level, the newest first: when, case, metric, node, "
        "levels, size, direction. A change counts if the new level lasted for 5 runs, and if its "
        "size is at least half of the tolerance of the metric. A planned change of the site begins "
        "a new baseline. Exit code 0 with or without changes.",
    )
    _history(finds)
    _folder(finds)
    finds.set_defaults(run=_run, action=_changes)


def _history(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "history",
        type=Path,
        metavar="DIR",
        help="of the history; a results directory is added to its own history first",
    )


def _folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("site-config"),
        help="of the sites, for tolerances and planned changes (default: site-config)",
    )


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def _run(args: argparse.Namespace) -> int:
    """Do one action and return the exit code: 2 if the history cannot be read or written."""
    from assay.history import store  # noqa: PLC0415

    try:
        if args.action is not _add and (args.history / "reports").is_dir():
            _added(args.history, [args.history])
        args.action(args)
    except (store.StoreError, OSError) as error:
        print(f"assay history: {error}", file=sys.stderr)
        return 2
    return 0


def _added(history: Path, sources: list[Path]) -> str:
    from assay.history import store  # noqa: PLC0415

    with store.opened(history, create=True) as connection:
        new, left_out = store.add(connection, sources)
        (count,) = connection.execute("SELECT count(*) FROM sessions").fetchone()
    for line in left_out:
        print(f"assay history: left out: {line}", file=sys.stderr)
    return f"assay history: {new} new sessions, {count} in {history}"


def _add(args: argparse.Namespace) -> None:
    print(_added(args.history, args.sources))


def _show(args: argparse.Namespace) -> None:
    from assay import files  # noqa: PLC0415
    from assay.history import page, series, store  # noqa: PLC0415

    with store.opened(args.history) as connection:
        found = store.runs(connection, args.last)
        if args.page:
            sites = series.Sites(args.folder)
            files.write(args.page, page.render(found, series.read(connection), sites))
    for line in page.table(found):
        print(*line, sep=" | ")


def _changes(args: argparse.Namespace) -> None:
    from assay.history import changes, page, series, store  # noqa: PLC0415

    try:
        with store.opened(args.history) as connection:
            examined = series.examine(series.read(connection), series.Sites(args.folder))
            found = series.newest_first(change for _, steps in examined for change in steps)
    except changes.NoLibrary as error:
        raise store.StoreError(str(error)) from None
    for change in found:
        print(*page.row(change), sep=" | ")
    print(f"assay history: {len(found)} changes")
