"""Maps of what was measured between pairs of nodes."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from assay.report.series import drawable
from assay.results.cases import Case
from assay.results.sanitize import finite, line

#: Columns of a table that name the two ends of a pair.
ENDS = ("a", "b")


@dataclass(frozen=True)
class PairMap:
    """One quantity between all pairs of nodes.

    :ivar cells: (node, node) in the order of `nodes` -> median over its runs, in `unit`.
    :ivar accused: the nodes that the case accuses.
    """

    test: str
    partition: str
    environ: str
    quantity: str
    unit: str
    nodes: tuple[str, ...]
    cells: Mapping[tuple[str, str], float]
    accused: frozenset[str]


def maps(cases: Iterable[Case]) -> list[PairMap]:
    """One map for each measured column of each case whose rows name both ends of a pair."""
    found = []
    for case in cases:
        rows = [row for row in case.rows if all(row.get(end) for end in ENDS)]
        nodes = tuple(sorted({line(row[end]) for row in rows for end in ENDS}))
        for column, unit in case.units.items():
            runs: dict[tuple[str, str], list[float]] = {}
            for row in rows:
                value = finite(row.get(column))
                if value is not None and drawable(value):
                    a, b = sorted(line(row[end]) for end in ENDS)
                    runs.setdefault((a, b), []).append(value)
            if runs:
                cells = {pair: statistics.median(values) for pair, values in runs.items()}
                accused = frozenset(node for one in case.accused for node in one.nodes)
                found.append(
                    PairMap(
                        case.test, case.partition, case.environ, column, unit, nodes, cells, accused
                    )
                )
    return found
