"""References: what a partition is expected to do, read from ``site-config/<site>/references.yaml``.

``references.schema.json`` beside this module defines the shape of the file, and
``docs/adding-a-site.md`` explains it with examples. An entry applies to the test cases that its
``for`` block describes. If several entries apply, the entry with the most keys wins; a key with the
value ``*`` does not count.

A file may include other files of references, so that shared expectations are written once.

``calibrated.yaml`` beside it has the same shape and is written by ``assay calibrate``. It applies
where ``references.yaml`` has no reference, or has a ``recorded`` rule with ``until``. A measurement
never overrules a reference that a person wrote.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Union, cast

import jsonschema

from assay import files, metrics
from assay.metrics import UNITS

Scalar = Union[str, int, float, bool]

#: Size [B] -> least and greatest value of a curve.
Envelope = Mapping[int, tuple[float, float]]

#: Name of a file beside ``references.yaml``; it exists if the site has been calibrated.
CALIBRATED = "calibrated.yaml"

#: The widest tolerances that an entry may have without a reason.
WIDEST = {"lower": -0.5, "upper": 1.0}

#: Tolerances of a curve, in times of those of a metric. A launch is compared at all sizes of its
#: curve at once; docs/judging.md has the rate of false alarms.
WIDER = 1.5

#: Keys of a case that do not describe the test: each may have any value. The class of NPB is chosen
#: when the test knows its partition.
_PLACE = ("environ", "profile", "npb_class")


#: The least share of a peak that a reference may ask for without a reason. A rate below it is that
#: of another device.
LEAST_OF_PEAK = 0.1

#: The words of the key `profile`.
_PROFILES = ("full", "smoke", "*")

#: Side of a fault -> what the fault does to the value.
_BY_FAULT = {"lower": "smaller", "upper": "greater"}


class ReferencesError(Exception):
    """One line that names the file, the key and the remedy."""


@dataclass(frozen=True)
class Reference:
    """Expected value of one metric.

    :ivar value: the expected value, in `unit`.
    :ivar lower: tolerance below, as a fraction <= 0 of `value`; None if less is not a fault.
    :ivar upper: tolerance above, as a fraction >= 0 of `value`; None if more is not a fault.
    :ivar source: where it comes from: a document, or date and sample size of a measurement.
    :ivar floor: least value that passes whatever the history says, in `unit`. It is a share of the
        hardware's peak and catches a cluster that was built wrong from the start.
    """

    value: float
    unit: str
    lower: float | None
    upper: float | None
    source: str
    floor: float | None = None

    @property
    def lower_bound(self) -> float | None:
        """The least value that passes, in `unit`."""
        bounds = [] if self.lower is None else [self.value * (1 + self.lower)]
        return max([*bounds, *([] if self.floor is None else [self.floor])], default=None)

    @property
    def upper_bound(self) -> float | None:
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
    """A decision of the site not to judge a metric, with its reason.

    :ivar until_calibrated: whether it holds only while there is no calibrated reference.
    :ivar everywhere: whether it holds for all partitions, and also beside such a reference.
    """

    why: str
    until_calibrated: bool = False
    everywhere: bool = field(default=False, compare=False)


class References:
    """All references of one site.

    :param path: the site's ``references.yaml``, for messages.
    :param document: its content, already validated by the schema.
    :param calibrated: the entries of ``calibrated.yaml``, also validated.
    :param included: the entries of each file that it includes.
    """

    def __init__(
        self,
        path: Path,
        document: Mapping[str, Any],
        calibrated: Sequence[Mapping[str, Any]] = (),
        included: Mapping[Path, Sequence[Mapping[str, Any]]] | None = None,
    ) -> None:
        self.path = path
        self._files = {path: list(document.get("references") or ()), **(included or {})}
        self._entries = [entry for entries in self._files.values() for entry in entries]
        #: The file and the files that it includes, for messages.
        self._named = " with ".join(map(str, self._files))
        self._recorded = list(document.get("recorded") or ())
        self.calibrated = list(calibrated)

    @property
    def files(self) -> tuple[Path, ...]:
        """The file, the files that it includes, and ``calibrated.yaml`` if it counts."""
        beside = self.path.with_name(CALIBRATED)
        return (*self._files, *([beside] if self.calibrated else []))

    @property
    def judged(self) -> int:
        """Number of metrics that have a reference."""
        return sum(len(entry["metrics"]) for entry in [*self._entries, *self.calibrated])

    @property
    def recorded(self) -> int:
        """Number of rules by which metrics are not judged."""
        return len(self._recorded)

    @classmethod
    def load(cls, path: Path) -> References:
        """Reads and validates a ``references.yaml``, its included files and ``calibrated.yaml``.

        The file ``calibrated.yaml`` is read only if it is beside ``references.yaml``.

        :raises ReferencesError: a file is missing, is not YAML, or does not match the schema.
        """
        document = _read(path)
        included = _included(path, document)
        _refuse_weak({path: document["references"] or (), **included})
        beside = path.with_name(CALIBRATED)
        if not (beside.exists() or beside.is_symlink()):
            return cls(path, document, included=included)
        mend = "; take it back from version control, or delete it and calibrate again"
        try:
            calibrated = _read(beside)
            entries = calibrated["references"] or ()
            _refuse_weak({beside: entries})
        except ReferencesError as error:
            raise ReferencesError(f"{error}{mend}") from None
        for key in ("recorded", "include"):
            if key in calibrated:
                raise ReferencesError(f"{beside}: {key}: belongs into {path.name}{mend}")
        return cls(path, document, entries, included)

    def find(
        self, case: Mapping[str, Scalar], metric: str, unit: str, peak: float | None = None
    ) -> Reference | Recorded:
        """The expected value of one metric of one test case, or the decision not to judge it.

        :param case: ``partition``, ``environ``, ``test`` and every parameter of the case.
        :param metric: name of the metric.
        :param unit: its unit; an entry in another unit is an error, never converted.
        :param peak: the hardware's peak, in that unit; needed if the entry has a floor.
        :raises ReferencesError: no entry or rule applies to the metric, two entries are equally
            close, or the unit differs.
        """
        found = self.by_hand(case, metric, unit, peak)
        beside = self.path.with_name(CALIBRATED)
        entry = _closest(str(beside), self.calibrated, case, metric)
        if entry is not None and isinstance(found, Recorded) and found.everywhere:
            raise ReferencesError(
                f"{self.path}: recorded: a rule for all partitions ({found.why!r}) hides the "
                f"reference of {metric!r} in {beside}; add `until: calibrated` to the rule, name "
                "the partition in it, or calibrate again"
            )
        if found is not None and not (isinstance(found, Recorded) and found.until_calibrated):
            return found
        if entry is not None:
            return self._reference(entry, metric, unit, peak)
        if found is not None:
            return found
        raise ReferencesError(
            f"{self.path}: references: no reference for {metric!r} [{unit}] of {describe(case)}; "
            "add one, or a `recorded` rule that says why it is not judged, or run assay calibrate"
        )

    def by_hand(
        self, case: Mapping[str, Scalar], metric: str, unit: str, peak: float | None = None
    ) -> Reference | Recorded | None:
        """What ``references.yaml`` states; arguments and errors are as for :meth:`find`."""
        entry = _closest(self._named, self._entries, case, metric)
        # A share of an unknown peak is not a reference.
        if entry is not None and not (peak is None and "of_peak" in entry["metrics"][metric]):
            return self._reference(entry, metric, unit, peak)
        for rule in self._recorded:
            if _matches(rule["for"], case) and _of_unit(rule, unit):
                everywhere = _is_any(rule["for"]["partition"]) and "until" not in rule
                return Recorded(rule["why"], "until" in rule, everywhere)
        return None

    def envelope(self, case: Mapping[str, Scalar], column: str, unit: str) -> Envelope:
        """The bounds of a curve at each size [B], in `unit`; empty if no entry has the curve.

        :raises ReferencesError: the entry is in another unit, or two entries are equally close.
        """
        for path, entries in (
            (self._named, self._entries),
            (str(self.path.with_name(CALIBRATED)), self.calibrated),
        ):
            entry = _closest(path, entries, case, column, "curves")
            if entry is None:
                continue
            spec = entry["curves"][column]
            if spec["unit"] != unit:
                raise ReferencesError(
                    f"{path}: references: the curve {column!r} is in {spec['unit']!r}, the test "
                    f"reports {unit!r}; calibrate again"
                )
            lists = (spec[name] for name in ("sizes", "values", "lower", "upper"))
            return {
                size: (value * (1 + lower), value * (1 + upper))
                for size, value, lower, upper in zip(*lists)
            }
        return {}

    def idle(self, cases: Collection[tuple[Mapping[str, Scalar], Mapping[str, str]]]) -> list[str]:
        """Entries that never apply, one line each; a misspelt key would otherwise judge nothing.

        :param cases: every test on every partition that it is for, in the form that :meth:`find`
            takes, with its metrics and their units.
        """
        lines = []
        files = [*self._files.items(), (self.path.with_name(CALIBRATED), self.calibrated)]
        for path, number, entry in ((p, n, e) for p, all_ in files for n, e in enumerate(all_)):
            where = {k: v for k, v in entry["for"].items() if k not in _PLACE}
            lines += [
                f"{path}: references/{number}: no test has {metric!r} of {describe(where)}"
                for metric, spec in entry["metrics"].items()
                # A share of a peak may be for hardware that this site does not have.
                if "of_peak" not in spec
                and not any(metric in units and _matches(where, case) for case, units in cases)
            ]
        return lines

    def unknown(self, names: Mapping[str, Sequence[str]]) -> list[str]:
        """Names in `for` blocks of ``references.yaml`` that the site does not have, one line each.

        An entry with such a name judges less than it says, and a `recorded` rule may hide that. An
        included file is for other sites, too, and is left out.

        :param names: ``partition`` and ``environ``, each with the names of the site.
        """
        lines = []
        blocks = [("references", self._files[self.path]), ("recorded", self._recorded)]
        for where, number, entry in ((w, n, e) for w, all_ in blocks for n, e in enumerate(all_)):
            for key, known in names.items():
                value = entry["for"].get(key, "*")
                lines += [
                    f"{self.path}: {where}/{number}/for/{key}: the site has no {key} {name!r}; "
                    f"it has {', '.join(known)}"
                    for name in (value if isinstance(value, list) else [value])
                    if name not in ("*", *known)
                ]
        return lines

    def unanswered(
        self, cases: Collection[tuple[Mapping[str, Scalar], Mapping[str, str]]]
    ) -> list[str]:
        """Metrics that would fail because no reference or rule applies, one line each.

        :param cases: as for :meth:`idle`.
        """
        lines = []
        for case, units in cases:
            if "" in case.values():
                continue  # the test sets this key when it knows its partition and its stack
            for metric, unit in units.items():
                try:
                    self.find(case, metric, unit, peak=1.0)  # any peak will do
                except ReferencesError as error:
                    lines.append(str(error))
        return lines

    def _reference(
        self, entry: Mapping[str, Any], metric: str, unit: str, peak: float | None
    ) -> Reference:
        spec = entry["metrics"][metric]
        if spec["unit"] != unit:
            raise ReferencesError(
                f"{self._named}: references: {metric!r} is in {spec['unit']!r}, "
                f"the test reports {unit!r}; give the reference in that unit"
            )
        source = entry["source"]
        if not isinstance(source, str):
            reason = f" ({source['reason']})" if "reason" in source else ""
            source = f"measured {source['date']}, n={source['n']}, {source['where']}{reason}"
        floor = spec.get("peak_floor")
        if floor is not None and peak is None:
            raise ReferencesError(
                f"{self._named}: references: {metric!r} has a peak_floor, but its peak is unknown; "
                "name the hardware in the partition's extra `hardware`"
            )
        return Reference(
            spec["value"] if peak is None or "value" in spec else spec["of_peak"] * peak,
            unit,
            spec["lower"],
            spec["upper"],
            source,
            None if floor is None or peak is None else floor * peak,
        )


def describe(case: Mapping[str, Scalar]) -> str:
    """A test case in one line, as it would be written in a ``for`` block."""
    return "{" + ", ".join(f"{key}: {value}" for key, value in case.items()) + "}"


def _read(path: Path) -> Mapping[str, Any]:
    """Reads a file of references and validates it. Raises :class:`ReferencesError`."""
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


def _included(path: Path, document: Mapping[str, Any]) -> dict[Path, Sequence[Mapping[str, Any]]]:
    """The entries of each file that a ``references.yaml`` includes; paths are relative to it."""
    found: dict[Path, Sequence[Mapping[str, Any]]] = {}
    for number, name in enumerate(document.get("include", ())):
        other = path.parent / name
        if not other.is_file():
            raise ReferencesError(
                f"{path}: include/{number}: {name}: no such file; the path is relative to "
                f"{path.parent}"
            )
        content = _read(other)
        for key in ("recorded", "include"):
            if key in content:
                raise ReferencesError(
                    f"{other}: {key}: an included file has references only; "
                    f"move it to the file that includes it ({path})"
                )
        found[other] = content["references"] or ()
    return found


def _refuse_weak(files: Mapping[Path, Sequence[Mapping[str, Any]]]) -> None:
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


def _closest(
    path: str,
    entries: Sequence[Mapping[str, Any]],
    case: Mapping[str, Scalar],
    metric: str,
    kind: str = "metrics",
) -> Mapping[str, Any] | None:
    """The entry with the metric and the most keys; None if no entry has the metric."""
    hits = [
        (sum(not _is_any(value) for value in entry["for"].values()), entry)
        for entry in entries
        if metric in entry.get(kind, ()) and _matches(entry["for"], case)
    ]
    most = max((keys for keys, _ in hits), default=-1)
    closest = [entry for keys, entry in hits if keys == most]
    if len(closest) > 1:
        raise ReferencesError(
            f"{path}: references: {len(closest)} entries for {metric!r} of "
            f"{describe(case)} are equally close; add a key to the `for` of one of them"
        )
    return closest[0] if closest else None


def _is_any(value: Any) -> bool:
    """Whether a value of a `for` block stands for all values: ``*``, also in a list."""
    return "*" in value if isinstance(value, list) else bool(value == "*")


def _matches(wanted: Mapping[str, Any], case: Mapping[str, Scalar]) -> bool:
    for key, value in wanted.items():
        allowed = value if isinstance(value, list) else [value]
        if not _is_any(value) and case.get(key) not in allowed:
            return False
    return True


def _of_unit(rule: Mapping[str, Any], unit: str) -> bool:
    """Whether a rule is for metrics in this unit; without `units` and `kinds` it is for all."""
    kind = UNITS[unit].kind if unit in UNITS else None
    return unit in rule.get("units", [unit]) and kind in rule.get("kinds", [kind])


@cache
def _schema() -> Mapping[str, Any]:
    text = Path(__file__).with_name("references.schema.json").read_text(encoding="utf-8")
    return cast("Mapping[str, Any]", json.loads(text))
