"""The NVLinks of every GPU: pairs that the driver keeps apart, and GPUs with fewer links.

nvidia-smi says how two GPUs are joined: ``NV4`` is four links. Two faults show without any rate:

- The driver gives no access between two GPUs that NVLink joins. No other pair is needed to see it.
- The pairs of a GPU have fewer links in sum than those of the other GPUs of its node. The pairs of
  such a GPU are each other's siblings, so no rate shows it on one node. The criterion is that of
  :func:`assay.fleet.gpu_ways.judge`, so GPUs that have as few on other nodes are built so. A GPU
  without NVLinks takes no part: two GPUs may be joined by a bridge, and a third one by none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from assay.fleet import gpu_ways
from assay.fleet.gpu_ways import Place, Turn, Worse

#: Kind of all sums of links. One link in a hundred is missing below this.
KIND, TOLERANCE = "links", 0.01

#: More pairs of a node than these share one line.
MANY = 3


def without_access(found: Sequence[Turn]) -> dict[Place, int]:
    """Pairs that NVLink joins, without access to each other's memory -> how many links join them.

    In one turn at least, the first GPU could not access the memory of the second.
    """
    return {
        (turn.node, copy.way): copy.links
        for turn in found
        for copy in turn.copies
        if copy.links and not copy.access
    }


def kept_apart(
    pairs: Mapping[Place, int], found: Sequence[Turn], names: Mapping[Place, str]
) -> Iterable[tuple[str, str]]:
    """Node and line for each of these pairs; one line for a node with more than :data:`MANY`.

    :param pairs: what :func:`without_access` gives.
    """
    of_node: dict[str, dict[frozenset[str], list[str]]] = {}
    for node, way in pairs:
        of_node.setdefault(node, {}).setdefault(frozenset(way.split(">")), []).append(way)
    for node, its in of_node.items():
        said = [_apart(node, ways, pairs, names) for ways in its.values()]
        if len(said) > MANY:
            joined = {copy.way for t in found if t.node == node for copy in t.copies if copy.links}
            number = len({frozenset(way.split(">")) for way in joined})
            said = [
                f"{len(its)} of the {number} pairs of GPUs that NVLink joins are without access to "
                f"each other's memory; {said[0]}, for instance"
            ]
        for line in said:
            yield node, f"{node}: {line}"


def _apart(
    node: str, ways: Sequence[str], pairs: Mapping[Place, int], names: Mapping[Place, str]
) -> str:
    one, other = (names[node, bus] for bus in ways[0].split(">"))
    joined = f"are joined by NV{pairs[node, ways[0]]}"
    if len(ways) > 1:
        return f"{one} and {other} {joined}, but cannot access each other's memory"
    return f"{one} and {other} {joined}, but the first cannot access the memory of the second"


def sums(turn: Turn) -> Iterable[tuple[str, str, float]]:
    """Of each GPU with NVLinks, the sum of the links of its pairs."""
    found: Counter[str] = Counter()
    for copy in turn.copies:
        found[copy.source] += copy.links
    return ((bus, KIND, float(links)) for bus, links in found.items() if links)


def fewer(found: Sequence[Turn], names: Mapping[Place, str]) -> list[tuple[str, str]]:
    """Node and line for each GPU with fewer links than a majority of others."""
    return [
        (place[0], _fewer(place, worse, found, names))
        for place, worse in _judged(found).items()
        if worse.accused
    ]


def _judged(found: Sequence[Turn]) -> dict[Place, Worse]:
    return gpu_ways.judge(found, sums, TOLERANCE)


def _fewer(place: Place, worse: Worse, found: Sequence[Turn], names: Mapping[Place, str]) -> str:
    node, bus = place
    last = [turn for turn in found if turn.node == node][-1]
    pairs = Counter(copy.links for copy in last.copies if copy.source == bus and copy.links)
    ways = ", ".join(f"{count} by NV{links}" for links, count in sorted(pairs.items()))
    return (
        f"{node}: {names[place]} has fewer NVLinks than others: its pairs ({ways}) have "
        f"{worse.own:g} in sum, the median of {worse.others} is {worse.usual:g}"
    )


def not_compared(found: Sequence[Turn]) -> list[str]:
    """The GPUs whose number of links no majority of others could judge, one line each."""
    names = {(turn.node, bus): name for turn in found for bus, name in turn.gpus.items()}
    judged = _judged(found)
    unjudged = [place for place in names if place in judged and not judged[place].accused]
    linked = {(turn.node, way) for turn in found for way, _, _ in sums(turn)}
    nodes = {node for node, _ in linked}
    without = [place for place in names if place[0] in nodes and place not in linked]
    return [
        *(f"{node}: {names[node, bus]}: the number of its NVLinks" for node, bus in unjudged),
        *(f"{node}: {names[node, bus]}: it has no NVLink, others have" for node, bus in without),
    ]
