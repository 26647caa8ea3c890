"""What a run comes to: counts, the lines that close it, and its exit code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from assay.checks.record import BUSY
from assay.judge import Verdict
from assay.report.cases import Case, Session

#: How each verdict is called in a count.
WORDS = {
    Verdict.PASS: "PASS",
    Verdict.FAIL: "FAIL",
    Verdict.INCONCLUSIVE: "INCONCLUSIVE",
    Verdict.RECORDED: "RECORDED (measured, not judged)",
}

#: In a list of cases the first is what a reader must see first; not run comes last.
WORST_FIRST = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS, Verdict.RECORDED, None)


@dataclass(frozen=True)
class Counts:
    """Test cases by how they ended."""

    passed: int
    failed: int
    inconclusive: int
    recorded: int
    not_run: int

    @classmethod
    def of(cls, cases: Iterable[Case]) -> Counts:
        verdicts = [case.verdict for case in cases]
        return cls(
            passed=verdicts.count(Verdict.PASS),
            failed=verdicts.count(Verdict.FAIL),
            inconclusive=verdicts.count(Verdict.INCONCLUSIVE),
            recorded=verdicts.count(Verdict.RECORDED),
            not_run=verdicts.count(None),
        )

    @property
    def ran(self) -> int:
        return self.passed + self.failed + self.inconclusive + self.recorded

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on all of them; None where none ran."""
        if self.failed:
            return Verdict.FAIL
        if self.inconclusive:
            return Verdict.INCONCLUSIVE
        if self.passed:
            return Verdict.PASS
        return Verdict.RECORDED if self.recorded else None


@dataclass(frozen=True)
class Harness:
    """Wall time that was spent on something else than benchmarks.

    :ivar total: wall time of the session in seconds.
    :ivar benchmarks: sum over the benchmarks in seconds; more than `total` where several ran at
        the same time, and then the cost of the harness is unknown.
    """

    total: float
    benchmarks: float

    @property
    def seconds(self) -> float:
        return max(self.total - self.benchmarks, 0.0)

    @property
    def percent(self) -> float | None:
        known = 0 < self.total >= self.benchmarks
        return 100 * self.seconds / self.total if known else None

    def __str__(self) -> str:
        if not self.total:
            return "harness: unknown: nobody knows how long the session took"
        if self.percent is None:
            return (
                f"harness: unknown: benchmarks took {self.benchmarks:.1f} s in a session of "
                f"{self.total:.1f} s, so several ran at the same time"
            )
        return (
            f"harness: {self.seconds:.1f} s of {self.total:.1f} s outside of benchmarks "
            f"({self.percent:.1f} %)"
        )


def harness(session: Session) -> Harness:
    """The harness cost of a session."""
    return Harness(session.elapsed, sum(case.benchmark_seconds for case in session.cases))


def sorted_cases(cases: Iterable[Case]) -> list[Case]:
    """Worst first, then by place and name."""
    return sorted(
        cases, key=lambda c: (WORST_FIRST.index(c.verdict), c.where, c.test, c.display_name)
    )


def reasons_not_run(cases: Iterable[Case]) -> dict[str, list[Case]]:
    """The cases that were not run, by reason."""
    reasons: dict[str, list[Case]] = {}
    for case in sorted_cases(cases):
        if case.verdict is None:
            reasons.setdefault(case.why, []).append(case)
    return reasons


def faults(session: Session, max_harness: float | None = None) -> list[str]:
    """Why the run is red, one line each; empty for a run that stands.

    :param max_harness: most percent of the wall time that may go outside of benchmarks.
    """
    counts = Counts.of(session.cases)
    aborted = sum(case.aborted for case in session.cases)
    found = list(session.faults)
    if session.salvaged:
        found.append("the run report is lost: what was not finished is not here")
    if not session.cases:
        found.append("no test was selected")
    elif not counts.ran and not any(case.why.startswith(BUSY) for case in session.cases):
        found.append("no test ran")
    if counts.failed:
        also = f", {aborted} of them aborted" if aborted else ""
        found.append(f"{_cases(counts.failed)} failed{also}")
    undecided = [case for case in session.cases if case.verdict is Verdict.INCONCLUSIVE]
    busy = [case for case in undecided if case.busy]
    unmeasured = [c for c in session.cases if c.verdict is None and c.why.startswith(BUSY)]
    if busy or unmeasured:
        why = busy[0].busy if busy else unmeasured[0].why[len(BUSY) + 2 :]
        lost = [f"{_cases(len(busy))} could not be decided"] if busy else []
        lost += [f"{_cases(len(unmeasured))} not measured"] if unmeasured else []
        found.append(f"{BUSY}: {why}; {', '.join(lost)}")
    if len(undecided) > len(busy):
        found.append(f"{_cases(len(undecided) - len(busy))} could not be decided")
    if max_harness is not None:
        cost = harness(session)
        if cost.percent is None:
            found.append("the harness cost is unknown, so it cannot be held to a limit")
        elif cost.percent > max_harness:
            found.append(f"harness cost {cost.percent:.1f} % is above {max_harness:g} %")
    return found


def closing_lines(session: Session, max_harness: float | None = None) -> list[str]:
    """What a run prints last: causes, reasons, counts, harness cost and verdict."""
    counts = Counts.of(session.cases)
    lines = []
    for case in sorted_cases(session.cases):
        if case.verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE):
            lines.append(f"{case.verdict.value} {case.display_name} @{case.where}: {case.why}")
    for case in sorted_cases(session.cases):
        if case.launches > 1 and case.verdict is not None:
            lines.append(
                f"{case.verdict.value} after {case.launches} launches: "
                f"{case.display_name} @{case.where}"
            )
    for why, cases in reasons_not_run(session.cases).items():
        names = ", ".join(dict.fromkeys(case.test for case in cases))
        lines.append(f"not run: {why}: {_cases(len(cases))} of {names}")
    when = f" of {session.start:%Y-%m-%d %H:%M}" if session.start else ""
    lines.append(
        f"{session.file.stem}{when}: {counts.ran} of {_cases(len(session.cases))} ran: "
        f"{counts.passed} {WORDS[Verdict.PASS]}, {counts.failed} {WORDS[Verdict.FAIL]}, "
        f"{counts.inconclusive} {WORDS[Verdict.INCONCLUSIVE]}, "
        f"{counts.recorded} {WORDS[Verdict.RECORDED]}; {counts.not_run} not run"
    )
    lines.append(str(harness(session)))
    found = faults(session, max_harness)
    verdict = run_verdict(counts, found)
    lines.append("verdict: " + ": ".join([verdict.value, *filter(None, ["; ".join(found)])]))
    return lines


def run_verdict(counts: Counts, found: list[str]) -> Verdict:
    """The verdict on a run; a busy machine is not at fault, but nothing else may be.

    :param found: what :func:`faults` says.
    """
    if found and all(fault.startswith(BUSY) for fault in found):
        return Verdict.INCONCLUSIVE
    return Verdict.FAIL if found else counts.verdict or Verdict.FAIL


def _cases(count: int) -> str:
    return f"{count} case" if count == 1 else f"{count} cases"
