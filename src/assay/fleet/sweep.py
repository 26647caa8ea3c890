"""A sweep over many units: turns in rounds, suspects, a second look, and who is slow.

A unit is a node, a core, a server or a rail, compared by :mod:`assay.fleet.population`, and named
only if a second look in the same job confirms it. A sweep says its units, how to read a turn, and
its words. Rails, and nodes that all pairs show, are judged in the same way.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay import metrics
from assay.accused import Against, How
from assay.fleet import population
from assay.fleet.coordinator_log import CoordinatorLog, read_coordinator_log
from assay.fleet.population import Finding
from assay.parse import ParseError, Row
from assay.quantities import number

#: Number of nodes without suspicion that have turns beside the suspects.
BESIDE = 3


@dataclass(frozen=True)
class Turn:
    """One turn of one node.

    :ivar look: 1 for the first look at all units, 2 for the second.
    :ivar number: number of the turn within that look.
    :ivar values: quantity -> unit -> its value.
    :ivar kind: how it was measured; nodes with another kind cannot be compared.
    """

    node: str
    look: int
    number: int
    values: Mapping[str, Mapping[str, float]]
    kind: str = ""


class Sweep:
    """What is the same for all sweeps."""

    #: Quantity -> its unit of measurement. A quantity that some turn lacks is not judged.
    measured: Mapping[str, str] = {}

    #: What a message says of a turn without values.
    failed = ""

    #: What differs between nodes whose turns differ in kind; empty if there are no kinds.
    differ = ""

    #: Whether a unit is a node, or a part of one: a message accuses this node.
    accuses = True

    def values(self, node: str, entry: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
        """The values and the kind of a turn, from its entry in the log.

        :raises ParseError: it has none; a line repeats the reason.
        :raises ValueError, LookupError, TypeError, AttributeError: it has none; a line repeats the
            last words of the program.
        """
        raise NotImplementedError

    def line(self, found: Sequence[Turn], quantity: str, slow: Sequence[Finding]) -> str:
        """What is said of slow units of one node."""
        (one,), unit = slow, self.measured[quantity]
        return (
            f"{one.name}: {quantity} {number(one.own)} {unit}, the median of {len(one.others)} "
            f"others is {against(one.own, one.usual, unit)}"
        )

    def cause(self, found: Sequence[Turn], quantity: str, node: str, tolerance: float) -> str:
        """What follows the line about an accused node."""
        return ""

    def node_of(self, unit: str) -> str:
        """The node that has a unit."""
        return unit

    def turns(self, log: CoordinatorLog) -> tuple[list[Any], list[str]]:
        """The turns of all nodes, and a line for each that failed."""
        found, failed = [], []
        for entry in log.entries:
            if "out" not in entry:
                continue
            node = log.nodes[entry["node"]]
            try:
                found.append(Turn(node, entry["look"], entry["turn"], *self.values(node, entry)))
                continue
            except ParseError as error:
                why = str(error)
            except (ValueError, LookupError, TypeError, AttributeError):
                why = last_words(entry)
            line = f"{node}: {self.failed}{ended(entry)}: {why}"
            failed.append(Against(line, [node], How.FAILED) if self.accuses else line)
        return found, list(dict.fromkeys(failed))

    def quantities(self, found: Sequence[Turn]) -> dict[str, tuple[str, str]]:
        """Quantity that all turns have -> its unit of measurement, and the side of a fault."""
        return {
            quantity: (unit, "upper" if metrics.lower_is_better(unit) else "lower")
            for quantity, unit in self.measured.items()
            if all(quantity in turn.values for turn in found)
        }

    def rounds(self, found: Sequence[Turn], quantity: str, look: int) -> list[population.Round]:
        """The values of all units in each round of one look."""
        rounds: dict[int, dict[str, float]] = {}
        for turn in found:
            if turn.look == look:
                rounds.setdefault(turn.number, {}).update(turn.values[quantity])
        return [rounds[key] for key in sorted(rounds)]

    def unlike(self, found: Sequence[Turn]) -> list[str]:
        """A line if nodes cannot be compared, because they measured in different ways."""
        kinds = {turn.node: turn.kind for turn in found} if self.differ else {}
        said = ", ".join(f"{node}: {kind}" for node, kind in kinds.items())
        several = len(set(kinds.values())) > 1
        return [f"nodes cannot be compared, {self.differ}: {said}"] if several else []

    def _first_look(
        self, found: Sequence[Turn], tolerance: float
    ) -> dict[str, population.Population]:
        return {
            quantity: population.population_of(self.rounds(found, quantity, 1), tolerance, fault)
            for quantity, (_, fault) in self.quantities(found).items()
        }

    def criteria(self, found: Sequence[Any], tolerance: float) -> dict[str, Any]:
        """Quantity -> the criterion that the units gave in the first look, for the record."""
        return {what: one.as_entry() for what, one in self._first_look(found, tolerance).items()}

    def suspects(self, found: Sequence[Any], tolerance: float) -> list[str]:
        """The nodes with a unit that the first look finds worse by `tolerance`: 0.3 is 30 %."""
        populations = self._first_look(found, tolerance).values()
        named = (self.node_of(name) for one in populations for name in one.suspects)
        return list(dict.fromkeys(named))

    def second_look(
        self, found: Sequence[Any], tolerance: float, nodes: Sequence[str] = ()
    ) -> list[str]:
        """The nodes with further turns, of all nodes: suspects, and between them some others."""
        suspected = self.suspects(found, tolerance)
        others = dict.fromkeys(turn.node for turn in found if turn.node not in suspected)
        beside = list(others)[: BESIDE if suspected else 0]
        return [n for both in itertools.zip_longest(suspected, beside) for n in both if n]

    def slow(self, found: Sequence[Any], tolerance: float) -> tuple[list[str], list[str]]:
        """The units that both looks find slow, accused or undecided, a line for each quantity.

        A unit without a turn in the second look stays named.
        """
        lines: dict[bool, list[str]] = {True: [], False: []}
        for quantity, (_, fault) in self.quantities(found).items():
            first, second = (self.rounds(found, quantity, look) for look in (1, 2))
            groups: dict[tuple[str, bool], list[Finding]] = {}
            for finding in population.confirmed(first, second, tolerance, fault):
                key = self.node_of(finding.name), finding.accused
                groups.setdefault(key, []).append(finding)
            for (node, certain), group in groups.items():
                line = self.line(found, quantity, group) + group[0].said
                if certain:
                    line += self.cause(found, quantity, node, tolerance)
                accused = certain and self.accuses
                lines[certain].append(Against(line, [node], How.SLOW) if accused else line)
        return lines[True], lines[False]

    def advice(self, log_file: str, tolerance: str) -> list[int]:
        """The ranks for the second look, in their order."""
        log = read_coordinator_log(log_file)
        rank = {name: number for number, name in enumerate(log.nodes)}
        found, _ = self.turns(log)
        return [rank[name] for name in self.second_look(found, float(tolerance), log.nodes)]


#: How much worse a rail may be than the others: of a bandwidth as NVIDIA's ngc_multinode_perf asks
#: for (90 % of the rate of a port), of a latency chosen.
OF_RAILS = {"lower": 0.1, "upper": 0.3}


def slow_rails(
    values: Mapping[tuple[str, str, str], Sequence[float]], unit: str, fault: str
) -> tuple[list[str], list[str]]:
    """The rails that are worse than the others in both looks: accused, and undecided.

    A rail is a device of two neighbours. Its ends cannot be told apart: both nodes are named.

    :param values: two nodes and their device -> the value of each look, in `unit`.
    :param fault: the side of a fault: ``lower`` for rates, ``upper`` for times.
    :raises ValueError: a value is no measurement.
    """
    names = {f"{a} - {b} over {device}": (a, b) for a, b, device in values}
    rounds = [
        {name: looks[at] for name, looks in zip(names, values.values()) if at < len(looks)}
        for at in range(max(map(len, values.values()), default=0))
    ]
    lines: dict[bool, list[str]] = {True: [], False: []}
    for one in population.confirmed(rounds[:1], rounds[1:], OF_RAILS[fault], fault):
        line = (
            f"{one.name}: {number(one.own)} {unit}, the median of {len(one.others)} other rails is "
            f"{against(one.own, one.usual, unit)}{one.said}"
        )
        accused = Against(line, names[one.name], How.SLOW)
        lines[one.accused].append(accused if one.accused else line)
    return lines[True], lines[False]


def slow_nodes(rows: Sequence[Row], tolerance: float) -> list[str]:
    """The nodes that are slower than the others with every node at the same time, one line each.

    A healthy node is slow when it sends to a slow one, so the best rate of each node counts.

    :param rows: with ``host`` and ``bandwidth`` [MB/s].
    """
    best: dict[str, float] = {}
    for row in rows:
        host = str(row["host"])
        best[host] = max(best.get(host, 0.0), float(row["bandwidth"]))
    slow = population.population_of([best], tolerance).outliers
    usual = statistics.median([rate for host, rate in best.items() if host not in slow] or [0.0])
    line = "{}: at most {:.4g} MB/s with any node, the others have {:.4g} MB/s"
    return [Against(line.format(host, best[host], usual), [host], How.SLOW) for host in slow]


def against(own: float, usual: float, unit: str) -> str:
    """What is usual, and by how much a value differs from it."""
    change = f" ({100 * (own / usual - 1):+.1f} %)" if usual else ""
    return f"{number(usual)} {unit}{change}"


def ended(entry: Mapping[str, Any]) -> str:
    """How a program ended that did not end well."""
    return {None: " (out of time)", 0: ""}.get(entry["rc"], f" (exit code {entry['rc']})")


def last_words(entry: Mapping[str, Any]) -> str:
    """The last line that a program said."""
    return str((entry["out"].strip().splitlines() or ["it said nothing"])[-1])[:300]
