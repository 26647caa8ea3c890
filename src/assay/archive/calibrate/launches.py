"""The launches of a calibration, from ReFrame's run reports and the records of the cases."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reframe.utility import nodelist_abbrev

from assay.archive.calibrate import CalibrationError, states
from assay.judge import LAUNCHES_FOR_95_PERCENT, RED, describe
from assay.prove import identity
from assay.store.cases import Case, Session

Key = tuple[tuple[str, Any], ...]


@dataclass
class Sample:
    """All launches of one test case.

    :ivar case: the key that references are looked up by.
    :ivar metrics: one value for each launch, by metric.
    :ivar units: the unit of each metric.
    :ivar stack: where the programs come from, in the words of the stack.
    :ivar curves: the rows of each launch, if they are a curve, with `curve_units`, `pattern`, and
        what a launch pays `once`.
    :ivar printed: the rates and times of each launch, as its program printed them.
    :ivar settings: hashes of the settings of the machine in the launches.
    :ivar hardware: GPUs and processors of the nodes in the launches.
    :ivar shares: by metric, the share of the peak of the hardware in each launch, if it is known.
    """

    case: Mapping[str, Any]
    launches: int = 0
    metrics: dict[str, list[float]] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    nodes: set[str] = field(default_factory=set)
    stack: str = ""
    date: datetime.date = datetime.date.min
    curves: list[Sequence[Mapping[str, Any]]] = field(default_factory=list)
    curve_units: Mapping[str, str] = field(default_factory=dict)
    pattern: str = ""
    once: Mapping[int, float] = field(default_factory=dict)
    shares: dict[str, list[float]] = field(default_factory=dict)
    settings: set[str] = field(default_factory=set)
    hardware: set[str] = field(default_factory=set)
    printed: list[tuple[float, ...]] = field(default_factory=list)

    @property
    def source(self) -> dict[str, Any]:
        """The source, in the format of an entry of references."""
        nodes = nodelist_abbrev(sorted(self.nodes)) if self.nodes else "unknown nodes"
        stack = f"stack {self.case['environ']}" + (f" ({self.stack})" if self.stack else "")
        said: dict[str, Any] = {"date": str(self.date), "n": self.launches}
        said["where"] = f"{nodes}, {stack}"
        for key, known in (("settings", self.settings), ("hardware", self.hardware)):
            said |= {key: min(known)} if known else {}
        return said


def samples(sessions: Iterable[Session], site: str) -> list[Sample]:
    """The launches of each case that has metrics.

    :param site: the name of the system that must have run.
    :raises CalibrationError: a launch failed or was of another site or purpose, there are too few
        launches, or the cases differ in the number of launches.
    """
    found: dict[Key, Sample] = {}
    problems: dict[tuple[str, str], str] = {}
    # Their order is that of time, which shows a drift.
    in_order = sorted(sessions, key=lambda session: str(session.start))
    tomorrow = datetime.date.today() + datetime.timedelta(days=1)
    for number, session in enumerate(in_order):
        if session.file in (other.file for other in in_order[:number]):
            raise CalibrationError(f"{session.file}: is given twice; name each report once")
        if session.start and session.start.date() > tomorrow:
            raise CalibrationError(
                f"{session.file}: its date {session.start.date()} lies in the future: set the "
                "clock of the machine, and calibrate again"
            )
        for case in session.attempts:
            if case.verdict is None and not (case.dependency_failed or case.aborted):
                continue  # skipped in all launches alike
            if problem := _problem(case, site):
                # The first problem of a case is the cause: a failed case is not launched again.
                problems.setdefault((case.display_name, case.where), problem)
            else:
                _add(found, case, session)
    measured = [sample for sample in found.values() if sample.metrics]
    faults = [f"{name} @{where}: {why}" for (name, where), why in problems.items()]
    faults = faults or _counts(measured)
    if faults:
        raise CalibrationError(*faults)
    return measured


def _problem(case: Case, site: str) -> str:
    """Why a launch does not count; empty if it counts."""
    if case.verdict is None:
        return f"was not run: {case.why}"
    if case.recorded and case.purpose != "calibration":
        return "was run for acceptance; take a run with -S purpose=calibration"
    if case.verdict in RED:
        return f"failed: {case.why}"
    if case.system != site:
        return f"is of the site {case.system!r}, not of {site!r}"
    for name, value in case.parameters.items():
        if not isinstance(value, (str, int, float, bool)):
            return f"parameter {name!r} is {value!r}, which a reference cannot name"
    return ""


def _add(found: dict[Key, Sample], case: Case, session: Session) -> None:
    sample = found.setdefault(tuple(case.key.items()), Sample(case.key))
    sample.launches += 1
    for metric in case.metrics:
        assert metric.value is not None, "a metric without a value is a FAIL"
        sample.metrics.setdefault(metric.name, []).append(metric.value)
        sample.units[metric.name] = metric.unit
        share = metric.percent_of
        if share and share.percent and share.of.startswith(("link.", "gpu.memory")):
            sample.shares.setdefault(metric.name, []).append(share.percent / 100)
    rows, units = case.parsed.rows, case.parsed.units
    if case.curve:
        sample.curves.append(rows)
        sample.curve_units, sample.pattern = units, case.curve
        sample.once = {int(size): time for size, time in case.once.items()}
    sample.printed.append(states.measured(rows, units))
    sample.nodes.update(case.nodes)
    sample.settings.update(filter(None, [case.settings.sha256]))
    sample.hardware.update(filter(None, [identity.kind_of_nodes(case.machine)]))
    sample.stack = case.stack
    if session.start is not None:
        sample.date = max(sample.date, session.start.date())


def _counts(measured: Sequence[Sample]) -> list[str]:
    """What is wrong with the number of launches, one line each."""
    if not measured:
        return ["no case with a metric was run: nothing to calibrate; look at the selection"]
    most = max(sample.launches for sample in measured)
    faults = []
    for s in measured:
        checks = (
            (s.launches != most, f"{s.launches} launches, others have {most}; run the calibration "
             "whole"),
            *((len(values) != s.launches, f"{len(values)} values of {name!r} in {s.launches} "
               "launches") for name, values in s.metrics.items()),
            (len(s.settings) > 1, "the settings of the machine changed between its launches: assay "
             "report shows them; calibrate again when all nodes have the same"),
            (len(s.hardware) > 1, "its launches had different hardware: "
             f"{'; '.join(sorted(s.hardware))}; give each kind of node a partition of its own"),
            (states.copied(s.printed), f"its {s.launches} launches are identical to the last "
             "digit: no program measured them all; look at its outputs"),
        )  # fmt: skip
        faults += [f"{describe(s.case)}: {why}" for wrong, why in checks if wrong]
    if most < LAUNCHES_FOR_95_PERCENT:
        faults.append(
            f"{most} launches are too few: at least {LAUNCHES_FOR_95_PERCENT} cover the median at "
            "95 %; take --launches 10"
        )
    return faults
