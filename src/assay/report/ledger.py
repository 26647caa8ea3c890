"""``assay report --ledger``: a run as a row of the table of healthy runs, docs/hardware-log.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from assay.judge import RED
from assay.report import summary
from assay.results.cases import Session
from assay.results.sanitize import line, mapping

COLUMNS = (
    *("date", "processor, kernel", "distribution", "MPI, UCX", "commit", "command", "runs"),
    *("cases", "verdict", "false alarms"),
)

#: Name of a library -> the extra of a stack that holds its version.
LIBRARIES = {"Open MPI": "openmpi_version", "UCX": "ucx_version"}


def table(session: Session) -> list[str]:
    """The head of the table and the row of the run, as Markdown.

    Only a person knows whether the machine was healthy. The last cell therefore counts the red
    cases of each test as alarms that somebody must judge.
    """
    cases = session.cases
    counts = summary.Counts.of(cases)
    nodes = [case.provenance for case in cases if case.provenance]
    cpus = [mapping(node.get("cpu")) for node in nodes]
    stacks = [mapping(node.get("stack")) for node in nodes]
    commits = [line(mapping(node.get("suite")).get("commit")) for node in nodes]
    red = Counter(c.test for c in cases if c.verdict in RED)
    profiles = {line(case.record.get("profile")) for case in cases} - {"", "full"}
    asked = [f"SITE={name}" for name in session.systems if name != "local"]
    asked += [f"PROFILE={name}" for name in sorted(profiles)]
    row = (
        f"{session.start:%Y-%m-%d}" if session.start else "",
        _distinct(
            f"{line(cpu.get('model'))}, {line(cpu.get('usable'))} processors, "
            f"Linux {line(node.get('kernel'))}"
            for node, cpu in zip(nodes, cpus)
        ),
        _distinct(line(node.get("system")) for node in nodes),
        _distinct(
            f"{name} {line(stack[extra])}"
            for name, extra in LIBRARIES.items()
            for stack in stacks
            if extra in stack
        ),
        _distinct(re.sub(r"(?<=^[0-9a-f]{7})[0-9a-f]{33}", "", commit) for commit in commits),
        f"`{' '.join(['make acceptance', *asked])}`",
        "1",
        f"{counts.ran} of {len(cases)}",
        summary.outcome(session).word,
        ", ".join(f"{number} {test} to judge" for test, number in red.items()) or "0",
    )
    return [_row(COLUMNS), _row(["---"] * len(COLUMNS)), _row(row)]


def _distinct(texts: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(filter(None, texts)))


def _row(cells: Iterable[str]) -> str:
    return "".join(f"| {cell.replace('|', '/') or 'not known'} " for cell in cells) + "|"
