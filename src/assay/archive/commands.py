"""The commands of the room: a run in one file, references from runs, the history."""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path

from assay.arguments import (
    Commands,
    above_zero,
    add,
    flag,
    folder,
    group,
    option,
    session,
)


def offer(commands: Commands) -> None:
    _of_bundles(commands)
    _of_references(commands)
    _of_baselines(commands)
    _of_history(commands)


def _of_baselines(commands: Commands) -> None:
    actions = group(commands, "baseline", "share what healthy machines of some hardware measured")
    run = "assay.archive.baseline:run_baseline"
    write = add(
        actions, "write", run, "write the quantiles of a calibration into one signed file",
        "Write hardware, versions, quantiles and numbers of launches and nodes of a calibration "
        "into one signed file. It has no name of a host, a site or a partition.",
    )  # fmt: skip
    use = add(
        actions, "use", run, "judge a site by such a file",
        "Check the signature, compare the hardware, and write baseline.yaml beside the references "
        "of the site. The exit code is 5 if it is refused.",
    )  # fmt: skip
    made = "run reports of calibrations (default: the last run)"
    option(write, "--from", "REPORT", made, dest="reports", nargs="+")
    key = "private key of OpenSSH that signs, or the public key of one that an agent holds"
    option(write, "--key", "KEY", key, required=True)
    for parser in (write, use):
        parser.add_argument("file", type=Path, metavar="FILE")
        option(parser, "--site", None, "a folder below site-config", type=str, required=True)
        folder(parser)
    _signers(use)


def _of_bundles(commands: Commands) -> None:
    archive = add(
        commands, "archive", "assay.archive.certificate.command:write_archive",
        "write a run into one file, to keep or to send",
        "Write one zip file about a session: its page, its verbatim outputs and records, the "
        "references of the site, and the hash of each.",
    )  # fmt: skip
    certify = add(
        commands, "certify", "assay.archive.certificate.command:write_archive",
        "write a run into one file, and sign it",
        "Write the file of assay archive, judge the session again from it, and sign it. The exit "
        "code is that of the verdict. Nothing is written when the verdict does not follow.",
    )  # fmt: skip
    for parser, output in ((archive, "assay-SITE-TIME.zip"), (certify, "certificate.zip")):
        session(parser)
        default = f"default: {output} in $ASSAY_RESULTS, which is results/ if unset"
        option(parser, "--output", "FILE", default)
        folder(parser, "of the sites (default: site-config)")
    key = "private key of OpenSSH that signs, or the public key of one that an agent holds"
    option(certify, "--key", "KEY", key, required=True)
    verify = add(
        commands, "verify", "assay.archive.certificate.command:verify",
        "check the file of a run, and judge the run again",
        "Check every byte of the file of assay archive or assay certify, and its signature, and "
        "judge the session again from the verbatim outputs. The exit code is that of the verdict; "
        "it is 5 if a byte was changed, nobody known signed, or another verdict follows, and 6 if "
        "the run is not the expected one.",
    )  # fmt: skip
    verify.add_argument("file", type=Path, metavar="FILE")
    _signers(verify)
    option(verify, "--site", "SITE", "the only site that is expected", type=str)
    since = "the run began then or later (2026-11-28, or with T09:30 behind)"
    option(verify, "--since", "DATE", since, type=_iso_date)
    nodes = "exactly these nodes are expected (node[01-04],login1)"
    option(verify, "--nodes", "NODES", nodes, type=str)


def _signers(parser: argparse.ArgumentParser) -> None:
    known = "the known signers, as ssh-keygen takes them: NAME, and the public key, on each line"
    option(parser, "--signers", "FILE", known)
    contents = "accept an unknown signer, or none: only the contents are checked"
    flag(parser, "--any-signer", contents)


def _of_references(commands: Commands) -> None:
    parser = add(
        commands, "calibrate", "assay.archive.calibrate.command:run_calibrate",
        "measure a site N times and write its references",
        "Run the suite N times without judging, and write median and bounds of each metric that "
        "the site's references.yaml says nothing of into calibrated.yaml beside it. A launch that "
        "fails, a sample that is too small and a reference that would become worse without a "
        "reason are refused, and then nothing is written.",
    )  # fmt: skip
    measured = parser.add_mutually_exclusive_group(required=True)
    option(measured, "--site", None, "a folder below site-config", type=str)
    own = "assay_settings.py of a site that has a configuration of its own"
    option(measured, "-C --config", "FILE", own)
    option(parser, "--launches", "N", "of each case (default: 10)", type=int, default=10)
    parser.add_argument("--stack", help="only this stack of the site (default: all)")
    sizes = "which sizes are run; the references hold for these only (default: full)"
    profiles = ("smoke", "full")
    parser.add_argument("--profile", choices=profiles, default="full", help=sizes)
    worse = "why references may become worse; goes into the file"
    option(parser, "--reason", "TEXT", worse, type=str)
    far = "why no rate of a partition reaches 70 %% of a peak of its hardware in its first "
    option(parser, "--without-peak", "TEXT", far + "calibration; goes into the file", type=str)
    flag(parser, "--dry-run", "show the differences, write nothing")
    made = "run reports of calibrations already made, instead of running one"
    option(parser, "--from", "REPORT", made, dest="reports", nargs="+")
    folder(parser)
    more = "after --: further arguments of reframe"
    option(parser, "arguments", "ARG", more, nargs="*", type=str)


def _of_history(commands: Commands) -> None:
    actions = group(commands, "history", "keep what many runs measured, and show it")
    run = "assay.archive.history.command:run_history"
    taken = add(
        actions, "add", run, "add what runs measured",
        "Each session is added once, a killed one by its finished cases. A source that is not "
        "whole is named and left out, and the exit code is then 2.",
    )  # fmt: skip
    show = add(
        actions, "show", run, "each metric of each case, run by run",
        "Print the latest runs side by side. The page has the changes first, and the trend of each "
        "metric, scaled to its tolerance.",
    )  # fmt: skip
    changes = add(
        actions, "changes", run, "when the level of a metric changed, and by how much",
        "Print each change of level, the newest first: when, case, metric, node, levels, size, "
        "direction. A change counts if the new level lasted for 5 runs, and if its size is at "
        "least half of the tolerance of the metric. A planned change of the site begins a new "
        "baseline.",
    )  # fmt: skip
    own = "of the history; a results directory is added to its own history first"
    for action in (taken, show, changes):
        option(action, "history", "DIR", own)
    sources = "results directories, and files of `assay archive` and `assay certify`"
    option(taken, "sources", "RESULTS", sources, nargs="+")
    _signers(taken)
    option(show, "--last", "N", "runs (default: 10)", type=above_zero("number", 9), default=10)
    option(show, "--page", "FILE", "write HTML, too")
    for action in (show, changes):
        folder(action, "of the sites, for tolerances and planned changes (default: site-config)")


def _iso_date(text: str) -> datetime.datetime:
    """The type of an argument: a date of ISO 8601, in local time if it names no zone."""
    try:
        return datetime.datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is no date; write 2026-11-28") from None
