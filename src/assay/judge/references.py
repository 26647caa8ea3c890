"""References: what a partition is expected to do, read from ``site-config/<site>/references.yaml``.

The shape of the file is in ``references.schema.json`` beside this module; ``docs/adding-a-site.md``
explains it with examples. An entry answers for the test cases that its ``for`` block describes;
where several do, the one with the most keys wins.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Optional, Union

import jsonschema
import yaml

Scalar = Union[str, int, float, bool]


class ReferencesError(Exception):
    """One line that names the file, the key and the mend."""


@dataclass(frozen=True)
class Reference:
    """Expected value of one metric.

    :ivar value: the expected value, in `unit`.
    :ivar lower: tolerance below, as a fraction <= 0 of `value`; None where less is no fault.
    :ivar upper: tolerance above, as a fraction >= 0 of `value`; None where more is no fault.
    :ivar source: where it comes from: a document, or date and sample size of a measurement.
    """

    value: float
    unit: str
    lower: Optional[float]
    upper: Optional[float]
    source: str

    @property
    def lower_bound(self) -> Optional[float]:
        """The least value that passes, in `unit`."""
        return None if self.lower is None else self.value * (1 + self.lower)

    @property
    def upper_bound(self) -> Optional[float]:
        """The greatest value that passes, in `unit`."""
        return None if self.upper is None else self.value * (1 + self.upper)

    @property
    def bounds(self) -> str:
        """Both bounds in words."""
        low, high = self.lower_bound, self.upper_bound
        if low is not None and high is not None:
            return f"{low:.4g} to {high:.4g}"
        return f"at least {low:.4g}" if low is not None else f"at most {high:.4g}"


@dataclass(frozen=True)
class Recorded:
    """A decision of the site not to judge a metric, with its reason."""

    why: str


class References:
    """All that one site expects.

    :param path: the site's ``references.yaml``, for messages.
    :param document: its content, already valid by the schema.
    """

    def __init__(self, path: Path, document: Mapping[str, Any]) -> None:
        self.path = path
        self._entries = list(document.get("references") or ())
        self._recorded = list(document.get("recorded") or ())

    @classmethod
    def load(cls, path: Path) -> References:
        """Read and validate a ``references.yaml``.

        :raises ReferencesError: it is missing, not YAML, or not of the schema's shape.
        """
        try:
            document = yaml.safe_load(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ReferencesError(
                f"{path}: {error.strerror}; a site is judged by this file, "
                "see docs/adding-a-site.md"
            ) from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            mark = getattr(error, "problem_mark", None)
            where = f" line {mark.line + 1}" if mark else ""
            what = getattr(error, "problem", None) or "not a text in UTF-8"
            raise ReferencesError(f"{path}:{where} is not valid YAML: {what}") from None
        error = jsonschema.exceptions.best_match(_validator().iter_errors(document))
        if error is not None:
            key = "/".join(str(part) for part in error.absolute_path) or "(top level)"
            hint = error.schema.get("description", "") if isinstance(error.schema, dict) else ""
            mend = f" ({hint})" if hint else ""
            raise ReferencesError(f"{path}: {key}: {error.message[:200]}{mend}")
        return cls(path, document)

    def find(self, case: Mapping[str, Scalar], metric: str, unit: str) -> Reference | Recorded:
        """What is expected of one metric of one test case.

        :param case: ``partition``, ``environ``, ``test`` and every parameter of the case.
        :param metric: name of the metric.
        :param unit: its unit; an entry in another unit is an error, never converted.
        :raises ReferencesError: nothing is said of the metric, two entries are equally close, or
            the unit differs.
        """
        hits = [
            (len(entry["for"]), entry)
            for entry in self._entries
            if metric in entry["metrics"] and _matches(entry["for"], case)
        ]
        if hits:
            most = max(keys for keys, _ in hits)
            closest = [entry for keys, entry in hits if keys == most]
            if len(closest) > 1:
                raise ReferencesError(
                    f"{self.path}: references: {len(closest)} entries for {metric!r} of "
                    f"{describe(case)} are equally close; add a key to the `for` of one of them"
                )
            return self._reference(closest[0], metric, unit)
        for rule in self._recorded:
            if _matches(rule["for"], case) and unit in rule.get("units", [unit]):
                return Recorded(rule["why"])
        raise ReferencesError(
            f"{self.path}: references: no reference for {metric!r} [{unit}] of {describe(case)}; "
            "add one, or a `recorded` rule that says why it is not judged"
        )

    def _reference(self, entry: Mapping[str, Any], metric: str, unit: str) -> Reference:
        spec = entry["metrics"][metric]
        if spec["unit"] != unit:
            raise ReferencesError(
                f"{self.path}: references: {metric!r} is in {spec['unit']!r}, "
                f"the test reports {unit!r}; give the reference in that unit"
            )
        source = entry["source"]
        if not isinstance(source, str):
            source = f"measured {source['date']}, n={source['n']}, {source['on']}"
        return Reference(spec["value"], unit, spec["lower"], spec["upper"], source)


def describe(case: Mapping[str, Scalar]) -> str:
    """A test case in one line, as it would be written in a ``for`` block."""
    return "{" + ", ".join(f"{key}: {value}" for key, value in case.items()) + "}"


def _matches(wanted: Mapping[str, Any], case: Mapping[str, Scalar]) -> bool:
    for key, value in wanted.items():
        allowed = value if isinstance(value, list) else [value]
        if "*" not in allowed and case.get(key) not in allowed:
            return False
    return True


@lru_cache(maxsize=None)
def _validator() -> jsonschema.Draft202012Validator:
    schema = Path(__file__).with_name("references.schema.json").read_text(encoding="utf-8")
    return jsonschema.Draft202012Validator(json.loads(schema))
