"""Where bytes moved: within a node or between nodes, as far as a session says it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from assay.evidence.gpu_paths import CONFIGURATIONS, INTER, INTRA
from assay.results.cases import Case

IN_NODE, BETWEEN = "in a node", "between nodes"

_WORDS = {INTRA: IN_NODE, INTER: BETWEEN}

#: A partition: (system, partition).
Partition = tuple[str, str]


def of_partitions(cases: Iterable[Case]) -> Mapping[Partition, str]:
    """Each partition whose place is known: by where ranks ran, else by what was to be run there."""
    found: dict[Partition, str] = {}
    planned: dict[Partition, str] = {}
    for case in cases:
        partition = (case.system, case.partition)
        configuration = CONFIGURATIONS.get(case.parameters.get("configuration", ""))
        if configuration and len(configuration.places) == 1:
            # A configuration that differs from the others in one place only is run there only.
            planned[partition] = _WORDS[configuration.places[0]]
        if case.kind == "network" and case.nodes:
            place = IN_NODE if case.nodes == 1 else BETWEEN
            found[partition] = BETWEEN if found.get(partition) == BETWEEN else place
    return {**planned, **found}


def configurations(place: str) -> list[str]:
    """The configurations of GPU memory that differ from each other in this place."""
    return [
        name
        for name, configuration in CONFIGURATIONS.items()
        if place in [_WORDS[there] for there in configuration.places]
    ]
