"""``assay calibrate``: turns the results of N launches on a site into its references."""

from __future__ import annotations

import argparse
from pathlib import Path


class CalibrationError(Exception):
    """Why nothing is written.

    :ivar lines: one line for each cause, with its remedy.
    """

    def __init__(self, *lines: str) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command ``calibrate`` to the command ``assay``."""
    parser = commands.add_parser(
        "calibrate",
        help="measure a site N times and write its references",
        description="Run the suite N times without judging, and write median and bounds of each "
        "metric that the site's references.yaml says nothing of into calibrated.yaml beside it. "
        "A launch that fails, a sample that is too small and a reference that would become worse "
        "without a reason are refused, and then nothing is written. Exit code 0 when the file was "
        "written, or needed no change; 1 when it was refused; 2 for wrong usage.",
    )
    parser.add_argument("--site", required=True, help="a folder below site-config")
    parser.add_argument(
        "--launches", type=int, default=10, metavar="N", help="of each case (default: 10)"
    )
    parser.add_argument("--stack", help="only this stack of the site (default: all)")
    parser.add_argument(
        "--profile",
        choices=("smoke", "full"),
        default="full",
        help="which sizes are run; the references hold for these only (default: full)",
    )
    parser.add_argument(
        "--reason", metavar="TEXT", help="why references may become worse; goes into the file"
    )
    parser.add_argument(
        "--without-peak",
        metavar="TEXT",
        help="why no rate of a partition reaches 70 %% of a peak of its hardware in its first "
        "calibration; goes into the file",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show the differences, write nothing"
    )
    parser.add_argument(
        "--from",
        dest="reports",
        nargs="+",
        type=Path,
        metavar="REPORT",
        help="run reports of calibrations already made, instead of running one",
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("site-config"), help="default: site-config"
    )
    parser.add_argument(
        "arguments", nargs="*", metavar="ARG", help="after --: further arguments of reframe"
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from assay.calibrate import command  # noqa: PLC0415

    return command.run(args)
