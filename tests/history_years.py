"""How well `assay history changes` finds changes: simulated years with planted changes.

    .venv/bin/python tests/history_years.py [--metrics 100] [--years 3] [--changes 20] [--seed 1]

Every number here is simulated. Each metric has one run a day. Its noise has a standard deviation
of 0.3, 1 or 2 %, with a correlation of 0 or 0.3 from day to day. On 1 % of the days begins a
disturbance of 1 to 3 days by up to half, and 3 % of the runs are missing. Changes of 3 to 10 %, up
or down, are planted into as many metrics. Two planned changes of 4 % alter every metric and are in
tolerances.yaml, so none of them may be reported.

The script asks after each day, as a site would: a change is found on the first day on which it is
reported within 7 days of its true day and in its direction. Any other change that is reported on
any day is a false alarm, and counts once, even if later days do not report it any more.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import dataclass

import numpy as np

from assay.archive.history import changes

#: Days of a year, and how far [days] a report may be from the true day of a change.
DAYS, NEAR = 365, 7

SIGMAS, CORRELATIONS = (0.003, 0.01, 0.02), (0.0, 0.3)
PLANNED = 0.04


@dataclass
class Metric:
    """One simulated metric.

    :ivar days: the day of each value.
    :ivar planned: days of the planned changes.
    :ivar planted: day and size (as a fraction) of the planted change, if there is one.
    """

    sigma: float
    days: np.ndarray
    values: np.ndarray
    planned: list[int]
    planted: tuple[int, float] | None = None


def metric(rng: np.random.Generator, number: int, years: int, planted: bool) -> Metric:
    days = years * DAYS
    sigma, correlation = SIGMAS[number % 3], CORRELATIONS[number // 3 % 2]
    fresh = rng.normal(scale=sigma * np.sqrt(1 - correlation**2), size=days)
    noise = np.zeros(days)
    for day in range(days):
        noise[day] = fresh[day] + (correlation * noise[day - 1] if day else 0.0)
    values = 100.0 * (1 + noise)
    planned = [days // 3, 2 * days // 3]
    for day in planned:
        values[day:] *= 1 + PLANNED * rng.choice([-1, 1])
    change = None
    if planted:
        # Far enough from the ends and from planned changes for a baseline and for a report.
        free = [
            day
            for day in range(30, days - 60)
            if all(not -60 < day - other < 30 for other in planned)
        ]
        change = int(rng.choice(free)), float(rng.uniform(0.03, 0.10) * rng.choice([-1, 1]))
        values[change[0] :] *= 1 + change[1]
    for day in np.flatnonzero(rng.random(days) < 0.01):
        values[day : day + int(rng.integers(1, 4))] *= rng.uniform(0.5, 0.95)
    there = rng.random(days) >= 0.03
    return Metric(sigma, np.arange(days)[there], values[there], planned, change)


def replay(one: Metric, tolerance: float, rules: changes.Rules) -> tuple[int | None, int]:
    """The delay in runs until the planted change is found, and the number of false alarms.

    Only the baseline since the last planned change is searched, because earlier ones are complete.
    """
    delay, alarms = None, []
    edges = [0, *(int(np.searchsorted(one.days, day)) for day in one.planned), len(one.days)]
    for first, end in zip(edges, edges[1:]):
        for now in range(first + 1, end + 1):
            for step in changes.find(one.values[first:now], tolerance, rules):
                day = int(one.days[first + step.at])
                same = one.planted and (step.after > step.before) == (one.planted[1] > 0)
                if same and abs(day - one.planted[0]) <= NEAR:
                    if delay is None:
                        delay = now - int(np.searchsorted(one.days, one.planted[0]))
                elif all(abs(day - known) > NEAR for known in alarms):
                    alarms.append(day)
    return delay, len(alarms)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--metrics", type=int, default=100)
    parser.add_argument("--years", type=int, default=3)
    parser.add_argument("--changes", type=int, default=20)
    parser.add_argument("--tolerance", type=float, default=0.05, help="default: that of rates")
    parser.add_argument("--penalty", type=float, default=changes.RULES.penalty)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rules = changes.Rules(penalty=args.penalty)
    rng = np.random.default_rng(args.seed)
    began = time.process_time()
    delays, missed, alarms = [], [], dict.fromkeys(SIGMAS, 0)
    for number in range(args.metrics):
        # The planted changes are spread over the kinds of noise.
        one = metric(rng, number, args.years, number < args.changes)
        delay, false = replay(one, args.tolerance, rules)
        alarms[one.sigma] += false
        if one.planted and delay is None:
            missed.append(f"{one.planted[1]:+.1%} in noise of {one.sigma:.1%}")
        elif one.planted:
            delays.append(delay)
    years = args.metrics * args.years
    print(f"metrics {args.metrics}, years {args.years}, seed {args.seed}, rules {rules}, ", end="")
    print(f"tolerance {args.tolerance:.0%}, {time.process_time() - began:.0f} s of processor time")
    print(f"found: {len(delays)} of {args.changes}; missed: {', '.join(missed) or 'none'}")
    if delays:
        print(
            f"delay: median {statistics.median(delays):g} runs, largest {max(delays)}, "
            f"all {sorted(delays)}"
        )
    print(f"false alarms: {sum(alarms.values())} in {years} metric-years: ", end="")
    print(f"{sum(alarms.values()) / years:.4f} for each metric-year; by noise ", end="")
    print({f"{sigma:.1%}": count for sigma, count in alarms.items()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
