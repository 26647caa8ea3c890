"""The ladder of verdicts: which is worse, which are red, and what they make of a run."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assay.exits import Exit


class Verdict(str, enum.Enum):
    """The verdict on a metric, a test or a run."""

    PASS = "PASS"  # noqa: S105 - a verdict
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    #: Measured with evidence, and not judged, by decision of the site.
    RECORDED = "RECORDED"


#: What keeps a case from passing, counts against a node, and makes a run red. The words in a record
#: compare equal with them.
RED = (Verdict.FAIL, Verdict.INCONCLUSIVE)
GREEN = (Verdict.PASS, Verdict.RECORDED)

#: None is a case that was not run.
WORST_FIRST = (*RED, *GREEN, None)

#: Sort key of a verdict or None: the worst comes first.
worst_first = WORST_FIRST.index


def worst(verdicts: Iterable[Verdict | None]) -> Verdict:
    """The worst of several verdicts; RECORDED if there are none."""
    return min(verdicts, key=worst_first, default=None) or Verdict.RECORDED


@dataclass(frozen=True)
class Fault:
    """Why a run is not accepted, in one line.

    :ivar verdict: what it makes of a run without a worse fault.
    :ivar word: the word for a run without another fault; "" for that of the verdict.
    :ivar of_cases: its cases say it themselves.
    """

    text: str
    verdict: Verdict = Verdict.FAIL
    word: str = ""
    of_cases: bool = False


@dataclass(frozen=True)
class Outcome:
    """What a run came to.

    :ivar word: its verdict as a reader sees it. It may also be INTERRUPTED or PARTIAL.
    :ivar faults: why it is not accepted, one line each; empty for an accepted run.
    """

    verdict: Verdict
    word: str
    faults: tuple[str, ...]

    @property
    def exit_code(self) -> Exit:
        return Exit[self.word]


def outcome(cases: Iterable[Verdict | None], faults: Sequence[Fault], partial: bool) -> Outcome:
    """The outcome of a run. A run without faults has the worst verdict of its cases.

    :param partial: it is only a part of what the site promises. Such a run is never a PASS.
    """
    texts = tuple(fault.text for fault in faults)
    if faults:
        verdict = worst(fault.verdict for fault in faults)
        word = faults[0].word if len(faults) == 1 else ""
        return Outcome(verdict, word or verdict.value, texts)
    verdict = worst(cases)
    if partial:
        verdict = Verdict.RECORDED if verdict is Verdict.PASS else verdict
        return Outcome(verdict, "PARTIAL", texts)
    return Outcome(verdict, verdict.value, texts)
