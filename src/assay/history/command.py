"""The actions of ``assay history``."""

from __future__ import annotations

import argparse
import sqlite3
import sys

from assay import files
from assay.history import index, table
from assay.results.store import DATABASE, StoreError


def run(args: argparse.Namespace) -> int:
    """Do one action and return the exit code: 2 if the history cannot be read or written."""
    action = {"add": _add, "show": _show, "changes": _changes, "export": _export}[args.action]
    try:
        action(args)
    except (StoreError, OSError) as error:
        print(f"assay history: {error}", file=sys.stderr)
        return 2
    return 0


def _add(args: argparse.Namespace) -> None:
    from assay.history import adding  # noqa: PLC0415

    new, left_out = adding.add(args.into, args.sources)
    for line in left_out:
        print(f"assay history: left out: {line}", file=sys.stderr)
    print(f"assay history: {new} new sessions in {args.into / DATABASE}")


def _show(args: argparse.Namespace) -> None:
    found = index.ask(args.store, lambda connection: _shown(connection, args))
    for line in table.rows(found):
        print(*line, sep=" | ")


def _shown(connection: sqlite3.Connection, args: argparse.Namespace) -> list[table.Run]:
    problems = index.problems(connection)
    _say(problems)
    found = table.runs(connection, args.last)
    if args.page:
        # scipy and ruptures take a second to import.
        from assay.history import page, series  # noqa: PLC0415

        sites = series.Sites(args.folder, args.site)
        drawn = page.trends(series.read(connection), sites)
        files.write(args.page, page.render(found, drawn, sites.planned, problems))
    return found


def _changes(args: argparse.Namespace) -> None:
    from assay.history import changes, page, series  # noqa: PLC0415

    sites = series.Sites(args.folder, args.site)

    def question(connection: sqlite3.Connection) -> list[series.Change]:
        _say(index.problems(connection))
        examined = series.examine(series.read(connection), sites)
        return series.newest_first(change for _, found in examined for change in found)

    try:
        found = index.ask(args.store, question)
    except changes.NoLibrary as error:
        raise StoreError(str(error)) from None
    for change in found:
        one = change.series
        node = f"node {one.node}" if one.node else "all nodes"
        print(
            table.date(change.start), one.case, one.metric, node, page.levels(change),
            page.size(change), page.DIRECTION[change.for_worse], sep=" | ",
        )  # fmt: skip
    print(f"assay history: {len(found)} changes")


def _export(args: argparse.Namespace) -> None:
    from assay.history import export  # noqa: PLC0415

    def question(connection: sqlite3.Connection) -> int:
        _say(index.problems(connection))
        return export.write(connection, args.file)

    print(f"assay history: {index.ask(args.store, question)} lines in {args.file}")


def _say(problems: list[str]) -> None:
    for line in problems:
        print(f"assay history: left out: {line}", file=sys.stderr)
