"""Computes the bounds of a metric from the launches of a healthy site."""

from __future__ import annotations

import fnmatch
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema

from assay import files
from assay.calibrate.errors import CalibrationError
from assay.judge import median_interval

#: The file of the instrument floors, in ``site-config`` and in the folder of a site.
TOLERANCES = "tolerances.yaml"

#: The standard deviation of a normal distribution, in units of its median absolute deviation.
SIGMA_PER_MAD = 1.4826

#: The least value of ``lower``. A ``lower`` of -1 would put the bound at zero, and a bound at zero
#: has no effect. The schema of references requires more than -1.
LEAST_LOWER = -0.95

_KIND = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "units": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "fault": {"enum": ["lower", "upper", "both"]},
        "least": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "wide": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    },
}
_ALL = {"required": ["units", "fault", "least", "wide"]}


@dataclass(frozen=True)
class Kind:
    """A kind of metrics; ``site-config/tolerances.yaml`` explains the keys."""

    name: str
    units: Sequence[str]
    fault: str
    least: float
    wide: float

    def tolerance(self, side: str) -> float:
        """The least tolerance on one side, as a fraction of the value."""
        return self.least if self.fault in (side, "both") else self.wide

    def sides(self) -> Sequence[str]:
        """The sides on which a distance from the value is a fault of the machine."""
        return ("lower", "upper") if self.fault == "both" else (self.fault,)


def load(site: Path) -> Sequence[Kind]:
    """The kinds of a site: those of ``site-config``, with the changes of the site.

    :param site: the site's folder.
    :raises CalibrationError: a file is missing, is not YAML, or does not have that shape.
    """
    kinds = _read(site.parent / TOLERANCES, _ALL)
    own = site / TOLERANCES
    if own.exists():
        for name, change in _read(own, {}).items():
            if name not in kinds:
                known = ", ".join(kinds)
                raise CalibrationError(f"{own}: {name}: unknown kind; known are {known}")
            kinds[name].update(change)
    return [Kind(name, **values) for name, values in kinds.items()]


def _read(path: Path, demands: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    try:
        document = files.read_yaml(path)
    except OSError as error:
        raise CalibrationError(f"{path}: {error.strerror}") from None
    except files.YamlError as error:
        raise CalibrationError(str(error)) from None
    schema = {"type": "object", "additionalProperties": {**_KIND, **demands}}
    fault = jsonschema.exceptions.best_match(
        jsonschema.Draft202012Validator(schema).iter_errors(document)
    )
    if fault is not None:
        key = "/".join(map(str, fault.absolute_path)) or "(top level)"
        raise CalibrationError(f"{path}: {key}: {fault.message[:200]}")
    return dict(document)


def kind_of(unit: str, kinds: Sequence[Kind]) -> Kind:
    """The first kind that names a unit.

    :raises CalibrationError: no kind names the unit.
    """
    for kind in kinds:
        if any(fnmatch.fnmatchcase(unit, pattern) for pattern in kind.units):
            return kind
    raise CalibrationError(f"{TOLERANCES}: no kind names the unit {unit!r}; add it to one")


def metric(samples: Sequence[float], unit: str, kind: Kind) -> dict[str, Any]:
    """A metric of ``references.yaml`` from one value for each launch.

    The value is the median. Each bound is at least as far from the median as each of

    - the floor of the instrument (`kind`);
    - the farthest launch on that side, widened by (n+1)/(n-1). A further launch of a healthy site
      lies outside the range of n launches with probability 2/(n+1), for any distribution (18 % for
      ten launches). For a uniform distribution, this factor estimates the range without bias;
    - three standard deviations, estimated from the median absolute deviation.

    :param samples: at least two values, all finite and above 0.
    :raises ValueError: there are fewer than two values, or a value is not finite or not above 0.
    """
    n = len(samples)
    if n < 2 or not all(math.isfinite(s) and s > 0 for s in samples):
        raise ValueError(f"not {n} values above 0: {list(samples)[:4]}")
    middle = statistics.median(samples)
    deviation = statistics.median(abs(s - middle) for s in samples)
    normal = 3 * SIGMA_PER_MAD * deviation / middle
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


def _digits(value: float) -> float:
    """Six significant digits, which is more than any of the programs can guarantee."""
    return float(f"{value:.6g}")


def _up(fraction: float) -> float:
    """Rounded away from the value, to a hundredth of a percent."""
    return math.ceil(fraction * 1e4 - 1e-9) / 1e4
