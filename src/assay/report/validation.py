"""The figures that validate a cluster, and the ones that a session does not have.

``barone2024.yaml`` lists the figures. Tests declare figures by the same names
(:mod:`assay.declared`), and each drawn figure states its own entry
(:attr:`assay.report.figure.Figure.shows`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from assay import files
from assay.declared import PARTITION, PLACE
from assay.declared import Figure as Declared
from assay.report.figure import Figure, Shown, reasons
from assay.report.plots import Missing
from assay.results import locality
from assay.results.cases import Case
from assay.results.locality import BETWEEN, IN_NODE
from assay.results.session import ReportError

#: Every site is asked for these figures. `assay report --study` asks for those of a study, too.
DOCUMENT = Path(__file__).with_name("barone2024.yaml")


@dataclass(frozen=True)
class Wanted:
    """One figure at one place; the head of :data:`DOCUMENT` explains the other keys."""

    figure: str
    at: str
    of: str = ""
    ranks: Sequence[str] = ()
    lack: str = ""


@dataclass(frozen=True)
class Absent:
    """A figure, or a part of a figure, without a measurement in a session.

    :ivar test: the tests of the session that should measure it; "" if none was selected.
    """

    figure: str
    at: str
    part: str
    test: str
    why: str


@cache
def _document(path: Path) -> Sequence[Wanted]:
    raw = files.read_yaml(path, ReportError)
    try:
        return [
            Wanted(figure, at, **keys)
            for group in raw
            for at in group["at"]
            for figure, keys in group["figures"].items()
        ]
    except (TypeError, KeyError, AttributeError):
        why = f"is no list of figures; the head of {DOCUMENT.name} explains its keys"
        raise ReportError(f"{path}: {why}") from None


def wanted(cases: Iterable[Case], studies: Iterable[Path] = ()) -> list[Wanted]:
    """All figures of the validation; those of storage once for each file system of the session.

    :param studies: more lists of figures.
    :raises ReportError: a list cannot be read.
    """
    on = {case.partition for case in cases if any(PARTITION in f.at for f in case.figures)}
    return [
        replace(one, at=one.at.replace(PARTITION, partition))
        for path in (DOCUMENT, *studies)
        for one in _document(path)
        for partition in ((sorted(on) or ["any file system"]) if PARTITION in one.at else [""])
    ]


def absent(
    cases: Sequence[Case], figures: Iterable[Figure], studies: Iterable[Path] = ()
) -> list[Absent]:
    """The missing figures of a session: whole figures first, then parts of figures.

    :param studies: the lists of the studies that the session is for.
    :raises ReportError: a list cannot be read.
    """
    drawn = list(figures)
    shown = {key for figure in drawn for key in figure.shows}
    where = locality.of_partitions(cases)
    places = [_places(case, where.get((case.system, case.partition), "")) for case in cases]
    whole = []
    for item in wanted(cases, studies):
        if (item.figure, item.at) in shown:
            continue
        key = (item.of or item.figure, item.at)
        found = [case for case, its in zip(cases, places) if key in its]
        unproven = [case for case in found if not case.proven]
        why = reasons(unproven or found)
        if item.lack and len(unproven) < len(found):
            why = f"{item.lack}; {why}" if unproven else item.lack
        tests = ", ".join(sorted({case.test for case in found}))
        whole.append(Absent(item.figure, item.at, "", tests, why))
    parts = [
        Absent(figure.title, "", part, "", why) for figure in drawn for part, why in figure.missing
    ]
    return whole + parts


def _places(case: Case, place: str) -> set[Shown]:
    """What a case should measure, by name and place; a case with an unknown place may be at any."""
    either = [place] if place else [IN_NODE, BETWEEN]
    return {(f.name, f.where(case.partition, at)) for f in case.figures for at in either}


def shows(figures: Iterable[Declared], partition: str, place: str = "") -> frozenset[Shown]:
    """Names and places of the declared figures that a drawing is."""
    return frozenset(
        (figure.name, figure.where(partition, place))
        for figure in figures
        if figure.name and figure.at and (place or PLACE not in figure.at)
    )


def unselected(
    figures: Iterable[Declared],
    partition: str,
    place: str,
    planned: Iterable[tuple[str, str]],
    on_gpu: bool,
) -> list[Missing]:
    """Lines of a figure that no case of the session should measure.

    :param planned: (way, ranks) of every case that should be a line, measured or not.
    :param on_gpu: whether the ways are configurations for GPU memory.
    """
    ways, counts = ({pair[n] for pair in planned} for n in (0, 1))
    found: list[str] = []
    if on_gpu and place:
        found += [name for name in locality.configurations(place) if name not in ways]
    if any(counts):
        keys = shows(figures, partition, place)
        ranks = [w.ranks for w in wanted(()) if (w.figure, w.at) in keys]
        found += [f"P = {count}" for each in ranks for count in each if count not in counts]
    return [(part, reasons([])) for part in found]
