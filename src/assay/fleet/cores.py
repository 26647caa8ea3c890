"""Compares every core with all cores of all nodes: a slow core, a slow memory, a low clock.

Every node measures all its cores at once, in several turns (``onnode/cores.py``). All cores of all
nodes are one population (:mod:`assay.judge.population`), so a single slow core is found among few
nodes, too. A node is named only if a second look in the same job confirms the result.

``python -m assay.fleet.cores LOG TOLERANCE`` prints the ranks for the second look.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay import metrics
from assay.accused import Against, How
from assay.fleet import looks
from assay.judge import population
from assay.outputs.coordinator_log import CoordinatorLog
from assay.quantities import number

#: Quantity -> its unit. The clock is an observation, and judged where all nodes state it.
UNITS = {"dgemm": "GFLOP/s", "copy": "GB/s", "latency": "ns"}
CLOCK, MHZ = "clock", "MHz"

#: Number of cores that a line names.
NAMED = 4


@dataclass(frozen=True)
class Turn:
    """One turn of one node.

    :ivar look: 1 for the first look at all nodes, 2 for the second.
    :ivar number: number of the turn within that look.
    :ivar cores: processor -> quantity -> its value in the unit of :data:`UNITS`, the median of the
        windows of the turn; and ``clock`` [MHz], if the kernel says it.
    :ivar array: size of each array that was copied and walked through [B].
    """

    node: str
    look: int
    number: int
    cores: Mapping[str, Mapping[str, float]]
    array: int


def turns(log: CoordinatorLog) -> tuple[list[Turn], list[str]]:
    """The turns of all nodes, and a line for each turn that failed."""
    found: list[Turn] = []
    failed: list[str] = []
    for entry in log.entries:
        if "out" not in entry:
            continue
        name = log.nodes[entry["node"]]
        try:
            if entry["rc"]:
                raise ValueError
            found.append(_turn(name, entry["look"], entry["turn"], json.loads(entry["out"])))
        except (ValueError, LookupError, TypeError, AttributeError):
            how = "out of time" if entry["rc"] is None else f"exit code {entry['rc']}"
            last = (entry["out"].strip().splitlines() or ["it said nothing"])[-1]
            line = f"{name}: its cores were not measured ({how}): {last[:200]}"
            failed.append(Against(line, [name], How.FAILED))
    return found, failed


def _turn(node: str, look: int, number: int, said: Mapping[str, Any]) -> Turn:
    cores: dict[str, dict[str, float]] = {}
    for cpu, values in said["cores"].items():
        cores[cpu] = {quantity: statistics.median(values[quantity]) for quantity in UNITS}
        if cpu in said["clock"]:
            cores[cpu][CLOCK] = float(said["clock"][cpu])
        if not all(value > 0 for value in cores[cpu].values()):
            raise ValueError(cores[cpu])
    if not cores:
        raise ValueError("no core")
    return Turn(node, look, number, cores, int(said["bytes"]))


def unlike(found: Sequence[Turn]) -> list[str]:
    """A line if the nodes cannot be compared: their arrays differ in size."""
    sizes = {turn.node: turn.array for turn in found}
    if len(set(sizes.values())) < 2:
        return []
    said = ", ".join(f"{name}: {size} B" for name, size in sizes.items())
    return [f"nodes cannot be compared, their arrays differ with their free memory: {said}"]


def quantities(found: Sequence[Turn]) -> dict[str, tuple[str, str]]:
    """Quantity -> its unit, and the side of a fault; the clock only if every core states it."""
    judged = {name: (unit, metrics.fault(unit)) for name, unit in UNITS.items()}
    if found and all(CLOCK in core for turn in found for core in turn.cores.values()):
        judged[CLOCK] = (MHZ, "lower")
    return judged


def rounds(found: Sequence[Turn], quantity: str, look: int) -> list[population.Round]:
    """The values of all cores in each round of one look; the names are those of :func:`_name`."""
    of_look = [turn for turn in found if turn.look == look]
    return [
        {
            _name(turn.node, cpu): core[quantity]
            for turn in of_look
            if turn.number == number
            for cpu, core in turn.cores.items()
        }
        for number in sorted({turn.number for turn in of_look})
    ]


def _name(node: str, cpu: str) -> str:
    return f"{node} cpu{cpu}"


def _node(name: str) -> str:
    return name.rpartition(" ")[0]


def criteria(found: Sequence[Turn], tolerance: float) -> dict[str, Any]:
    """Quantity -> the criterion that all cores gave in the first look, for the record."""
    return {
        quantity: population.of(rounds(found, quantity, 1), tolerance, fault).record()
        for quantity, (_, fault) in quantities(found).items()
    }


def suspects(found: Sequence[Turn], tolerance: float) -> list[str]:
    """The nodes with a core that the first look finds slow.

    :param tolerance: how much worse a core may be, relative: 0.2 is 20 %.
    """
    named = (
        _node(name)
        for quantity, (_, fault) in quantities(found).items()
        for name in population.of(rounds(found, quantity, 1), tolerance, fault).suspects
    )
    return list(dict.fromkeys(named))


def slow(found: Sequence[Turn], tolerance: float) -> tuple[list[str], list[str]]:
    """The nodes with cores that both looks find slow, one line for each quantity.

    The first list has the accused nodes, the second the undecided ones: see
    :mod:`assay.judge.population`.
    """
    accused: list[str] = []
    undecided: list[str] = []
    for quantity, (unit, fault) in quantities(found).items():
        first, second = (rounds(found, quantity, look) for look in (1, 2))
        values: dict[str, list[float]] = {}
        for of_round in (*first, *second):
            for name, value in of_round.items():
                values.setdefault(name, []).append(value)
        middle = {name: statistics.median(of_core) for name, of_core in values.items()}
        findings = population.confirmed(first, second, tolerance, fault)
        worse = {finding.name for finding in findings}
        usual = statistics.median([v for n, v in middle.items() if n not in worse] or [0.0])
        groups: dict[tuple[str, bool], list[population.Finding]] = {}
        for finding in findings:
            groups.setdefault((_node(finding.name), finding.accused), []).append(finding)
        for (node, certain), of_node in groups.items():
            own = statistics.median(middle[finding.name] for finding in of_node)
            there = [name for name in middle if _node(name) == node]
            change = f" ({100 * (own / usual - 1):+.1f} %)" if usual else ""
            line = (
                f"{node}: {quantity} {number(own)} {unit} on {_which(of_node, len(there))}, the "
                f"median of the other cores is {number(usual)} {unit}{change}{of_node[0].said}"
            )
            if certain:
                accused.append(Against(line, [node], How.SLOW))
            else:
                undecided.append(line)
    return accused, undecided


def _which(findings: Sequence[population.Finding], cores: int) -> str:
    if len(findings) == cores:
        return "each of its cores" if cores > 1 else "its core"
    names = [finding.name.rpartition(" ")[2] for finding in findings]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more} of {cores} cores"


def second_look(found: Sequence[Turn], tolerance: float) -> list[str]:
    """Nodes with further turns: the suspects, and some nodes without suspicion."""
    suspected = suspects(found, tolerance)
    return looks.with_some_others(suspected, (turn.node for turn in found))


def main(log_file: str, tolerance: str) -> list[int]:
    """The ranks for the second look, in their order."""
    return looks.ranks(log_file, lambda log: second_look(turns(log)[0], float(tolerance)))


if __name__ == "__main__":
    json.dump(main(*sys.argv[1:]), sys.stdout)
