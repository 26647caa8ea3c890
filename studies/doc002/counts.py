"""Counts of pairs and of ranks on a partition, for the study of nodes with many cores."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from assay.workloads.sizing import SizingError, even_ranks, spread

#: Numbers of pairs. The last one is a pair for all cores, if that is another number.
ALL = 0
PAIRS = (1, 2, 4, 8, 16, 32, 64, ALL)


def place_of(partition: Any) -> tuple[int, Collection[str], Mapping[str, Any]]:
    """Cores of a node of a partition (0 if the site does not state them), features, extras.

    :param partition: ReFrame's partition.
    """
    processor = partition.processor
    there = processor.num_cpus or 0
    return min(processor.num_cores or there, there), partition.features, partition.extras


def places(cores: int, features: Collection[str], extras: Mapping[str, Any]) -> int:
    """How many ranks a node of the partition has a place for.

    :param cores: number of cores of one node.
    """
    return int(extras.get("cores_per_node", cores)) if "inter-node" in features else cores


def most_pairs(cores: int, features: Collection[str], extras: Mapping[str, Any]) -> int:
    """The most pairs that a partition has places for: within a node, or between two nodes."""
    there = places(cores, features, extras)
    return there if "inter-node" in features else there // 2


def ranks_of(pairs: int, cores: int) -> int:
    """Number of ranks of a number of pairs; :data:`ALL` takes all `cores`.

    :raises assay.workloads.sizing.SizingError: there is only one core.
    """
    return 2 * pairs if pairs != ALL else even_ranks(cores)


def pairs_here(pairs: int, cores: int, features: Collection[str], extras: Mapping[str, Any]) -> int:
    """The number of pairs that a case measures here; 0 if it is skipped."""
    most = most_pairs(cores, features, extras)
    if pairs == ALL:
        return 0 if most in PAIRS else most
    return pairs if pairs <= most else 0


def message_rates(rows: Iterable[Mapping[str, Any]], size: int) -> dict[int, float]:
    """Number of pairs -> messages of all pairs together [1/s], for one message size [B].

    :param rows: with the columns ``pairs``, ``message_size`` and either ``messages_per_s`` [1/s] or
        ``latency`` [us]. Each pair sends one message in a latency.
    """
    return {
        int(row["pairs"]): float(row["messages_per_s"])
        if "messages_per_s" in row
        else int(row["pairs"]) * 1e6 / float(row["latency"])
        for row in rows
        if row["message_size"] == size
    }


def runs_over(
    nodes: int,
    cores: int,
    features: Collection[str],
    extras: Mapping[str, Any],
    ranks: Callable[[int], int],
) -> bool:
    """Whether a test that fills this many nodes runs on a partition between nodes.

    :param ranks: how many ranks the test starts on a number of cores.
    """
    if nodes > extras.get("nodes", 2) or ("across" in features and nodes % 2):
        return False
    try:
        spread(nodes, places(cores, features, extras), ranks)
    except SizingError:
        return False
    return True
