"""The files with references of a site: their shape, and the entries that are refused.

``references.schema.json`` beside this module defines the shape. An entry is refused if it would let
a fault pass, for example by a wide tolerance without a reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any, cast

import jsonschema

from assay import files, metrics

#: The widest tolerances that an entry may have without a reason.
WIDEST = {"lower": -0.5, "upper": 1.0}

#: Tolerances of a curve, in times of those of a metric. A launch is compared at all sizes of its
#: curve at once; docs/judging.md has the rate of false alarms.
WIDER = 1.5

#: The least share of a peak that a reference may ask for without a reason. A rate below it is that
#: of another device.
LEAST_OF_PEAK = 0.1

#: The words of the key `profile`.
_PROFILES = ("full", "smoke", "*")

#: Side of a fault -> what the fault does to the value.
_BY_FAULT = {"lower": "smaller", "upper": "greater"}


class ReferencesError(Exception):
    """One line that names the file, the key and the remedy."""


def read(path: Path) -> Mapping[str, Any]:
    """Reads a file of references and validates it.

    :raises ReferencesError: the file is missing, is not YAML, or does not have the shape.
    """
    hint = "; a site is judged by this file, see docs/adding-a-site.md"
    document = files.read_yaml(path, ReferencesError, hint=hint)
    if fault := misshapen(document, _schema()) or _torn_curve(document) or _false_date(document):
        raise ReferencesError(f"{path}: {fault}")
    return cast("Mapping[str, Any]", document)


def _torn_curve(document: Mapping[str, Any]) -> str:
    """The first curve whose lists have different lengths; sizes without a bound judge nothing."""
    for number, entry in enumerate(document["references"] or ()):
        for column, spec in entry.get("curves", {}).items():
            lengths = {name: len(spec[name]) for name in ("sizes", "values", "lower", "upper")}
            if len({*lengths.values()}) > 1:
                said = ", ".join(f"{length} {name}" for name, length in lengths.items())
                return (
                    f"references/{number}/curves/{column}: {said}: each size needs a value and two "
                    "bounds; calibrate again"
                )
    return ""


def _false_date(document: Mapping[str, Any]) -> str:
    """The first measurement on a day that does not exist, or that is still to come."""
    for number, entry in enumerate(document["references"] or ()):
        if isinstance(entry["source"], str):
            continue
        key, day = f"references/{number}/source/date", entry["source"]["date"]
        try:
            measured = date.fromisoformat(day)
        except ValueError as error:
            return f"{key}: {day} is not a date: {error}"
        # One day more: somewhere it is tomorrow already.
        if measured > date.today() + timedelta(days=1):
            return f"{key}: {day} lies in the future; today is {date.today()}"
    return ""


def misshapen(document: Any, schema: Mapping[str, Any]) -> str:
    """The worst fault of a document against a JSON schema, with its key; empty if it has none."""
    validator = jsonschema.Draft202012Validator(schema)
    fault = jsonschema.exceptions.best_match(validator.iter_errors(document))
    if fault is None:
        return ""
    key = "/".join(map(str, fault.absolute_path)) or "(top level)"
    hint = fault.schema.get("description") if isinstance(fault.schema, dict) else None
    return f"{key}: {fault.message[:200]}" + (f" ({hint})" if hint else "")


def included(path: Path, document: Mapping[str, Any]) -> dict[Path, Sequence[Mapping[str, Any]]]:
    """The entries of each file that a ``references.yaml`` includes; paths are relative to it.

    :raises ReferencesError: a file is missing, or has more than references.
    """
    found: dict[Path, Sequence[Mapping[str, Any]]] = {}
    for number, name in enumerate(document.get("include", ())):
        other = path.parent / name
        if not other.is_file():
            raise ReferencesError(
                f"{path}: include/{number}: {name}: no such file; the path is relative to "
                f"{path.parent}"
            )
        content = read(other)
        for key in ("recorded", "include"):
            if key in content:
                raise ReferencesError(
                    f"{other}: {key}: an included file has references only; "
                    f"move it to the file that includes it ({path})"
                )
        found[other] = content["references"] or ()
    return found


def refuse_weak(files: Mapping[Path, Sequence[Mapping[str, Any]]]) -> None:
    """Refuses a reference that lets a fault pass: no bound on the side of the fault, or a wide one.

    An entry may give a reason for a wide tolerance.

    :raises ReferencesError: there is such a reference.
    """
    for path, entries in files.items():
        for number, entry in enumerate(entries):
            profile = entry["for"].get("profile", "*")
            for word in profile if isinstance(profile, list) else [profile]:
                if word not in _PROFILES:
                    raise ReferencesError(
                        f"{path}: references/{number}/for/profile: there is no profile {word!r}, "
                        "so the entry judges nothing; write full or smoke"
                    )
            for metric, spec in entry["metrics"].items():
                side = metrics.fault(spec["unit"])
                if spec.get(side, 0) is None and "peak_floor" not in spec:
                    raise ReferencesError(
                        f"{path}: references/{number}/metrics/{metric}: {side} is null, but a "
                        f"fault makes a metric in {spec['unit']} {_BY_FAULT[side]}; give {side}"
                    )
            if "wide" not in entry and (wide := next(widths(entry), "")):
                raise ReferencesError(
                    f"{path}: references/{number}/{wide} and catches little; narrow it, or add "
                    "`wide: REASON` to the entry"
                )


def widths(entry: Mapping[str, Any]) -> Iterator[str]:
    """The tolerances of an entry that need a reason, one text with the key for each."""
    for metric, spec in entry["metrics"].items():
        for side, most in WIDEST.items():
            if spec[side] is None:
                floor = side == "lower" and "peak_floor" in spec
                if metrics.fault(spec["unit"]) == "both" and not floor:
                    yield f"metrics/{metric}: {side} is null (a fault may lie on either side)"
            elif abs(spec[side]) > abs(most):
                yield f"metrics/{metric}: {side} {spec[side]:g} is beyond {most:g}"
        for key in ("of_peak", "peak_floor"):
            if spec.get(key, 1) < LEAST_OF_PEAK:
                yield f"metrics/{metric}: {key} {spec[key]:g} is below {LEAST_OF_PEAK:g}"
    for column, spec in entry.get("curves", {}).items():
        for side, most in WIDEST.items():
            if max(map(abs, spec[side]), default=0) > abs(WIDER * most):
                yield f"curves/{column}: {side} has a value beyond {WIDER * most:g}"


@cache
def _schema() -> Mapping[str, Any]:
    text = Path(__file__).with_name("references.schema.json").read_text(encoding="utf-8")
    return cast("Mapping[str, Any]", json.loads(text))
