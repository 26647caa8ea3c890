"""References: what a partition is expected to do, read from ``site-config/<site>/references.yaml``.

``reference_files.py`` reads the files and refuses weak entries; ``docs/adding-a-site.md`` explains
them with examples. An entry applies to the test cases that its ``for`` block describes. If several
entries apply, the first one judges.

A metric finds its yardstick in the order of :data:`YARDSTICKS`; ``docs/judging.md`` has the file of
each. A ``recorded`` rule of the site stops the search before the last one. A measurement never
overrules a reference that a person wrote.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from assay import files as shared
from assay import metrics
from assay.judge import published, reference_files
from assay.judge.peaks import Peak
from assay.judge.reference_files import ReferencesError, Scalar, applies
from assay.quantities import number

#: ``partition``, ``environ``, ``test`` and every parameter of a case.
Case = Mapping[str, Scalar]
_Entry = Mapping[str, Any]

#: Size [B] -> least and greatest value of a curve.
Envelope = Mapping[int, tuple[float, float]]

#: Name of a file beside ``references.yaml``; it exists if the site has been calibrated.
CALIBRATED = "calibrated.yaml"

#: Beside it: references from another machine of this hardware. For all sites: the widest bounds.
BASELINE, ANY_MACHINE = "baseline.yaml", "any-machine.yaml"

#: What a metric is judged by, the strongest first.
SITE, CALIBRATION, SHARED, PUBLISHED, ANY = YARDSTICKS = (
    "reference", "calibration", "baseline", "published", "any machine",
)  # fmt: skip

#: Keys of a case that do not describe the test: each may have any value. The class of NPB is chosen
#: when the test knows its partition.
_PLACE = ("system", "environ", "profile", "npb_class")


@dataclass(frozen=True)
class Reference:
    """Expected value of one metric.

    :ivar value: the expected value, in `unit`.
    :ivar lower: tolerance below, as a fraction <= 0 of `value`; None if less is not a fault.
    :ivar upper: tolerance above, as a fraction >= 0 of `value`; None if more is not a fault.
    :ivar source: where it comes from: a document, or date and sample size of a measurement.
    :ivar floor: least value that passes whatever the history says, in `unit`. It is a share of the
        hardware's peak and catches a cluster that was built wrong from the start.
    :ivar yardstick: one of :data:`YARDSTICKS`.
    :ivar otherwise: what judges a value that does not pass, because this bound is too weak to make
        it red: bounds that are farther out.
    """

    value: float
    unit: str
    lower: float | None
    upper: float | None
    source: str
    floor: float | None = None
    yardstick: str = SITE
    otherwise: Reference | None = None

    @property
    def lower_bound(self) -> float | None:
        """The least value that passes, in `unit`."""
        bounds = (self.floor, None if self.lower is None else self.value * (1 + self.lower))
        return max((bound for bound in bounds if bound is not None), default=None)

    @property
    def upper_bound(self) -> float | None:
        """The greatest value that passes, in `unit`."""
        return None if self.upper is None else self.value * (1 + self.upper)

    @property
    def bounds(self) -> str:
        low, high = self.lower_bound, self.upper_bound
        if low is not None and high is not None:
            return f"{number(low)} to {number(high)}"
        return f"at least {number(low)}" if low is not None else f"at most {number(high)}"


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
    """All references of one site: of ``references.yaml``, what it includes, and calibrated ones."""

    def __init__(
        self,
        path: Path,
        files: Mapping[Path, Sequence[_Entry]],
        rules: Sequence[_Entry],
        of_all: tuple[Path, Path],
    ) -> None:
        self.path = path
        #: The files with the floors, and with the bounds of any machine.
        self.of_all = of_all
        self._floors = published.read_floors(of_all[0]) if of_all[0].exists() else ()
        self._any = _made(of_all[1])
        self._files = files
        self._entries = [entry for entries in files.values() for entry in entries]
        #: The file and the files that it includes, for messages.
        self._named = " with ".join(map(str, files))
        self._rules = rules
        self._beside = path.with_name(CALIBRATED)
        self.calibrated = list(_made(self._beside))
        self._baseline = _made(path.with_name(BASELINE))

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of the site that count, with those that it includes."""
        beside = {self._beside: self.calibrated, self.path.with_name(BASELINE): self._baseline}
        return (*self._files, *(path for path, its in beside.items() if its))

    @property
    def judged(self) -> int:
        """Number of metrics that have a reference."""
        return sum(len(entry["metrics"]) for entry in [*self._entries, *self.calibrated])

    @property
    def recorded(self) -> int:
        """Number of rules by which metrics are not judged."""
        return len(self._rules)

    @classmethod
    def load(cls, path: Path, sealed: bool = False) -> References:
        """Reads and validates a ``references.yaml``, its included files and ``calibrated.yaml``.

        If there is no ``references.yaml``, what is not calibrated is recorded, with that reason.

        :param sealed: the files of all sites count only if they are beside the folder of the site,
            as in a bundle.
        :raises ReferencesError: a file is not valid, or includes one that is missing.
        """
        if path.exists() or path.is_symlink():
            document = reference_files.read_references(path)
        else:
            why = f"there is no {path}: write it, see docs/adding-a-site.md"
            rule = {"for": {"partition": "*"}, "why": why, "until": "calibrated"}
            document = {"references": (), "recorded": [rule]}
        files = {path: document["references"] or (), **reference_files.included(path, document)}
        rules = document.get("recorded") or ()
        above = path.parent.parent
        find = above.joinpath if sealed else partial(shared.of_all_sites, path.parent)
        return cls(path, files, rules, (find(published.FILE), find(ANY_MACHINE)))

    def find(
        self,
        case: Case,
        metric: str,
        unit: str,
        peak: Peak | None = None,
        named: Mapping[str, str] = MappingProxyType({}),
    ) -> Reference | Recorded:
        """The expected value of one metric of one test case, or the decision not to judge it.

        :param unit: its unit; the reference is in it, too.
        :param peak: the hardware's peak, in that unit; needed if the entry has a floor.
        :raises ReferencesError: no entry or rule applies, or the unit is of another quantity.
        """
        value = peak.value if peak else None
        found = self.by_hand(case, metric, unit, value)
        entry = _first(self.calibrated, case, metric)
        until = isinstance(found, Recorded) and found.until_calibrated
        if entry is not None and isinstance(found, Recorded) and found.everywhere:
            raise ReferencesError(
                f"{self.path}: recorded: a rule for all partitions ({found.why!r}) hides the "
                f"reference of {metric!r} in {self._beside}; add `until: calibrated` to the rule, "
                "name the partition in it, or calibrate again"
            )
        if entry is not None and (found is None or until):
            return self._reference(entry, metric, unit, value, CALIBRATION)
        if isinstance(found, Reference):
            return found
        entry = _first(self._any, case, metric)
        widest = self._reference(entry, metric, unit, None, ANY) if entry else None
        if found is None or until:
            if entry := _first(self._baseline, case, metric):
                return self._reference(entry, metric, unit, value, SHARED)
            others = self._of_published(case, metric, unit, peak, named, widest)
            if isinstance(others, Recorded) and widest:  # there is no floor: say why
                widest = replace(widest, source=f"{widest.source}; {others.why}")
            found = others or found
        if widest is not None and not isinstance(found, Reference):
            return widest
        if found is not None:
            return found
        raise ReferencesError(
            f"{self.path}: references: no reference for {metric!r} [{unit}] of {describe(case)}; "
            "add one, or a `recorded` rule that says why it is not judged, or run assay calibrate"
        )

    def _of_published(  # noqa: PLR0913, PLR0917
        self,
        case: Case,
        metric: str,
        unit: str,
        peak: Peak | None,
        named: Mapping[str, str],
        widest: Reference | None,
    ) -> Reference | Recorded | None:
        """What the first floor says that applies; None if none does, or its peak is not known."""
        for floor in self._floors:
            other = floor.hardware and {*named.values()}.isdisjoint(floor.hardware)
            if other or metric not in floor.metrics or not applies(floor.selector, case):
                continue
            if floor.rule == "U":
                ranks = case.get("ranks", case.get("gpus", 0)) if floor.each_rank else 2
                its = floor.results[0].unit
                if not (isinstance(ranks, int) and ranks > 1):
                    continue
                if (scale := metrics.factor(its, unit)) is None:
                    said = f"{metric!r} is in {unit!r}, and its floor in {its!r}"
                    raise ReferencesError(f"{self.of_all[0]}: {said}")
                whole = (ranks - 1) * scale
            elif peak is None or peak.of != floor.of:
                continue
            else:
                whole = peak.value
            if (share := floor.share) is None:
                said = f"healthy machines publish too different values: {floor.said}"
                return Recorded(said, until_calibrated=True)
            value = share * whole
            # Where a floor leaves a side open, the bounds of any machine hold.
            least, most = (widest.lower_bound, widest.upper_bound) if widest else (None, None)
            if floor.of_times:
                lower = None if least is None else least / value - 1
                return Reference(value, unit, lower, 0.0, floor.said, None, PUBLISHED)
            most = floor.above * whole if floor.above else most
            upper = most and most / value - 1
            made = Reference(value, unit, 0.0, upper, floor.said, None, PUBLISHED)
            if floor.rule != "C":
                return made
            far = max(value / published.FAR, least or 0.0)
            return replace(made, otherwise=replace(made, value=far, upper=most and most / far - 1))
        return None

    def by_hand(
        self, case: Case, metric: str, unit: str, peak: float | None = None
    ) -> Reference | Recorded | None:
        """What ``references.yaml`` states; arguments and errors are as for :meth:`find`."""
        entry = _first(self._entries, case, metric)
        # A share of an unknown peak is not a reference.
        if entry is not None and not (peak is None and "of_peak" in entry["metrics"][metric]):
            return self._reference(entry, metric, unit, peak)
        kind = metrics.kind(unit)
        for rule in self._rules:
            of_unit = unit in rule.get("units", [unit]) and kind in rule.get("kinds", [kind])
            if of_unit and applies(rule["for"], case):
                until = "until" in rule
                everywhere = not until and reference_files.is_any(rule["for"]["partition"])
                return Recorded(rule["why"], until, everywhere)
        return None

    def envelope(self, case: Case, column: str, unit: str) -> Envelope:
        """The bounds of a curve at each size [B], in `unit`; empty if no entry has the curve.

        :raises ReferencesError: the entry is in another unit.
        """
        calibrated = (str(self._beside), self.calibrated)
        for path, entries in ((self._named, self._entries), calibrated):
            entry = _first(entries, case, column, "curves")
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

    def calibrated_under(self, case: Case) -> tuple[str, str]:
        """Hash of the machine's settings, and its hardware, when the case was calibrated.

        Either is empty if it is not known.
        """
        mine = (entry["source"] for entry in self.calibrated if applies(entry["for"], case))
        said = next((said for said in mine if isinstance(said, dict)), {})
        return said.get("settings", ""), said.get("hardware", "")

    def having(self, metrics: Collection[str]) -> list[str]:
        """The `for` blocks of the entries that have one of these metrics."""
        entries = [*self._entries, *self.calibrated]
        having = (each for each in entries if not {*each["metrics"]}.isdisjoint(metrics))
        return [describe(each["for"]) for each in having]

    def idle(
        self, cases: Collection[tuple[Case, Mapping[str, str]]], beside: Collection[str] = ()
    ) -> list[str]:
        """Entries that never apply, one line each; a misspelt key would otherwise judge nothing.

        :param cases: every test on every partition that it is for, in the form that :meth:`find`
            takes, with its metrics and their units.
        :param beside: tests beside the suite; entries of a single one of them are left out.
        """
        return [
            f"{path}: references/{at}: no test has {metric!r} of {describe(where)}"
            for path, entries in {**self._files, self._beside: self.calibrated}.items()
            for at, entry in enumerate(entries)
            for where in [{k: v for k, v in entry["for"].items() if k not in _PLACE}]
            for metric, spec in entry["metrics"].items()
            # A share of a peak may be for hardware that this site does not have.
            if "of_peak" not in spec
            and where.get("test") not in beside
            and not any(metric in units and applies(where, case) for case, units in cases)
        ]

    def unknown(self, names: Mapping[str, Sequence[str]]) -> list[str]:
        """Names in `for` blocks of ``references.yaml`` that the site does not have, one line each.

        :param names: ``partition`` and ``environ``, each with the names of the site.
        """
        blocks = [("references", self._files[self.path]), ("recorded", self._rules)]
        return [
            f"{self.path}: {where}/{at}/for/{key}: the site has no {key} {name!r}; "
            f"it has {', '.join(known)}"
            for where, entries in blocks
            for at, entry in enumerate(entries)
            for key, known in names.items()
            for name in reference_files.listed(entry["for"].get(key, "*"))
            if name not in ("*", *known)
        ]

    def unanswered(self, cases: Collection[tuple[Case, Mapping[str, str]]]) -> list[str]:
        """Metrics that would fail because no reference or rule applies, one line each."""
        lines = []
        for case, units in cases:
            # A test sets an empty key when it knows its partition and its stack.
            for metric, unit in () if "" in case.values() else units.items():
                try:
                    self.find(case, metric, unit, Peak("", 1.0))  # any peak will do
                except ReferencesError as error:
                    lines.append(str(error))
        return lines

    def _reference(
        self, entry: _Entry, metric: str, unit: str, peak: float | None, yardstick: str = SITE
    ) -> Reference:
        spec = entry["metrics"][metric]
        if (scale := metrics.factor(spec["unit"], unit)) is None:
            raise ReferencesError(
                f"{self._named}: references: {metric!r} is in {spec['unit']!r}, "
                f"the test reports {unit!r}; give the reference in that unit"
            )
        mine = {**entry, "metrics": {metric: {**spec, "unit": unit}}}
        if unit not in metrics.UNITS and (fault := reference_files.weak(mine)):
            raise ReferencesError(f"{self._named}: references: {fault}")
        source = entry["source"]
        if not isinstance(source, str):
            reason = f" ({source['reason']})" if "reason" in source else ""
            source = f"measured {source['date']}, n={source['n']}, {source['where']}{reason}"
        share, floor = spec.get("of_peak"), spec.get("peak_floor")
        if peak is None and (share or floor):
            raise ReferencesError(
                f"{self._named}: references: {metric!r} is a share of a peak that is unknown; "
                "name the hardware in the partition's extra `hardware`"
            )
        value = spec["value"] * scale if share is None or peak is None else share * peak
        least = None if floor is None or peak is None else floor * peak
        return Reference(value, unit, spec["lower"], spec["upper"], source, least, yardstick)


def _made(path: Path) -> Sequence[_Entry]:
    """The references of a file that a command wrote; none if it is not there."""
    if not (path.exists() or path.is_symlink()):
        return ()
    try:
        return reference_files.read_references(path, reference_files.Included)["references"] or ()
    except ReferencesError as error:
        mend = "take it back from version control, or delete it and calibrate again"
        raise ReferencesError(f"{error}; {mend}") from None


def describe(case: Case) -> str:
    """A test case in one line, as it would be written in a ``for`` block of a site."""
    return "{" + ", ".join(f"{k}: {value}" for k, value in case.items() if k != "system") + "}"


def _first(
    entries: Sequence[_Entry], case: Case, metric: str, kind: str = "metrics"
) -> _Entry | None:
    hits = (each for each in entries if metric in each.get(kind, ()))
    return next((each for each in hits if applies(each["for"], case)), None)
