"""From samples and bounds to a verdict, and from the verdicts of cases to that of a run."""

from __future__ import annotations

import enum
import functools
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assay.judge.references import Recorded, Reference
from assay.quantities import number

#: With n independent launches [min, max] covers the median with probability 1 - 2^(1-n): 96.9 %
#: for six, 93.75 % for five (Hoefler & Belli, SC15, section 3.1.3).
LAUNCHES_FOR_95_PERCENT = 6

#: A case passes on at least this many launches, apart in time: the second begins after all other
#: cases were launched once. A machine that is slow in every second launch passes with one launch as
#: often as not, and never with two.
LAUNCHES_TO_PASS = 2

#: A case has failed if it has at least this many launches and all of them lie outside its bounds.
#: If half of the launches of a healthy case did, this would happen to one healthy case in eight.
LAUNCHES_TO_FAIL = 3

#: Most launches of one case for a verdict. With nine, the 95 % interval of the median goes from the
#: second to the eighth value, so that one outlier does not decide. With eight, the interval is the
#: whole range.
LAUNCHES_IN_BUDGET = 9


class Verdict(str, enum.Enum):
    """The verdict on a metric, a test or a run."""

    PASS = "PASS"  # noqa: S105 - a verdict
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    #: Measured with evidence, and not judged, by decision of the site.
    RECORDED = "RECORDED"


#: What makes a case and a run red, and what does not. The words of a record compare equal.
RED = (Verdict.FAIL, Verdict.INCONCLUSIVE)
GREEN = (Verdict.PASS, Verdict.RECORDED)

#: Sort key of a verdict, or of None for a case that was not run: the worst comes first.
worst_first = (*RED, *GREEN, None).index


def worst(verdicts: Iterable[Verdict | None]) -> Verdict:
    """The worst of several verdicts; RECORDED if there are none."""
    return min(verdicts, key=worst_first, default=None) or Verdict.RECORDED


@dataclass(frozen=True)
class Fault:
    """Why a run is not accepted, in one line.

    :ivar verdict: what it makes of a run without a worse fault.
    :ivar word: the word for a run without another fault as bad; "" for that of the verdict.
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


def outcome(cases: Iterable[Verdict | None], faults: Sequence[Fault], partial: bool) -> Outcome:
    """The outcome of a run. A run without faults has the worst verdict of its cases.

    :param partial: it is only a part of what the site promises. Such a run is never a PASS.
    """
    texts = tuple(fault.text for fault in faults)
    if faults:
        verdict = worst(fault.verdict for fault in faults)
        words = {fault.word or verdict.value for fault in faults if fault.verdict is verdict}
        return Outcome(verdict, words.pop() if len(words) == 1 else verdict.value, texts)
    verdict = worst(cases)
    if partial:
        verdict = Verdict.RECORDED if verdict is Verdict.PASS else verdict
        return Outcome(verdict, "PARTIAL", texts)
    return Outcome(verdict, verdict.value, texts)


@dataclass(frozen=True)
class Judgement:
    """A verdict and the reason for it, in one line.

    :ivar by: the reference that led to it, if one did.
    """

    verdict: Verdict
    why: str
    by: Reference | None = None

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """The least and the greatest value that would not have been red; both None if unjudged.

        Of a weak bound, they are those farther out.
        """
        sure = self.by and (self.by.otherwise or self.by)
        return (sure.lower_bound, sure.upper_bound) if sure else (None, None)


def median_interval(samples: Sequence[float], coverage: float = 0.95) -> tuple[float, float]:
    """Interval that covers the median of the population, without assuming a distribution.

    It uses order statistics (Hoefler & Belli, SC15, 10.1145/2807591.2807644): it goes from the k-th
    smallest to the k-th largest of n samples, with the largest k that still has the coverage. Below
    six samples (for 95 %) there is no such interval. The range is then returned, and it is narrower
    than an interval with that coverage.

    :param samples: at least one finite value.
    :param coverage: minimum probability that the median is within the interval.
    """
    ordered = sorted(samples)
    k = _left_out(len(ordered), coverage)
    return ordered[k], ordered[len(ordered) - 1 - k]


@functools.cache
def _left_out(n: int, coverage: float) -> int:
    """How many samples lie below the interval, and as many above it."""
    tail = 0.0
    # Coverage of [x_(k+1), x_(n-k)] is 1 - 2 P(Binomial(n, 1/2) <= k). The logarithms of the
    # factorials need no huge integers.
    for k in range(n // 2):
        ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
        tail += math.exp(ways - n * math.log(2))
        if 1 - 2 * tail < coverage:
            return max(k - 1, 0)
    return max(n // 2 - 1, 0)


def judge(samples: Sequence[float], expected: Reference | Recorded) -> Judgement:
    """PASS if the interval of the samples lies within the bounds, FAIL if it lies outside.

    INCONCLUSIVE if it straddles a bound: more launches would decide. One sample is an interval
    of width zero, so it passes or fails. What does not pass a weak bound is judged by the bounds
    farther out.

    :param samples: values of one metric, one for each launch, in the reference's unit; finite.
    """
    if isinstance(expected, Recorded):
        return Judgement(Verdict.RECORDED, expected.why)
    found = _judge(samples, expected)
    if expected.otherwise is None or found.verdict is Verdict.PASS:
        return Judgement(found.verdict, found.why, expected)
    then = judge(samples, expected.otherwise)
    return Judgement(then.verdict, f"{then.why}; a weak bound is not met: {found.why}", then.by)


def _judge(samples: Sequence[float], reference: Reference) -> Judgement:
    low, high = median_interval(samples)
    middle = statistics.median(samples)
    n = len(samples)
    kind = "95 % interval" if n >= LAUNCHES_FOR_95_PERCENT else "range"
    spread = f" ({kind} {number(low)} to {number(high)}, n={n})" if n > 1 else ""
    unit = f" {reference.unit}" if reference.unit != "1" else ""
    said = f"{number(middle)}{unit}{spread}"
    lower, upper = reference.lower_bound, reference.upper_bound
    if lower is not None and high < lower:
        return Judgement(Verdict.FAIL, f"{said} is below the lower bound {number(lower)}{unit}")
    if upper is not None and low > upper:
        return Judgement(Verdict.FAIL, f"{said} is above the upper bound {number(upper)}{unit}")
    if (lower is not None and low < lower) or (upper is not None and high > upper):
        return Judgement(
            Verdict.INCONCLUSIVE, f"{said} straddles {reference.bounds}; more launches would decide"
        )
    return Judgement(Verdict.PASS, f"{said} is within {reference.bounds}")


def decided(verdict: Verdict, launches: int) -> bool:
    """Whether a case is not launched again after this many launches with this verdict."""
    if verdict is Verdict.FAIL:
        return launches >= LAUNCHES_TO_FAIL
    return verdict is not Verdict.INCONCLUSIVE
