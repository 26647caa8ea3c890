"""Where bytes moved: within a node or between nodes, as far as a session shows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from assay.prove.gpu_paths import CONFIGURATIONS, INTER, INTRA
from assay.store.cases import Case

IN_NODE, BETWEEN = "in a node", "between nodes"

_WORDS = {INTRA: IN_NODE, INTER: BETWEEN}

#: A partition: (system, partition).
Partition = tuple[str, str]


def of_partitions(cases: Iterable[Case]) -> Mapping[Partition, str]:
    """The place of each partition, if it is known.

    The number of nodes that ranks ran on gives the place. If no ranks ran there, the configuration
    that was planned for the partition gives it.
    """
    found: dict[Partition, str] = {}
    planned: dict[Partition, str] = {}
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
    return [
        name
        for name, configuration in CONFIGURATIONS.items()
        if place in [_WORDS[there] for there in configuration.places]
    ]
