"""What a run found at fault: the causes, the suspected nodes, and where each node took part.

Everything here comes from the records. The diagnosis of each test names the nodes that it accuses
(:mod:`assay.accused`). This module only ranks and groups; it judges nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from assay.accused import Accusation, How
from assay.judge import RED, Verdict, worst, worst_first
from assay.show import remedies
from assay.store.cases import Case, grouped

#: A cause that accuses a node comes first, and among these the strongest evidence.
STRENGTH = [how.value for how in How]

ACCUSED, IN_FAILED = "accused", "in a failed case"

#: How a node fared in a case of each verdict, if it is not accused.
_OF_VERDICT = {
    Verdict.FAIL: IN_FAILED,
    Verdict.INCONCLUSIVE: "in an undecided case",
    Verdict.PASS: "passed",
    Verdict.RECORDED: "recorded",
}

#: How a node fared in a test, worst first -> the sign in the cell of a table.
FARED = dict(zip((ACCUSED, *_OF_VERDICT.values()), "\u2715\u25cb?\u2713\u2022"))


@dataclass(frozen=True)
class Cause:
    """One message, what it accuses as in :mod:`assay.accused`, and all cases that say it.

    :ivar alike: other messages of the same kind on the same nodes, if it accuses nobody.
    """

    nodes: tuple[str, ...]
    how: str
    said: str
    verdict: Verdict
    cases: tuple[Case, ...]
    part: str = ""
    alike: tuple[str, ...] = ()

    @property
    def at(self) -> tuple[str, ...]:
        """The nodes at fault, or those that its cases ran on."""
        return self.nodes or tuple(dict.fromkeys(n for case in self.cases for n in case.hosts))

    @property
    def remedy(self) -> tuple[str, str]:
        """Why it keeps a case from passing, and what to do next; empty if its kind is not known."""
        kind = remedies.remedy_for(self.said)
        return (kind.why, remedies.step(kind, self.cases, self.at)) if kind else ("", "")

    @property
    def evidence(self) -> str:
        """The message without the name of its node, which the page writes before it."""
        name = self.part or " - ".join(self.nodes)
        for start in (f"{name}: ", f"{name} is ", f"{name} "):
            if name and self.said.startswith(start):
                return self.said[len(start) :]
        return self.said

    @property
    def rank(self) -> tuple[int, int, int]:
        """Sort key: strong evidence first, a node before a pair, FAIL before INCONCLUSIVE."""
        strength = STRENGTH.index(self.how) if self.how in STRENGTH else len(STRENGTH)
        whole = bool(self.part) or len(self.nodes) == 1
        return (0 if whole else 1 if self.nodes else 2), strength, worst_first(self.verdict)


#: Evidence that something does not work, and not only that it is slow or different.
_BROKEN = (How.OUT.value, How.FAILED.value)


@dataclass(frozen=True)
class Suspect:
    """A node, a part of the network, or a pair of which neither node is accused alone."""

    nodes: tuple[str, ...]
    causes: tuple[Cause, ...]
    part: str = ""

    @property
    def name(self) -> str:
        return self.part or " \N{EN DASH} ".join(self.nodes)

    @property
    def sure(self) -> bool:
        """Whether decided cases show it, and by more than one slow number of a sweep."""
        sure = [cause for cause in self.causes if cause.verdict is Verdict.FAIL]
        swept = (all(case.second_look is not None for case in cause.cases) for cause in sure)
        return [(c.how, s) for c, s in zip(sure, swept)] not in ([], [(How.SLOW.value, True)])


@dataclass(frozen=True)
class Attendance:
    """Where each node took part.

    :ivar tests: the columns: tests that accuse a node come first, since a phone and paper cut off
        the last columns.
    :ivar rows: node -> test -> (how it fared, the case that shows it).
    """

    tests: tuple[str, ...]
    rows: Mapping[str, Mapping[str, tuple[str, Case]]]
    left_out: int


def causes(cases: Iterable[Case]) -> list[Cause]:
    """Why cases failed or stayed undecided: diagnoses first, each message once.

    A case has one cause for each accusation in its record, and one cause if there is none. Messages
    of one kind that accuse nobody are one cause if their cases ran on the same nodes.
    """
    found = grouped(
        ((one.nodes, one.part, one.problem if named else _kind(one.problem, case)), (one, case))
        for case in cases
        if case.verdict in RED
        for one in case.accused or [Accusation((), "", case.why)]
        for named in [one.nodes or one.part]
    )
    made = []
    for (nodes, part, _), said in found.items():
        verdict, its = worst(case.verdict for _, case in said), tuple(case for _, case in said)
        first, *alike = dict.fromkeys(one.problem for one, _ in said)
        made.append(Cause(nodes, said[0][0].how, first, verdict, its, part, tuple(alike)))
    return sorted(made, key=lambda cause: (cause.rank, cause.cases[0].where))


def _kind(message: str, case: Case) -> tuple[object, ...]:
    """What messages share that have one cause: the nodes, the remedy, and what they are about.

    This is the first name with an underscore, such as ``cuda_ipc``; or else all but the numbers.
    """
    remedy = remedies.remedy_for(message)
    about = re.search(r"[A-Za-z]+(_[A-Za-z]+)+", message) if remedy else None
    return case.hosts, remedy, about[0] if about else re.sub(r"\d[\d.]*", "", message)


def suspects(found: Sequence[Cause]) -> list[Suspect]:
    """The accused nodes and parts of the network, those with the strongest evidence first.

    A message about a pair counts for a node that is accused alone as well. But what failed is not
    explained by a node that is only slow. Any other pair is one suspect. Several nodes with one
    value are one suspect each.
    """
    alone = {cause.nodes[0] for cause in found if len(cause.nodes) == 1}
    broken = {c.nodes[0] for c in found if len(c.nodes) == 1 and c.how in _BROKEN}
    groups: dict[tuple[tuple[str, ...], str], list[Cause]] = {}
    for cause in found:
        explains = broken if cause.how in _BROKEN and len(cause.nodes) > 1 else alone
        named = [node for node in cause.nodes if node in explains]
        accused = [cause.nodes] if cause.nodes else []
        if cause.part:
            accused = [()]
        elif named or cause.how == How.DIFFERS.value:
            accused = [(node,) for node in named or cause.nodes]
        for nodes in accused:
            groups.setdefault((nodes, cause.part), []).append(cause)
    made = [Suspect(nodes, tuple(its), part) for (nodes, part), its in groups.items()]
    return sorted(made, key=lambda one: (one.causes[0].rank, -len(one.causes), one.nodes, one.part))


def attendance(
    cases: Sequence[Case], found: Sequence[Suspect], most: int = sys.maxsize
) -> Attendance:
    """Each node by each test, those of :func:`suspects` first; empty for a run on one node.

    :param most: if there are more nodes, only so many of those that fared worst.
    """
    rows: dict[str, dict[str, tuple[str, Case]]] = {}
    worst_how = list(FARED).index
    for case in cases:
        if case.verdict is None:
            continue
        named = {node for one in case.accused for node in one.nodes}
        for node in dict.fromkeys((*case.hosts, *named)):
            how = ACCUSED if node in named else _OF_VERDICT[case.verdict]
            row = rows.setdefault(node, {})
            if case.test not in row or worst_how(how) < worst_how(row[case.test][0]):
                row[case.test] = (how, case)
    if len(rows) < 2:
        return Attendance((), {}, 0)
    first = [node for one in found for node in one.nodes]
    order = [node for node in dict.fromkeys([*first, *sorted(rows)]) if node in rows]
    if len(order) > most:
        order.sort(key=lambda node: min(worst_how(how) for how, _ in rows[node].values()))
    accusing = {test for row in rows.values() for test, (how, _) in row.items() if how == ACCUSED}
    tests = {test for row in rows.values() for test in row}
    columns = sorted(tests, key=lambda test: (test not in accusing, test))
    kept = {node: rows[node] for node in order[:most]}
    return Attendance(tuple(columns), kept, len(order[most:]))
