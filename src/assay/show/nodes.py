"""``assay nodes``: a verdict for each node, device and cable of a run, and what to do about it.

A node is PASS only if the run would have shown a fault of each kind of part that it has. Everything
comes from the records of the run. Nothing is executed: the commands that would drain a node, and
those that measure again, are printed.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from assay import slurm
from assay.accused import How
from assay.exits import Exit
from assay.judge import Verdict
from assay.prove.launch import short_name
from assay.show.remedies import again
from assay.show.strength import PARTS, least_loss, said_loss
from assay.show.suspects import Suspect, causes, suspects
from assay.store import promise, session
from assay.store.cases import Case, Session, grouped
from assay.store.sanitize import finite, line, mapping, sequence

#: What a row is about: a node; a trunk, or two nodes and the cable between them; a switch.
NODE, CABLE, DEVICE = "node", "cable", "device"

#: The verdicts on a row and on a part of a node, the worst first, with their exit codes.
FAIL, UNDECIDED, NOT_MEASURED, PASS = "FAIL", "UNDECIDED", "NOT MEASURED", "PASS"
CODES = {FAIL: 1, UNDECIDED: Exit.INCONCLUSIVE, NOT_MEASURED: Exit.PARTIAL, PASS: Exit.PASS}

#: Kind of part -> the word of a partition whose nodes have it; all nodes have the others.
PLACES = {"network": "inter-node", "GPU": "gpu", "disk": "storage"}

#: Longest reason that is given to Slurm; it keeps the whole text, but sinfo shows little of it.
REASON = 120


@dataclass(frozen=True)
class Part:
    """The verdict on a part of a node, and the tests that it comes from.

    :ivar loss: of a PASS, the least factor of a loss that would have been red.
    """

    verdict: str
    tests: tuple[str, ...] = ()
    loss: float | None = None

    def __str__(self) -> str:
        said = [self.verdict, *self.tests[:1], *(["..."] if self.tests[1:] else [])]
        return " ".join([*said, *([f"({said_loss(self.loss)} is red)"] if self.loss else [])])


@dataclass(frozen=True)
class Row:
    """The verdict on one node, device or cable.

    :ivar verdict: FAIL if the evidence of a decided case points at it. UNDECIDED if anything else
        accuses it, or if a case on it is undecided, or failed and did not find that only others are
        at fault. A node without these is PASS if all its parts are, else NOT MEASURED.
    :ivar reasons: why it is not PASS, the strongest first, one line each.
    :ivar parts: kind -> the verdict on it, for a node.
    """

    kind: str
    name: str
    nodes: tuple[str, ...]
    verdict: str = PASS
    reasons: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    drained: bool = False
    parts: Mapping[str, Part] = field(default_factory=dict)


def rows(run: Session, accused: Sequence[Suspect] | None = None) -> list[Row]:
    """All nodes that the cases name, and the accused devices and cables: the accused first.

    :param accused: by default what the cases accuse.
    """
    cases = [case for case in run.cases if case.verdict]
    found = [_accused(one) for one in (suspects(causes(cases)) if accused is None else accused)]
    named = {row.name for row in found}
    # A case on unknown nodes is on each.
    on = grouped((node, number) for number, c in enumerate(cases) for node in c.hosts or [""])
    there = {node for row in found for node in row.nodes} | ({*on} - {""})
    found += [Row(NODE, node, (node,)) for node in sorted(there - named)]
    kinds, made = _kinds(run, len(there)), []
    for row in found:
        its = [cases[n] for n in sorted([*on.get(row.name, ()), *on.get("", ())])]
        failed = row.tests if row.verdict == FAIL else ()
        alike = [case for case in cases if case.test in failed] if failed else []
        made.append(_node(row, its, alike, kinds) if row.kind == NODE else row)
    return made


def _kinds(run: Session, nodes: int) -> list[str]:
    """The kinds of parts that the nodes have: all but those that the site says it has not."""
    places = mapping(run.plan.promise.get("words")).values()
    words = {"-", *(word for place in places for word in sequence(place))}
    words |= {"inter-node"} if nodes > 1 else set()
    return [kind for kind in PARTS if PLACES.get(kind, "-") in words or not places]


def _accused(one: Suspect) -> Row:
    cable = one.part.startswith(("trunk", "uplinks", "all paths")) or len(one.nodes) > 1
    kind = CABLE if cable else DEVICE if one.part else NODE
    tests = dict.fromkeys(case.test for cause in one.causes for case in cause.cases)
    reasons = tuple(dict.fromkeys(cause.evidence for cause in one.causes))
    name, out = one.part or " - ".join(one.nodes), How.OUT.value in [c.how for c in one.causes]
    verdict = FAIL if one.sure else UNDECIDED
    return Row(kind, name, one.nodes, verdict, reasons, tuple(tests), out)


def _node(row: Row, its: Sequence[Case], failed: Sequence[Case], kinds: Iterable[str]) -> Row:
    """The row of a node with the verdicts on its parts.

    :param its: the cases on it.
    :param failed: those of the tests that find it at fault, on any node.
    """
    doubts = [case for case in its if _doubtful(row.name, case)]
    parts = {kind: _part(kind, its, doubts, failed) for kind in kinds}
    tests = tuple(dict.fromkeys([*row.tests, *(case.test for case in doubts)]))
    lacks = [kind for kind, part in parts.items() if part.verdict == NOT_MEASURED]
    said = {"took part in failed or undecided cases of": tests[len(row.tests) :]}
    said["nothing that was judged would show a fault of"] = tuple(lacks)
    why = [f"{what} {', '.join(names)}" for what, names in said.items() if names]
    words = [row.verdict, *(UNDECIDED for _ in doubts), *(part.verdict for part in parts.values())]
    worst = min(words, key=[*CODES].index)
    return replace(row, verdict=worst, reasons=(*row.reasons, *why), tests=tests, parts=parts)


def _doubtful(node: str, case: Case) -> bool:
    """Whether a case is undecided, or failed and did not find that only others are at fault."""
    if case.verdict is not Verdict.FAIL:
        return case.verdict is Verdict.INCONCLUSIVE or bool(case.busy)
    said = {one.problem for one in case.accused}
    named = any(node in one.nodes for one in case.accused)
    bad = any(metric.verdict is Verdict.FAIL for metric in case.metrics)
    return named or bad or not said or not said >= set(case.problems)


def _part(kind: str, its: Iterable[Case], doubts: Iterable[Case], failed: Iterable[Case]) -> Part:
    needed = PARTS[kind]

    def of(cases: Iterable[Case]) -> list[Case]:
        alike = [case for case in cases if {*needed} & {*case.proves}]
        if kind == "network":  # within a node, bytes cross none
            return [case for case in alike if len(case.hosts) != 1]
        return [case for case in alike if case.values.get("sync") != "cached"]  # no disk

    for verdict, found in ((FAIL, of(failed)), (UNDECIDED, of(doubts))):
        if found:
            return Part(verdict, tuple(dict.fromkeys(case.test for case in found)))
    proofs: dict[str, dict[str, None]] = {what: {} for what in needed}
    losses: dict[str, list[float]] = {what: [] for what in needed}
    for case in (case for case in of(its) if case.verdict is Verdict.PASS):
        judged = {metric.name: metric for metric in case.metrics if metric.verdict is Verdict.PASS}
        for what, names in case.proves.items():
            if what in proofs and not judged.keys().isdisjoint(names):
                proofs[what][case.test] = None
                losses[what] += filter(None, (least_loss(judged[n]) for n in names if n in judged))
    if all(proofs.values()):
        # The part is proven as well as its worst seen side.
        least = max((min(found) for found in losses.values() if found), default=None)
        tests = tuple({test: None for tests in proofs.values() for test in tests})
        return Part(PASS, tests, least if all(losses.values()) else None)
    return Part(NOT_MEASURED)


def drains(run: Session, found: Iterable[Row]) -> tuple[list[str], list[str]]:
    """A command of Slurm for each node that failed and is in service, and why there is none.

    Only a node that Slurm gave to a job of the run is named, and at most the share of the nodes
    that the site allows; if it is more, the check or the fabric is at fault.
    """
    every = [row for row in found if row.kind == NODE]
    bad = [row for row in every if row.verdict == FAIL and not row.drained]
    share = finite(run.plan.promise.get("drain_at_most")) or promise.DRAIN_AT_MOST
    if len(bad) > max(1, int(share * len(every))):
        said = f"{len(bad)} of {len(every)} nodes failed, and drain_at_most of {promise.FILE} is "
        return [], [f"{said}{share:g}: the check or the fabric is at fault, not the nodes"]
    of_slurm = (case for case in run.cases if case.scheduler in slurm.SCHEDULERS)
    given = {name for case in of_slurm for name in case.nodes if slurm.is_name(name)}
    if bad and not given:
        return [], ["no record says that Slurm gave a node to a job of this run"]
    lines, refused = [], []
    for row in bad:
        alike = {n for n in given if short_name(n) == short_name(row.name)}
        names = {row.name} & given or alike
        if len(names) != 1:
            refused.append(
                f"{row.name!r} is no name of a node that Slurm gave to a job of this run"
            )
            continue
        text = re.sub(r"[^\x20-\x7e]+", " ", f"assay: {row.reasons[0]}")
        why = text if len(text) <= REASON else f"{text[: REASON - 4]} ..."
        words = ("update", f"nodename={names.pop()}", "state=drain", f"reason={why}")
        lines.append(shlex.join(["scontrol", *words]))
    return lines, refused


def repeats(run: Session, found: Iterable[Row]) -> list[str]:
    """The commands that measure again, one for each site: all tests, if a node was not measured."""
    left = [row for row in found if row.verdict != PASS]
    tests = {test for row in left for test in row.tests if test.isidentifier()}
    whole = any(row.verdict == NOT_MEASURED for row in left)
    return [again(site, () if whole else tests) for site in run.systems if whole or tests]


def nodes_table(found: Sequence[Row]) -> list[str]:
    """The rows as lines of text, columns side by side."""
    lines = [("verdict", "what", "name", *PARTS, "why")]
    for row in found:
        parts = [str(row.parts.get(kind, "-")) for kind in PARTS]
        why = line("".join(row.reasons[:1]))
        lines.append((row.verdict, row.kind, line(row.name), *parts, why))
    wide = [max(map(len, column)) for column in zip(*lines)]
    return ["  ".join(f"{cell:{w}}" for cell, w in zip(of, wide)).rstrip() for of in lines]


def as_json(run: Session, found: Sequence[Row]) -> dict[str, Any]:
    commands, refused = drains(run, found)
    return {
        "session": str(run.file),
        "rows": [asdict(row) for row in found],
        "failures": [row.name for row in found if row.verdict == FAIL],
        "drain": commands,
        "not_drained": refused,
        "again": repeats(run, found),
    }


def nodes_command(args: argparse.Namespace) -> int:
    try:
        run = session.load_session(args.session or session.newest(session.results()))
    except session.ReportError as error:
        print(f"assay nodes: {error}", file=sys.stderr)
        return Exit.UNKNOWN
    found = rows(run)
    if args.json:
        print(json.dumps(as_json(run, found), indent=1))
    else:
        _show(run, found)
    verdicts = {case.verdict for case in run.cases}
    words = {FAIL} if Verdict.FAIL in verdicts else {row.verdict for row in found}
    words |= {UNDECIDED} if Verdict.INCONCLUSIVE in verdicts else set()
    return CODES[min(words or {NOT_MEASURED}, key=[*CODES].index)]


def _show(run: Session, found: Sequence[Row]) -> None:
    print("\n".join(nodes_table(found)))
    if not found:
        print("no node: no case of this run says on which nodes it ran")
    failed = [case for case in run.cases if case.verdict is Verdict.FAIL and not case.accused]
    if failed:
        print(f"{len(failed)} failed cases accuse nobody; type: assay report")
    show_commands(*drains(run, found), repeats(run, found))


def show_commands(drain: Sequence[str], refused: Sequence[str], measure: Sequence[str]) -> None:
    """Print what an operator may paste next; an empty list has no heading."""
    for said, lines in (
        ("To drain the failed nodes (not executed):", drain),
        ("Not drained:", refused),
        ("To measure again:", measure),
    ):
        if lines:
            print("", said, *lines, sep="\n")
