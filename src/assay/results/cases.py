"""A session and its test cases as the report speaks of them."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.judge import Verdict


@dataclass(frozen=True)
class Metric:
    """One judged or recorded number of a test case.

    :ivar value: in `unit`; None where the record has no finite number.
    :ivar reference: the expected value, and `lower` and `upper` its bounds, all in `unit`.
    :ivar percent: `value` in percent of `peak`, where the same run measured one; `peak_of` says
        what that peak is.
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


@dataclass(frozen=True)
class Case:
    """One test case: how it ended, and what its record says.

    :ivar verdict: None for a case that was not run; `why` then has the reason.
    :ivar why: one line: the cause of a FAIL or INCONCLUSIVE, the reason for not running.
    :ivar parameters: ReFrame's parameters of the test, each as text.
    :ivar rows: the whole curve or table, columns in `units`.
    :ivar benchmark_seconds: wall time inside the benchmark itself; 0 where unknown.
    :ivar queue_seconds: wall time that its job was the scheduler's: waiting, or being completed.
    :ivar outputs: verbatim outputs and the record, as far as they still exist.
    :ivar aborted: the run ended before it did; `verdict` is None then.
    :ivar launches: how many launches the verdict stands on.
    :ivar launched: False for an attempt that was ended before its job began.
    :ivar dependency_failed: it was not run because a test that it depends on failed.
    :ivar busy: what other work took of the machine, of a case that could not be decided for that.
    :ivar record: the record as it was read.
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
    metrics: tuple[Metric, ...] = ()
    problems: tuple[str, ...] = ()
    rows: tuple[Mapping[str, Any], ...] = ()
    units: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    proof: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    benchmark_seconds: float = 0.0
    queue_seconds: float = 0.0
    outputs: tuple[Path, ...] = ()
    launches: int = 1
    launched: bool = True
    dependency_failed: bool = False
    busy: str = ""
    record: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def proven(self) -> bool:
        """Whether its rows are a measurement, whatever a reference says of them."""
        return self.verdict is not None and bool(self.rows) and not self.problems

    @property
    def lack(self) -> str:
        """Why it has nothing to draw, for a case that has not."""
        if self.verdict is None:
            return f"not run: {self.why}"
        if self.problems or (self.verdict is Verdict.FAIL and not self.rows):
            return f"failed: {self.why}"
        return "measured, but without values that can be drawn"

    @property
    def nodes(self) -> int:
        """How many nodes it ran on; 0 where its record does not say."""
        for found in (self.proof.get("hosts"), self.record.get("nodes")):
            if isinstance(found, (Mapping, list)) and found:
                return len(found)
        return 0

    @property
    def title(self) -> str:
        """The display name as a reader wants it: without ReFrame's percent signs."""
        return self.display_name.replace(" %", " ")

    @property
    def where(self) -> str:
        """As ReFrame writes it: ``system:partition+environ``."""
        return f"{self.system}:{self.partition}+{self.environ}"


@dataclass(frozen=True)
class Session:
    """One run of ReFrame, with all its test cases.

    :ivar elapsed: wall time of the whole run in seconds.
    :ivar attempts: the cases as often as they were run (``--max-retries``, ``--reruns``).
    :ivar salvaged: the run report is lost, or never was: only a plan knows what was not finished.
    :ivar faults: what is wrong with the run as a whole, one line each.
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
    salvaged: bool = False
    faults: tuple[str, ...] = ()

    @property
    def systems(self) -> tuple[str, ...]:
        """The sites that the cases ran on; one, unless sessions were merged by hand."""
        return tuple(sorted({case.system for case in self.cases}))
