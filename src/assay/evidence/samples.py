"""Compares measured with declared metrics: no metric may be missing or have another unit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Union

from assay.outputs import Quantity

#: A quantity with its unit from the output, or computed numbers (a ratio), one for each launch.
Measured = Union[Quantity, float, Sequence[float]]


def of(
    measured: Mapping[str, Measured], declared: Mapping[str, str]
) -> tuple[dict[str, list[float]], list[str]]:
    """The values of each metric, and the problems with them, one line each.

    :param declared: unit of every metric that must be present; no other metric may be present.
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
