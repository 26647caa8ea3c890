"""The second look of a sweep: which nodes have further turns.

A sweep measures all nodes in turn, then the suspects once more beside some nodes without suspicion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from assay.outputs.coordinator_log import CoordinatorLog, parse

#: Number of nodes without suspicion that have turns beside the suspects.
BESIDE = 3


def with_some_others(suspected: Sequence[str], nodes: Iterable[str]) -> list[str]:
    """The suspects, then some of the other nodes; nobody if there is no suspect."""
    if not suspected:
        return []
    others = dict.fromkeys(node for node in nodes if node not in suspected)
    return [*suspected, *list(others)[:BESIDE]]


def ranks(log_file: str, chosen: Callable[[CoordinatorLog], Iterable[str]]) -> list[int]:
    """The ranks of the nodes that `chosen` takes from the log of a job, in their order."""
    log = parse(Path(log_file).read_text(encoding="utf-8"))
    rank = {name: number for number, name in enumerate(log.nodes)}
    return [rank[name] for name in chosen(log)]
