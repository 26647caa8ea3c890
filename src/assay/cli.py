"""The command ``assay``: the sub-commands of the core, and those of the rooms that are there.

The function that a sub-command calls is imported when it runs, so ``assay parse`` does not load the
figures of the report.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib.util
import os
import pkgutil
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TextIO, cast

from assay import __version__, files
from assay.arguments import Commands, add, flag, last_size, option, session
from assay.exits import Exit

#: The rooms with commands: each offers them by its module ``commands``.
ROOMS = ("describe", "opinions", "archive")

#: What the command does alone, if there is an archive.
ALONE = (
    "Without a command: what changed since the last accepted run in $ASSAY_RESULTS, when each node "
    "was last proven and by what, what is overdue, and the commands that drain and measure."
)


class _Parser(argparse.ArgumentParser):
    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        super().exit(Exit.USAGE if status else 0, message)


class _Shown:
    """A stream for the reader of a command.

    Nothing in a text of a program or a host acts on a terminal. A reader, such as `head`, may close
    the stream, and the exit code stays.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._unless_closed(self._stream.write, files.clean(text))
        return len(text)

    def flush(self) -> None:
        self._unless_closed(self._stream.flush)

    def _unless_closed(self, act: Callable[..., Any], *words: str) -> None:
        try:
            act(*words)
        except BrokenPipeError:
            # Python would else complain at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command and return its exit code."""
    # Records have no cycles. Looking for some took a third of the report of 10,000 cases.
    gc.set_threshold(100_000)
    out, err = (cast(TextIO, _Shown(stream)) for stream in (sys.stdout, sys.stderr))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        return _main(argv)


def _main(argv: Sequence[str] | None) -> int:
    rooms = [room for room in ROOMS if importlib.util.find_spec(f"assay.{room}")]
    archive = "archive" in rooms
    parser: argparse.ArgumentParser = _Parser("assay", description=ALONE if archive else None)
    parser.add_argument("--version", action="version", version=f"assay {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=not archive)
    _offer(commands)
    for room in rooms:
        importlib.import_module(f"assay.{room}.commands").offer(commands)
    given = sys.argv[1:] if argv is None else argv
    asked = next((word for word in given if not word.startswith("-")), "report")
    if asked not in commands.choices:
        parser.error(f"no command {asked!r}; {files.nearest(asked, commands.choices)}")
    args = parser.parse_args(given, argparse.Namespace(run="assay.archive.history.morning:show"))
    try:
        code = cast(int, pkgutil.resolve_name(args.run)(args))
        sys.stdout.flush()
        return code
    except Exception:
        # Python would end with 1, and an error of ours is no FAIL.
        traceback.print_exc()
    return Exit.UNKNOWN


def _offer(commands: Commands) -> None:
    said = files.own(__file__, dict[str, Any], "commands.yaml")
    parse, _, report, nodes = (add(commands, name, **its) for name, its in said.items())
    option(parse, "files", "FILE", "an output, - for stdin; or a folder", nargs="+", type=str)
    last_size(parse)
    session(report)
    page = "the page (default: report.html in $ASSAY_RESULTS, which is results/ if unset, or here "
    option(report, "--output", "FILE", page + "if there is no such directory)")
    drawn = "also write each figure as SVG, PNG and CSV, and missing.csv: what was not measured"
    option(report, "--figures", "DIR", drawn)
    option(report, "--junit", "FILE", "also write the cases as JUnit XML")
    option(report, "--metrics", "FILE", "also write values, bounds and verdicts as OpenMetrics")
    session(nodes)
    flag(nodes, "--json", "one JSON object instead of a table")


def _tests(_: argparse.Namespace) -> int:
    print(files.SUITE / "reframe")
    return Exit.PASS
