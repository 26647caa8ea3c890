"""The values of each metric over time, and their changes, judged by what the site says."""

from __future__ import annotations

import sqlite3
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from assay import metrics
from assay.archive.history import changes
from assay.archive.history.store import RESULT, StoreError
from assay.store.cases import grouped
from assay.tolerances import TOLERANCES, Planned, Tolerances, tolerances_of

#: A change of a node that is so much larger than that of all nodes together is the node's own. The
#: median of two nodes shows half of what one of them lost.
LARGER = 1.5


@dataclass(frozen=True, eq=False)
class Series:
    """The values of one metric of one case, in order of time: one for each session.

    :ivar case: the displayed name and the place, as the table of runs has it.
    :ivar node: the node that all values are from; "" for the values of all nodes.
    :ivar starts: seconds since 1970 at which each session began, shape (sessions,).
    :ivar values: the median of each session, in `unit`, shape (sessions,).
    """

    case: str
    system: str
    partition: str
    metric: str
    unit: str
    node: str
    starts: npt.NDArray[np.float64]
    values: npt.NDArray[np.float64]


def read_series(connection: sqlite3.Connection) -> Iterator[Series]:
    """All series: of each metric over all nodes, and of each of its nodes if there are several.

    :raises sqlite3.Error: the history is damaged.
    """
    sessions = connection.execute("SELECT id, start FROM sessions ORDER BY start, id").fetchall()
    starts = np.array([start for _, start in sessions])
    # Number of a session -> its place in order of time.
    place = {session: at for at, (session, _) in enumerate(sessions)}
    for metric, case, system, partition, name, unit, kind in connection.execute(
        "SELECT id, test || ' @' || system || ':' || partition || '+' || environ, system, "
        "partition, name, unit, kind FROM metrics WHERE name != ? ORDER BY id", (RESULT,),
    ).fetchall():  # fmt: skip
        rows = connection.execute(
            "SELECT node, session, value FROM measured WHERE metric = ? AND value IS NOT NULL "
            "ORDER BY node", (metric,),
        ).fetchall()  # fmt: skip
        of_node = grouped((node, (session, value)) for node, session, value in rows)
        alone = {node: part for node, part in of_node.items() if node and len(of_node) > 1}
        for node, part in {"": [row[1:] for row in rows], **alone}.items():
            if part:
                at, values = _medians((place[session], value) for session, value in part)
                its = metrics.Unit(unit, kind) if kind else unit
                yield Series(case, system, partition, name, its, node, starts[at], values)


def _medians(pairs: Iterable[tuple[int, float]]) -> tuple[Any, Any]:
    """The sessions in order of time, and the median of the values of each."""
    found = sorted(grouped(pairs).items())
    return np.array([n for n, _ in found]), np.array([statistics.median(its) for _, its in found])


def tolerance(site: Tolerances, unit: str) -> float:
    """How far a metric in this unit may lie from its reference, as a fraction."""
    return float(getattr(site, metrics.kind(unit) or "other").least)


def cuts(site: Tolerances, series: Series) -> list[tuple[int, Planned]]:
    """The planned changes of a series: index of the first value after each, and the change."""
    return [
        (int(np.searchsorted(series.starts, change.start)), change)
        for change in sorted(site.planned, key=lambda change: change.start)
        if change.concerns(series.partition, series.metric)
    ]


@cache
def site_of(folder: Path, system: str) -> Tolerances:
    """What the site of a system says.

    :param folder: holds ``tolerances.yaml`` of all sites, and a folder for each.
    :raises StoreError: a file of the site is wrong or missing.
    """
    try:
        if not folder.is_dir():
            raise StoreError(f"{folder / TOLERANCES}: no such folder")
        return tolerances_of(folder / system, StoreError)
    except StoreError as error:
        raise StoreError(f"{error} (--folder names the folder of the sites)") from None


@dataclass(frozen=True)
class Change:
    """A change of one metric; `tolerance` is that of the metric, as a fraction."""

    series: Series
    step: changes.Step
    tolerance: float

    @property
    def start(self) -> float:
        """When the first session at the new level began, in seconds since 1970."""
        return float(self.series.starts[self.step.at])

    @property
    def for_worse(self) -> bool | None:
        """Whether it is on the side of a fault; None if the unit has no such side."""
        side = metrics.fault(self.series.unit)
        return None if side == "both" else (self.step.relative < 0) == (side == "lower")

    @property
    def tolerances(self) -> float:
        """Its size in units of the tolerance, without a sign."""
        return abs(self.step.relative) / self.tolerance


def examine(all_series: Iterable[Series], sites: Path) -> Iterator[tuple[Series, list[Change]]]:
    """Each series with its changes, in the order of :func:`read`.

    A change of one node that all nodes together show at the same time is not repeated.

    :raises StoreError: a file of a site is wrong or missing.
    """
    together: list[Change] = []
    for series in all_series:
        site = site_of(sites, series.system)
        width = tolerance(site, series.unit)
        planned = [index for index, _ in cuts(site, series)]
        found = [
            Change(series, step, width) for step in changes.find(series.values, width, planned)
        ]
        if not series.node:
            together = found
        else:
            found = [change for change in found if not _among(change, together)]
        yield series, found


def newest_first(found: Iterable[Change]) -> list[Change]:
    """The changes in a reader's order: the newest first, then the largest for its tolerance."""
    return sorted(found, key=lambda change: (-change.start, -change.tolerances))


def _among(change: Change, together: Iterable[Change]) -> bool:
    """Whether all nodes together changed in the same direction, within some runs."""
    own = change.step.relative
    for other in together:
        at, of_all = other.step.at, other.step.relative
        near = other.series.starts[max(at - changes.PERSIST, 0) : at + changes.PERSIST + 1]
        meets = near[0] <= change.start <= near[-1]
        if meets and abs(own) < LARGER * abs(of_all) and (own < 0) == (of_all < 0):
            return True
    return False
