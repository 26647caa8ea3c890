"""Numbers that no healthy machine reports: what a launch may show at most, over all launches.

A launch gives ratios, each with the most that is plausible, such as the time of a message in times
of that of its neighbours. Other work on the machine can make a ratio implausible in one launch, but
not the same ratio in every launch.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from assay.judge import verdict
from assay.judge.peaks import Peak
from assay.judge.verdict import Judgement, Verdict, median_interval
from assay.quantities import number


class Ratio(NamedTuple):
    """A ratio of one launch and the most that is plausible; in words, what was seen and what is."""

    value: float
    most: float
    seen: str
    bound: str


#: Ratios of one launch by a stable key, such as ``larger 93``. No message shows the key.
Ratios = Mapping[str, Ratio]


#: Begin of the keys of ratios that other work on the machine cannot raise.
TOO_FAST = ("fastest ", "link ", "stub ")

#: A rate of bytes in times of its peak that is one of bits: 94 to 101 % of the peak, eight times.
BITS = (7.5, 8.1)

#: Role of the hardware of a peak -> what may have made a rate higher.
_WHY = {
    "memory": "is the named hardware right, and are the arrays beyond the caches?",
    "processor": "is the named processor right, and did the program compute all that it counts?",
}


def of_peak(seen: str, value: float, peak: Peak, unit: str = "MB/s") -> Ratio:
    """A rate in times of its peak, an upper limit; `seen` says what has the rate, with a verb."""
    most, share = float(peak.most or 0), value / peak.value
    path = "is the named hardware right, and did the bytes take this path?"
    why = _WHY.get(peak.of.partition(".")[0], path)
    if BITS[0] <= share <= BITS[1] and unit.endswith("B/s"):
        why = f"the values look like {unit[:-3]}bit/s"
    return Ratio(
        share,
        most,
        f"{seen} {number(value)} {unit}",
        f"the peak ({peak.what}) is {number(peak.value)} {unit}, and at most "
        f"{number(most * peak.value)} is plausible: {why}",
    )


def judge_ratios(launches: Sequence[Ratios], best: Ratios = MappingProxyType({})) -> Judgement:
    """Whether the ratios of all launches of a case are plausible.

    The shape of a curve counts if the least times of all launches have it, since noise only makes
    a time longer; and if most launches have it, since one time may be wrong. It is a FAIL from six
    launches on. Of any other ratio the median counts, or the largest of less than three launches.
    It is a FAIL if the 95 % interval of the median is implausible; this takes six launches.
    Anything else that is implausible is INCONCLUSIVE.

    :param launches: the ratios of each launch; a ratio that a launch does not have is plausible.
    :param best: the shape by the least times, see :func:`assay.judge.curves.best`.
    """
    count = len(launches)
    enough = count >= verdict.LAUNCHES_FOR_95_PERCENT
    worst: tuple[bool, bool, float, str] = (False, False, 1.0, "")
    for what in dict.fromkeys(what for ratios in launches for what in ratios):
        there = [ratios[what] for ratios in launches if what in ratios]
        most = max(ratio.most for ratio in there)
        values = [ratio.value for ratio in there] + [0.0] * (count - len(there))
        if what in best:
            shown, failed = best[what], enough
            typical = min(shown.value, statistics.median_low(values))
        else:
            few = count < verdict.LAUNCHES_TO_FAIL
            typical = max(values) if few else statistics.median(values)
            failed = enough and median_interval(values)[0] > most
            shown = min(there, key=lambda ratio: abs(ratio.value - typical))
        if typical > most:
            beyond = sum(value > most for value in values)
            often = f"each of {count}" if beyond == count else f"{beyond} of {count}"
            launched = f", in {often} launches" if count > 1 else ""
            said = f"implausible: {shown.seen}{launched}; {shown.bound}"
            # What cannot be explains a shape, and not the other way round.
            worst = max(worst, (failed, what not in best, typical / most, said))
    failed, *_, said = worst
    if not said:
        return Judgement(Verdict.PASS, "plausible")
    return Judgement(Verdict.FAIL if failed else Verdict.INCONCLUSIVE, said)
