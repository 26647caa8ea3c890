"""The command ``assay``, with one function for each sub-command.

Each sub-command imports what it needs when it runs, so ``assay parse`` does not load the figures of
the report.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from assay import __version__, bundle, calibrate, files, history, locks, show
from assay.show import nodes


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command and return its exit code; 2 for wrong usage, as in argparse."""
    parser = argparse.ArgumentParser(prog="assay", description="What the Assay library knows.")
    parser.add_argument("--version", action="version", version=f"assay {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_parse(commands)
    _add_sites(commands)
    _add_check(commands)
    _add_site(commands)
    _add_expect(commands)
    show.add_parser(commands)
    nodes.add_parser(commands)
    bundle.add_parser(commands)
    calibrate.add_parser(commands)
    locks.add_parser(commands)
    history.add_parser(commands)
    # A new command needs one _add_NAME here, and one function that _add_NAME sets as `run`.
    given = sys.argv[1:] if argv is None else argv
    asked = next((word for word in given if not word.startswith("-")), "report")
    if asked not in commands.choices:
        parser.error(f"no command {asked!r}; {files.nearest(asked, commands.choices)}")
    args = parser.parse_args(given)
    try:
        return cast(int, args.run(args))
    except BrokenPipeError:
        # The reader, for example `head`, has closed the pipe. Without the next line, Python would
        # complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _add_parse(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "parse",
        help="recognise outputs of benchmarks and print them as JSON",
        description=(
            "Recognise the program that wrote each FILE and print one JSON object for each, on "
            "its own line. Exit code 0 when all are complete and passed their own validation, "
            "else 1."
        ),
    )
    command.add_argument("files", nargs="+", metavar="FILE", help="an output, - for stdin")
    command.add_argument(
        "--last-size",
        type=_size,
        metavar="BYTES",
        help="message size at which network programs were told to stop",
    )
    command.set_defaults(run=_parse)


def _add_sites(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "sites",
        help="list the sites and check every word and reference of them",
        description="Load each site as ReFrame would. Exit code 1 when one of them is refused.",
    )
    command.add_argument("names", nargs="*", metavar="SITE", help="default: all")
    command.add_argument(
        "--folder", type=Path, default=Path("site-config"), help="default: site-config"
    )
    command.set_defaults(run=_sites)


def _sites(args: argparse.Namespace) -> int:
    from assay.sites import listing  # noqa: PLC0415

    return listing.run(args.names, args.folder)


def _add_check(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "check",
        help="say what would run on each partition of a configuration",
        description="Load a configuration as ReFrame would. Print for each partition how many "
        "cases of the suite would run there, and which words would add more. Exit code 1 when "
        "nothing would run, 2 when the configuration is refused.",
    )
    command.add_argument(
        "-C",
        "--config",
        type=Path,
        required=True,
        metavar="FILE",
        help="assay_settings.py, or any other configuration",
    )
    command.add_argument("--system", metavar="NAME", help="default: all, or the one of the places")
    command.set_defaults(run=_check)


def _check(args: argparse.Namespace) -> int:
    from assay.sites import check  # noqa: PLC0415

    return check.command(args)


def _add_site(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    site = commands.add_parser("site", help="write the folder of a new site")
    actions = site.add_subparsers(title="commands", metavar="COMMAND", required=True)
    command = actions.add_parser(
        "new",
        help="ask Slurm and its nodes what they have, and write a site that loads",
        description="Ask Slurm and, by a short job, two nodes of each partition what they have. "
        "Write site-config/NAME, which loads, and list what could not be found out. Type it on a "
        "login node of the cluster. Nothing is measured.",
    )
    command.add_argument("name", metavar="NAME", help="name of the site: a-z, 0-9, - and _")
    command.add_argument(
        "--from",
        dest="theirs",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="write assay_settings.py and assay.yaml beside this configuration of ReFrame, for its "
        "system NAME, from what it says; may be given again",
    )
    for option, metavar, text in (
        ("--partition", "P", "only this partition of Slurm; may be given again"),
        (
            "--access",
            "OPTION",
            "an option of all jobs (--access=--account=hpc); may be given again",
        ),
        ("--module", "M", "a module that the jobs load (openmpi/5.0.5); may be given again"),
    ):
        command.add_argument(option, action="append", default=[], metavar=metavar, help=text)
    command.add_argument(
        "--wait",
        type=_seconds,
        default=600,
        metavar="S",
        help="how long each job may wait for its nodes, in seconds (default: 600)",
    )
    command.add_argument(
        "--dry-run", action="store_true", help="print the files, and write nothing"
    )
    command.add_argument(
        "--folder", type=Path, default=Path("site-config"), help="default: site-config"
    )
    command.set_defaults(run=_site_new)


def _site_new(args: argparse.Namespace) -> int:
    from assay.sites import new  # noqa: PLC0415

    return new.run(args)


def _add_expect(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "expect",
        help="write which cases must run",
        description="Write reframe/cases.txt, the cases of the suite, and promise.yaml of a site, "
        "the words that it promises. What a person writes in the latter is kept. Review what "
        "changes, and commit it.",
    )
    command.add_argument("--site", metavar="SITE", help="default: only the cases of the suite")
    command.add_argument(
        "-C",
        "--config",
        type=Path,
        metavar="FILE",
        help="assay_settings.py of a site that has a configuration of its own; write promise.yaml "
        "beside it, and no cases",
    )
    command.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit code 1 if a file is not current",
    )
    command.add_argument(
        "--folder", type=Path, default=Path("site-config"), help="default: site-config"
    )
    command.set_defaults(run=_expect)


def _expect(args: argparse.Namespace) -> int:
    from assay.sites import expect  # noqa: PLC0415

    return expect.command(args)


def _seconds(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 7 and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return int(text)


def _size(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes above 0")
    return int(text)


def _parse(args: argparse.Namespace) -> int:
    sound = True
    for name in args.files:
        result, good = _parse_file(name, args.last_size)
        print(json.dumps(_finite(result), allow_nan=False), flush=True)
        sound = sound and good
    return 0 if sound else 1


def _parse_file(name: str, last_size: int | None) -> tuple[dict[str, Any], bool]:
    """The JSON object for one file, and whether its run was sound. Every file gets one."""
    from assay.parse import ParseError, registry  # noqa: PLC0415
    from assay.prove import transports  # noqa: PLC0415

    try:
        raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        parsed = transports.with_path(registry.parse(_text(raw), last_size=last_size), _text(raw))
    except (OSError, ParseError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        unread: dict[str, Any] = dict.fromkeys(("family", "program", "version"))
        unread.update(complete=False, rows=[], units={}, problems=[reason], facts={})
        return {"file": name, **unread}, False
    return {"file": name, **parsed.as_dict()}, parsed.sound


def _text(raw: bytes) -> str:
    """An output as text, without the NUL bytes that Open MPI 5 puts into it."""
    return raw.decode("utf-8", errors="replace").replace("\0", "")


def _finite(value: Any) -> Any:
    """`value` with null in place of NaN and infinities, which JSON cannot represent."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
