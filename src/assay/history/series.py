"""Reads the values of each metric over time from the index, and finds their changes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from assay import metrics
from assay.calibrate import CalibrationError, bounds
from assay.history import changes, planned
from assay.results.store import StoreError

#: A change of a node that is so much larger than that of all nodes together is the node's own. The
#: median of two nodes shows half of what one of them lost.
LARGER = 1.5

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


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
    starts: Floats
    values: Floats


@dataclass(frozen=True)
class Site:
    """What a site says about its metrics.

    :ivar kinds: kind of metrics -> its tolerances.
    """

    kinds: Mapping[str, bounds.Kind]
    planned: Sequence[planned.Planned]

    def tolerance(self, unit: str) -> float:
        """How far a metric in this unit may lie from its reference, as a fraction."""
        known = metrics.UNITS.get(unit)
        return self.kinds[known.kind if known else "other"].least


@dataclass(frozen=True)
class Change:
    """A change of one metric.

    :ivar start: when the first session at the new level began, in seconds since 1970.
    :ivar tolerance: of the metric, as a fraction.
    :ivar for_worse: whether it is on the side of a fault; None if the unit has no such side.
    """

    series: Series
    step: changes.Step
    start: float
    tolerance: float
    for_worse: bool | None

    @property
    def tolerances(self) -> float:
        """Its size in units of the tolerance, without a sign."""
        return abs(self.step.relative) / self.tolerance


class Sites:
    """The sites of a folder, each read when it is first asked for.

    :param folder: holds ``tolerances.yaml`` of all sites, and a folder for each.
    :param only: the name of the site whose files apply to all systems; None for the site that has
        the name of the system.
    """

    def __init__(self, folder: Path, only: str | None = None) -> None:
        self.folder, self.only = folder, only
        #: The sites that were read, by name.
        self.read: dict[str, Site] = {}
        if only and not (folder / only).is_dir():
            raise StoreError(f"{folder / only}: there is no such site; name one with --site")

    @property
    def planned(self) -> list[planned.Planned]:
        """The planned changes of all sites that were read, in order of time."""
        found = {change for site in self.read.values() for change in site.planned}
        return sorted(found, key=lambda change: (change.start, change.what))

    def of(self, system: str) -> Site:
        """The site of a system.

        :raises StoreError: a file of it is wrong or missing.
        """
        name = self.only or system
        if name not in self.read:
            folder = self.folder / name
            try:
                self.read[name] = Site(bounds.load(folder), planned.load(folder))
            except CalibrationError as error:
                raise StoreError(
                    f"{error}; changes are judged by tolerances: name the folder of the sites "
                    "with --folder"
                ) from None
            except planned.PlannedError as error:
                raise StoreError(str(error)) from None
        return self.read[name]


#: A row of the index that has a value.
_ROW = np.dtype([("node", np.int64), ("session", np.int64), ("value", np.float64)])


def read(connection: sqlite3.Connection, least: int = 1) -> Iterator[Series]:
    """All series with enough values: of each metric over all nodes, and of each of its nodes.

    The series of a node is left out if the metric was measured on that node only, and if the case
    ran on several nodes at once.

    :param least: how many values a series needs.
    :raises sqlite3.Error: the index is damaged.
    """
    ordered = connection.execute(
        "SELECT id, start FROM sessions WHERE problem IS NULL ORDER BY start, id"
    ).fetchall()
    starts = np.array([start for _, start in ordered])
    # Number of a session -> its place in order of time; -1 for a session that was left out.
    last = connection.execute("SELECT ifnull(max(id), 0) FROM sessions").fetchone()[0]
    place = np.full(last + 1, -1)
    place[[session for session, _ in ordered]] = np.arange(len(ordered))
    nodes = dict(connection.execute("SELECT id, name FROM nodes WHERE single"))
    metrics_of_tests = connection.execute(
        "SELECT m.id, t.name || ' @' || t.system || ':' || t.partition || '+' || t.environ, "
        "t.system, t.partition, m.name, m.unit FROM metrics m JOIN tests t ON t.id = m.test "
        "ORDER BY m.id"
    ).fetchall()
    for metric, case, system, partition, name, unit in metrics_of_tests:
        found = connection.execute(
            "SELECT node, session, value FROM measured WHERE metric = ? AND value IS NOT NULL "
            "ORDER BY node",
            (metric,),
        )
        rows = np.fromiter(found, _ROW)
        places = place[rows["session"]]
        rows, places = rows[places >= 0], places[places >= 0]
        parts = [("", slice(None))]
        ends = [*np.flatnonzero(rows["node"][1:] > rows["node"][:-1]) + 1, len(rows)]
        if len(ends) > 1:
            of_node = {int(rows["node"][a]): slice(a, b) for a, b in zip([0, *ends], ends)}
            parts += sorted((nodes[node], of_node[node]) for node in of_node if node in nodes)
        for node, part in parts:
            sessions, values = medians(places[part], rows["value"][part])
            if len(values) >= least:
                yield Series(case, system, partition, name, unit, node, starts[sessions], values)


def medians(groups: Ints, values: Floats) -> tuple[Ints, Floats]:
    """The groups in ascending order, and the median of the values of each.

    :param groups: the group of each value.
    """
    if (groups[1:] > groups[:-1]).all():
        return groups, values
    order = np.lexsort((values, groups))
    groups, values = groups[order], values[order]
    begins = np.concatenate(([0], np.flatnonzero(groups[1:] > groups[:-1]) + 1))
    ends = np.append(begins[1:], len(groups))
    middle = values[begins + (ends - begins - 1) // 2] / 2 + values[(begins + ends) // 2] / 2
    return groups[begins], middle


def cuts(series: Series, site: Site) -> list[tuple[int, planned.Planned]]:
    """The planned changes of a series: index of the first value after each, and the change."""
    return [
        (int(np.searchsorted(series.starts, change.start)), change)
        for change in site.planned
        if change.concerns(series.partition, series.metric)
    ]


def examine(
    all_series: Iterable[Series], sites: Sites, rules: changes.Rules = changes.RULES
) -> Iterator[tuple[Series, list[Change]]]:
    """Each series with its changes, in the order of :func:`read`.

    A change of one node that all nodes together show at the same time is not repeated.

    :raises StoreError: a file of a site is wrong or missing.
    :raises changes.NoLibrary: ruptures is not installed.
    """
    together: list[Change] = []
    for series in all_series:
        site = sites.of(series.system)
        tolerance = site.tolerance(series.unit)
        at = [index for index, _ in cuts(series, site)]
        found = [
            Change(series, step, series.starts[step.at], tolerance, _for_worse(series, step))
            for step in changes.find(series.values, tolerance, rules, at)
        ]
        if not series.node:
            together = found
        else:
            found = [change for change in found if not _among(change, together, rules.persist)]
        yield series, found


def newest_first(found: Iterable[Change]) -> list[Change]:
    """The changes in a reader's order: the newest first, then the largest for its tolerance."""
    return sorted(found, key=lambda change: (-change.start, -change.tolerances))


def _for_worse(series: Series, step: changes.Step) -> bool | None:
    side = metrics.fault(series.unit)
    return None if side == "both" else (step.after < step.before) == (side == "lower")


def _among(change: Change, together: Sequence[Change], runs: int) -> bool:
    """Whether all nodes together changed in the same direction, within some runs."""
    for other in together:
        first = max(other.step.at - runs, 0)
        last = min(other.step.at + runs, len(other.series.starts) - 1)
        same = (other.step.after < other.step.before) == (change.step.after < change.step.before)
        alike = abs(change.step.relative) < LARGER * abs(other.step.relative)
        meets = other.series.starts[first] <= change.start <= other.series.starts[last]
        if same and alike and meets:
            return True
    return False
