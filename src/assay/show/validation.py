"""The figures of a validation: by which names and places tests declare them.

Each drawn figure states its own names (:attr:`assay.show.figure.Figure.shows`). The list of a study
names the figures that a session should have: ci/wanted.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from assay.declared import CONFIGURATIONS, INTER, INTRA, PLACE
from assay.declared import Figure as Declared
from assay.show.figure import Absent, Figure, Shown
from assay.store.cases import Case

IN_NODE, BETWEEN = "in a node", "between nodes"

_WORDS = {INTRA: IN_NODE, INTER: BETWEEN}


def incomplete(figures: Iterable[Figure]) -> list[Absent]:
    return [Absent(of.title, "", part, "", why) for of in figures for part, why in of.missing]


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
        places = CONFIGURATIONS.get(case.values.get("configuration", ""), ())
        if len(places) == 1:
            # A configuration that differs from the others in only one place is run only there.
            planned[partition] = _WORDS[places[0]]
        if case.kind == "network" and case.hosts:
            place = IN_NODE if len(case.hosts) == 1 else BETWEEN
            found[partition] = BETWEEN if found.get(partition) == BETWEEN else place
    return {**planned, **found}


def configurations(place: str) -> list[str]:
    """The configurations of GPU memory that differ from each other in this place."""
    return [n for n, its in CONFIGURATIONS.items() if place in map(_WORDS.get, its)]


def ranks(values: Mapping[str, str]) -> str:
    """The number of ranks, by the parameters of a test that is measured with several numbers."""
    return values.get("gpus") or values.get("ranks", "")
