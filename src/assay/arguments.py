"""How the door and each room describe the sub-commands of ``assay``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add(
    commands: Commands, name: str, run: str, what: str, description: str
) -> argparse.ArgumentParser:
    """A new sub-command.

    :param run: the function that it calls with its arguments, as ``module:name``.
    :param what: its line in the list of commands.
    """
    parser = commands.add_parser(name, help=what, description=description)
    parser.set_defaults(run=run)
    return parser


def group(commands: Commands, name: str, what: str) -> Commands:
    """The commands of a new sub-command that has such; ``action`` is the name of the one asked."""
    parser = commands.add_parser(name, help=what)
    return parser.add_subparsers(title="commands", metavar="COMMAND", required=True, dest="action")


def option(
    parser: argparse._ActionsContainer, names: str, metavar: str | None, what: str, **more: Any
) -> None:
    """An option or an argument: a path, if nothing else says its type."""
    parser.add_argument(*names.split(), metavar=metavar, help=what, **{"type": Path, **more})


def flag(parser: argparse._ActionsContainer, name: str, what: str) -> None:
    parser.add_argument(name, action="store_true", help=what)


def session(parser: argparse._ActionsContainer) -> None:
    said = "a run report of ReFrame, or the folder output/TIME of a session (default: the last "
    option(parser, "--session", "FILE", said + "one in $ASSAY_RESULTS)")


def last_size(parser: argparse.ArgumentParser) -> None:
    size = "message size at which network programs were told to stop"
    option(parser, "--last-size", "BYTES", size, type=above_zero("number of bytes", 18))


def folder(parser: argparse.ArgumentParser, what: str = "default: site-config") -> None:
    option(parser, "--folder", None, what, default=Path("site-config"))


def above_zero(what: str, digits: int) -> Callable[[str], int]:
    """The type of an argument: a whole number above 0, of so many digits at most."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= digits and int(text)):
            raise argparse.ArgumentTypeError(f"{text!r} is not a {what} above 0")
        return int(text)

    return read
