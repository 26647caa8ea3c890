"""``assay nodes``: a verdict for each node, device and cable of a run, and what to do about it.

Everything comes from the records of the run. Nothing is executed: the commands that would drain a
node, and those that measure again, are printed.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from assay.accused import How
from assay.exits import Exit
from assay.judge import RED, Verdict, worst_first
from assay.show.suspects import IN_FAILED, Suspect, attendance, causes, suspects
from assay.store import session
from assay.store.cases import Case, Session

#: What a row is about: a node; a trunk, or two nodes and the cable between them; a switch.
NODE, CABLE, DEVICE = "node", "cable", "device"

#: A node on which nothing was decided: no case that names it passed or failed by it.
NOT_JUDGED = "not judged"

#: Longest reason that is given to Slurm; it keeps the whole text, but sinfo shows little of it.
REASON = 120


@dataclass(frozen=True)
class Row:
    """The verdict on one node, device or cable.

    :ivar verdict: FAIL if a decided case accuses it, INCONCLUSIVE if only an undecided case does,
        PASS if it took part in a case that passed, or that found nothing but other nodes or parts
        at fault; else :data:`NOT_JUDGED`.
    :ivar reasons: the evidence against it, the strongest first, one line each.
    :ivar tests: the tests that accuse it; without an accusation, those that it passed.
    """

    kind: str
    name: str
    nodes: tuple[str, ...]
    verdict: str
    reasons: tuple[str, ...]
    tests: tuple[str, ...]
    drained: bool = False


def rows(cases: Sequence[Case]) -> list[Row]:
    """All nodes that the cases name, and the accused devices and cables: the accused first."""
    accused = suspects(causes(cases))
    found = [_accused(one) for one in accused]
    named = {row.name for row in found}
    there = attendance(cases, accused).rows
    hosts = {node: None for case in cases if case.verdict for node in case.hosts}
    for node in sorted({*hosts, *there} - named):
        passed = sorted({case.test for case in cases if node in case.hosts and _well(node, case)})
        doubt = [test for test, (how, _) in there.get(node, {}).items() if how == IN_FAILED]
        word = Verdict.PASS.value if passed else NOT_JUDGED
        why = () if not doubt else (f"took part in failed cases of {', '.join(doubt)}",)
        found.append(Row(NODE, node, (node,), word, why, tuple(passed)))
    return found


def _well(node: str, case: Case) -> bool:
    """Whether a case passed, or found only others than this node at fault."""
    if case.verdict is not Verdict.FAIL:
        return case.verdict is Verdict.PASS
    said = {one.problem for one in case.accused}
    named = any(node in one.nodes for one in case.accused)
    bad = any(metric.verdict is Verdict.FAIL for metric in case.metrics)
    return bool(said) and said >= set(case.problems) and not named and not bad


def _accused(one: Suspect) -> Row:
    cable = one.part.startswith(("trunk", "uplinks", "all paths")) or len(one.nodes) > 1
    kind = CABLE if cable else DEVICE if one.part else NODE
    tests = dict.fromkeys(case.test for cause in one.causes for case in cause.cases)
    verdict = Verdict.FAIL if one.sure else Verdict.INCONCLUSIVE
    reasons = tuple(dict.fromkeys(cause.evidence for cause in one.causes))
    name, out = one.part or " - ".join(one.nodes), How.OUT.value in [c.how for c in one.causes]
    return Row(kind, name, one.nodes, verdict.value, reasons, tuple(tests), out)


def drains(found: Iterable[Row]) -> list[str]:
    """A command of Slurm for each node that failed and is still in service."""
    lines = []
    for row in found:
        if row.kind == NODE and row.verdict == Verdict.FAIL.value and not row.drained:
            text = re.sub(r"[^\x20-\x7e]+", " ", f"assay: {row.reasons[0]}")
            why = text if len(text) <= REASON else f"{text[: REASON - 4]} ..."
            words = ("update", f"nodename={row.name}", "state=drain", f"reason={why}")
            lines.append(shlex.join(["scontrol", *words]))
    return lines


def repeats(run: Session, found: Iterable[Row]) -> list[str]:
    """The commands that run the tests again that accuse, one for each site."""
    tests = {test for row in found if row.verdict in RED for test in row.tests}
    # A record may hold anything. Only what can be the name of a test goes into a command.
    pattern = "|".join(f"^{test}" for test in sorted(tests) if test.isidentifier())
    which = f"REFRAME_ARGS=\"-n '{pattern}'\""
    return [f"make acceptance SITE={shlex.quote(s)} {which}" for s in run.systems if pattern]


def table(found: Sequence[Row]) -> list[str]:
    """The rows as lines of text, columns side by side."""
    head = ("verdict", "what", "name", "why")
    lines = [head] + [
        (row.verdict, row.kind, row.name, row.reasons[0] if row.reasons else ", ".join(row.tests))
        for row in found
    ]
    wide = [max(len(line[column]) for line in lines) for column in range(3)]
    return ["  ".join([*(f"{c:{w}}" for c, w in zip(line, wide)), line[3]]) for line in lines]


def as_json(run: Session, found: Sequence[Row]) -> dict[str, Any]:
    """The rows and the commands as values of JSON."""
    return {
        "session": str(run.file),
        "rows": [asdict(row) for row in found],
        "failures": [row.name for row in found if row.verdict == Verdict.FAIL.value],
        "drain": drains(found),
        "again": repeats(run, found),
    }


def command(args: argparse.Namespace) -> int:
    """Print the verdicts, return the exit code."""
    try:
        run = session.load(args.session or session.newest(session.results()))
    except session.ReportError as error:
        print(f"assay nodes: {error}", file=sys.stderr)
        return Exit.UNKNOWN
    found = rows(run.cases)
    if args.json:
        print(json.dumps(as_json(run, found), indent=1))
    else:
        _show(run, found)
    if any(case.verdict is Verdict.FAIL for case in run.cases):
        return Exit.FAIL
    verdicts = {row.verdict for row in found} & {"FAIL", "INCONCLUSIVE", "PASS"}
    return Exit[min(verdicts, key=worst_first, default="UNKNOWN")]


def _show(run: Session, found: Sequence[Row]) -> None:
    print("\n".join(table(found)))
    if not found:
        print("no node: no case of this run says on which nodes it ran")
    failed = [case for case in run.cases if case.verdict is Verdict.FAIL and not case.accused]
    if failed:
        print(f"{len(failed)} failed cases accuse nobody; type: assay report")
    for said, lines in (
        ("To drain the failed nodes (not executed):", drains(found)),
        ("To confirm, run these tests again:", repeats(run, found)),
    ):
        if lines:
            print("\n".join(["", said, *lines]))
