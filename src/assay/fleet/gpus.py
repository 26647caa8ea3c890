"""Names the GPU, or the pair of GPUs, whose copies are worse than those of others.

:mod:`assay.fleet.gpu_ways` says which ways are worse. Here each gets a cause:

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

``python -m assay.fleet.gpus LOG TOLERANCE`` prints the ranks for the second look.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.accused import Against, How
from assay.fleet import gpu_links, gpu_ways, looks
from assay.fleet.gpu_ways import Place, Turn, Worse
from assay.outputs.each_gpu import HOST

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
class Finding:
    """A GPU, a pair, or all GPUs of a node, in one line."""

    node: str
    line: str
    accused: bool
    how: How = How.SLOW


def diagnose(found: Sequence[Turn], tolerance: float) -> list[Finding]:
    """The GPUs and pairs that are worse than others.

    :param tolerance: how much worse a rate may be, relative: 0.2 is 20 %.
    """
    names = {(turn.node, bus): name for turn in found for bus, name in turn.gpus.items()}
    of_gpu: dict[Place, dict[str, Worse]] = {}
    for quantity, values in QUANTITIES.items():
        for (node, way), worse in gpu_ways.judge(found, values, tolerance).items():
            (bus,) = {*way.split(" ")[0].split(">")} - {HOST}
            of_gpu.setdefault((node, bus), {})[quantity] = worse
    findings = _gpus(of_gpu, names)
    apart = gpu_links.without_access(found)
    no_access = {
        place: worse
        for place, worse in gpu_ways.judge(found, gpu_ways.access, tolerance).items()
        if worse.accused or place not in apart
    }
    aside = {place for place, said in of_gpu.items() if set(said) - {*HOST_COPIES}}
    pairs = [
        (turn.node, copy.way)
        for turn in found
        for copy in turn.copies
        if copy.between and not {(turn.node, copy.source), (turn.node, copy.target)} & aside
    ]
    explained = {
        place for place, said in of_gpu.items() if any(worse.accused for worse in said.values())
    }
    without = {*no_access, *apart, *_others(found, pairs)}
    slow = {
        (node, way): worse
        for (node, way), worse in gpu_ways.judge(found, BETWEEN, tolerance, without).items()
        if not {(node, bus) for bus in way.split(">")} & explained
    }
    unjudged = {place: links for place, links in apart.items() if place not in no_access}
    by_links = [*gpu_links.kept_apart(unjudged, found, names), *gpu_links.fewer(found, names)]
    return [
        *findings,
        *(Finding(node, line, True, How.DIFFERS) for node, line in by_links),
        *_without_access(no_access, found, names),
        *_pairs(slow, names),
    ]


def _others(found: Sequence[Turn], pairs: Sequence[Place]) -> set[Place]:
    all_pairs = {(t.node, copy.way) for t in found for copy in t.copies if copy.between}
    return all_pairs - {*pairs}


def _gpus(of_gpu: Mapping[Place, Mapping[str, Worse]], names: Mapping[Place, str]) -> list[Finding]:
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
            findings.append(Finding(node, f"{node}: {name}: {_line(worse)}", _certain(members[0])))
    return findings


def _certain(said: Mapping[str, Worse]) -> bool:
    return any(worse.accused for worse in said.values())


def _line(found: Mapping[str, Sequence[Worse]]) -> str:
    """Each quantity with its medians over these ways, and with which others it was compared."""
    parts = []
    for what, worse in found.items():
        own, usual = (statistics.median(getattr(w, key) for w in worse) for key in ("own", "usual"))
        change = f", {100 * (own / usual - 1):+.1f} %" if usual else ""
        parts.append(f"{what} {own:.3g} GB/s ({usual:.3g}{change})")
    all_worse = [each for worse in found.values() for each in worse]
    others = dict.fromkeys(each.others for each in all_worse)
    said = next((each.said for each in all_worse if each.accused), all_worse[0].said)
    return f"{', '.join(parts)}; in brackets the median of {' and '.join(others)}{said}"


def _both(places: Mapping[Place, Worse]) -> list[tuple[str, str, str, list[Worse]]]:
    """Node and two GPUs of each pair, with what is worse there and, if both ways are, back."""
    found = []
    done = set()
    for (node, way), worse in places.items():
        a, b = way.split(">")
        back = places.get((node, f"{b}>{a}"))
        if (node, way) not in done:
            done |= {(node, way), (node, f"{b}>{a}")}
            found.append((node, a, b, [worse, back] if back else [worse]))
    return found


def _pairs(slow: Mapping[Place, Worse], names: Mapping[Place, str]) -> list[Finding]:
    findings = []
    for node, a, b, worse in _both(slow):
        ways = {what: [each] for what, each in zip(("this way", "back"), worse)}
        line = f"{node}: {names[node, a]} -> {names[node, b]}: {_line(ways)}"
        findings.append(Finding(node, line, any(each.accused for each in worse)))
    return findings


def _without_access(
    no_access: Mapping[Place, Worse], found: Sequence[Turn], names: Mapping[Place, str]
) -> list[Finding]:
    findings = []
    for node, a, b, worse in _both(no_access):
        one, other = names[node, a], names[node, b]
        what = (
            f"{one} and {other} cannot access each other's memory"
            if len(worse) > 1
            else f"{one} cannot access the memory of {other}"
        )
        rate = statistics.median(
            copy.rate for turn in found if turn.node == node
            for copy in turn.copies if copy.way == f"{a}>{b}"
        )  # fmt: skip
        line = (
            f"{node}: {what}, {worse[0].others} can; their copies go through the host, "
            f"{rate:.3g} GB/s{worse[0].said}"
        )
        findings.append(Finding(node, line, any(each.accused for each in worse), How.DIFFERS))
    return findings


def slow(found: Sequence[Turn], tolerance: float) -> tuple[list[str], list[str]]:
    """The GPUs and pairs that both looks find worse, one line each: accused, and undecided."""
    findings = diagnose(found, tolerance)
    accused = [Against(each.line, [each.node], each.how) for each in findings if each.accused]
    return [*accused], [each.line for each in findings if not each.accused]


def summary(found: Sequence[Turn], tolerance: float) -> dict[str, Any]:
    """What the record keeps: the GPUs and drivers, what nobody could judge, and the findings."""
    nodes: dict[str, Any] = {}
    for turn in found:
        nodes[turn.node] = {"gpus": [*turn.gpus.values()], "drivers": [*turn.drivers]}
    first = [turn for turn in found if turn.look == 1]
    return {
        "nodes": nodes,
        "not_compared": [*gpu_ways.not_compared(found), *gpu_links.not_compared(found)],
        "suspected": [each.line for each in diagnose(first, tolerance)],
    }


def second_look(found: Sequence[Turn], tolerance: float) -> list[str]:
    """Nodes with further turns: the suspects, and some nodes without suspicion."""
    suspected = list(dict.fromkeys(each.node for each in diagnose(found, tolerance)))
    return looks.with_some_others(suspected, (turn.node for turn in found))


def main(log_file: str, tolerance: str) -> list[int]:
    """The ranks for the second look, in their order."""
    return looks.ranks(log_file, lambda log: second_look(gpu_ways.turns(log)[0], float(tolerance)))


if __name__ == "__main__":
    json.dump(main(*sys.argv[1:]), sys.stdout)
