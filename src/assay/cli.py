"""The command ``assay``: its sub-commands and their options.

The function that a sub-command calls is imported when it runs, so ``assay parse`` does not load the
figures of the report.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import pkgutil
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO, cast

from assay import __version__, files
from assay.exits import Exit

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


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
    out, err = (cast(TextIO, _Shown(stream)) for stream in (sys.stdout, sys.stderr))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        return _main(argv)


def _main(argv: Sequence[str] | None) -> int:
    parser: argparse.ArgumentParser = _Parser("assay", description=ALONE)
    parser.add_argument("--version", action="version", version=f"assay {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for about in (_of_outputs, _of_sites, _of_runs, _of_bundles, _of_references, _of_history):
        about(commands)
    given = sys.argv[1:] if argv is None else argv
    asked = next((word for word in given if not word.startswith("-")), "report")
    if asked not in commands.choices:
        parser.error(f"no command {asked!r}; {files.nearest(asked, commands.choices)}")
    args = parser.parse_args(given, argparse.Namespace(run="assay.history.morning:show"))
    try:
        code = cast(int, pkgutil.resolve_name(args.run)(args))
        sys.stdout.flush()
        return code
    except Exception:
        # Python would end with 1, and an error of ours is no FAIL.
        traceback.print_exc()
    return Exit.UNKNOWN


def _add(
    commands: Commands, name: str, run: str, what: str, description: str
) -> argparse.ArgumentParser:
    """A new sub-command.

    :param run: the function that it calls with its arguments, as ``module:name``.
    :param what: its line in the list of commands.
    """
    parser = commands.add_parser(name, help=what, description=description)
    parser.set_defaults(run=run)
    return parser


def _group(commands: Commands, name: str, what: str) -> Commands:
    """The commands of a new sub-command that has such; ``action`` is the name of the one asked."""
    parser = commands.add_parser(name, help=what)
    return parser.add_subparsers(title="commands", metavar="COMMAND", required=True, dest="action")


def _option(
    parser: argparse._ActionsContainer, names: str, metavar: str | None, what: str, **more: Any
) -> None:
    """An option or an argument: a path, if nothing else says its type."""
    parser.add_argument(*names.split(), metavar=metavar, help=what, **{"type": Path, **more})


def _flag(parser: argparse._ActionsContainer, name: str, what: str) -> None:
    parser.add_argument(name, action="store_true", help=what)


def _of_outputs(commands: Commands) -> None:
    parse = _add(
        commands, "parse", "assay.show.sent:parse",
        "recognise outputs of benchmarks and print them as JSON",
        "Recognise the program that wrote each FILE and print one JSON object for each, on its own "
        "line. Exit code 0 when all are complete and passed their own validation.",
    )  # fmt: skip
    _option(parse, "files", "FILE", "an output, - for stdin; or a folder", nargs="+", type=str)
    _flag(parse, "--table", "a table of all, not JSON; so for a FILE that is a folder")
    judge = _add(
        commands, "judge", "assay.show.sent:command",
        "judge an output that somebody sent, and draw it",
        "Print a verdict on the output of a launch that nobody witnessed, with the reasons and "
        "with what cannot be known. PASS needs a log of UCX or NCCL in the output that shows the "
        "path, and a link or a site to compare with. The exit code is that of the verdict.",
    )  # fmt: skip
    _option(judge, "file", "FILE", "an output, - for stdin", type=str)
    _option(judge, "--site", "SITE", "compare with the references of this site", type=str)
    for option, metavar, text in (
        ("--hardware", "ROLE=NAME", "hardware of hardware.yaml: link=infiniband-hdr"),
        ("--case", "KEY=VALUE", "of the case of the site: partition=gpu; may be given again"),
    ):
        _option(judge, option, metavar, text, type=str, action="append", default=[])
    _option(judge, "--plot", "FILE", "an SVG or .png (default: the name of the output, .svg)")
    sites = files.SUITE / "site-config"
    _option(judge, "--folder", None, "of the sites (default: that of the suite)", default=sites)
    size = "message size at which network programs were told to stop"
    for parser in (parse, judge):
        _option(parser, "--last-size", "BYTES", size, type=_above_zero("number of bytes", 18))


def _of_sites(commands: Commands) -> None:
    every = _add(
        commands, "sites", "assay.cli:_sites",
        "list the sites and check every word and reference of them",
        "Load each site as ReFrame would.",
    )  # fmt: skip
    _option(every, "names", "SITE", "default: all", nargs="*", type=str)
    _folder(every)
    check = _add(
        commands, "check", "assay.sites.listing:check",
        "say what would run on each partition of a configuration, or what a test is",
        "Load a configuration as ReFrame would. Print for each partition how many cases of the "
        "suite would run there, and which words would add more. Of a TEST, print what it runs, "
        "where, what it proves, what judges it, and the lines of the references of FILE about it.",
    )  # fmt: skip
    _option(check, "test", "TEST", "the name of a test, such as Osu", nargs="?", type=str)
    any_of = "assay_settings.py, or any other configuration; needed without a TEST"
    _option(check, "-C --config", "FILE", any_of)
    _option(check, "--system", "NAME", "default: all, or the one of the places", type=str)
    new = _add(
        _group(commands, "site", "write the folder of a new site"), "new", "assay.sites.new:run",
        "ask Slurm and its nodes what they have, and write a site that loads",
        "Ask Slurm and, by a short job, two nodes of each partition what they have. Write "
        "site-config/NAME, which loads, and list what could not be found out. Type it on a login "
        "node of the cluster. Nothing is measured.",
    )  # fmt: skip
    _option(new, "name", "NAME", "name of the site: a-z, 0-9, - and _", type=str)
    several = {"action": "append", "default": []}
    theirs = (
        "write assay_settings.py and assay.yaml beside this configuration of ReFrame, for its "
        "system NAME, from what it says; may be given again"
    )
    _option(new, "--from", "FILE", theirs, dest="theirs", **several)
    for option, metavar, text in (
        ("--partition", "P", "only this partition of Slurm"),
        ("--access", "OPTION", "an option of all jobs (--access=--account=hpc)"),
        ("--module", "M", "a module that the jobs load (openmpi/5.0.5)"),
    ):
        _option(new, option, metavar, f"{text}; may be given again", type=str, **several)
    wait = "how long each job may wait for its nodes, in seconds (default: 600)"
    _option(new, "--wait", "S", wait, type=_above_zero("number of seconds", 6), default=600)
    _flag(new, "--dry-run", "print the files, and write nothing")
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
    _option(expect, "--site", "SITE", "default: only the cases of the suite", type=str)
    own = "assay_settings.py of a site that has a configuration of its own; write promise.yaml "
    _option(expect, "-C --config", "FILE", own + "beside it, and no cases")
    _flag(expect, "--check", "write nothing; exit code 1 if a file is not current")
    _folder(expect)


def _of_runs(commands: Commands) -> None:
    report = _add(
        commands, "report", "assay.show.report:command",
        "write the report of a run and say how it ended",
        "Write one self-contained HTML page from ReFrame's run report and the evidence records of "
        "its test cases, and print what the run came to. The exit code is that of its verdict.",
    )  # fmt: skip
    _session(report)
    page = "the page (default: report.html in $ASSAY_RESULTS, which is results/ if unset, or here "
    _option(report, "--output", "FILE", page + "if there is no such directory)")
    drawn = "also write each figure as SVG, PNG and CSV, and missing.csv: what was not measured"
    _option(report, "--figures", "DIR", drawn)
    _option(report, "--junit", "FILE", "also write the cases as JUnit XML")
    _option(report, "--metrics", "FILE", "also write values, bounds and verdicts as OpenMetrics")
    _flag(report, "--ledger", "write no page, but print the run as a row of docs/ledger.csv")
    nodes = _add(
        commands, "nodes", "assay.show.nodes:command",
        "print a verdict for each node, device and cable of a run",
        "Print a verdict for each node of a run, and for each accused switch and cable, with the "
        "evidence; the commands that would drain the failed nodes, which are not executed; and the "
        "command that measures again.",
    )  # fmt: skip
    _session(nodes)
    _flag(nodes, "--json", "one JSON object instead of a table")


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
        _option(parser, "--output", "FILE", default)
        _folder(parser, "of the sites (default: site-config)")
    key = "private key of OpenSSH that signs, or the public key of one that an agent holds"
    _option(certify, "--key", "KEY", key, required=True)
    verify = _add(
        commands, "verify", "assay.bundle.command:verify",
        "check the file of a run, and judge the run again",
        "Check every byte of the file of assay archive or assay certify, and its signature, and "
        "judge the session again from the verbatim outputs. The exit code is that of the verdict; "
        "it is 5 if a byte was changed, nobody known signed, or another verdict follows, and 6 if "
        "the run is not the expected one.",
    )  # fmt: skip
    verify.add_argument("file", type=Path, metavar="FILE")
    _signers(verify)
    _option(verify, "--site", "SITE", "the only site that is expected", type=str)
    since = "the run began then or later (2026-11-28, or with T09:30 behind)"
    _option(verify, "--since", "DATE", since, type=_date)
    nodes = "exactly these nodes are expected (node[01-04],login1)"
    _option(verify, "--nodes", "NODES", nodes, type=str)


def _signers(parser: argparse.ArgumentParser) -> None:
    known = "the known signers, as ssh-keygen takes them: NAME, and the public key, on each line"
    _option(parser, "--signers", "FILE", known)
    contents = "accept an unknown signer, or none: only the contents are checked"
    _flag(parser, "--any-signer", contents)


def _of_references(commands: Commands) -> None:
    parser = _add(
        commands, "calibrate", "assay.calibrate.command:run",
        "measure a site N times and write its references",
        "Run the suite N times without judging, and write median and bounds of each metric that "
        "the site's references.yaml says nothing of into calibrated.yaml beside it. A launch that "
        "fails, a sample that is too small and a reference that would become worse without a "
        "reason are refused, and then nothing is written.",
    )  # fmt: skip
    measured = parser.add_mutually_exclusive_group(required=True)
    _option(measured, "--site", None, "a folder below site-config", type=str)
    own = "assay_settings.py of a site that has a configuration of its own"
    _option(measured, "-C --config", "FILE", own)
    _option(parser, "--launches", "N", "of each case (default: 10)", type=int, default=10)
    parser.add_argument("--stack", help="only this stack of the site (default: all)")
    sizes = "which sizes are run; the references hold for these only (default: full)"
    profiles = ("smoke", "full")
    parser.add_argument("--profile", choices=profiles, default="full", help=sizes)
    worse = "why references may become worse; goes into the file"
    _option(parser, "--reason", "TEXT", worse, type=str)
    far = "why no rate of a partition reaches 70 %% of a peak of its hardware in its first "
    _option(parser, "--without-peak", "TEXT", far + "calibration; goes into the file", type=str)
    _flag(parser, "--dry-run", "show the differences, write nothing")
    made = "run reports of calibrations already made, instead of running one"
    _option(parser, "--from", "REPORT", made, dest="reports", nargs="+")
    _folder(parser)
    more = "after --: further arguments of reframe"
    _option(parser, "arguments", "ARG", more, nargs="*", type=str)


def _of_history(commands: Commands) -> None:
    actions = _group(commands, "history", "keep what many runs measured, and show it")
    run = "assay.history.command:run"
    add = _add(
        actions, "add", run, "add what runs measured",
        "Each session is added once, a killed one by its finished cases. A source that is not "
        "whole is named and left out, and the exit code is then 2.",
    )  # fmt: skip
    show = _add(
        actions, "show", run, "each metric of each case, run by run",
        "Print the latest runs side by side. The page has the changes first, and the trend of each "
        "metric, scaled to its tolerance.",
    )  # fmt: skip
    changes = _add(
        actions, "changes", run, "when the level of a metric changed, and by how much",
        "Print each change of level, the newest first: when, case, metric, node, levels, size, "
        "direction. A change counts if the new level lasted for 5 runs, and if its size is at "
        "least half of the tolerance of the metric. A planned change of the site begins a new "
        "baseline.",
    )  # fmt: skip
    own = "of the history; a results directory is added to its own history first"
    for action in (add, show, changes):
        _option(action, "history", "DIR", own)
    sources = "results directories, and files of `assay archive` and `assay certify`"
    _option(add, "sources", "RESULTS", sources, nargs="+")
    _signers(add)
    _option(show, "--last", "N", "runs (default: 10)", type=_above_zero("number", 9), default=10)
    _option(show, "--page", "FILE", "write HTML, too")
    for action in (show, changes):
        _folder(action, "of the sites, for tolerances and planned changes (default: site-config)")


def _session(parser: argparse._ActionsContainer) -> None:
    said = "a run report of ReFrame, or the folder output/TIME of a session (default: the last "
    _option(parser, "--session", "FILE", said + "one in $ASSAY_RESULTS)")


def _folder(parser: argparse.ArgumentParser, what: str = "default: site-config") -> None:
    _option(parser, "--folder", None, what, default=Path("site-config"))


def _above_zero(what: str, digits: int) -> Callable[[str], int]:
    """The type of an argument: a whole number above 0, of so many digits at most."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= digits and int(text)):
            raise argparse.ArgumentTypeError(f"{text!r} is not a {what} above 0")
        return int(text)

    return read


def _date(text: str) -> datetime.datetime:
    """The type of an argument: a date of ISO 8601, in local time if it names no zone."""
    try:
        return datetime.datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is no date; write 2026-11-28") from None


def _tests(_: argparse.Namespace) -> int:
    print(files.SUITE / "reframe")
    return Exit.PASS


def _sites(args: argparse.Namespace) -> int:
    from assay.sites import listing  # noqa: PLC0415

    return listing.run(args.names, args.folder)
