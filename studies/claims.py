"""The claims of a document, as data, and the one evaluator of their relations.

``claims.yaml`` beside the list of figures has an entry for each claim. A relation compares numbers
of one run: a side selects cases and rows by their fields, ``over`` names the fields that must agree
on both sides, and the quotient must lie in the band. A side may itself be such a quotient.
"""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from assay import files, metrics
from assay.quantities import number

#: Where measurements of a claim have run.
Ran = Literal["hardware", "emulated", "this machine", "recorded", "never"]

#: What a field of a side may ask for beside a value: the greatest or the least one that is there.
MOST, LEAST = "most", "least"

#: How several numbers of a side become one.
TAKE: Mapping[str, Callable[[Iterable[float]], float]] = {
    "median": statistics.median,
    MOST: max,
    LEAST: min,
}

#: The fields that agree on both sides unless a relation names others.
SAME_PLACE = ("partition", "environ")


class Side(msgspec.Struct, forbid_unknown_fields=True):
    """Numbers of a run, or the quotient of two such sides.

    :ivar value: a metric, or a column of the rows.
    :ivar of: field -> its value, a list of values, ``{min, max}``, or ``most`` or ``least``. Fields
        are ``test``, the parameters, the columns, ``partition`` and ``hosts``, the number of nodes.
    :ivar per: a field by which each number is divided.
    """

    value: str = ""
    of: dict[str, Any] = {}
    per: str = ""
    take: Literal["median", "most", "least"] = "median"
    above: Side | None = None
    below: Side | None = None

    def __post_init__(self) -> None:
        """Refuses a side that is neither numbers nor a quotient."""
        quotient = self.above is not None and self.below is not None
        if quotient == bool(self.value and self.of):
            raise ValueError("a side has a value and what it is of, or above and below")


class Relation(msgspec.Struct, forbid_unknown_fields=True):
    """What must lie in the band, from its lower to its upper bound, in `unit`.

    :ivar below: None if the number of `above` itself must lie there.
    """

    above: Side
    band: tuple[float | None, float | None]
    source: str
    below: Side | None = None
    over: tuple[str, ...] = SAME_PLACE
    unit: str = "1"

    def __post_init__(self) -> None:
        """Refuses a band that nothing is outside of."""
        if self.band == (None, None) or not self.source:
            raise ValueError("a relation has a bound, and a source")


class Claim(msgspec.Struct, forbid_unknown_fields=True):
    """A claim of a document. No text may be empty.

    :ivar claim: with its number or order.
    :ivar why: why it has no relation; empty if it has one.
    :ivar emulated: whether emulated nodes can show it; they cannot show what hardware reaches.
    """

    name: str
    measurement: str
    figure: str
    claim: str
    test: str
    ran: Ran
    hardware: str
    command: str
    relation: Relation | None = None
    why: str = ""
    emulated: bool = False

    def __post_init__(self) -> None:
        """Refuses an empty cell."""
        texts = ("name", "measurement", "figure", "claim", "test", "hardware", "command")
        if empty := [name for name in texts if not getattr(self, name).strip()]:
            raise ValueError(f"the claim {self.name}: empty: {', '.join(empty)}")
        if (self.relation is None) != bool(self.why.strip()):
            raise ValueError(f"the claim {self.name}: it has a relation, or why it has none")


def sides(claim: Claim) -> Iterator[Side]:
    """The numbers that a claim compares."""
    left = [claim.relation.above, claim.relation.below] if claim.relation else []
    while left:
        side = left.pop()
        if side is not None and side.value:
            yield side
        elif side is not None:
            left += [side.above, side.below]


def tests(claim: Claim) -> set[str]:
    """The tests whose numbers a claim needs."""
    found = {claim.test}
    for side in sides(claim):
        its = side.of.get("test", claim.test)
        found.update(its if isinstance(its, list) else [its])
    return found


class Word(str, enum.Enum):
    """What a run says of a claim."""

    HOLDS = "holds"
    FALLS = "does not hold"
    UNKNOWN = "could not be measured here"


@dataclass(frozen=True)
class Point:
    """A case, or a row of it: its fields, its numbers with units, and the case that it is from."""

    fields: Mapping[str, Any]
    numbers: Mapping[str, tuple[float, str]]
    case: int = 0
    row: bool = False


@dataclass(frozen=True)
class Finding:
    """A claim, what a run says of it, and the numbers or the reason."""

    claim: Claim
    word: Word
    said: str


Key = tuple[str, ...]


def read(path: Path, error: type[Exception] = ValueError) -> list[Claim]:
    """The claims of a document; `error` says what is wrong with the file."""
    found: list[Claim] = files.read_shape(path, list[Claim], error)
    return found


def points(case: int, fields: Mapping[str, Any], its: Mapping[str, tuple[float, str]],
           rows: Iterable[Mapping[str, Any]], units: Mapping[str, str]) -> list[Point]:  # fmt: skip
    """The points of a case; `its` are its metrics with units."""
    found = [Point(fields, its, case)]
    for row in rows:
        numbers = {
            name: (float(value), units.get(name, "1"))
            for name, value in row.items()
            if isinstance(value, (int, float)) and math.isfinite(value)
        }
        found.append(Point({**fields, **row}, numbers, case, row=True))
    return found


def _agrees(found: Any, asked: Any) -> bool:
    """Whether a field has what a side asks for; a parameter of a case is a text."""
    if asked in (MOST, LEAST):
        return found is not None
    if isinstance(asked, dict):
        try:
            return bool(asked.get("min", -math.inf) <= float(found) <= asked.get("max", math.inf))
        except (TypeError, ValueError):
            return False
    return any(_same(found, one) for one in (asked if isinstance(asked, list) else [asked]))


def _same(one: Any, other: Any) -> bool:
    try:
        return math.isclose(float(one), float(other))
    except (TypeError, ValueError):
        return str(one) == str(other)


def _numbers(side: Side, run: Sequence[Point], over: Key) -> dict[Key, tuple[float, str]]:
    """The number of a side for each combination of the fields `over`."""
    if side.above is not None and side.below is not None:
        found = _quotients(_numbers(side.above, run, over), _numbers(side.below, run, over))
        return {key: (value, "1") for key, value in found.items()}
    its = [
        point
        for point in run
        if side.value in point.numbers
        and all(_agrees(point.fields.get(name), asked) for name, asked in side.of.items())
    ]
    # A metric is made of the rows: where they have the number, too, they are the measurement.
    with_rows = {point.case for point in its if point.row}
    groups: dict[Key, list[Point]] = {}
    for point in its:
        if point.row or point.case not in with_rows:
            groups.setdefault(tuple(str(point.fields.get(f)) for f in over), []).append(point)
    return {key: _one(side, group) for key, group in groups.items()}


def _one(side: Side, group: Sequence[Point]) -> tuple[float, str]:
    for name, asked in side.of.items():
        if asked in (MOST, LEAST):
            bound = TAKE[asked](float(point.fields[name]) for point in group)
            group = [point for point in group if float(point.fields[name]) == bound]
    each = [
        point.numbers[side.value][0] / (float(point.fields[side.per]) if side.per else 1)
        for point in group
    ]
    return TAKE[side.take](each), group[0].numbers[side.value][1]


def _quotients(
    above: Mapping[Key, tuple[float, str]], below: Mapping[Key, tuple[float, str]]
) -> dict[Key, float]:
    found = {}
    for key, (value, unit) in above.items():
        if key in below and below[key][0] and (scale := metrics.factor(unit, below[key][1])):
            found[key] = scale * value / below[key][0]
    return found


def quantities(relation: Relation, run: Sequence[Point]) -> dict[Key, float]:
    """What must lie in the band, for each combination of the fields that must agree."""
    above = _numbers(relation.above, run, relation.over)
    if relation.below is not None:
        return _quotients(above, _numbers(relation.below, run, relation.over))
    scaled = {k: (value, metrics.factor(unit, relation.unit)) for k, (value, unit) in above.items()}
    return {key: value * scale for key, (value, scale) in scaled.items() if scale}


def band(relation: Relation) -> str:
    """The band in words."""
    low, high = (None if bound is None else number(bound) for bound in relation.band)
    words = f"at most {high}" if low is None else f"at least {low}" if high is None else ""
    return (words or f"{low} to {high}") + ("" if relation.unit == "1" else f" {relation.unit}")


def judge(
    claim: Claim, run: Sequence[Point], emulated: bool = False, lacks: Collection[str] = ()
) -> Finding:
    """What a run says of a claim.

    :param emulated: whether the nodes are emulated.
    :param lacks: why cases of its tests were not measured.
    """
    if claim.relation is None:
        return Finding(claim, Word.UNKNOWN, claim.why)
    if emulated and not claim.emulated:
        return Finding(claim, Word.UNKNOWN, "the nodes are emulated: no number is of hardware")
    found = quantities(claim.relation, run)
    if not found:
        why = "; ".join(sorted(lacks)[:2]) or "this site has not all of the cases that it compares"
        return Finding(claim, Word.UNKNOWN, why)
    low, high = claim.relation.band
    outside = {
        key: value
        for key, value in found.items()
        if (low is not None and value < low) or (high is not None and value > high)
    }
    its = [number(value) for value in sorted((outside or found).values())]
    said = its[0] if its[0] == its[-1] else f"{its[0]} to {its[-1]}"
    word = Word.FALLS if outside else Word.HOLDS
    return Finding(claim, word, f"{said}, asked for: {band(claim.relation)}")


def closing(document: str, found: Sequence[Finding]) -> str:
    """One line: which claims hold, which do not, and what the others need, by hardware."""
    parts = [
        f"{word.value}: {', '.join(names)}"
        for word in (Word.HOLDS, Word.FALLS)
        if (names := [f"{one.claim.name} ({one.said})" for one in found if one.word is word])
    ]
    needs: dict[tuple[str, str, str], list[str]] = {}
    for one in found:
        if one.word is Word.UNKNOWN:
            key = one.said, one.claim.hardware, one.claim.command
            needs.setdefault(key, []).append(one.claim.name)
    lacking = [
        f"{', '.join(names)} ({why}; needs {hardware}: {command})"
        for (why, hardware, command), names in needs.items()
    ]
    if lacking:
        parts.append(f"{Word.UNKNOWN.value}: {', '.join(lacking)}")
    return f"claims of {document}: {'; '.join(parts)}"
