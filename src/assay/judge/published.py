"""Floors: the share of its peak that healthy hardware of a kind reaches, as others published it.

``site-config/floors.yaml`` states the published results and the rule by which a floor follows from
them. Nobody writes the floor itself. ``docs/judging.md`` explains the rules.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from assay import files, metrics
from assay.judge.reference_files import ReferencesError, Selector
from assay.quantities import number

FILE = "floors.yaml"

#: Part of the least healthy value that a floor is; of less than three owners, a weak one.
PART, WEAK_PART = 0.9, 0.85

#: The same where the owners do not agree: 105 of 107 results are above this part of what the
#: others' least one is; 98 are above 0.9.
WIDE_PART = 0.8

#: A limit without a peak is this many times beyond the worst healthy value, where the owners agree.
BEYOND = 1.5

#: A weak floor alone makes red what is this many times below it: of two owners that publish shares,
#: nobody is 1.5 times below that of the other one (``test_published.py``). So do rates that spread.
FAR = 3.0

#: Fewest owners of the machines behind a floor; greatest ratio of their values; fewest values of
#: a sample whose tenth percentile counts.
OWNERS, SPREAD, SAMPLE = 3, 1.6, 7

_Text = Annotated[str, Meta(min_length=1)]
_Positive = Annotated[float, Meta(gt=0, le=1e12)]


class Result(msgspec.Struct, forbid_unknown_fields=True):
    """A result has value, unit, system, owner, date and source, and `of`, the peak in `unit`.

    :ivar counts: false for a value that is shown and not used.
    """

    value: _Positive
    unit: _Text
    system: _Text
    owner: _Text
    date: Annotated[str, Meta(min_length=4)]
    source: Annotated[str, Meta(min_length=8)]
    of: _Positive | None = None
    counts: bool = True
    note: str = ""

    @property
    def share(self) -> float:
        """Its share of the peak; without a peak, the value itself."""
        return self.value / self.of if self.of else self.value


class Floor(msgspec.Struct, forbid_unknown_fields=True):
    """A floor has `for`, metrics, rule, why and results; of, unless it is a limit without a peak.

    :ivar of: role and quantity of the hardware, such as ``link.bandwidth``.
    :ivar hardware: the names of hardware, of whatever role, that it holds for; empty for all.
    :ivar above: the greatest share of the peak that physics allows.
    :ivar each_rank: the results are times of one message, and the metrics those of a collective,
        whose slowest algorithm sends one message after the other to each other rank.
    """

    selector: Selector = msgspec.field(name="for")
    metrics: Annotated[list[str], Meta(min_length=1)]
    rule: Literal["A", "B", "C", "D", "U"]
    why: Annotated[str, Meta(min_length=8)]
    results: Annotated[list[Result], Meta(min_length=1)]
    of: str = ""
    hardware: list[str] = []
    above: _Positive | None = None
    each_rank: bool = False

    def __post_init__(self) -> None:
        if not (shares := self.shares):
            raise ValueError("results: none counts")
        if (self.rule == "U") == bool(self.of):
            raise ValueError("of: a share has a peak, such as link.bandwidth; a limit U has none")
        if any((result.of is None) == bool(self.of) for result in self.results):
            raise ValueError("results: each needs `of`, the peak, unless the rule is U")
        if self.rule in "AU" and self.owners < OWNERS:
            said = f"{self.owners} owners of results: rule {self.rule} needs {OWNERS}"
            raise ValueError(f"rule: {said}; write C, which makes a weak floor")
        if self.rule == "A" and (spread := shares[-1] / shares[0]) > SPREAD:
            raise ValueError(f"rule: A: the results spread by {spread:.2f}: write D, no floor")
        if self.rule == "B" and len(shares) < SAMPLE:
            raise ValueError(f"rule: B: {len(shares)} results, and it needs {SAMPLE}; write A or C")

    @property
    def shares(self) -> list[float]:
        """The shares that count, the lowest first."""
        return sorted(result.share for result in self.results if result.counts)

    @property
    def owners(self) -> int:
        return len({result.owner for result in self.results if result.counts})

    @property
    def of_times(self) -> bool:
        """Whether it is for times: a greater one is worse."""
        return metrics.lower_is_better(self.results[0].unit)

    @property
    def owners_agree(self) -> bool:
        """Whether the results of each owner are within the bound that those of the others make."""
        worst: dict[str, float] = {}
        for result in self.results:
            if result.counts:
                bad = 1 / result.share if self.of_times else result.share
                worst[result.owner] = min(bad, worst.get(result.owner, bad))
        part = 1 / BEYOND if self.rule == "U" else PART
        return all(
            its >= part * min((at for of, at in worst.items() if of != owner), default=0.0)
            for owner, its in worst.items()
        )

    @property
    def share(self) -> float | None:
        """The least healthy share, rounded down to a hundredth; of a limit, its value; or None."""
        shares, agree = self.shares, self.owners_agree
        if self.rule == "D":
            return None
        if self.rule == "U":
            far = BEYOND if agree else FAR
            return far * shares[-1] if self.of_times else shares[0] / far
        least = shares[round((len(shares) - 1) / 10)] if self.rule == "B" else shares[0]
        part = WEAK_PART if self.rule == "C" else PART if agree else WIDE_PART
        return math.floor(100 * least * part) / 100

    @property
    def said(self) -> str:
        """The results in words, as the source of a reference."""
        low, high, owners = self.shares[0], self.shares[-1], self.owners
        many = f"{len(self.shares)} published results of {owners} owner{'s' * (owners > 1)}"
        if self.rule == "U":
            unit = self.results[0].unit
            return f"{many}: {number(low)} to {number(high)} {unit}; {self.why}"
        weak = f"; a weak floor: red alone {FAR:.0f} times below it" if self.rule == "C" else ""
        more = [its for its in self.results if its.share > 1 > high and self.above]
        beyond = "".join(f", up to {its.share:.0%} where {its.note}" for its in more[-1:])
        return f"{many}: {low:.0%} to {high:.0%} of the peak{beyond}; {self.why}{weak}"


class FloorsFile(msgspec.Struct, forbid_unknown_fields=True):
    """The file has `floors`."""

    floors: list[Floor]


def read_floors(path: Path) -> Sequence[Floor]:
    """The floors of a file.

    :raises ReferencesError: the file is not YAML, or an entry does not follow its rule.
    """
    try:
        content = files.read_bytes(path, files.MOST_OF_YAML)
    except OSError:  # the reader of the shape says why
        content = b""
    return _floors(path, content)


@cache
def _floors(path: Path, _content: bytes) -> Sequence[Floor]:
    """A run asks for the same floors several times; they take longer than its other YAML."""
    return files.read_shape(path, FloorsFile, ReferencesError).floors
