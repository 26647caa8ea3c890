"""The copies of every GPU of every node, and which of them are worse than those of others.

A way (a copy between the host and a GPU, or from a GPU to another) is measured in several turns
(``gpu/node/gpus.py``), and compared twice, by the criterion of :mod:`assay.fleet.population`:

- with the same way of the other nodes, by the address of the GPUs on the PCI bus; a host copy with
  those alone whose memory of the host is as near to the GPU;
- with its siblings: on its node the ways of the same kind, which are pairs joined in the same way,
  or host copies of GPUs of the same model. If a node has fewer than three of them, those of all
  nodes are its siblings.

The other nodes decide, where they are a majority, and else the siblings: a way that is slower than
its siblings, and alike on another node, is how these nodes are built. If neither can decide, nobody
is accused. :mod:`assay.gpu.gpus` says which GPU or pair is at fault.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assay.accused import Against, How
from assay.fleet import population
from assay.fleet.coordinator_log import CoordinatorLog
from assay.fleet.population import Finding
from assay.fleet.sweep import ended, last_words
from assay.gpu.parse import each_gpu
from assay.gpu.parse.each_gpu import HOST
from assay.parse import ParseError, Row
from assay.store.cases import grouped

#: Fewest members of a population that can accuse one.
FEWEST = 3

#: By how much the clock of the GPU may be ahead of the quickest wait of the host. Beyond that, one
#: of both clocks is wrong, or the host was too busy to wait.
CLOCKS = 2.0

#: How nvidia-smi says that two GPUs are joined by NVLinks, with their number.
NVLINK = re.compile(r"NV(\d{1,4})")

UNKNOWN = "; nobody is accused: nvidia-smi does not say how the GPUs are joined"


@dataclass(frozen=True)
class Copy:
    """One way of a turn.

    :ivar source: address of the GPU that has the data, or ``host``; `target` likewise.
    :ivar kind: ways of the same kind of one node are siblings; empty if the kind is not known.
    :ivar rate: by the clock of the GPU [GB/s], the median of the repeats.
    :ivar host_rate: by the clock of the host, the quickest repeat.
    :ivar access: whether `source` may access the memory of `target`.
    :ivar near: of a host copy, whether that memory was near the GPU: ``yes``, ``no``, ``unknown``.
    :ivar links: the number of NVLinks that join two GPUs; 0 if none does, or if it is not known.
    """

    source: str
    target: str
    kind: str
    rate: float
    host_rate: float
    access: bool = True
    near: str = ""
    links: int = 0

    @property
    def way(self) -> str:
        """Its name within a node."""
        return f"{self.source}>{self.target}"

    @property
    def direction(self) -> str:
        """``h2d``, ``d2h`` or ``d2d``."""
        if self.between:
            return each_gpu.BETWEEN
        return each_gpu.TO_DEVICE if self.source == HOST else each_gpu.TO_HOST

    @property
    def between(self) -> bool:
        """Whether both ends are GPUs."""
        return HOST not in (self.source, self.target)


@dataclass(frozen=True)
class Turn:
    """One turn of one node, with look and number as :class:`assay.fleet.sweep.Turn` has them.

    :ivar gpus: address on the PCI bus -> the GPU as a message names it.
    :ivar drivers: the versions of its driver; one, unless nvidia-smi contradicts itself.
    """

    node: str
    look: int
    number: int
    gpus: Mapping[str, str]
    copies: Sequence[Copy]
    drivers: Sequence[str] = ()

    def named(self, copy: Copy) -> str:
        """Both ends of a copy, as a message names them."""
        return " -> ".join(self.gpus.get(end, end) for end in (copy.source, copy.target))


#: Node and way of a value.
Place = tuple[str, str]

#: What a turn gives for one quantity: way, kind, value.
Values = Callable[[Turn], Iterable[tuple[str, str, float]]]


def turns(log: CoordinatorLog) -> tuple[list[Turn], list[str]]:
    """The turns of all nodes, and a line for each that failed, or GPU whose data arrived wrong."""
    found: list[Turn] = []
    failed: list[str] = []
    wrong: dict[Place, list[str]] = {}
    number = Counter(log.nodes[entry["node"]] for entry in log.entries if "out" in entry)
    for entry in log.entries:
        if "out" not in entry:
            continue
        node = log.nodes[entry["node"]]
        why = ended(entry)
        try:
            parsed = each_gpu.parse_each_gpu(entry["out"])
        except ParseError as error:
            failed.append(_failed(node, why, f"{last_words(entry)} ({error.why})"))
            continue
        bad = parsed.facts.get("wrong", {})
        for who, what in bad.items():
            wrong.setdefault((node, who), []).append(what)
        said = {f"{who}: {what}" for who, what in bad.items()}
        problems = [line for line in parsed.problems if line not in said]
        if parsed.complete and not entry["rc"]:
            found.append(_turn(node, entry["look"], entry["turn"], parsed.rows, parsed.facts))
            stray = each_gpu.stray(entry["out"])  # lines of a library accuse nobody
            failed += [f"{node}: a line that is not of each_gpu: {line}" for line in stray]
            problems = [line for line in problems if line not in stray]
        elif entry["rc"] is None or not problems:
            during = parsed.facts.get("during")
            cut = "the output is cut short" + (f", during the copies {during}" if during else "")
            problems.append("its output is whole, but it failed" if parsed.complete else cut)
        failed += [_failed(node, why, line) for line in problems]
    for (node, who), whats in wrong.items():
        turn = f"{len(whats)} of {number[node]} turns"
        failed.append(_failed(node, "", f"{who}: {whats[0]} ({turn})"))
    return found, list(dict.fromkeys(failed))


def _failed(node: str, why: str, line: str) -> Against:
    said = line.split(f"{node}: ", 1)[-1]
    return Against(f"{node}: its GPUs{why}: {said}", [node], How.FAILED)


def _turn(node: str, look: int, number: int, rows: Iterable[Row], facts: Mapping[str, Any]) -> Turn:
    gpus = {str(n): gpu for n, gpu in enumerate(facts["gpus"])}
    copies = []
    for row in rows:
        ends = [str(row["from"]), str(row["to"])]
        models = " ".join(gpus[end]["name"] for end in ends if end != HOST)
        joined = row["joined"] or row["near"]  # of two GPUs, or of a GPU and the host
        source, target = (end if end == HOST else gpus[end]["bus"] for end in ends)
        kind = f"{models} {joined}" if joined or HOST in ends else ""
        rate, by_host = float(row["rate"]), float(row["host_rate"])
        links = NVLINK.fullmatch(str(row["joined"]))
        way = bool(row["access"]), str(row["near"]), int(links[1]) if links else 0
        copies.append(Copy(source, target, kind, rate, by_host, *way))
    labels = {gpu["bus"]: each_gpu.label(n, gpu) for n, gpu in gpus.items()}
    drivers = sorted({gpu["driver"] for gpu in gpus.values()})
    return Turn(node, look, number, labels, tuple(copies), drivers)


def clocks(found: Sequence[Turn]) -> list[str]:
    """The ways whose rate by the clock of the GPU is far above that by the host, one line each."""
    lines = {
        f"{turn.node}: {turn.named(copy)}: {copy.rate:.3g} GB/s by the clock of the GPU, "
        f"{copy.host_rate:.3g} GB/s by that of the host"
        for turn in found
        for copy in turn.copies
        if copy.rate > CLOCKS * copy.host_rate
    }
    return sorted(lines)


def rates(wanted: Callable[[Copy], bool]) -> Values:
    """The rates of the ways that are wanted [GB/s]; a copy through the host is of another kind."""

    def values(turn: Turn) -> Iterable[tuple[str, str, float]]:
        for copy in turn.copies:
            if wanted(copy):
                through = "" if copy.access else " through the host"
                yield _compared(copy), copy.kind and copy.kind + through, copy.rate

    return values


def _compared(copy: Copy) -> str:
    """The name of a way among all nodes. Memory of the host near a GPU makes a way of its own."""
    return f"{copy.way} {copy.near}".rstrip()


def access(turn: Turn) -> Iterable[tuple[str, str, float]]:
    """Of each pair, 1 if the first GPU may access the memory of the second, and else 0."""
    return ((c.way, c.kind, float(c.access)) for c in turn.copies if c.between)


def best(outwards: bool) -> Values:
    """Of each GPU, its best rate to (or from) others that are joined to it in the same way [GB/s].

    A GPU with one such other has no value: nobody knows which one of both is slow.
    """

    def values(turn: Turn) -> Iterable[tuple[str, str, float]]:
        of_gpu = grouped(
            ((copy.source if outwards else copy.target, copy.kind), copy.rate)
            for copy in turn.copies
            if copy.between and copy.access
        )
        for (gpu, kind), found in of_gpu.items():
            if len(found) > 1:
                yield f"{gpu} {kind}", kind, max(found)

    return values


def judge(
    found: Sequence[Turn], values: Values, tolerance: float, without: Collection[Place] = ()
) -> dict[Place, Finding]:
    """The ways that are worse, by one quantity.

    :param tolerance: how much worse a way may be, relative: 0.2 is 20 %.
    :param without: places that take no part.
    """
    rounds: dict[tuple[int, int], dict[str, float]] = {}
    places: dict[str, tuple[Place, str]] = {}
    for turn in found:
        for way, kind, value in values(turn):
            if (turn.node, way) not in without:
                name = f"{turn.node} {way}"
                places[name] = (turn.node, way), kind
                rounds.setdefault((turn.look, turn.number), {})[name] = value
    looks = [[rounds[key] for key in sorted(rounds) if key[0] == look] for look in (1, 2)]
    siblings, elsewhere = _groups(places)
    by_siblings, by_others = (_worse(looks, of, tolerance) for of in (siblings, elsewhere))
    several = {name for _, names in elsewhere for name in names}
    result: dict[Place, Finding] = {}
    for name, (place, kind) in places.items():
        one, other = by_siblings.get(name), by_others.get(name)
        if one and one.accused and not kind:
            one = replace(one, accused=False, said=UNKNOWN)
        # Where it is alike on another node, its siblings do not count.
        if name in several and not other:
            one = None
        if worse := other if other and other.accused else one or other:
            result[place] = worse
    return result


#: How a message names the others, with places for their number and the plural; all names.
Group = tuple[str, Sequence[str]]


def _groups(places: Mapping[str, tuple[Place, str]]) -> tuple[list[Group], list[Group]]:
    """The names that are siblings, and the names of the same way of several nodes."""
    of_node = grouped(((node, kind), name) for name, ((node, _), kind) in places.items())
    of_kind = grouped((kind, name) for name, (_, kind) in places.items())
    of_way = grouped((way, name) for name, ((_, way), _) in places.items())
    few = {kind for (_, kind), names in of_node.items() if len(names) < FEWEST}
    siblings: list[Group] = [("{} other{} of all nodes", of_kind[kind]) for kind in sorted(few)]
    siblings += [("{} other{} of the node", n) for n in of_node.values() if len(n) >= FEWEST]
    several = [names for names in of_way.values() if len(names) > 1]
    return siblings, [("the same on {} other node{}", names) for names in several]


def _worse(
    looks: Sequence[Sequence[population.Round]], groups: Iterable[Group], tolerance: float
) -> dict[str, Finding]:
    result = {}
    for others, names in groups:
        first, second = (
            [{name: of_round[name] for name in names if name in of_round} for of_round in look]
            for look in looks
        )
        for finding in population.confirmed(first, second, tolerance):
            count = len(finding.others)
            whom = others.format(count, "s" * (count > 1))
            result[finding.name] = replace(finding, whom=whom)
    return result


def not_compared(found: Sequence[Turn]) -> list[str]:
    """The ways that neither siblings nor other nodes could judge: of two GPUs, any may be right."""
    places: dict[str, tuple[Place, str]] = {}
    names: dict[str, str] = {}
    for turn in found:
        for copy in turn.copies:
            name = f"{turn.node} {copy.way}"
            places[name] = (turn.node, _compared(copy)), f"{copy.direction} {copy.kind}"
            names[name] = f"{turn.node}: {turn.named(copy)}"
    groups = (group for both in _groups(places) for _, group in both if len(group) >= FEWEST)
    enough = {name for group in groups for name in group}
    return [said for name, said in names.items() if name not in enough]
