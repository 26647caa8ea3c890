"""Compares the old references with the new ones, and writes the new ones to their file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from assay import files
from assay.calibrate.bounds import Kind, kind_of
from assay.calibrate.bounds import metric as bounded
from assay.calibrate.errors import CalibrationError
from assay.calibrate.launches import Sample
from assay.judge import Recorded, References, describe

HEAD = """\
# Written by `assay calibrate`, never by hand: what references.yaml says goes before this file.
# interval: 95 % interval of the median of the n launches; docs/adding-a-site.md has the rest.

"""


@dataclass(frozen=True)
class Change:
    """One metric of one case with its old and its new reference; None means no reference."""

    case: Mapping[str, Any]
    metric: str
    kind: Kind
    old: Mapping[str, Any] | None
    new: Mapping[str, Any] | None

    @property
    def worse(self) -> str:
        """Why the reference would judge less strictly than before; empty if it would not.

        The value is worse if the 95 % intervals of both medians do not overlap, and the new one is
        on the bad side. A bound is looser if it accepts values that the old bound refused, by more
        than the floor of the instrument. Bounds come from the extremes of small samples and never
        agree exactly.
        """
        if self.old is None:
            return ""
        if self.new is None:
            return "would have no reference any more"
        for side in self.kind.sides():
            sign = 1 if side == "lower" else -1
            before, after = (_interval(spec) for spec in (self.old, self.new))
            apart = after[1] < before[0] if side == "lower" else after[0] > before[1]
            if apart:
                return f"the median is worse: {_change(self.old['value'], self.new['value'])}"
            old, new = (_bound(spec, side) for spec in (self.old, self.new))
            if old is not None and (new is None or sign * (old - new) > self.kind.least * old):
                to = "none" if new is None else _change(old, new)
                return f"the {side} bound is looser: {to}"
        return ""

    def __str__(self) -> str:
        what = f"{describe(self.case)} {self.metric}"
        if self.new is None:
            return f"{what}: {self.old['value']:.6g} {self.old['unit']} -> none"  # type: ignore[index]
        new = self.new
        bounds = f"{_bound(new, 'lower'):.4g} to {_bound(new, 'upper'):.4g}"
        if self.old is None:
            return f"{what}: new: {new['value']:.6g} {new['unit']}, {bounds}"
        was = f"{_bound(self.old, 'lower'):.4g} to {_bound(self.old, 'upper'):.4g}"
        moved = _change(self.old["value"], new["value"])
        return f"{what}: {moved} {new['unit']}, {bounds} (was {was})"


@dataclass(frozen=True)
class Calibration:
    """The result of a calibration.

    :ivar entries: all entries of the new file.
    :ivar changes: every metric that is new, measured anew, or gone.
    :ivar left: how many metrics ``references.yaml`` decides, by the reason.
    """

    entries: Sequence[Mapping[str, Any]]
    changes: Sequence[Change]
    left: Mapping[str, int]


def compare(
    samples: Sequence[Sample], references: References, kinds: Mapping[str, Kind], reason: str | None
) -> Calibration:
    """The new references of the measured cases, and the old references of all other cases.

    :param reason: why a reference may become worse. It is written into the entries that need it.
    :raises CalibrationError: a reference would become worse without a reason, or cannot be made.
    """
    before = {_key(entry["for"]): entry for entry in references.calibrated}
    after = dict(before)
    changes: list[Change] = []
    left: dict[str, int] = {}
    faults: list[str] = []
    for sample in samples:
        key = _key(sample.case)
        old = before.get(key, {}).get("metrics", {})
        new: dict[str, Any] = {}
        decided = set()
        for name, values in sample.metrics.items():
            unit = sample.units[name]
            why = _by_hand(references, sample.case, name, unit)
            if why:
                decided.add(name)
                left[why] = left.get(why, 0) + 1
                continue
            try:
                new[name] = bounded(values, unit, kind_of(unit, kinds))
            except ValueError as error:
                faults.append(
                    f"{describe(sample.case)}: {name}: {error}; give it a reference by hand or a "
                    f"`recorded` rule in {references.path}"
                )
        mine = [
            Change(sample.case, name, kind_of((new.get(name) or old[name])["unit"], kinds),
                   old.get(name), new.get(name))
            for name in dict.fromkeys([*old, *new])
            if name not in decided
        ]  # fmt: skip
        changes += mine
        worse = [change for change in mine if change.worse]
        if reason is None:
            faults += [f"{c}: {c.worse}; if that is right, say why by --reason" for c in worse]
        source = {**sample.source, **({"reason": reason} if worse and reason else {})}
        after.pop(key, None)
        if new:
            after[key] = {"for": dict(sample.case), "metrics": new, "source": source}
    if faults:
        raise CalibrationError(*faults)
    entries = sorted(after.values(), key=lambda entry: [str(v) for v in entry["for"].values()])
    return Calibration(entries, changes, left)


def text(entries: Sequence[Mapping[str, Any]]) -> str:
    """The file: one line for each `for`, metric and source, as references are written by hand."""
    return HEAD + "\n".join(["references:", *(line for e in entries for line in _lines(e))]) + "\n"


def write(path: Path, content: str) -> None:
    """Write the file whole or not at all.

    :raises CalibrationError: it cannot be written.
    """
    try:
        files.write(path, content)
    except OSError as error:
        raise CalibrationError(f"{path}: cannot be written ({error.strerror})") from None


def _by_hand(references: References, case: Mapping[str, Any], name: str, unit: str) -> str:
    """How ``references.yaml`` decides about a metric; empty if it does not."""
    # A floor that is a share of the peak needs a peak. The size of the peak does not matter here.
    found = references.by_hand(case, name, unit, peak=1.0)
    if found is None:
        return ""
    if isinstance(found, Recorded):
        return "" if found.until_calibrated else f"not judged: {found.why}"
    return "judged by hand"


def _lines(entry: Mapping[str, Any]) -> Iterator[str]:
    yield f"  - for: {_flow(entry['for'])}"
    yield "    metrics:"
    for name, spec in entry["metrics"].items():
        yield f"      {_flow(name)}: {_flow(spec)}"
    yield "    source:"
    for key, value in entry["source"].items():
        yield f"      {key}: {_flow(value)}"


def _flow(value: Any) -> str:
    dumped: str = yaml.safe_dump(
        value, default_flow_style=True, sort_keys=False, width=10**9, allow_unicode=False
    )
    return dumped.replace("\n...", "").strip()


def _key(case: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(case.items()))


def _interval(spec: Mapping[str, Any]) -> Sequence[float]:
    interval: Sequence[float] = spec.get("interval") or (spec["value"], spec["value"])
    return interval


def _bound(spec: Mapping[str, Any], side: str) -> float | None:
    return None if spec[side] is None else float(spec["value"] * (1 + spec[side]))


def _change(old: float, new: float) -> str:
    return f"{old:.6g} -> {new:.6g} ({100 * (new / old - 1):+.1f} %)"
