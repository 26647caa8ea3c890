"""Computes the bounds of a metric from the launches of a healthy site."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay import files, metrics
from assay.archive.calibrate import CalibrationError
from assay.judge import median_interval
from assay.judge.reference_files import WIDER
from assay.quantities import NORMAL
from assay.tolerances import Tolerances

#: The least value of ``lower``. A ``lower`` of -1 would put the bound at zero, and a bound at zero
#: has no effect. The schema of references requires more than -1.
LEAST_LOWER = -0.95

#: The share of a peak of the hardware that a rate of each partition reaches in its first
#: calibration. A link with half of its lanes, or one of two ports, stays below.
LEAST_OF_PEAK = 0.7


@dataclass(frozen=True)
class Kind:
    """A kind of metrics with the side of a fault; see ``site-config/tolerances.yaml``."""

    name: str
    fault: str
    least: float
    wide: float

    def tolerance(self, side: str) -> float:
        """The least tolerance on one side, as a fraction of the value."""
        return self.least if self.fault in (side, "both") else self.wide

    def sides(self) -> Sequence[str]:
        """The sides on which a distance from the value is a fault of the machine."""
        return ("lower", "upper") if self.fault == "both" else (self.fault,)


def kind_of(unit: str, said: Tolerances) -> Kind:
    """The kind of a unit, with the tolerances of a site.

    :raises CalibrationError: the unit is unknown.
    """
    if (name := metrics.kind(unit)) is None:
        raise CalibrationError(f"unknown unit {unit!r}; {files.nearest(unit, metrics.UNITS)}")
    tolerance = getattr(said, name)
    return Kind(name, metrics.FAULT[name], tolerance.least, tolerance.wide)


def metric(samples: Sequence[float], unit: str, kind: Kind) -> dict[str, Any]:
    """A metric of ``references.yaml`` from one value for each launch.

    The value is the median. Each bound is at least as far from the median as each of

    - the floor of the instrument (`kind`);
    - the farthest launch on that side, widened by (n+1)/(n-1): a further launch lies outside the
      range of n with probability 2/(n+1); this estimates a uniform range without bias;
    - three standard deviations, estimated from the median absolute deviation.

    :param samples: at least two values, all finite and above 0.
    :raises ValueError: there are fewer than two values, or a value is not finite or not above 0.
    """
    n = len(samples)
    if n < 2 or not all(math.isfinite(s) and s > 0 for s in samples):
        raise ValueError(f"not {n} values above 0: {list(samples)[:4]}")
    middle = statistics.median(samples)
    deviation = statistics.median(abs(s - middle) for s in samples)
    normal = 3 * NORMAL * deviation / middle
    widened = (n + 1) / (n - 1) / middle
    lower = max(kind.tolerance("lower"), normal, (middle - min(samples)) * widened)
    upper = max(kind.tolerance("upper"), normal, (max(samples) - middle) * widened)
    return {
        "value": _digits(middle),
        "unit": unit,
        "lower": max(-_up(lower), LEAST_LOWER),
        "upper": _up(upper),
        "interval": [_digits(end) for end in median_interval(samples)],
    }


def curve(launches: Sequence[Mapping[int, float]], unit: str, kind: Kind) -> dict[str, Any]:
    """The envelope of a curve: at each size the bounds of :func:`metric`, with wider tolerances.

    :param launches: size [B] -> value of each launch; a size that a launch lacks is left out.
    """
    common = sorted(set.intersection(*(set(launch) for launch in launches)))
    specs = [metric([launch[size] for launch in launches], unit, kind) for size in common]
    return {
        "unit": unit,
        "sizes": common,
        "values": [spec["value"] for spec in specs],
        "lower": [max(_digits(WIDER * spec["lower"]), LEAST_LOWER) for spec in specs],
        "upper": [_digits(WIDER * spec["upper"]) for spec in specs],
    }


def _digits(value: float) -> float:
    """Six significant digits, which is more than any of the programs can guarantee."""
    return float(f"{value:.6g}")


def _up(fraction: float) -> float:
    """Rounded away from the value, to a hundredth of a percent."""
    return math.ceil(fraction * 1e4 - 1e-9) / 1e4
