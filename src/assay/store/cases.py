"""A session and its test cases, in the form that the report uses."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from assay import declared, metrics
from assay.judge import RED, Verdict
from assay.store.record import Output, Record
from assay.store.run_folder import NO_PLAN, Plan
from assay.store.sanitize import known_fields, line, maker

Key = TypeVar("Key")
Value = TypeVar("Value")


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """The values of each key, both in their order."""
    found: dict[Key, list[Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


class Case(Record):
    """One test case: its record, as far as it left one, and how it ended.

    :ivar verdict: None for a case that was not run. `why` then holds the reason.
    :ivar why: one line: the cause of a FAIL or INCONCLUSIVE, the reason for not running.
    :ivar aborted: the run ended before the case did. `verdict` is then None.
    :ivar launched: False for an attempt that was ended before its job began.
    :ivar dependency_failed: the case was not run because a test that it depends on failed.
    :ivar missing: a job was to run the case, and left no record of it. `verdict` is then FAIL.
    :ivar title: the display name for readers, without ReFrame's percent signs.
    :ivar name: what one case has that another has not, beside the place.
    :ivar where: where the case ran, as ReFrame writes it: ``system:partition+environ``.
    :ivar hosts: the nodes that it ran on, as far as its record says.
    :ivar values: its parameters, each as text.
    :ivar way: how its bytes moved.
    :ivar proven: whether its rows are a valid measurement, independent of any reference.
    """

    why: str = ""
    recorded: bool = False
    outputs: tuple[Path, ...] = ()
    aborted: bool = False
    launched: bool = True
    dependency_failed: bool = False
    missing: bool = False
    title: str = ""
    name: str = ""
    where: str = ""
    hosts: tuple[str, ...] = ()
    values: dict[str, str] = {}
    way: str = ""
    proven: bool = False

    def __post_init__(self) -> None:
        """Derives what many readers ask for from the other fields."""
        self.title = self.display_name.replace(" %", " ")
        self.name = self.unique_name or self.display_name
        self.where = f"{self.system}:{self.partition}+{self.environ}"
        hosts = self.proof.get("hosts")
        found = hosts if isinstance(hosts, (dict, list)) and hosts else self.nodes
        self.hosts = tuple(map(line, found))
        self.values = {key: line(value) for key, value in self.parameters.items()}
        self.way = self.transport or self.values.get("configuration", "")
        self.proven = self.verdict is not None and bool(self.parsed.rows) and not self.problems

    @property
    def key(self) -> dict[str, Any]:
        """What references of the case are looked up by."""
        places = {key: getattr(self, key) for key in ("partition", "environ", "profile", "test")}
        return {**places, **self.parameters}


def fields(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a record, from the content of a file that anybody may have written.

    Texts become clean, and what is not of its type is left out: no reader of a record cleans or
    checks it again.
    """
    entries = raw.get("metrics")
    if isinstance(entries, dict):  # by name in the file
        of = ((name, it if isinstance(it, dict) else {}) for name, it in entries.items())
        raw = {**raw, "metrics": [{**it, "name": name} for name, it in of]}
    found = known_fields(Record, raw)
    # An entry that names nobody accuses nobody.
    found["accused"] = tuple(one for one in found.get("accused", ()) if one.nodes or one.part)
    return found


def figures(raw: Any) -> tuple[declared.Figure, ...]:
    """The figures of an entry ``figures`` of a record or a plan; what is none is left out."""
    return maker(tuple[declared.Figure, ...])(raw) or ()


def with_record(case: Case, raw: Mapping[str, Any]) -> Case:
    """The case with the content of its record, which decides its verdict."""
    found: dict[str, Any] = {"verdict": Verdict.FAIL, "parsed": Output(), **fields(raw)}
    for key in ("display_name", "unique_name", "system", "partition", "environ"):
        found.pop(key, None)  # the run report says them
    for key in ("test", "kind", "transport", "parameters"):
        found[key] = found.get(key) or getattr(case, key)
    case = replace(case, **found, recorded=bool(raw))
    for metric in case.metrics:
        metric.unit = metrics.named(metric.unit, case.units)
    columns = case.parsed.units.items()
    case.parsed.units = {name: metrics.named(unit, case.units) for name, unit in columns}
    case.why = cause(case, case.verdict)
    return case


def cause(case: Record, verdict: Verdict | None) -> str:
    """Why a case is not a PASS, in one line: its first problem, else its first bad metric.

    In a case that failed, a problem that decides nothing (its text begins with INCONCLUSIVE)
    comes last: it is not why the case failed.
    """
    if verdict not in RED:
        return ""
    causes = list(case.problems) + [
        f"{metric.name}: {metric.why}" for metric in case.metrics if metric.verdict is verdict
    ]
    if verdict is Verdict.FAIL:
        causes.sort(key=lambda text: text.startswith(f"{Verdict.INCONCLUSIVE.value}: "))
    more = f" (and {len(causes) - 1} more)" if len(causes) > 1 else ""
    return causes[0] + more if causes else ""


class Session(msgspec.Struct, frozen=True):
    """One run of ReFrame, with all its test cases.

    :ivar elapsed: wall time of the whole run in seconds.
    :ivar attempts: every attempt of every case (``--max-retries``, ``--reruns``).
    :ivar salvaged: the run report is lost or was never written. Only a plan can then tell which
        cases were not finished.
    :ivar faults: what is wrong with the run as a whole, one line each.
    :ivar partial: why the run is only a part of what the site promises, or not by its plan, one
        line each.
    :ivar doubts: those of these lines that are about settings, without a limit of their number.
    :ivar notes: links that no case used, and that are no fault, one line each.
    :ivar others: the cases of tests that are not of Assay; ``why`` is how each ended in ReFrame.
    :ivar folder: of its outputs, plan and log; sessions that were merged have neither.
    :ivar extras: what the call of ReFrame said about the run (``--session-extras``).
    :ivar promised: number of cases that the site promises; None if nothing says it.
    :ivar nothing_judged: whether a run that judged no metric is ``red`` or ``allowed``.
    """

    file: Path
    uuid: str
    host: str
    start: datetime.datetime | None
    elapsed: float
    command: str
    reframe: str
    cases: tuple[Case, ...]
    attempts: tuple[Case, ...] = ()
    others: tuple[Case, ...] = ()
    salvaged: bool = False
    faults: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    promised: int | None = None
    nothing_judged: str = "red"
    extras: dict[str, str] = {}
    folder: Path = Path()
    plan: Plan = NO_PLAN

    @property
    def systems(self) -> tuple[str, ...]:
        """The sites that the cases ran on; one, unless sessions were merged by hand."""
        return tuple(sorted({case.system for case in self.cases}))
