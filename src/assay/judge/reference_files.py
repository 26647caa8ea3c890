"""The files with references of a site: their shape, and the entries that are refused.

:class:`Document` is the shape. An entry is refused if it would let a fault pass, for example by a
wide tolerance without a reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType

from assay import files, metrics

#: The widest tolerances that an entry may have without a reason.
WIDEST = {"lower": -0.5, "upper": 1.0}

#: Tolerances of a curve, in times of those of a metric. A launch is compared at all sizes of its
#: curve at once; docs/judging.md has the rate of false alarms.
WIDER = 1.5

#: The least share of a peak without a reason. A rate below it is that of another device.
LEAST_OF_PEAK = 0.1


class ReferencesError(Exception):
    """One line that names the file, the key and the remedy."""


_Text = Annotated[str, Meta(min_length=1)]
_Reason = Annotated[
    str, Meta(min_length=8, pattern=r"[^\W\d_]{3}", description="8 or more characters, with words")
]
_Share = Annotated[float, Meta(gt=0, le=1, description="a share of the hardware's peak, at most 1")]
_Value = Annotated[
    float, Meta(gt=0, le=1e150, description="finite, above 0: tolerances are fractions")
]
_Lower = Annotated[float, Meta(gt=-1, le=0, description="above -1 and up to 0; null: no fault")]
_Upper = Annotated[float, Meta(ge=0, le=1e150, description="finite, 0 or more; null: no fault")]
_Said = Annotated[str, Meta(pattern=r"\S", description="a text that is not empty")]
_Wide = Annotated[_Reason, Meta(description="why a tolerance is beyond -0.5 or 1, or is null")]
_WithoutPeak = Annotated[_Said, Meta(description="why no peak was reached when calibrated first")]
_FORM = '">= 10200 MB/s", "<= 2.5 us", "0.5 to 5 us"'
_N = r"(?=[\d.]*[1-9])\d+(\.\d+)?"
_Short = Annotated[
    str,
    Meta(max_length=60, pattern=rf"^([<>]=|{_N} to) {_N} \S+$", description=_FORM),
]
_Interval = Annotated[tuple[float, float], Meta(description="95 % interval of a median")]
Scalar = str | int | float | bool
_Names = Annotated[list[str], Meta(min_length=1)]
_Kinds = Annotated[list[Literal["rate", "time", "other"]], Meta(min_length=1)]
_ONE = "one launch has no spread: measure again, or name a document as the source"


class _Struct(msgspec.Struct, forbid_unknown_fields=True):
    pass


class Metric(_Struct):
    """A metric has `value` (or `of_peak`), `unit`, `lower` and `upper`."""

    unit: _Text
    lower: _Lower | None
    upper: _Upper | None
    value: _Value | UnsetType = UNSET
    of_peak: _Share | UnsetType = UNSET
    interval: _Interval | UnsetType = UNSET
    peak_floor: _Share | UnsetType = UNSET

    def __post_init__(self) -> None:
        if (self.value is UNSET) == (self.of_peak is UNSET):
            raise ValueError("give either value or of_peak")
        if self.lower is None and self.upper is None:
            raise ValueError("lower and upper are null, so nothing is judged; give one of them")


class Curve(_Struct):
    """A curve has lists of equal length: for each size [B] a value and two tolerances."""

    unit: _Text
    sizes: list[Annotated[int, Meta(ge=0)]]
    values: list[_Value]
    lower: list[_Lower]
    upper: list[_Upper]

    def __post_init__(self) -> None:
        lengths = {name: len(getattr(self, name)) for name in ("sizes", "values", "lower", "upper")}
        if len({*lengths.values()}) > 1:
            said = ", ".join(f"{length} {name}" for name, length in lengths.items())
            raise ValueError(f"{said}: each size needs a value and two bounds; calibrate again")


class Measurement(_Struct):
    """A source is a document, or {date, n, where} of a measurement."""

    date: Annotated[str, Meta(description="year-month-day in quotes, such as '2026-11-20'")]
    n: Annotated[int, Meta(ge=2, description=_ONE)]
    where: Annotated[str, Meta(min_length=3)]
    settings: Annotated[str, Meta(description="hash of the machine's, see docs/evidence.md")] = ""
    hardware: Annotated[str, Meta(description="GPUs and processors, as their nodes say")] = ""
    reason: _Said | UnsetType = UNSET
    without_peak: _WithoutPeak | UnsetType = UNSET

    def __post_init__(self) -> None:
        try:
            measured = date.fromisoformat(self.date)
        except ValueError as error:
            raise ValueError(f"date: {self.date} is not a date: {error}") from None
        # One day more: somewhere it is tomorrow already.
        if measured > date.today() + timedelta(days=1):
            raise ValueError(f"date: {self.date} lies in the future; today is {date.today()}")


Selector = Annotated[
    dict[str, Scalar | Annotated[list[Scalar], Meta(min_length=1)]],
    Meta(description="names at least the partition; `*` or a list is allowed as a value"),
]


class _Applies(_Struct):
    selector: Selector = msgspec.field(name="for")

    def __post_init__(self) -> None:
        if "partition" not in self.selector:
            raise ValueError("for: `partition` is missing; write `*` for all")


class Earlier(_Struct):
    """What an earlier calibration measured: the value of each metric, in the unit of the entry."""

    date: str
    n: int
    values: dict[str, _Value]
    reason: _Said | UnsetType = UNSET


class Also(_Applies):
    """Another metric with the same reference has `for` and `metric`."""

    metric: _Text


class Entry(_Applies):
    """An entry has `for`, `metrics` and `source`."""

    metrics: Annotated[dict[str, Metric | _Short], Meta(min_length=1)]
    source: _Reason | Measurement
    curves: Annotated[
        dict[str, Curve], Meta(description="the envelope of each column over the message size")
    ] = {}
    wide: _Wide | UnsetType = UNSET
    also: Annotated[
        list[Also], Meta(description="metrics that the reference of the one metric judges, too")
    ] = []
    before: Annotated[
        list[Earlier], Meta(description="earlier calibrations, the newest last; never removed")
    ] = []


class Rule(_Applies):
    """A rule has `for`, `why` and, if needed, `units`, `kinds` and `until: calibrated`."""

    why: _Reason
    units: _Names | UnsetType = UNSET
    kinds: _Kinds | UnsetType = UNSET
    until: Literal["calibrated"] | UnsetType = UNSET


class Included(_Struct):
    """A file that is included, or ``calibrated.yaml``, has references only."""

    references: list[Entry] | None


class Document(Included):
    """The file is a mapping with `references` and, where needed, `recorded` and `include`."""

    recorded: list[Rule] | None = None
    include: Annotated[
        list[_Text], Meta(description="paths of other files of references, relative to this one")
    ] = []


def read_references(path: Path, kind: type[msgspec.Struct] = Document) -> Mapping[str, Any]:
    """Reads a file of references, or one with references only, and validates it.

    A metric in the short form, such as ``>= 10200 MB/s``, is spelled out.

    :raises ReferencesError: the file is missing, is not YAML, does not have the shape, or has an
        entry that lets a fault pass.
    """
    hint = "; a site is judged by this file, see docs/adding-a-site.md"
    document = files.read_yaml(path, ReferencesError, hint=hint)
    if fault := files.misshapen(document, kind):
        raise ReferencesError(f"{path}: {fault}")
    above: list[Mapping[str, Any]] = []
    for number, entry in enumerate(document["references"] or ()):
        for name, said in entry["metrics"].items():
            if isinstance(said, str):
                entry["metrics"][name] = spec = _spelled_out(said)
                if (spec["lower"] or 0) > 0 or (spec["upper"] or 0) < 0:
                    raise ReferencesError(
                        f"{path}: references/{number}/metrics/{name}: {said!r}: "
                        "write the smaller bound first"
                    )
        if fault := weak(entry) or (_hidden(entry, above) if kind is Document else ""):
            raise ReferencesError(f"{path}: references/{number}/{fault}")
        above.append(entry)
        for other in entry.get("also", ()):
            if len(entry["metrics"]) > 1:
                said = "also: the entry has several metrics; give each an entry of its own"
                raise ReferencesError(f"{path}: references/{number}/{said}")
            (spec,) = entry["metrics"].values()
            above.append({**entry, "for": other["for"], "metrics": {other["metric"]: spec}})
    document["references"] = above
    return cast("Mapping[str, Any]", document)


def _spelled_out(said: str) -> dict[str, Any]:
    """A metric in the short form: the bound of a fault is the expected value."""
    *least, value, unit = said.split()
    if least[0] in (">=", "<="):
        lower, upper = (0, None) if least[0] == ">=" else (None, 0)
        return {"value": float(value), "unit": unit, "lower": lower, "upper": upper}
    low, high = float(least[0]), float(value)
    if metrics.fault(unit) == "upper":
        return {"value": high, "unit": unit, "lower": low / high - 1, "upper": 0}
    return {"value": low, "unit": unit, "lower": 0, "upper": high / low - 1}


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
        found[other] = read_references(other, Included)["references"] or ()
    return found


def weak(entry: Mapping[str, Any]) -> str:
    """Why an entry lets a fault pass, with the key: no bound on the side of a fault, or a wide one.

    An entry may give a reason for a wide tolerance. Of a unit that a test brings, nothing is known
    before the test is.
    """
    for word in listed(entry["for"].get("profile", "*")):
        if word not in ("full", "smoke", "*"):
            said = f"for/profile: there is no profile {word!r}, so the entry judges nothing"
            return f"{said}; write full or smoke"
    for metric, spec in entry["metrics"].items():
        side = metrics.fault(spec["unit"])
        if spec.get(side, 0) is None and "peak_floor" not in spec:
            said = f"metrics/{metric}: {side} is null, but a fault makes a metric in {spec['unit']}"
            return f"{said} {'smaller' if side == 'lower' else 'greater'}; give {side}"
    if "wide" not in entry and (wide := next(widths(entry), "")):
        return f"{wide} and catches little; narrow it, or add `wide: REASON` to the entry"
    return ""


def _hidden(entry: Mapping[str, Any], above: Sequence[Mapping[str, Any]]) -> str:
    """A metric that an entry never judges, because one above it is for all of its cases."""
    for other in above:
        for metric in entry["metrics"].keys() & other["metrics"].keys():
            if _covers(other["for"], entry["for"]):
                said = f"metrics/{metric}: is never judged by this entry: an entry above it"
                return f"{said}, for {other['for']}, has all of its cases; put this one above it"
    return ""


def _covers(wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> bool:
    """Whether each case of one `for` block is one of another."""
    return all(
        is_any(value) or {*listed(narrow.get(key, "*"))} <= {*listed(value)}
        for key, value in wide.items()
    )


def applies(wanted: Mapping[str, Any], case: Mapping[str, Any]) -> bool:
    """Whether a `for` block describes a case."""
    return all(is_any(value) or case.get(key) in listed(value) for key, value in wanted.items())


def is_any(value: Any) -> bool:
    """Whether a value of a `for` block stands for all values: ``*``, also in a list."""
    return "*" in listed(value)


def listed(value: Any) -> list[Any]:
    """The values that a key of a `for` block names: one, or a list of them."""
    return value if isinstance(value, list) else [value]


def widths(entry: Mapping[str, Any]) -> Iterator[str]:
    """The tolerances of an entry that need a reason, one text with the key for each."""
    for metric, spec in entry["metrics"].items():
        for side, most in WIDEST.items():
            if spec[side] is None:
                floor = side == "lower" and "peak_floor" in spec
                if metrics.kind(spec["unit"]) == "other" and not floor:
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
