"""The command ``assay``: its sub-commands and their options.

The function that a sub-command calls is imported when it runs, so ``assay parse`` does not load the
figures of the report.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pkgutil
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

from assay import __version__, files, locks
from assay.exits import Exit

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


class _Parser(argparse.ArgumentParser):
    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        super().exit(Exit.USAGE if status else 0, message)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command and return its exit code."""
    parser: argparse.ArgumentParser = _Parser("assay", description="What the Assay library knows.")
    parser.add_argument("--version", action="version", version=f"assay {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for about in (_of_outputs, _of_sites, _of_runs, _of_bundles, _of_references):
        about(commands)
    locks.add_parser(commands)
    _of_history(commands)
    given = sys.argv[1:] if argv is None else argv
    asked = next((word for word in given if not word.startswith("-")), "report")
    if asked not in commands.choices:
        parser.error(f"no command {asked!r}; {files.nearest(asked, commands.choices)}")
    args = parser.parse_args(given)
    run = pkgutil.resolve_name(args.run) if isinstance(args.run, str) else args.run
    try:
        return cast(int, run(args))
    except BrokenPipeError:
        # The reader, for example `head`, has closed the pipe. Without the next line, Python would
        # complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception:
        # Python would end with 1, and an error of ours is no FAIL.
        traceback.print_exc()
    return Exit.UNKNOWN


# --- the sub-commands -----------------------------------------------------------------------------


def _add(
    commands: Commands, name: str, run: str, what: str, description: str, **defaults: str
) -> argparse.ArgumentParser:
    """A new sub-command.

    :param run: the function that it calls with its arguments, as ``module:name``.
    :param what: its line in the list of commands.
    :param defaults: further arguments of the function.
    """
    parser = commands.add_parser(name, help=what, description=description)
    parser.set_defaults(run=run, **defaults)
    return parser


def _of_outputs(commands: Commands) -> None:
    parse = _add(
        commands, "parse", "assay.cli:_parse",
        "recognise outputs of benchmarks and print them as JSON",
        "Recognise the program that wrote each FILE and print one JSON object for each, on its own "
        "line. Exit code 0 when all are complete and passed their own validation.",
    )  # fmt: skip
    parse.add_argument("files", nargs="+", metavar="FILE", help="an output, - for stdin")
    parse.add_argument(
        "--last-size", type=_above_zero("number of bytes", 18), metavar="BYTES",
        help="message size at which network programs were told to stop",
    )  # fmt: skip


def _of_sites(commands: Commands) -> None:
    every = _add(
        commands, "sites", "assay.cli:_sites",
        "list the sites and check every word and reference of them",
        "Load each site as ReFrame would.",
    )  # fmt: skip
    every.add_argument("names", nargs="*", metavar="SITE", help="default: all")
    _folder(every)
    check = _add(
        commands, "check", "assay.sites.check:command",
        "say what would run on each partition of a configuration",
        "Load a configuration as ReFrame would. Print for each partition how many cases of the "
        "suite would run there, and which words would add more.",
    )  # fmt: skip
    _config(check, "assay_settings.py, or any other configuration", required=True)
    check.add_argument("--system", metavar="NAME", help="default: all, or the one of the places")
    site = commands.add_parser("site", help="write the folder of a new site")
    new = _add(
        site.add_subparsers(title="commands", metavar="COMMAND", required=True),
        "new", "assay.sites.new:run",
        "ask Slurm and its nodes what they have, and write a site that loads",
        "Ask Slurm and, by a short job, two nodes of each partition what they have. Write "
        "site-config/NAME, which loads, and list what could not be found out. Type it on a login "
        "node of the cluster. Nothing is measured.",
    )  # fmt: skip
    new.add_argument("name", metavar="NAME", help="name of the site: a-z, 0-9, - and _")
    new.add_argument(
        "--from", dest="theirs", action="append", default=[], type=Path, metavar="FILE",
        help="write assay_settings.py and assay.yaml beside this configuration of ReFrame, for its "
        "system NAME, from what it says; may be given again",
    )  # fmt: skip
    for option, metavar, text in (
        ("--partition", "P", "only this partition of Slurm"),
        ("--access", "OPTION", "an option of all jobs (--access=--account=hpc)"),
        ("--module", "M", "a module that the jobs load (openmpi/5.0.5)"),
    ):
        what = f"{text}; may be given again"
        new.add_argument(option, action="append", default=[], metavar=metavar, help=what)
    new.add_argument(
        "--wait", type=_above_zero("number of seconds", 6), default=600, metavar="S",
        help="how long each job may wait for its nodes, in seconds (default: 600)",
    )  # fmt: skip
    new.add_argument("--dry-run", action="store_true", help="print the files, and write nothing")
    _folder(new)
    folder = "print the folder of the tests, for ReFrame's option -c"
    _add(commands, "tests", "assay.cli:_tests", folder, f"{folder.capitalize()}.")
    expect = _add(
        commands, "expect", "assay.sites.expect:command",
        "write which cases must run",
        "Write reframe/cases.txt, the cases of the suite, and promise.yaml of a site, the words "
        "that it promises. What a person writes in the latter is kept. Review what changes, and "
        "commit it.",
    )  # fmt: skip
    expect.add_argument("--site", metavar="SITE", help="default: only the cases of the suite")
    _config(
        expect, "assay_settings.py of a site that has a configuration of its own; write "
        "promise.yaml beside it, and no cases",
    )  # fmt: skip
    current = "write nothing; exit code 1 if a file is not current"
    expect.add_argument("--check", action="store_true", help=current)
    _folder(expect)


def _of_runs(commands: Commands) -> None:
    report = _add(
        commands, "report", "assay.show.report:command",
        "write the report of a run and say how it ended",
        "Write one self-contained HTML page from ReFrame's run report and the evidence records of "
        "its test cases, and print what the run came to. The exit code is that of its verdict.",
    )  # fmt: skip
    source = report.add_mutually_exclusive_group()
    _session(source)
    _path(
        source, "--pipeline", "DIR",
        "what the jobs of a pipeline left, with the promise of what they were to run",
    )  # fmt: skip
    _path(
        report, "--output", "FILE",
        "the page (default: report.html in $ASSAY_RESULTS, which is results/ if unset, or here if "
        "there is no such directory)",
    )  # fmt: skip
    _path(
        report, "--figures", "DIR",
        "also write each figure as SVG, PNG and CSV, and missing.csv: what was not measured",
    )  # fmt: skip
    _path(report, "--junit", "FILE", "also write the cases as JUnit XML")
    _path(report, "--metrics", "FILE", "also write values, bounds and verdicts as OpenMetrics")
    report.add_argument(
        "--study", type=Path, action="append", default=[], metavar="FILE",
        help="name the figures of this list that the run lacks, such as studies/figures.yaml",
    )  # fmt: skip
    ledger = "write no page, but print the run as a row of docs/ledger.csv"
    report.add_argument("--ledger", action="store_true", help=ledger)
    nodes = _add(
        commands, "nodes", "assay.show.nodes:command",
        "print a verdict for each node, device and cable of a run",
        "Print a verdict for each node of a run, and for each accused switch and cable, with the "
        "evidence; the commands that would drain the failed nodes, which are not executed; and the "
        "command that measures again.",
    )  # fmt: skip
    _session(nodes)
    nodes.add_argument("--json", action="store_true", help="one JSON object instead of a table")


def _of_bundles(commands: Commands) -> None:
    archive = _add(
        commands, "archive", "assay.bundle.command:write",
        "write a run into one file, to keep or to send",
        "Write one zip file about a session: its page, its verbatim outputs and records, the "
        "references of the site, and the hash of each.",
    )  # fmt: skip
    certify = _add(
        commands, "certify", "assay.bundle.command:write",
        "write a run into one file, and sign it",
        "Write the file of assay archive, judge the session again from it, and sign it. The exit "
        "code is that of the verdict. Nothing is written when the verdict does not follow.",
    )  # fmt: skip
    for parser, output in ((archive, "assay-SITE-TIME.zip"), (certify, "certificate.zip")):
        _session(parser)
        default = f"default: {output} in $ASSAY_RESULTS, which is results/ if unset"
        _path(parser, "--output", "FILE", default)
        _folder(parser, "of the sites (default: site-config)")
    certify.add_argument(
        "--key", type=Path, metavar="KEY", required=True,
        help="private key of OpenSSH that signs, or the public key of one that an agent holds",
    )  # fmt: skip
    verify = _add(
        commands, "verify", "assay.bundle.command:verify",
        "check the file of a run, and judge the run again",
        "Check every byte of the file of assay archive or assay certify, and its signature, and "
        "judge the session again from the verbatim outputs. The exit code is that of the verdict, "
        "if nothing was changed, a known signer signed it, and the verdict that it states follows.",
    )  # fmt: skip
    verify.add_argument("file", type=Path, metavar="FILE")
    _path(
        verify, "--signers", "FILE",
        "the known signers, as ssh-keygen takes them: NAME, and the public key, on each line",
    )  # fmt: skip
    verify.add_argument(
        "--any-signer", action="store_true",
        help="accept an unknown signer, or none: only the contents are checked",
    )  # fmt: skip
    _path(
        verify, "--against", "OLD",
        "the file of an earlier acceptance, which must be reached again",
    )  # fmt: skip


def _of_references(commands: Commands) -> None:
    parser = _add(
        commands, "calibrate", "assay.calibrate.command:run",
        "measure a site N times and write its references",
        "Run the suite N times without judging, and write median and bounds of each metric that "
        "the site's references.yaml says nothing of into calibrated.yaml beside it. A launch that "
        "fails, a sample that is too small and a reference that would become worse without a "
        "reason are refused, and then nothing is written.",
    )  # fmt: skip
    parser.add_argument("--site", required=True, help="a folder below site-config")
    parser.add_argument(
        "--launches", type=int, default=10, metavar="N", help="of each case (default: 10)"
    )
    parser.add_argument("--stack", help="only this stack of the site (default: all)")
    parser.add_argument(
        "--profile", choices=("smoke", "full"), default="full",
        help="which sizes are run; the references hold for these only (default: full)",
    )  # fmt: skip
    parser.add_argument(
        "--reason", metavar="TEXT", help="why references may become worse; goes into the file"
    )
    parser.add_argument(
        "--without-peak", metavar="TEXT",
        help="why no rate of a partition reaches 70 %% of a peak of its hardware in its first "
        "calibration; goes into the file",
    )  # fmt: skip
    dry_run = "show the differences, write nothing"
    parser.add_argument("--dry-run", action="store_true", help=dry_run)
    parser.add_argument(
        "--from", dest="reports", nargs="+", type=Path, metavar="REPORT",
        help="run reports of calibrations already made, instead of running one",
    )  # fmt: skip
    _folder(parser)
    arguments = "after --: further arguments of reframe"
    parser.add_argument("arguments", nargs="*", metavar="ARG", help=arguments)


def _of_history(commands: Commands) -> None:
    parser = commands.add_parser("history", help="keep what many runs measured, and show it")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    run = "assay.history.command:run"
    add = _add(
        actions, "add", run, "add what runs measured",
        "Each session is added once. A source that is not whole is named and left out.",
        action="add",
    )  # fmt: skip
    show = _add(
        actions, "show", run, "each metric of each case, run by run",
        "Print the latest runs side by side. The page has the changes first, and the trend of each "
        "metric, scaled to its tolerance.",
        action="show",
    )  # fmt: skip
    changes = _add(
        actions, "changes", run, "when the level of a metric changed, and by how much",
        "Print each change of level, the newest first: when, case, metric, node, levels, size, "
        "direction. A change counts if the new level lasted for 5 runs, and if its size is at "
        "least half of the tolerance of the metric. A planned change of the site begins a new "
        "baseline.",
        action="changes",
    )  # fmt: skip
    for action in (add, show, changes):
        action.add_argument(
            "history", type=Path, metavar="DIR",
            help="of the history; a results directory is added to its own history first",
        )  # fmt: skip
    add.add_argument(
        "sources", type=Path, nargs="+", metavar="RESULTS",
        help="results directories, and files of `assay archive` and `assay certify`",
    )  # fmt: skip
    last = _above_zero("number", 9)
    show.add_argument("--last", type=last, default=10, metavar="N", help="runs (default: 10)")
    _path(show, "--page", "FILE", "write HTML, too")
    for action in (show, changes):
        _folder(action, "of the sites, for tolerances and planned changes (default: site-config)")


# --- options of several sub-commands --------------------------------------------------------------


def _session(parser: argparse._ActionsContainer) -> None:
    _path(
        parser,
        "--session",
        "FILE",
        "a run report of ReFrame, or the folder output/TIME of a session (default: the last "
        "one in $ASSAY_RESULTS)",
    )


def _path(parser: argparse._ActionsContainer, option: str, metavar: str, what: str) -> None:
    parser.add_argument(option, type=Path, metavar=metavar, help=what)


def _config(parser: argparse.ArgumentParser, what: str, required: bool = False) -> None:
    parser.add_argument("-C", "--config", type=Path, required=required, metavar="FILE", help=what)


def _folder(parser: argparse.ArgumentParser, what: str = "default: site-config") -> None:
    parser.add_argument("--folder", type=Path, default=Path("site-config"), help=what)


def _above_zero(what: str, digits: int) -> Callable[[str], int]:
    """The type of an argument: a whole number above 0, of so many digits at most."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= digits and int(text)):
            raise argparse.ArgumentTypeError(f"{text!r} is not a {what} above 0")
        return int(text)

    return read


# --- what they do ---------------------------------------------------------------------------------


def _tests(_: argparse.Namespace) -> int:
    print(files.SUITE / "reframe")
    return Exit.PASS


def _sites(args: argparse.Namespace) -> int:
    from assay.sites import listing  # noqa: PLC0415

    return listing.run(args.names, args.folder)


def _parse(args: argparse.Namespace) -> int:
    ends = set()
    for name in args.files:
        result, end = _parse_file(name, args.last_size)
        print(json.dumps(_finite(result), allow_nan=False), flush=True)
        ends.add(end)
    return next(end for end in (Exit.FAIL, Exit.UNKNOWN, Exit.PASS) if end in ends)


def _parse_file(name: str, last_size: int | None) -> tuple[dict[str, Any], Exit]:
    """The JSON object for one file, and whether its run was sound. Every file gets one."""
    from assay.parse import ParseError, registry  # noqa: PLC0415
    from assay.prove import transports  # noqa: PLC0415

    try:
        raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        # Open MPI 5 puts NUL bytes into an output.
        text = raw.decode("utf-8", errors="replace").replace("\0", "")
        parsed = transports.with_path(registry.parse(text, last_size=last_size), text)
    except (OSError, ParseError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        unread: dict[str, Any] = dict.fromkeys(("family", "program", "version"))
        unread.update(complete=False, rows=[], units={}, problems=[reason], facts={})
        return {"file": name, **unread}, Exit.UNKNOWN
    return {"file": name, **parsed.as_dict()}, Exit.PASS if parsed.sound else Exit.FAIL


def _finite(value: Any) -> Any:
    """`value` with null in place of NaN and infinities, which JSON cannot represent."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
