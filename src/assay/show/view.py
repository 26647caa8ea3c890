"""What a session came to. The page, the files for other programs and the last lines say it."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from assay.exits import Exit
from assay.judge import Outcome, worst_first
from assay.show import nodes, summary, suspects
from assay.show.strength import Strength
from assay.store.cases import Case, Session
from assay.store.record import Metric, Output

#: The most cases that a page shows one by one.
WHOLE = 200


class View(msgspec.Struct, frozen=True):
    """A session with all that follows from its records, found once.

    :ivar cases: the cases of the session without their numbers.
    :ivar metrics: what was measured, worst first, and the case of each.
    :ivar whole: whether its page shows each case; it else folds them by test.
    :ivar drains: the commands for Slurm, and why there is none: :func:`assay.show.nodes.drains`.
    """

    session: Session
    cases: list[Case]
    metrics: list[tuple[Case, Metric]]
    counts: summary.Counts
    outcome: Outcome
    code: Exit
    causes: list[suspects.Cause]
    suspects: list[suspects.Suspect]
    nodes: list[nodes.Row]
    drains: tuple[list[str], list[str]]
    whole: bool
    strength: Strength

    @classmethod
    def of(cls, session: Session) -> View:
        # What groups, counts and ranks needs no value, and no row.
        brief = []
        for case in session.cases:
            its = (Metric(m.name, unit=m.unit, verdict=m.verdict, why=m.why) for m in case.metrics)
            brief.append(replace(case, metrics=tuple(its), parsed=Output()))
        run = replace(session, cases=tuple(brief), attempts=())
        causes = suspects.causes(summary.sorted_cases(brief))
        accused = suspects.suspects(causes)
        rows = nodes.rows(run, accused)
        pairs = zip(brief, session.cases)
        metrics = [(case, metric) for case, its in pairs for metric in its.metrics]
        metrics.sort(key=lambda at: (worst_first(at[1].verdict), at[0].where, at[0].display_name))
        counts, outcome = summary.Counts.of(brief), summary.outcome(run)
        code, drains = summary.exit_code(run), nodes.drains(run, rows)
        whole = len(brief) <= WHOLE
        return cls(
            session, brief, metrics, counts, outcome, code, causes, accused, rows, drains, whole,
            Strength.of(session.cases),
        )  # fmt: skip
