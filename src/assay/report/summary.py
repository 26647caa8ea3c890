"""The result of a run: its counts, its closing lines, and its exit code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assay.deadline import REACHED
from assay.judge import Verdict
from assay.report import remedies
from assay.results.cases import Case, Session
from assay.results.record import BUSY, CALIBRATION

#: The words for each verdict in a count.
WORDS = {
    Verdict.PASS: "PASS",
    Verdict.FAIL: "FAIL",
    Verdict.INCONCLUSIVE: "INCONCLUSIVE",
    Verdict.RECORDED: "RECORDED (measured, not judged)",
}

#: Order of a list of cases: the verdict that a reader must see first, and "not run" (None) last.
WORST_FIRST = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS, Verdict.RECORDED, None)


@dataclass(frozen=True)
class Counts:
    """Numbers of test cases by their outcome.

    :ivar missing: the cases without a record; `failed` counts them, too.
    """

    passed: int
    failed: int
    inconclusive: int
    recorded: int
    not_run: int
    unfinished: int = 0
    missing: int = 0

    @classmethod
    def of(cls, cases: Iterable[Case]) -> Counts:
        cases = tuple(cases)
        verdicts = [case.verdict for case in cases]
        unfinished = sum(case.aborted and case.verdict is None for case in cases)
        return cls(
            passed=verdicts.count(Verdict.PASS),
            failed=verdicts.count(Verdict.FAIL),
            inconclusive=verdicts.count(Verdict.INCONCLUSIVE),
            recorded=verdicts.count(Verdict.RECORDED),
            not_run=verdicts.count(None) - unfinished,
            unfinished=unfinished,
            missing=sum(case.missing for case in cases),
        )

    @property
    def ran(self) -> int:
        return self.passed + self.failed + self.inconclusive + self.recorded - self.missing

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on all cases; None if no case ran."""
        if self.failed:
            return Verdict.FAIL
        if self.inconclusive:
            return Verdict.INCONCLUSIVE
        if self.passed:
            return Verdict.PASS
        return Verdict.RECORDED if self.recorded else None


@dataclass(frozen=True)
class Harness:
    """Wall time that the suite itself spent, outside of benchmarks and of a scheduler's queue.

    :ivar total: wall time of the session in seconds.
    :ivar benchmarks: sum of the times of the benchmarks in seconds.
    :ivar queue: sum of the times that the jobs waited for their scheduler in seconds.

    If both sums together exceed `total`, several jobs existed at the same time, and the cost of
    the harness is unknown.
    """

    total: float
    benchmarks: float
    queue: float = 0.0

    @property
    def seconds(self) -> float:
        return max(self.total - self.benchmarks - self.queue, 0.0)

    @property
    def percent(self) -> float | None:
        known = 0 < self.total >= self.benchmarks + self.queue
        return 100 * self.seconds / self.total if known else None

    def __str__(self) -> str:
        if not self.total:
            return "harness: unknown: nobody knows how long the session took"
        queue = f" and {self.queue:.1f} s in the queue" if self.queue else ""
        if self.percent is None:
            return (
                f"harness: unknown: benchmarks took {self.benchmarks:.1f} s{queue} in a session of "
                f"{self.total:.1f} s, so several ran at the same time"
            )
        beside = f"; {self.queue:.1f} s in the queue" if self.queue else ""
        return (
            f"harness: {self.seconds:.1f} s of {self.total:.1f} s outside of benchmarks "
            f"({self.percent:.1f} %){beside}"
        )


def harness(session: Session) -> Harness:
    """The harness cost of a session."""
    return Harness(
        session.elapsed,
        sum(case.benchmark_seconds for case in session.cases),
        sum(case.queue_seconds for case in session.cases),
    )


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


def interruption(counts: Counts) -> str:
    """A message that the run ended before its cases did; empty for a run that did not."""
    if not counts.unfinished:
        return ""
    return f"INTERRUPTED: {counts.ran} of {counts.ran + counts.unfinished} finished"


def faults(session: Session, max_harness: float | None = None) -> list[str]:
    """The reasons why the run is not accepted, one line each; empty for an accepted run.

    :param max_harness: largest share of the wall time outside of benchmarks, in percent.
    """
    counts = Counts.of(session.cases)
    interrupted = interruption(counts)
    found = [interrupted] if interrupted else []
    found += session.faults
    if session.salvaged and not interrupted:
        found.append("the run report is lost: what was not finished is not here")
    if not session.cases:
        found.append("no test was selected")
    elif not (counts.ran or interrupted):
        found.append("no test ran")
    if counts.failed > counts.missing:  # what is missing is a fault of its own
        found.append(f"{_cases(counts.failed - counts.missing)} failed")
    unjudged = sum(any(m.why == CALIBRATION for m in case.metrics) for case in session.cases)
    if unjudged:
        found.append(f"{_cases(unjudged)} measured to calibrate, and not judged")
    undecided = [case for case in session.cases if case.verdict is Verdict.INCONCLUSIVE]
    busy = [case for case in undecided if case.busy]
    if busy:
        found.append(f"{BUSY}: {busy[0].busy}; {_cases(len(busy))} could not be decided")
    if len(undecided) > len(busy):
        found.append(f"{_cases(len(undecided) - len(busy))} could not be decided")
    if _nothing_judged(session, counts):
        found.append(
            "nothing was judged: no metric has a reference; calibrate the site, or write "
            "nothing_judged: allowed into its promise.yaml"
        )
    late = sum(case.verdict is None and case.why.startswith(REACHED) for case in session.cases)
    if late:
        found.append(f"{_cases(late)} not begun before the {REACHED}")
    if max_harness is not None:
        cost = harness(session)
        if cost.percent is None:
            found.append("the harness cost is unknown, so it cannot be held to a limit")
        elif cost.percent > max_harness:
            found.append(f"harness cost {cost.percent:.1f} % is above {max_harness:g} %")
    return found


def judged(cases: Iterable[Case]) -> int:
    """How many cases have a metric that was compared with a reference."""
    return sum(any(m.verdict is not Verdict.RECORDED for m in case.metrics) for case in cases)


@dataclass(frozen=True)
class Coverage:
    """How far the tests of one kind judged.

    :ivar kind: ``network``, ``compute``, ``storage`` or ``node``; "" where nothing says it.
    """

    kind: str
    judged: int
    recorded: int
    not_run: int

    def __str__(self) -> str:
        counts = ((self.recorded, "recorded"), (self.not_run, "not run"))
        said = [f"{count} {word}" for count, word in counts if count]
        return f"{self.kind or 'other'} ({', '.join(said)})"


def coverage(cases: Iterable[Case]) -> list[Coverage]:
    """The coverage of each kind of test. A failed or undecided case counts as judged."""
    kinds: dict[str, list[Case]] = {}
    for case in cases:
        kinds.setdefault(case.kind, []).append(case)
    found = []
    for kind, of_kind in sorted(kinds.items()):
        ran = [case for case in of_kind if case.verdict is not None and not case.missing]
        done = judged(case for case in ran if case.verdict in (Verdict.PASS, Verdict.RECORDED))
        done += sum(case.verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE) for case in ran)
        found.append(Coverage(kind, done, len(ran) - done, len(of_kind) - len(ran)))
    return found


def _nothing_judged(session: Session, counts: Counts) -> bool:
    """Whether a complete run is red because it only recorded numbers."""
    complete = not (session.partial or counts.unfinished or counts.failed or counts.inconclusive)
    allowed = session.nothing_judged == "allowed"
    return bool(counts.ran) and complete and not allowed and not judged(session.cases)


def closing_lines(session: Session, max_harness: float | None = None) -> list[str]:
    """The last lines of a run: causes, reasons, counts, harness cost and verdict."""
    counts = Counts.of(session.cases)
    failed = counts.failed - counts.missing
    lines = []
    for case in sorted_cases(session.cases):
        if case.verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE):
            lines.append(f"{case.verdict.value} {case.display_name} @{case.where}: {case.why}")
    lines += remedies.lines(sorted_cases(session.cases))
    for case in sorted_cases(session.cases):
        if case.launches > 1 and case.verdict is not None:
            lines.append(
                f"{case.verdict.value} after {case.launches} launches: "
                f"{case.display_name} @{case.where}"
            )
    for case in sorted_cases(session.cases):
        if case.not_judged:
            why = "; ".join(case.not_judged)
            lines.append(f"not judged, {case.busy}: {case.display_name} @{case.where}: {why}")
    for why, cases in reasons_not_run(session.cases).items():
        names = ", ".join(dict.fromkeys(case.test for case in cases))
        kind = "not finished" if cases[0].aborted else "not run"
        lines.append(f"{kind}: {why}: {_cases(len(cases))} of {names}")
    when = f" of {session.start:%Y-%m-%d %H:%M}" if session.start else ""
    lines.append(
        f"{session.file.stem}{when}: {counts.ran} of {_cases(len(session.cases))} ran: "
        f"{counts.passed} {WORDS[Verdict.PASS]}, {failed} {WORDS[Verdict.FAIL]}, "
        f"{counts.inconclusive} {WORDS[Verdict.INCONCLUSIVE]}, "
        f"{counts.recorded} {WORDS[Verdict.RECORDED]}; {counts.not_run} not run"
        + (f", {counts.unfinished} not finished" if counts.unfinished else "")
        + (f", {counts.missing} missing" if counts.missing else "")
    )
    of = "" if session.promised is None else f"; the site promises {_cases(session.promised)}"
    lines.append(f"judged: {judged(session.cases)} of {_cases(counts.ran)} that ran{of}")
    lines.append(str(harness(session)))
    found = faults(session, max_harness)
    word = verdict_word(counts, found, session.partial)
    # Print the word only once: the cause of an interrupted run begins with it.
    causes = [fault.removeprefix(f"{word}: ") for fault in found] or list(session.partial)
    lines.append("verdict: " + ": ".join([word, *(["; ".join(causes)] if causes else [])]))
    return lines


def run_verdict(counts: Counts, found: Sequence[str], partial: Sequence[str] = ()) -> Verdict:
    """The verdict on a run: INCONCLUSIVE if a busy machine is the only cause of its faults.

    A part of a run is never a PASS.

    :param found: the result of :func:`faults`.
    :param partial: see :class:`assay.results.cases.Session`.
    """
    if partial and not found and counts.verdict is Verdict.PASS:
        return Verdict.RECORDED
    if found and all(fault.startswith(BUSY) for fault in found):
        return Verdict.INCONCLUSIVE
    return Verdict.FAIL if found else counts.verdict or Verdict.FAIL


def verdict_word(counts: Counts, found: Sequence[str], partial: Sequence[str] = ()) -> str:
    """The verdict as a word: INTERRUPTED if nothing else is wrong with the run.

    PARTIAL if nothing is wrong with a part of a run.
    """
    if found == [interruption(counts)]:
        return "INTERRUPTED"
    if partial and not found:
        return "PARTIAL"
    return run_verdict(counts, found).value


def _cases(count: int) -> str:
    return f"{count} case" if count == 1 else f"{count} cases"
