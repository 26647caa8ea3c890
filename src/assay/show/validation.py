"""The figures that a study asks for, and the ones that a session does not have.

The list of a study names its figures. Tests declare figures by the same names
(:mod:`assay.declared`), and each drawn figure states its own entry
(:attr:`assay.show.figure.Figure.shows`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from assay import files
from assay.declared import PARTITION, PLACE
from assay.declared import Figure as Declared
from assay.prove.gpu_paths import CONFIGURATIONS, INTER, INTRA
from assay.show.figure import Absent, Figure, Shown, reasons
from assay.store.cases import Case
from assay.store.session import ReportError

IN_NODE, BETWEEN = "in a node", "between nodes"

_WORDS = {INTRA: IN_NODE, INTER: BETWEEN}


class _Keys(msgspec.Struct, forbid_unknown_fields=True):
    """The head of studies/figures.yaml explains the keys."""

    of: str = ""
    ranks: tuple[str, ...] = ()
    lack: str = ""


class _Group(msgspec.Struct, forbid_unknown_fields=True):
    """A group has at, a list of places, and figures; see the head of studies/figures.yaml."""

    at: list[str]
    figures: dict[str, _Keys]


@dataclass(frozen=True)
class Wanted:
    """A figure at a place, with the keys of its entry; tests name it as `declared` does."""

    figure: str
    at: str
    keys: _Keys

    @property
    def declared(self) -> str:
        return self.keys.of or self.figure


def wanted(cases: Iterable[Case], studies: Iterable[Path]) -> list[Wanted]:
    """All figures of the studies; those of storage once for each file system of the session.

    :param studies: the lists of figures.
    :raises ReportError: a list cannot be read, or is none.
    """
    on = {case.partition for case in cases if any(PARTITION in f.at for f in case.figures)}
    return [
        Wanted(figure, at.replace(PARTITION, partition), keys)
        for path in studies
        for group in files.read(path, list[_Group], ReportError)
        for at in group.at
        for figure, keys in group.figures.items()
        for partition in ((sorted(on) or ["any file system"]) if PARTITION in at else [""])
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
    where = of_partitions(cases)
    places = [_places(case, where.get((case.system, case.partition), "")) for case in cases]
    whole, parts = [], []
    for item in wanted(cases, studies):
        found = [case for case, its in zip(cases, places) if (item.declared, item.at) in its]
        if (item.figure, item.at) in shown:
            there = {ranks(case) for case in found}
            lost = [count for count in item.keys.ranks if any(there) and count not in there]
            parts += [Absent(item.figure, item.at, f"P = {n}", "", reasons([])) for n in lost]
            continue
        unproven = [case for case in found if not case.proven]
        why = reasons(unproven or found)
        if item.keys.lack and len(unproven) < len(found):
            why = f"{item.keys.lack}; {why}" if unproven else item.keys.lack
        tests = ", ".join(sorted({case.test for case in found}))
        whole.append(Absent(item.figure, item.at, "", tests, why))
    parts += [
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


def of_partitions(cases: Iterable[Case]) -> Mapping[tuple[str, str], str]:
    """(system, partition) -> where the bytes of its cases move, if that is known.

    The number of nodes that ranks ran on gives the place. If no ranks ran there, the configuration
    that was planned for the partition gives it.
    """
    found: dict[tuple[str, str], str] = {}
    planned: dict[tuple[str, str], str] = {}
    for case in cases:
        partition = (case.system, case.partition)
        configuration = CONFIGURATIONS.get(case.parameters.get("configuration", ""))
        if configuration and len(configuration.places) == 1:
            # A configuration that differs from the others in only one place is run only there.
            planned[partition] = _WORDS[configuration.places[0]]
        if case.kind == "network" and case.nodes:
            place = IN_NODE if case.nodes == 1 else BETWEEN
            found[partition] = BETWEEN if found.get(partition) == BETWEEN else place
    return {**planned, **found}


def configurations(place: str) -> list[str]:
    """The configurations of GPU memory that differ from each other in this place."""
    return [n for n, of in CONFIGURATIONS.items() if place in map(_WORDS.get, of.places)]


def ranks(case: Case) -> str:
    """The number of ranks, if a test is measured with several numbers of ranks."""
    return case.parameters.get("gpus") or case.parameters.get("ranks", "")
