"""The implementation of ``assay calibrate``."""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from reframe.core.config import load_config
from reframe.core.exceptions import ReframeError

from assay import files, sites
from assay.archive.calibrate import CalibrationError, changes, launches
from assay.exits import Exit
from assay.judge import (
    CALIBRATED,
    LAUNCHES_FOR_95_PERCENT,
    References,
    ReferencesError,
    reference_files,
)
from assay.store import run_folder, session
from assay.tolerances import tolerances_of


def run_calibrate(args: argparse.Namespace) -> int:
    file = args.config or args.folder / args.site / "reframe.py"
    site = file.parent
    if wrong := _usage(args, file):
        print(f"assay calibrate: {wrong}", file=sys.stderr)
        return Exit.USAGE
    try:
        name = args.site or load_config("<builtin>", str(file))["systems"][0]["name"]
        references = References.load(site / "references.yaml")
        tolerances = tolerances_of(site, CalibrationError)
        reports = args.reports or [_measure(file, args)]
        sample = launches.samples(map(session.load_session, reports), name)
        committed = _committed(site)
        if not (committed or references.calibrated):
            print("assay calibrate: no earlier calibration was found, in the folder or in git")
        said = args.reason, args.without_peak
        found = changes.compare(sample, references, tolerances, *said, committed)
        for change in found.changes:
            print(change)
        for why, count in found.left.items():
            print(f"left to references.yaml: {count} metrics {why}")
        _write(site / CALIBRATED, changes.text(found.entries), args.dry_run)
    except CalibrationError as error:
        for line in error.lines:
            print(f"assay calibrate: {line}", file=sys.stderr)
        print("assay calibrate: nothing is written", file=sys.stderr)
        return Exit.FAIL
    except (ReferencesError, ReframeError, session.ReportError) as error:
        print(f"assay calibrate: {error}", file=sys.stderr)
        return Exit.UNKNOWN
    return Exit.PASS


def _committed(site: Path) -> Sequence[Mapping[str, Any]]:
    """The newest ``calibrated.yaml`` in git: a file that somebody deleted is not forgotten."""
    git = ("git", "-C", str(site))
    log = (*git, "log", "-n1", "--diff-filter=AM", "--format=%H", "--", CALIBRATED)
    try:
        commit = subprocess.run(log, capture_output=True, text=True, check=False).stdout.strip()
        show = (*git, "show", f"{commit}:./{CALIBRATED}")
        text = subprocess.run(show, capture_output=True, text=True, check=False).stdout
        document = yaml.safe_load(text) if commit else None
    except (OSError, ValueError, yaml.YAMLError):
        return ()
    if not document or files.misshapen(document, reference_files.Included):
        return ()
    return document["references"] or ()


def _usage(args: argparse.Namespace, file: Path) -> str:
    """What is wrong with the arguments; empty if nothing is."""
    if not file.is_file():
        there = sorted(path.parent.name for path in args.folder.glob("*/reframe.py"))
        known = ", ".join(there) or "none"
        which = f"unknown site {args.site!r}: " if args.site else ""
        return f"{which}{file} does not exist; known are {known}"
    if not args.reports and args.launches < LAUNCHES_FOR_95_PERCENT:
        return f"--launches {args.launches}: at least {LAUNCHES_FOR_95_PERCENT}"
    for option, text in (("--reason", args.reason), ("--without-peak", args.without_peak)):
        if text is not None and not text.strip():
            return f"{option}: it is empty; say why, for the readers of the file"
    if args.reports and args.arguments:
        return "--from runs nothing: leave out the arguments of reframe"
    return ""


def _measure(file: Path, args: argparse.Namespace) -> Path:
    """Runs ReFrame, which shows its progress; returns the run report.

    ReFrame repeats whole sessions: the launches of a case are spread over the whole time, and tests
    that depend on others keep them, which ``--repeat`` loses.

    :raises CalibrationError: ReFrame does not exist, or wrote no report.
    """
    reframe = Path(sys.executable).with_name("reframe")
    results = sites.results_directory(file)
    # Another run may write to the same results. The folder of its session identifies our run.
    folder = results / "output" / f"{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}"
    command: Sequence[str] = [
        str(reframe),
        *("-C", str(file)),
        *("-c", str(files.SUITE / "reframe") if args.config else "reframe", "-R", "-r"),
        # No --mode: a mode has retries, and ReFrame 4.10 ignores -p together with a mode.
        *("-S", f"profile={args.profile}", "-S", "purpose=calibration"),
        *(["--tag=smoke"] if args.profile == "smoke" else []),
        f"--reruns={args.launches - 1}",
        *(["-p", f"^{re.escape(args.stack)}$"] if args.stack else []),
        *args.arguments,
    ]
    environment = {**os.environ, "ASSAY_SESSION": folder.name}
    environment.pop("RFM_VERBOSE", None)  # ReFrame 4.10.4 ends with a TypeError
    if not sys.stdout.isatty():
        environment["RFM_COLORIZE"] = "no"
    print("assay calibrate:", *command, flush=True)
    try:
        # Linux ends it when this process dies: prctl(2), PR_SET_PDEATHSIG is 1.
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, check=False,
            preexec_fn=lambda: ctypes.CDLL(None).prctl(1, signal.SIGTERM),
        )  # fmt: skip
    except OSError as error:
        raise CalibrationError(f"{reframe}: {error.strerror}; type make setup") from None
    report = run_folder.run_report(folder)
    if report is None:
        raise CalibrationError(
            f"reframe ended with {done.returncode}, and there is no new run report in "
            f"{results / 'reports'}: nothing ran"
        )
    # ReFrame ended with "not accepted", because a calibration judges nothing.
    print(
        f"assay calibrate: measured, but not judged; --from {report} uses these launches again",
        flush=True,
    )
    return report


def _write(path: Path, content: str, dry_run: bool) -> None:
    try:
        same = path.read_text(encoding="utf-8") == content
    except (OSError, UnicodeDecodeError):
        same = False
    if dry_run:
        print(f"{path}: {'would not change' if same else 'not written (--dry-run)'}")
        return
    if not same:
        files.write_file(path, content, CalibrationError)
    print(f"{path}: {'has it already' if same else 'written'}")
