"""Numbers that no healthy machine reports: what a launch may show at most, over all launches.

A launch gives ratios, each with the most that is plausible, such as the time of a message in times
of that of its neighbours. Other work on the machine can make a ratio implausible in one launch, but
not the same ratio in every launch.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from assay.judge.verdict import (
    LAUNCHES_FOR_95_PERCENT,
    LAUNCHES_TO_FAIL,
    Judgement,
    Verdict,
    median_interval,
)
from assay.quantities import number

#: Description of a ratio -> its value in one launch, and the most that is plausible.
Ratios = Mapping[str, tuple[float, float]]

#: A rate may be this share of its peak: the peak is a rounded number, and the clocks of ranks
#: differ.
MOST_OF_PEAK = 1.05


def judge_ratios(launches: Sequence[Ratios]) -> Judgement:
    """Whether the ratios of all launches of a case are plausible.

    FAIL if the 95 % interval of the median of a ratio is implausible; this takes six launches.
    INCONCLUSIVE if its median is, or if there are fewer than three launches and it was in one.

    :param launches: the ratios of each launch; a ratio that a launch does not have is plausible.
    """
    worst: tuple[bool, float, str] = (False, 1.0, "")
    for what in dict.fromkeys(what for ratios in launches for what in ratios):
        most = max(ratios[what][1] for ratios in launches if what in ratios)
        values = [ratios[what][0] if what in ratios else 0.0 for ratios in launches]
        few = len(values) < LAUNCHES_TO_FAIL
        enough = len(values) >= LAUNCHES_FOR_95_PERCENT
        typical = max(values) if few else statistics.median(values)
        if typical > most:
            low, high = median_interval(values)
            spread = (
                f" ({number(low, 3)} to {number(high, 3)}, n={len(values)})"
                if len(values) > 1
                else ""
            )
            said = f"implausible: {what} is {number(typical, 3)}{spread}, at most {number(most, 3)}"
            worst = max(worst, (enough and low > most, typical / most, said))
    failed, _, said = worst
    if not said:
        return Judgement(Verdict.PASS, "plausible")
    return Judgement(Verdict.FAIL if failed else Verdict.INCONCLUSIVE, said)
