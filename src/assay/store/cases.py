"""A session and its test cases, in the form that the report uses."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from assay.declared import Figure
from assay.judge import Verdict
from assay.store.run_folder import NO_PLAN, Plan
from assay.store.sanitize import finite, line, mapping, sequence

Key = TypeVar("Key")
Value = TypeVar("Value")


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """The values of each key, both in their order."""
    found: dict[Key, list[Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


@dataclass(frozen=True)
class Metric:
    """One judged or recorded number of a test case.

    :ivar value: in `unit`; None where the record has no finite number.
    :ivar reference: the expected value. `lower` and `upper` are its bounds. All are in `unit`.
    :ivar cell: the place in :attr:`Case.rows` that the value is of: (number of the row, column);
        None if it is not that of one cell.
    :ivar percent: `value` in percent of `peak`, if the test knows a peak: one that the same run
        measured, or one of the hardware. `peak_of` says what that peak is.
    """

    name: str
    value: float | None
    unit: str
    verdict: Verdict
    why: str = ""
    samples: tuple[float, ...] = ()
    reference: float | None = None
    lower: float | None = None
    upper: float | None = None
    percent: float | None = None
    peak: float | None = None
    peak_unit: str = ""
    peak_of: str = ""
    source: str = ""
    cell: tuple[int, str] | None = None


@dataclass(frozen=True)
class Accusation:
    """A problem of a case that accuses nodes or a part of the network: :mod:`assay.accused`."""

    nodes: tuple[str, ...]
    how: str
    problem: str
    part: str = ""


@dataclass(frozen=True)
class Case:
    """One test case: how it ended, and what its record says.

    :ivar verdict: None for a case that was not run. `why` then holds the reason.
    :ivar why: one line: the cause of a FAIL or INCONCLUSIVE, the reason for not running.
    :ivar parameters: ReFrame's parameters of the test, each as text.
    :ivar rows: the whole curve or table; `units` holds the unit of each column.
    :ivar benchmark_seconds: wall time inside the benchmark itself; 0 where unknown.
    :ivar outputs: verbatim outputs and the record, as far as they still exist.
    :ivar aborted: the run ended before the case did. `verdict` is then None.
    :ivar launches: how many launches the verdict is based on.
    :ivar launched: False for an attempt that was ended before its job began.
    :ivar dependency_failed: the case was not run because a test that it depends on failed.
    :ivar missing: a job was to run the case, and left no record of it. `verdict` is then FAIL.
    :ivar doubts: settings outside of the plan that may have changed its numbers, one line each.
    :ivar busy: what other work took of the machine, if the case could not be decided for that.
    :ivar not_judged: what was out of bounds then, if the site judges nothing beside other work.
    """

    test: str
    display_name: str
    unique_name: str
    system: str
    partition: str
    environ: str
    verdict: Verdict | None
    why: str = ""
    aborted: bool = False
    kind: str = ""
    family: str = ""
    program: str = ""
    version: str = ""
    transport: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    metrics: tuple[Metric, ...] = ()
    problems: tuple[str, ...] = ()
    accused: tuple[Accusation, ...] = ()
    rows: tuple[Mapping[str, Any], ...] = ()
    units: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    proof: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    benchmark_seconds: float = 0.0
    outputs: tuple[Path, ...] = ()
    launches: int = 1
    launched: bool = True
    dependency_failed: bool = False
    missing: bool = False
    busy: str = ""
    not_judged: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def proven(self) -> bool:
        """Whether its rows are a valid measurement, independent of any reference."""
        return self.verdict is not None and bool(self.rows) and not self.problems

    @property
    def lack(self) -> str:
        """The reason why a case without values has nothing to draw."""
        if self.verdict is None:
            return f"not run: {self.why}"
        if self.problems or (self.verdict is Verdict.FAIL and not self.rows):
            return f"failed: {self.why}"
        return "measured, but without values that can be drawn"

    def drawn_as(self, *kinds: str) -> tuple[Figure, ...]:
        """Its figures of these kinds."""
        return tuple(figure for figure in self.figures if figure.kind in kinds)

    @property
    def nodes(self) -> int:
        """How many nodes it ran on; 0 where its record does not say."""
        return len(self.hosts)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The nodes that it ran on, as far as its record says."""
        for found in (self.proof.get("hosts"), self.record.get("nodes")):
            if isinstance(found, (Mapping, list)) and found:
                return tuple(map(line, found))
        return ()

    @property
    def others(self) -> str:
        """What other work took of the machine during the last launch; empty if nothing was."""
        said = mapping(self.record.get("others"))
        taken, cores = (finite(said.get(key)) for key in ("processors", "cores"))
        return f"{taken:.1f} of {cores:g} cores" if taken and cores else ""

    @property
    def key(self) -> dict[str, Any]:
        """What references of the case are looked up by, from its record."""
        places = {key: self.record.get(key) for key in ("partition", "environ", "profile", "test")}
        return {**places, **mapping(self.record.get("parameters"))}

    @property
    def title(self) -> str:
        """The display name for readers, without ReFrame's percent signs."""
        return self.display_name.replace(" %", " ")

    @property
    def where(self) -> str:
        """Where the case ran, as ReFrame writes it: ``system:partition+environ``."""
        return f"{self.system}:{self.partition}+{self.environ}"


def figures(raw: Any) -> tuple[Figure, ...]:
    """The figures of an entry ``figures`` of a record or a plan; what is none is left out."""
    found = []
    for entry in map(mapping, sequence(raw)):
        try:
            found.append(Figure(**{str(key): line(value) for key, value in entry.items()}))
        except (TypeError, ValueError):
            continue
    return tuple(found)


@dataclass(frozen=True)
class Session:
    """One run of ReFrame, with all its test cases.

    :ivar elapsed: wall time of the whole run in seconds.
    :ivar attempts: every attempt of every case (``--max-retries``, ``--reruns``).
    :ivar salvaged: the run report is lost or was never written. Only a plan can then tell which
        cases were not finished.
    :ivar faults: what is wrong with the run as a whole, one line each.
    :ivar partial: why the run is only a part of what the site promises, or not by its plan, one
        line each.
    :ivar doubts: those of these lines that are about settings, without a limit of their number.
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
    promised: int | None = None
    nothing_judged: str = "red"
    extras: Mapping[str, str] = field(default_factory=dict)
    folder: Path = Path()
    plan: Plan = NO_PLAN

    @property
    def systems(self) -> tuple[str, ...]:
        """The sites that the cases ran on; one, unless sessions were merged by hand."""
        return tuple(sorted({case.system for case in self.cases}))
