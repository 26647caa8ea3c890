"""What a test measured against what it promised: no metric goes missing, or by another unit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Union

from assay.outputs import Quantity

#: With its unit as the output gives it; or numbers of our own (a ratio), one for each launch.
Measured = Union[Quantity, float, Sequence[float]]


def of(
    measured: Mapping[str, Measured], declared: Mapping[str, str]
) -> tuple[dict[str, list[float]], list[str]]:
    """The values of each metric, and what is wrong with them, one line each.

    :param declared: unit of every metric that there has to be; there must be no other.
    """
    problems = [f"metric {name!r} was not extracted" for name in declared if name not in measured]
    problems += [f"metric {name!r} is not declared" for name in measured if name not in declared]
    samples: dict[str, list[float]] = {}
    for name, value in measured.items():
        if isinstance(value, Quantity):
            unit = declared.get(name, value.unit)
            if value.unit != unit:
                problems.append(f"metric {name!r} is in {value.unit!r}, not in {unit!r}")
            samples[name] = [value.value]
        else:
            samples[name] = list(value) if isinstance(value, Sequence) else [value]
        if not samples[name] or not all(map(_finite, samples[name])):
            problems.append(f"metric {name!r} is not finite: {value}")
    return samples, problems


def _finite(value: Any) -> bool:
    return isinstance(value, Real) and math.isfinite(value)
