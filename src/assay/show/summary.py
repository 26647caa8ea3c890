"""The result of a run: its counts, its outcome, and both as text."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from assay import files, metrics
from assay.deadline import REACHED
from assay.exits import Exit
from assay.judge import GREEN, LAUNCHES_TO_PASS, RED, Fault, Outcome, Verdict, worst_first
from assay.judge import outcome as ladder
from assay.show import remedies
from assay.store.cases import Case, Session, grouped
from assay.store.record import BROKEN, BUSY, CALIBRATION, Metric

if TYPE_CHECKING:
    from assay.show.view import View

UNDECIDED = "could not be decided"

#: Headline -> the base of its unit, and the word of `proves` of its metrics.
HEADLINES = {
    "latency": ("s", "latency"),
    "bandwidth": ("B/s", "rate"),
    "memory": ("B/s", "memory"),
    "HPL": ("FLOP/s", "processor"),
    "storage": ("B/s", "write"),
}


@dataclass(frozen=True)
class Counts:
    """Numbers of test cases by their outcome.

    :ivar verdict: the worst one; None if no case ran.
    :ivar missing: the cases without a record; `failed` counts them, too.
    """

    passed: int
    failed: int
    inconclusive: int
    recorded: int
    not_run: int
    unfinished: int
    missing: int
    verdict: Verdict | None

    @classmethod
    def of(cls, cases: Iterable[Case]) -> Counts:
        cases = tuple(cases)
        verdicts = [case.verdict for case in cases]
        unfinished = sum(case.aborted and case.verdict is None for case in cases)
        of, missing = verdicts.count, sum(case.missing for case in cases)
        ran = of(Verdict.PASS), of(Verdict.FAIL), of(Verdict.INCONCLUSIVE), of(Verdict.RECORDED)
        verdict = min(verdicts, key=worst_first, default=None)
        return cls(*ran, of(None) - unfinished, unfinished, missing, verdict)

    @property
    def ran(self) -> int:
        return self.passed + self.failed + self.inconclusive + self.recorded - self.missing


def sorted_cases(cases: Iterable[Case]) -> list[Case]:
    """Worst first, then by place and name."""
    return sorted(cases, key=lambda c: (worst_first(c.verdict), c.where, c.test, c.display_name))


def reasons_not_run(cases: Iterable[Case]) -> dict[str, list[Case]]:
    """The cases that were not run, by reason."""
    return grouped((case.why, case) for case in sorted_cases(cases) if case.verdict is None)


def outcome(session: Session) -> Outcome:
    """The verdict on a run, and the reasons why it is not accepted."""
    verdicts = (case.verdict for case in session.cases)
    return ladder(verdicts, list(_faults(session)), bool(session.partial))


def exit_code(session: Session) -> Exit:
    """The code of the verdict; 0 if nothing but other work makes it PARTIAL (assay.run.strict)."""
    word, unjudged = outcome(session).word, any(case.not_judged for case in session.cases)
    return Exit.PASS if word == "PARTIAL" and unjudged and len(session.partial) == 1 else Exit[word]


def without_cases(session: Session) -> Outcome | None:
    """What is wrong with the run beside its cases, and with what verdict; None if nothing is."""
    faults = [fault for fault in _faults(session) if not fault.of_cases]
    return ladder((), faults, bool(session.partial)) if faults or session.partial else None


def _faults(session: Session) -> Iterator[Fault]:
    counts = Counts.of(session.cases)
    if counts.unfinished:
        of = f"{counts.ran} of {counts.ran + counts.unfinished}"
        yield Fault(f"INTERRUPTED: {of} finished", word="INTERRUPTED")
    yield from map(Fault, session.faults)
    if session.salvaged and not counts.unfinished:
        yield Fault("the run report is lost: what was not finished is not here")
    if not session.cases:
        yield Fault("no test was selected")
    elif not (counts.ran or counts.unfinished):
        yield Fault("no test ran")
    calibrated = sum(CALIBRATION in [m.why for m in case.metrics] for case in session.cases)
    undecided = [case for case in session.cases if case.verdict is Verdict.INCONCLUSIVE]
    busy = [case.busy for case in undecided if case.busy]
    of_code = sum(BROKEN in case.why for case in undecided)
    if calibrated:
        yield Fault(f"{_cases(calibrated)} measured to calibrate, and not judged")
    for number, before, after, verdict in (
        # What is missing is a fault of its own.
        (counts.failed - counts.missing, "", "failed", Verdict.FAIL),
        (len(busy), f"{BUSY}: {''.join(busy[:1])}; ", UNDECIDED, Verdict.INCONCLUSIVE),
        (of_code, "its test is broken, not the machine; ", UNDECIDED, Verdict.INCONCLUSIVE),
        (len(undecided) - len(busy) - of_code, "", UNDECIDED, Verdict.INCONCLUSIVE),
    ):
        if number:
            yield Fault(f"{before}{_cases(number)} {after}", verdict, of_cases=True)
    complete = not (session.partial or counts.unfinished or counts.failed or counts.inconclusive)
    allowed = session.nothing_judged == "allowed"
    if counts.ran and complete and not allowed and not judged(session.cases):
        yield Fault(
            "nothing was judged: no metric has a reference; calibrate the site, or write "
            "nothing_judged: allowed into its promise.yaml"
        )
    late = sum(case.verdict is None and case.why.startswith(REACHED) for case in session.cases)
    if late:
        yield Fault(f"{_cases(late)} not begun before the {REACHED}")


def judged(cases: Iterable[Case]) -> int:
    """How many cases have a metric that was compared with a reference."""
    return sum(any(m.verdict is not Verdict.RECORDED for m in case.metrics) for case in cases)


def headlines(cases: Sequence[Case]) -> list[tuple[str, tuple[Case, Metric] | None]]:
    """The number for each of :data:`HEADLINES`; None if none was measured.

    A judged number comes first, of these the worst verdict, then most nodes, then the best value.
    """
    found: dict[str, list[tuple[Any, Case, Metric]]] = {name: [] for name in HEADLINES}
    if not cases:
        return []
    for case in cases:
        for metric in case.metrics:
            unit = metrics.unit(metric.unit)
            for name, (base, word) in HEADLINES.items():
                named = metric.name in case.proves.get(word, ())
                if unit and unit.base == base and metric.value and named:
                    value = metric.value * unit.factor * (1 if base == "s" else -1)
                    rank = (worst_first(metric.verdict), -len(case.hosts), value)
                    found[name].append((rank, case, metric))
    best = {name: min(its, key=lambda one: one[0], default=None) for name, its in found.items()}
    return [(name, one and one[1:]) for name, one in best.items()]


def coverage(cases: Iterable[Case]) -> dict[str, int]:
    """How far the tests of each kind judged: ``network (3 recorded, 1 not run)`` -> cases judged.

    A failed or undecided case counts as judged.
    """
    found = {}
    for kind, of_kind in sorted(grouped((case.kind, case) for case in cases).items()):
        ran = [case for case in of_kind if case.verdict is not None and not case.missing]
        red = sum(case.verdict in RED for case in ran)
        done = red + judged(case for case in ran if case.verdict not in RED)
        counts = ((len(ran) - done, "recorded"), (len(of_kind) - len(ran), "not run"))
        said = [f"{count} {word}" for count, word in counts if count]
        found[f"{kind or 'other'} ({', '.join(said)})"] = done
    return found


def closing_lines(view: View) -> list[str]:
    """The last lines of a run: causes, reasons, counts and verdict."""
    # The cases of the view are without numbers.
    ordered, found = sorted_cases(view.cases), view.outcome
    session = replace(view.session, cases=tuple(ordered), attempts=())
    template = files.templates(Path(__file__).parent).get_template("closing.jinja")
    text = template.render(
        session=session,
        counts=view.counts,
        strength=view.strength,
        outcome=found,
        red=RED,
        green=GREEN,
        enough=LAUNCHES_TO_PASS,
        remedies=remedies.lines(ordered),
        not_run=reasons_not_run(ordered),
        others=reasons_not_run(session.others),
        judged=judged(ordered),
        number=_cases,
        causes=[why.removeprefix(f"{found.word}: ") for why in found.faults or session.partial],
    )
    return text.split("\n")[:-1]


def _cases(count: int) -> str:
    return f"{count} case" if count == 1 else f"{count} cases"


#: A cell that a spreadsheet would compute.
_FORMULA = re.compile(r"[=+\-@].")


def as_csv(*rows: Iterable[str | float]) -> str:
    """Rows as CSV (RFC 4180, lines ended by a line feed), each number with all its digits.

    An apostrophe stands before a text that a spreadsheet would take for a formula.
    """
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(map(_cell, row) for row in rows)
    return stream.getvalue()


def _cell(value: str | float) -> str | float:
    if not isinstance(value, str):
        return value
    text = files.clean(value)
    try:
        float(text)
    except ValueError:
        return f"'{text}" if _FORMULA.match(text.lstrip()) else text
    return text
