"""What ``assay history add``, ``show`` and ``changes`` do."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from assay import files
from assay.archive.certificate import command
from assay.archive.history import page, series, store
from assay.exits import Exit


def run_history(args: argparse.Namespace) -> int:
    try:
        if args.action == "add":
            said, left_out = added(args.history, args.sources, partial(command.accepted, args))
            print(said)
            return Exit.UNKNOWN if left_out else Exit.PASS
        if (args.history / "reports").is_dir():
            added(args.history, [args.history])
        (_show if args.action == "show" else _changes)(args)
    except (store.StoreError, OSError) as error:
        print(f"assay history: {error}", file=sys.stderr)
        return Exit.UNKNOWN
    return Exit.PASS


def added(history: Path, sources: Sequence[Path], accept: Any = None) -> tuple[str, list[str]]:
    """Add what is new to a history, name what was left out, and say how much was added."""
    with store.open_history(history, create=True) as connection:
        new, left_out = store.add(connection, sources, accept)
        (count,) = connection.execute("SELECT count(*) FROM sessions").fetchone()
    for line in left_out:
        print(f"assay history: left out: {line}", file=sys.stderr)
    return f"assay history: {new} new sessions, {count} in {history}", left_out


def _show(args: argparse.Namespace) -> None:
    with store.open_history(args.history) as connection:
        found = store.latest_runs(connection, args.last)
        if args.page:
            files.write_file(
                args.page, page.render_history(found, series.read_series(connection), args.folder)
            )
    for line in page.runs_table(found):
        print(*line, sep=" | ")


def _changes(args: argparse.Namespace) -> None:
    with store.open_history(args.history) as connection:
        examined = series.examine(series.read_series(connection), args.folder)
        found = series.newest_first(change for _, steps in examined for change in steps)
    for change in found:
        print(*page.row(change), sep=" | ")
    print(f"assay history: {len(found)} changes")
