"""What an output says, compared with what a test asked for and what it declares."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

from reframe.core.exceptions import ReframeSyntaxError

from assay import metrics
from assay.judge import Ratios
from assay.judge.plausible import TOO_FAST
from assay.parse import Parsed, ParseError, Quantity
from assay.store.record import Metric

#: A quantity with its unit from the output, or computed numbers (a ratio), one for each launch.
Measured = Quantity | float | Sequence[float]


def read_output(
    read: Callable[[], Parsed], program: str, failed: bool
) -> tuple[Parsed | None, list[str]]:
    """The output, and what is wrong with it, one line each; None if it cannot be read.

    Values that were rounded away (:attr:`assay.parse.Parsed.rounded`) are no problem here.

    :param program: what messages call the program if its output does not say its name.
    :param failed: whether the launch failed for another reason, too. Otherwise an error of `read`
        that is no :class:`ParseError` is one of the test, and is passed on.
    """
    try:
        parsed = read()
    except ParseError as error:
        return None, [f"{program}: {error}"]
    except OSError as error:
        return None, [f"{program} left no {error.filename} ({error.strerror})"]
    except Exception as error:
        if not failed:
            raise
        return None, [f"{program}: {error}"]
    exact = [problem for problem in parsed.problems if problem not in parsed.rounded]
    cut = [] if parsed.complete else ["the output is incomplete: it stops half-way"]
    return parsed, [f"{parsed.program}: {problem}" for problem in (*exact, *cut)]


def not_as_requested(parsed: Parsed, requested: Mapping[str, Any]) -> list[str]:
    """What an output reports otherwise than it was requested, one line each.

    :param requested: see :meth:`assay.run.strict.StrictCheck.requested`.
    """
    facts = {"program": parsed.program, **parsed.facts}
    found = []
    for key, wanted in requested.items():
        if key == "sizes":
            sizes = parsed.column("size") if parsed.rows else []
            if sizes != list(wanted):
                found.append(f"sizes were {_listed(sizes)}, {_listed(wanted)} were asked for")
        elif key in facts or key not in parsed.units:
            if facts.get(key) != wanted:
                what = key.replace("_", " ")
                found.append(f"the {what} was {facts.get(key)}, {wanted} was asked for")
        elif other := {*parsed.column(key)} - {wanted}:
            found.append(f"{min(other, key=str)} {key} were run, {wanted} were asked for")
    return found


def _listed(sizes: Sequence[Any]) -> str:
    return f"{len(sizes)} from {sizes[0]} to {sizes[-1]} B" if sizes else "none"


def in_declared_units(
    measured: Mapping[str, Measured], declared: Mapping[str, str]
) -> tuple[dict[str, list[float]], list[str]]:
    """The plain values of each metric, and the metrics that are missing or not finite.

    :param declared: unit of every metric that must be present.
    :raises ReframeSyntaxError: a metric is not declared, or in another unit.
    """
    problems = [f"metric {name!r} was not extracted" for name in declared if name not in measured]
    samples: dict[str, list[float]] = {}
    for name, value in measured.items():
        if name not in declared:
            raise ReframeSyntaxError(f"metric {name!r} is not declared")
        if isinstance(value, Quantity) and value.unit != (unit := declared[name]):
            raise ReframeSyntaxError(f"metric {name!r} is in {value.unit!r}, not in {unit!r}")
        many = value.value if isinstance(value, Quantity) else value
        values = many if isinstance(many, Sequence) else [many]
        samples[name] = [float(one) if isinstance(one, float) else one for one in values]
        finite = (isinstance(each, Real) and math.isfinite(each) for each in samples[name])
        if not samples[name] or not all(finite):
            problems.append(f"metric {name!r} is not finite: {value}")
    return samples, problems


def too_good(judged: Iterable[Metric], declared: Mapping[str, str], ratios: Ratios) -> bool:
    """Whether a number is too good. Other work only makes numbers worse, and excuses none."""
    for metric in judged:
        worse = metrics.fault(declared[metric.name])
        low, high, value = metric.lower, metric.upper, metric.value or 0.0
        if worse == "lower" and high is not None and value > high:
            return True
        if worse == "upper" and low is not None and value < low:
            return True
    return any(of.value > of.most for key, of in ratios.items() if key.startswith(TOO_FAST))
