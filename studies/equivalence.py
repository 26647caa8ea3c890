"""Whether two ways to run a program are equally fast: equivalence of paired measurements.

A test that finds no difference proves nothing: little data also shows no difference. Two one-sided
tests (TOST: Schuirmann 1987, 10.1007/BF01068419) reverse the burden of proof. One test rejects that
the ratio is below the margin, the other rejects that it is above, each at `alpha`. Only both
together give EQUIVALENT. This is the same as asking whether the interval of coverage 1 - 2 alpha
lies within the margin.

This module uses the interval of the median of the paired ratios, by order statistics. The two tests
are therefore sign tests: they assume neither a distribution nor a variance. Times of programs have
heavy tails: a run that was disturbed takes several times as long. With a mean, one such run in
twenty would decide the result. The price is more rounds: about half as many again as Student's t
would need if times were normal. Order statistics follow a monotone scale: ratios and their
logarithms give the same interval, and the margin is symmetric on the logarithm.
"""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from assay.judge import median_interval


class Equivalence(str, enum.Enum):
    """The result of paired measurements of two ways to run a program."""

    EQUIVALENT = "EQUIVALENT"
    DIFFERENT = "DIFFERENT"
    #: The interval straddles an end of the margin, or there are too few pairs for an interval.
    UNDECIDED = "UNDECIDED"


@dataclass(frozen=True)
class Decision:
    """A verdict and its basis.

    :ivar ratio: median of the ratios.
    :ivar low, high: ends of its interval of coverage 1 - 2 alpha.
    :ivar pairs: number of ratios.
    :ivar margin: largest accepted difference; 0.02 accepts ratios from 1/1.02 to 1.02.
    """

    verdict: Equivalence
    ratio: float
    low: float
    high: float
    pairs: int
    margin: float
    alpha: float

    @property
    def why(self) -> str:
        """The verdict in one line."""
        said = f"ratio {self.ratio:.4f}, {1 - 2 * self.alpha:.0%} interval {self.low:.4f} to "
        said += f"{self.high:.4f} of {self.pairs} pairs, margin {self.margin:.0%}"
        if self.pairs < fewest(self.alpha):
            said += f"; {fewest(self.alpha)} pairs are needed to decide"
        return f"{self.verdict.value}: {said}"


def fewest(alpha: float) -> int:
    """The fewest pairs with which a sign test can reject at `alpha`: five at 5 %."""
    return math.ceil(-math.log2(alpha))


def decide(ratios: Sequence[float], margin: float = 0.02, alpha: float = 0.05) -> Decision:
    """Whether the ratio of two paired measurements is 1, within the margin.

    :param ratios: one for each pair, all above 0.
    :param margin: the largest accepted difference, above 0, as a fraction of either measurement.
    :param alpha: how often, at most, each claim may be wrong, between 0 and 0.5. EQUIVALENT is
        wrong if the ratio is not within the margin; DIFFERENT is wrong if it is.
    :raises ValueError: there is no ratio, a ratio is not a positive number, or the margin or alpha
        is out of range.
    """
    if not ratios or not all(math.isfinite(ratio) and ratio > 0 for ratio in ratios):
        raise ValueError(f"ratios are positive numbers, and at least one: {list(ratios)}")
    if not (margin > 0 and 0 < alpha < 0.5):
        raise ValueError(f"margin {margin} is not above 0, or alpha {alpha} not between 0 and 0.5")
    low, high = median_interval(ratios, 1 - 2 * alpha)
    verdict = Equivalence.UNDECIDED
    if len(ratios) >= fewest(alpha):
        if 1 / (1 + margin) < low and high < 1 + margin:
            verdict = Equivalence.EQUIVALENT
        elif high < 1 / (1 + margin) or low > 1 + margin:
            verdict = Equivalence.DIFFERENT
    return Decision(verdict, statistics.median(ratios), low, high, len(ratios), margin, alpha)
