#!/usr/bin/env python3
"""Print the last run as a row of docs/ledger.csv, the table of healthy runs, below its head.

    .venv/bin/python ci/ledger.py [FILE]

FILE is a run report of ReFrame, or the folder of a session (default: the last one in
$ASSAY_RESULTS, which is results/ if unset). Only a person knows whether the machine was healthy.
The last cell therefore counts the red cases of each test as alarms that somebody must judge.
"""

from __future__ import annotations

import csv
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from assay.judge import RED
from assay.show.summary import Counts, outcome
from assay.store import session
from assay.store.sanitize import line, mapping

#: Columns of the table.
COLUMNS = (
    *("date", "processor, kernel", "distribution", "MPI, UCX", "commit", "command", "runs"),
    *("cases", "verdict", "false alarms"),
)

#: Name of a library -> the extra of a stack that holds its version.
LIBRARIES = {"Open MPI": "openmpi_version", "UCX": "ucx_version"}


def row(run: session.Session) -> list[str]:
    """The cells of a run."""
    cases = run.cases
    counts = Counts.of(cases)
    nodes = [case.provenance for case in cases if case.provenance]
    cpus = [mapping(node.get("cpu")) for node in nodes]
    stacks = [mapping(node.get("stack")) for node in nodes]
    commits = [line(mapping(node.get("suite")).get("commit")) for node in nodes]
    red = Counter(c.test for c in cases if c.verdict in RED)
    profiles = {line(case.record.get("profile")) for case in cases} - {"", "full"}
    asked = [f"SITE={name}" for name in run.systems if name != "local"]
    asked += [f"PROFILE={name}" for name in sorted(profiles)]
    machines = (
        f"{line(cpu.get('model'))}, {line(cpu.get('usable'))} processors, "
        f"Linux {line(node.get('kernel'))}"
        for node, cpu in zip(nodes, cpus)
    )
    versions = (
        f"{name} {line(stack[extra])}"
        for name, extra in LIBRARIES.items()
        for stack in stacks
        if extra in stack
    )
    cells = (
        f"{run.start:%Y-%m-%d}" if run.start else "",
        distinct(machines),
        distinct(line(node.get("system")) for node in nodes),
        distinct(versions),
        distinct(re.sub(r"(?<=^[0-9a-f]{7})[0-9a-f]{33}", "", commit) for commit in commits),
        f"`{' '.join(['make acceptance', *asked])}`",
        "1",
        f"{counts.ran} of {len(cases)}",
        outcome(run).word,
        ", ".join(f"{number} {test} to judge" for test, number in red.items()) or "0",
    )
    return [cell or "not known" for cell in cells]


def distinct(texts: Iterable[str]) -> str:
    """Each text once, without empty ones."""
    return ", ".join(dict.fromkeys(filter(None, texts)))


def main(arguments: list[str]) -> int:
    """Print the head and the row; 2 if there is no run to read."""
    results = Path(os.environ.get("ASSAY_RESULTS") or "results")
    try:
        run = session.load(Path(arguments[0]) if arguments else session.newest(results))
    except session.ReportError as error:
        print(f"ci/ledger.py: {error}", file=sys.stderr)
        return 2
    csv.writer(sys.stdout, lineterminator="\n").writerows([COLUMNS, row(run)])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
