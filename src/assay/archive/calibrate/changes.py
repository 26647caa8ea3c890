"""Compares the old references with the new ones, and writes the new ones to their file."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from assay import metrics
from assay.archive.calibrate import CalibrationError, states
from assay.archive.calibrate.bounds import LEAST_OF_PEAK, Kind, curve, kind_of
from assay.archive.calibrate.bounds import metric as bounded
from assay.archive.calibrate.launches import Sample
from assay.judge import Recorded, References, Verdict, curves, describe, judge_ratios
from assay.judge.reference_files import WIDEST, widths
from assay.quantities import number
from assay.tolerances import Tolerances

HEAD = """\
# Written by `assay calibrate`, never by hand: what references.yaml says goes before this file.
# interval: 95 % interval of the median of the n launches; docs/adding-a-site.md has the rest.

"""

#: The reason of a wide tolerance of a calibration.
SPREAD = "the launches of the calibration spread this far"


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

        The value is worse if its 95 % interval lies beyond the old one on the bad side. A bound is
        looser if it accepts what the old one refused, by more than the floor of the instrument:
        bounds come from the extremes of small samples and never agree exactly.
        """
        if self.old is None:
            return ""
        if self.new is None:
            return "would have no reference any more"
        specs = (self.old, self.new)
        before, after = (spec.get("interval") or [spec["value"]] * 2 for spec in specs)
        for side in self.kind.sides():
            sign = 1 if side == "lower" else -1
            if after[1] < before[0] if side == "lower" else after[0] > before[1]:
                return f"the median is worse: {_change(self.old['value'], self.new['value'])}"
            old, new = (_bound(spec, side) for spec in specs)
            if old is not None and (new is None or sign * (old - new) > self.kind.least * old):
                to = "none" if new is None else _change(old, new)
                return f"the {side} bound is looser: {to}"
        return ""

    def __str__(self) -> str:
        what, old, new = f"{describe(self.case)} {self.metric}", self.old, self.new
        if old is None and new is not None:
            return f"{what}: new: {number(new['value'], 6)} {new['unit']}, {_bounds(new)}"
        assert old is not None
        if new is None:
            return f"{what}: {number(old['value'], 6)} {old['unit']} -> none"
        moved = _change(old["value"], new["value"])
        return f"{what}: {moved} {new['unit']}, {_bounds(new)} (was {_bounds(old)})"


@dataclass(frozen=True)
class Calibration:
    """The new entries, what changed, and how many metrics are decided by hand, by the reason."""

    entries: Sequence[Mapping[str, Any]]
    changes: Sequence[Change]
    left: Mapping[str, int]


def compare(  # noqa: PLR0913, PLR0917
    samples: Sequence[Sample],
    references: References,
    tolerances: Tolerances,
    reason: str | None,
    without_peak: str | None = None,
    committed: Sequence[Mapping[str, Any]] = (),
) -> Calibration:
    """The new references of the measured cases, and the old references of all other cases.

    :param reason: why a reference may become worse, for the entries that need it.
    :param without_peak: why a partition may have its first references although none of its rates
        comes near a peak of the hardware, for these entries.
    :param committed: the entries that version control has; those of the file go before them.
    :raises CalibrationError: a reference would become worse without a reason, or cannot be made; a
        curve is implausible.
    """
    after = {_key(entry["for"]): entry for entry in references.calibrated}
    before = {_key(entry["for"]): entry for entry in committed} | after
    changes: list[Change] = []
    left: Counter[str] = Counter()
    faults = _implausible(samples)
    faults += _of_two_states(samples, references, tolerances)
    unproven = _unproven(samples, before, references)
    if without_peak is None:
        faults += unproven.values()
    for sample in samples:
        key = _key(sample.case)
        was = before.get(key, {})
        old = dict(was.get("metrics", {}))
        new: dict[str, Any] = {}
        for name, values in sample.metrics.items():
            unit = sample.units[name]
            if why := _by_hand(references, sample.case, name, unit):
                old.pop(name, None)
                left[why] += 1
                continue
            try:
                new[name] = bounded(values, unit, kind_of(unit, tolerances))
            except ValueError as error:
                faults.append(
                    f"{describe(sample.case)}: {name}: {error}; give it a reference by hand or a "
                    f"`recorded` rule in {references.path}"
                )
        spread = [*_spread(sample, new)]
        mine = []
        for name in {**old, **new}:
            kind = kind_of(sample.units.get(name, (new.get(name) or old[name])["unit"]), tolerances)
            mine.append(Change(sample.case, name, kind, old.get(name), new.get(name)))
        changes += mine
        worse = [change for change in mine if change.worse]
        if reason is None:
            faults += [*spread, *_crept(sample, was, mine)]
            faults += [f"{c}: {c.worse}; if that is right, say why by --reason" for c in worse]
        source = {**sample.source, **({"reason": reason} if worse and reason else {})}
        excuse = was.get("source", {}).get("without_peak")
        if sample.case["partition"] in unproven:
            excuse = without_peak
        if excuse is not None:
            source["without_peak"] = excuse
        after.pop(key, None)
        if new:
            envelope = _envelope(sample, tolerances)
            if reason is None:
                faults += _worse_curves(sample, was.get("curves", {}), envelope)
            entry: dict[str, Any] = {"for": dict(sample.case), "metrics": new, "curves": envelope}
            said = "" if not any(widths(entry)) else f"{SPREAD}: {reason}" if spread else SPREAD
            entry.update(wide=said, source=source, before=_kept(was, new))
            after[key] = {name: value for name, value in entry.items() if value}
    if faults:
        raise CalibrationError(*faults)
    entries = sorted(after.values(), key=lambda entry: [str(v) for v in entry["for"].values()])
    return Calibration(entries, changes, left)


def _implausible(samples: Sequence[Sample]) -> list[str]:
    """The curves that no healthy machine shows, over all launches of a case."""
    faults = []
    for sample in (sample for sample in samples if sample.curves):
        as_what = sample.pattern, sample.once
        found = [curves.ratios(rows, *as_what) for rows in sample.curves]
        judgement = judge_ratios(found, curves.best(sample.curves, *as_what))
        if judgement.verdict is not Verdict.PASS:
            faults.append(f"{describe(sample.case)}: {judgement.why}")
    return faults


def _of_two_states(
    samples: Sequence[Sample], references: References, tolerances: Tolerances
) -> list[str]:
    """The metrics whose launches have two speeds or drift, one line each."""
    tested = [
        (sample, name, kind)
        for sample in samples
        for name, values in sample.metrics.items()
        if (unit := sample.units[name]) in metrics.UNITS
        and not _by_hand(references, sample.case, name, unit)
        and states.wide(values, kind := kind_of(unit, tolerances))
    ]
    return [
        f"{describe(sample.case)}: {name}: {why} {sample.units[name]}; calibrate again when the "
        f"machine is in one state, or say by a `recorded` rule in {references.path} that it has "
        "several"
        for sample, name, kind in tested
        if (why := states.changed(sample.metrics[name], kind, len(tested)))
    ]


def _kept(was: Mapping[str, Any], new: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """All earlier calibrations of a case, the newest last."""
    kept = [*was.get("before", ())]
    if was.get("metrics", new) != new and isinstance(was["source"], dict):
        values = {name: spec["value"] for name, spec in was["metrics"].items()}
        said = {key: was["source"][key] for key in ("date", "n", "reason") if key in was["source"]}
        kept.append({**said, "values": values})
    return kept


def _crept(sample: Sample, was: Mapping[str, Any], mine: Sequence[Change]) -> Iterator[str]:
    """Metrics that became worse in steps, each of them small, since the last reason."""
    since = []
    for each in [] if "reason" in was.get("source", {}) else reversed(was.get("before", ())):
        since.append(each)
        if "reason" in each:
            break
    for change in mine:
        if change.new is None:
            continue
        for each in since:
            old, new = each["values"].get(change.metric), change.new["value"]
            signs = [1 if side == "lower" else -1 for side in change.kind.sides()]
            if old and any(sign * (old - new) > change.kind.least * old for sign in signs):
                yield (
                    f"{describe(sample.case)} {change.metric}: worse than the calibration of "
                    f"{each['date']}: {_change(old, new)}; if that is right, say why by --reason"
                )
                break


def _spread(sample: Sample, new: Mapping[str, Any]) -> Iterator[str]:
    """The metrics of which half the rate, or twice the time, would pass; one line each."""
    for name, spec in new.items():
        fault = metrics.fault(spec["unit"])
        if any(abs(spec[s]) > abs(WIDEST[s]) for s in WIDEST if fault in (s, "both")):
            least, most = (number(end(sample.metrics[name])) for end in (min, max))
            yield (
                f"{describe(sample.case)}: {name}: its launches spread from {least} to {most} "
                f"{spec['unit']}, and {_bounds(spec)} would pass; calibrate again, or say by "
                "--reason why this is healthy"
            )


def _unproven(
    samples: Sequence[Sample], before: Mapping[Any, Any], references: References
) -> dict[str, str]:
    """Partitions without references whose rates prove nothing about their hardware, with the fault.

    A cluster that was built wrong from the start would become its own reference.
    """
    known = {dict(key)["partition"] for key in before}
    best: dict[str, tuple[float, str]] = {
        sample.case["partition"]: (0.0, "")
        for sample in samples
        for name, unit in sample.units.items()
        if metrics.fault(unit) != "both" and not _by_hand(references, sample.case, name, unit)
    }
    for sample in samples:
        partition = sample.case["partition"]
        for name, shares in sample.shares.items() if partition in best else ():
            best[partition] = max(best[partition], (statistics.median(shares), name))
    return {
        partition: f"{partition}: the first calibration of a partition must reach "
        f"{LEAST_OF_PEAK:.0%} of a peak of its hardware, "
        + (f"the best is {name} with {share:.0%}" if name else "and no peak is known here")
        + "; name the hardware in the partition's extra `hardware`, or say why by --without-peak"
        for partition, (share, name) in best.items()
        if partition not in known and share < LEAST_OF_PEAK
    }


def _envelope(sample: Sample, tolerances: Tolerances) -> dict[str, Any]:
    """The envelope of the curve of a case, by its column; empty if the case has no curve."""
    name = curves.column(sample.curves[0]) if sample.curves else None
    if name is None:
        return {}
    launches = [
        {int(row["size"]): float(row[name]) for row in rows if float(row[name]) > 0}
        for rows in sample.curves
    ]
    unit = sample.curve_units[name]
    return {name: curve(launches, unit, kind_of(unit, tolerances))}


def _worse_curves(sample: Sample, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """The curves that lie outside their old envelope, on the side of the fault; one line each."""
    for name, spec in new.items():
        if name not in old or old[name]["unit"] != spec["unit"]:
            continue
        side = metrics.fault(spec["unit"])
        sign = 1 if side == "lower" else -1
        values = dict(zip(spec["sizes"], spec["values"]))
        for size, value, tolerance in zip(old[name]["sizes"], old[name]["values"], old[name][side]):
            if sign * (values.get(size, 0.0) - value * (1 + tolerance)) < 0:
                moved = _change(value, values[size]) if size in values else "is gone"
                yield (
                    f"{describe(sample.case)}: {name} at {size} B is worse: {moved}; if that is "
                    "right, say why by --reason"
                )
                break


def text(entries: Sequence[Mapping[str, Any]]) -> str:
    """The file, in the form of references that are written by hand."""
    return HEAD + dumped(entries)


def dumped(entries: Sequence[Mapping[str, Any]]) -> str:
    """Entries of references as YAML."""
    # The unit of a test is more than a text.
    yaml.SafeDumper.add_representer(metrics.Unit, yaml.SafeDumper.represent_str)
    document = {"references": [*entries]}
    return str(yaml.safe_dump(document, default_flow_style=None, sort_keys=False, width=10**9))


def _by_hand(references: References, case: Mapping[str, Any], name: str, unit: str) -> str:
    """How ``references.yaml`` decides about a metric; empty if it does not."""
    # A floor that is a share of the peak needs a peak. The size of the peak does not matter here.
    found = references.by_hand(case, name, unit, peak=1.0)
    if found is None:
        return ""
    if isinstance(found, Recorded):
        return "" if found.until_calibrated else f"not judged: {found.why}"
    return "judged by hand"


def _key(case: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(case.items()))


def _bound(spec: Mapping[str, Any], side: str) -> float | None:
    return None if spec[side] is None else float(spec["value"] * (1 + spec[side]))


def _bounds(spec: Mapping[str, Any]) -> str:
    return " to ".join(number(_bound(spec, side)) for side in ("lower", "upper"))


def _change(old: float, new: float) -> str:
    return f"{number(old, 6)} -> {number(new, 6)} ({100 * (new / old - 1):+.1f} %)"
