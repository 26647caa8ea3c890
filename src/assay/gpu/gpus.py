"""Names the GPU, or the pair of GPUs, whose copies are worse than those of others.

:mod:`assay.gpu.gpu_ways` says which ways are worse. Here each gets a cause:

======================================================  ===========================================
what is worse                                           what is named
======================================================  ===========================================
copies between the host and a GPU                       the GPU; its pairs are not named again
all copies of a GPU to others, or from them             the GPU; its pairs take part in nothing
one copy between two GPUs                               the pair, with its direction
access of one GPU to the memory of another              the pair; its rate is not judged
access of a pair that NVLink joins, on any number       the same, and no other pair is needed
the number of NVLinks of a GPU                          the GPU
======================================================  ===========================================

The last two show without any rate. nvidia-smi says how two GPUs are joined: ``NV4`` is four links.
The pairs of a GPU that lost links are each other's siblings, so no rate shows it on one node. GPUs
that have as few links on other nodes are built so. A GPU without NVLinks takes no part: two GPUs
may be joined by a bridge, and a third one by none.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from assay.accused import Against, How
from assay.fleet.coordinator_log import CoordinatorLog
from assay.fleet.population import Finding
from assay.fleet.sweep import Sweep
from assay.gpu import gpu_ways
from assay.gpu.gpu_ways import Place, Turn
from assay.gpu.parse.each_gpu import HOST

#: One link in a hundred is missing below this.
LINKS_TOLERANCE = 0.01

#: More pairs of a node than these share one line.
MANY = 3

T = TypeVar("T")

#: Quantity -> what gives its values. The last two need two other GPUs that are joined alike.
QUANTITIES: Mapping[str, gpu_ways.Values] = {
    "host to device": gpu_ways.rates(lambda copy: copy.source == HOST),
    "device to host": gpu_ways.rates(lambda copy: copy.target == HOST),
    "the best copy to another GPU": gpu_ways.best(outwards=True),
    "the best copy from another GPU": gpu_ways.best(outwards=False),
}
HOST_COPIES = tuple(QUANTITIES)[:2]

#: Copies between two GPUs.
BETWEEN = gpu_ways.rates(lambda copy: copy.between)


@dataclass(frozen=True)
class Named:
    """A GPU, a pair, or all GPUs of a node, in one line."""

    node: str
    line: str
    accused: bool
    how: How = How.SLOW


def diagnose(found: Sequence[Turn], tolerance: float) -> list[Named]:
    """The GPUs and pairs that are worse than others by more than `tolerance`: 0.2 is 20 %."""
    names = _names(found)
    of_gpu: dict[Place, dict[str, Finding]] = {}
    for quantity, values in QUANTITIES.items():
        for (node, way), worse in gpu_ways.judge(found, values, tolerance).items():
            (bus,) = {*way.split(" ")[0].split(">")} - {HOST}
            of_gpu.setdefault((node, bus), {})[quantity] = worse
    between = [(turn.node, copy) for turn in found for copy in turn.copies if copy.between]
    apart = {(node, c.way): c.links for node, c in between if c.links and not c.access}
    no_access = {
        place: worse
        for place, worse in gpu_ways.judge(found, gpu_ways.access, tolerance).items()
        if worse.accused or place not in apart
    }
    # The pairs of a GPU that is slow to others take part in nothing.
    aside = {place for place, said in of_gpu.items() if set(said) - {*HOST_COPIES}}
    of_slow = {(node, c.way) for node, c in between if {(node, c.source), (node, c.target)} & aside}
    explained = {place for place, said in of_gpu.items() if _certain(said)}
    slow = gpu_ways.judge(found, BETWEEN, tolerance, {*no_access, *apart, *of_slow})
    unexplained = {
        (node, way): worse
        for (node, way), worse in slow.items()
        if not {(node, bus) for bus in way.split(">")} & explained
    }
    unjudged = {place: links for place, links in apart.items() if place not in no_access}
    return [
        *_gpus(of_gpu, names),
        *_kept_apart(unjudged, found, names),
        *_fewer_links(found, names),
        *_without_access(no_access, found, names),
        *_pairs(unexplained, names),
    ]


def _names(found: Sequence[Turn]) -> dict[Place, str]:
    """Node and address of each GPU -> its name."""
    return {(turn.node, bus): name for turn in found for bus, name in turn.gpus.items()}


def _gpus(of_gpu: Mapping[Place, Mapping[str, Finding]], names: Mapping[Place, str]) -> list[Named]:
    """A line for each GPU; one line for a node if all its GPUs are worse in the same quantities."""
    findings = []
    for node in dict.fromkeys(node for node, _ in of_gpu):
        its = {bus: said for (of_node, bus), said in of_gpu.items() if of_node == node}
        number = sum(of_node == node for of_node, _ in names)
        alike = len({(tuple(said), _certain(said)) for said in its.values()}) == 1
        if alike and len(its) == number > 1:
            groups = [(f"each of its {number} GPUs", list(its.values()))]
        else:
            groups = [(names[node, bus], [said]) for bus, said in its.items()]
        for name, members in groups:
            worse = {what: [said[what] for said in members] for what in members[0]}
            findings.append(Named(node, f"{node}: {name}: {_line(worse)}", _certain(members[0])))
    return findings


def _certain(said: Mapping[str, Finding]) -> bool:
    return any(worse.accused for worse in said.values())


def _line(found: Mapping[str, Sequence[Finding]]) -> str:
    """Each quantity with its medians over these ways, and with which others it was compared."""
    parts = []
    for what, worse in found.items():
        own, usual = (statistics.median(getattr(w, key) for w in worse) for key in ("own", "usual"))
        change = f", {100 * (own / usual - 1):+.1f} %" if usual else ""
        parts.append(f"{what} {own:.3g} GB/s ({usual:.3g}{change})")
    all_worse = [each for worse in found.values() for each in worse]
    others = dict.fromkeys(each.whom for each in all_worse)
    said = next((each.said for each in all_worse if each.accused), all_worse[0].said)
    return f"{', '.join(parts)}; in brackets the median of {' and '.join(others)}{said}"


def _both(places: Mapping[Place, T]) -> Iterator[tuple[str, str, str, list[T]]]:
    """Node and two GPUs of each pair, with what its way has and, if both ways are there, back."""
    left = dict(places)
    while left:
        node, way = next(iter(left))
        a, b = way.split(">")
        ways = ((node, way), (node, f"{b}>{a}"))
        yield node, a, b, [left.pop(place) for place in ways if place in left]


def _pairs(slow: Mapping[Place, Finding], names: Mapping[Place, str]) -> Iterator[Named]:
    for node, a, b, worse in _both(slow):
        ways = {what: [each] for what, each in zip(("this way", "back"), worse)}
        line = f"{node}: {names[node, a]} -> {names[node, b]}: {_line(ways)}"
        yield Named(node, line, any(each.accused for each in worse))


def _without_access(
    no_access: Mapping[Place, Finding], found: Sequence[Turn], names: Mapping[Place, str]
) -> Iterator[Named]:
    """The pairs without access to each other's memory where others have it."""
    for node, a, b, worse in _both(no_access):
        one, other = names[node, a], names[node, b]
        what = f"{one} and {other} cannot access each other's memory"
        if len(worse) == 1:
            what = f"{one} cannot access the memory of {other}"
        of_node = (copy for turn in found if turn.node == node for copy in turn.copies)
        rate = statistics.median(copy.rate for copy in of_node if copy.way == f"{a}>{b}")
        line = (
            f"{node}: {what}, {worse[0].whom} can; their copies go through the host, "
            f"{rate:.3g} GB/s{worse[0].said}"
        )
        yield Named(node, line, any(each.accused for each in worse), How.DIFFERS)


def _kept_apart(
    apart: Mapping[Place, int], found: Sequence[Turn], names: Mapping[Place, str]
) -> Iterator[Named]:
    """Pairs that NVLink joins, with their links, and the driver keeps apart; one line for many."""
    of_node: dict[str, list[str]] = {}
    for node, a, b, links in _both(apart):
        how = "cannot access each other's memory"
        if len(links) == 1:
            how = "the first cannot access the memory of the second"
        line = f"{names[node, a]} and {names[node, b]} are joined by NV{links[0]}, but {how}"
        of_node.setdefault(node, []).append(line)
    for node, said in of_node.items():
        joined = {copy.way for t in found if t.node == node for copy in t.copies if copy.links}
        number = len({frozenset(way.split(">")) for way in joined})
        all_in_one = (
            f"{len(said)} of the {number} pairs of GPUs that NVLink joins are without access to "
            f"each other's memory; {said[0]}, for instance"
        )
        for line in said if len(said) <= MANY else [all_in_one]:
            yield Named(node, f"{node}: {line}", True, How.DIFFERS)


def _links(turn: Turn) -> Iterator[tuple[str, str, float]]:
    """Of each GPU with NVLinks, the sum of the links of its pairs."""
    found: Counter[str] = Counter()
    for copy in turn.copies:
        found[copy.source] += copy.links
    return ((bus, "links", float(links)) for bus, links in found.items() if links)


def _fewer_links(found: Sequence[Turn], names: Mapping[Place, str]) -> Iterator[Named]:
    """The GPUs with fewer links than a majority of others."""
    for (node, bus), worse in gpu_ways.judge(found, _links, LINKS_TOLERANCE).items():
        if worse.accused:
            last = [turn for turn in found if turn.node == node][-1]
            pairs = Counter(copy.links for copy in last.copies if copy.source == bus and copy.links)
            ways = ", ".join(f"{count} by NV{links}" for links, count in sorted(pairs.items()))
            line = (
                f"{node}: {names[node, bus]} has fewer NVLinks than others: its pairs ({ways}) "
                f"have {worse.own:g} in sum, the median of {worse.whom} is {worse.usual:g}"
            )
            yield Named(node, line, True, How.DIFFERS)


def not_compared(found: Sequence[Turn]) -> list[str]:
    """The ways and the numbers of links that nothing could have judged, one line each."""
    lines = gpu_ways.not_compared(found)
    judged = gpu_ways.judge(found, _links, LINKS_TOLERANCE)
    linked = {(turn.node, bus) for turn in found for bus, _, _ in _links(turn)}
    for (node, bus), name in _names(found).items():
        if (node, bus) in judged and not judged[node, bus].accused:
            lines.append(f"{node}: {name}: the number of its NVLinks")
        elif (node, bus) not in linked and node in {its for its, _ in linked}:
            lines.append(f"{node}: {name}: it has no NVLink, others have")
    return lines


class Gpus(Sweep):
    """The GPUs of all nodes, as a sweep."""

    def turns(self, log: CoordinatorLog) -> tuple[list[Any], list[str]]:
        return gpu_ways.turns(log)

    def suspects(self, found: Sequence[Turn], tolerance: float) -> list[str]:
        return list(dict.fromkeys(each.node for each in diagnose(found, tolerance)))

    def criteria(self, found: Sequence[Turn], tolerance: float) -> dict[str, Any]:
        """The GPUs and drivers, what nobody could judge, and the findings of the first look."""
        first = [turn for turn in found if turn.look == 1]
        nodes = {t.node: {"gpus": [*t.gpus.values()], "drivers": [*t.drivers]} for t in found}
        suspected = [each.line for each in diagnose(first, tolerance)]
        return {"nodes": nodes, "not_compared": not_compared(found), "suspected": suspected}

    def slow(self, found: Sequence[Turn], tolerance: float) -> tuple[list[str], list[str]]:
        findings = diagnose(found, tolerance)
        accused = [Against(each.line, [each.node], each.how) for each in findings if each.accused]
        return [*accused], [each.line for each in findings if not each.accused]


GPUS = Gpus()
