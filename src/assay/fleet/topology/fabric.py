"""Switches and trunks, and the parts of a network that the path between two nodes crosses.

A trunk is all cables between the same two switches. Only what every shortest path of two nodes
crosses is a part of their path. Where a switch reaches the other node through several switches, its
links to them count as one part, its uplinks: the topology does not say which carries a message.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


class Kind(str, enum.Enum):
    """What a part of a network is."""

    SWITCH = "switch"
    TRUNK = "trunk"
    UPLINKS = "uplinks"
    #: All paths that cross the same number of trunks.
    BETWEEN = "between switches"


@dataclass(frozen=True)
class Part:
    """A part of a network that several nodes share.

    :ivar names: of a switch; of the two switches that a trunk joins, with those between them that
        only pass messages on; of the switch of uplinks; the number of trunks for BETWEEN.
    """

    kind: Kind
    names: tuple[str, ...]

    def __str__(self) -> str:
        if self.kind is Kind.UPLINKS:
            return f"uplinks of {self.names[0]}"
        if self.kind is Kind.BETWEEN:
            plural = "" if self.names == ("1",) else "s"
            return f"all paths over {self.names[0]} trunk{plural}"
        return f"{self.kind.value} {' - '.join(self.names)}"


@dataclass(frozen=True)
class Path:
    """Number of trunks between two switches with nodes, and what all shortest paths cross."""

    hops: int
    parts: tuple[Part, ...]


class Fabric:
    """A network of switches.

    :param switches: name of each switch -> names of the nodes that are connected to it.
    :param trunks: the switches that are joined, two names each. Parallel cables are one trunk.
    :raises ValueError: a node has two switches, a trunk has an unknown end, or two switches with
        nodes are not connected.
    """

    def __init__(
        self, switches: Mapping[str, Collection[str]], trunks: Iterable[tuple[str, str]]
    ) -> None:
        self._switches = {name: tuple(nodes) for name, nodes in switches.items()}
        self._leaf: dict[str, str] = {}
        for switch, nodes in self._switches.items():
            for node in nodes:
                if self._leaf.setdefault(node, switch) != switch:
                    raise ValueError(f"{node} is on two switches, {self._leaf[node]} and {switch}")
        self._beside: dict[str, set[str]] = {name: set() for name in self._switches}
        for one, other in trunks:
            for end in (one, other):
                if end not in self._beside:
                    raise ValueError(f"the trunk {one} - {other}: there is no switch {end}")
            if one != other:
                self._beside[one].add(other)
                self._beside[other].add(one)
        self._far: dict[str, dict[str, int]] = {}
        self._paths: dict[tuple[str, str], Path] = {}
        leaves = [name for name, nodes in self._switches.items() if nodes]
        if not leaves:
            raise ValueError("no switch has a node")
        for leaf in leaves[1:]:
            if leaf not in self._distances(leaves[0]):
                raise ValueError(f"no trunk leads from {leaves[0]} to {leaf}")

    def said(self) -> dict[str, Any]:
        """The network as values of JSON: the arguments that make it."""
        trunks = [[one, other] for one in self._beside for other in self._beside[one]]
        return {
            "switches": {name: list(nodes) for name, nodes in self._switches.items()},
            "trunks": sorted(ends for ends in trunks if ends[0] < ends[1]),
        }

    def lacking(self, nodes: Iterable[str]) -> list[str]:
        """The nodes that are on no switch of this network."""
        return [node for node in nodes if node not in self._leaf]

    def leaf(self, node: str) -> str:
        """The switch that a node is connected to."""
        return self._leaf[node]

    def leaves(self, nodes: Sequence[str]) -> list[list[int]]:
        """The places of the nodes in `nodes`, switch by switch, in the order of the switches."""
        found: dict[str, list[int]] = {}
        for place, node in enumerate(nodes):
            found.setdefault(self._leaf[node], []).append(place)
        return [found[name] for name in self._switches if name in found]

    def path(self, a: str, b: str) -> Path:
        """What lies between two nodes of this network."""
        ends = self._leaf[a], self._leaf[b]
        if ends not in self._paths:
            self._paths[ends] = self._paths[ends[::-1]] = self._between(*sorted(ends))
        return self._paths[ends]

    def hops(self, a: str, b: str) -> int:
        """Number of trunks between two nodes of this network; 0 if they are on one switch."""
        return self.path(a, b).hops

    def _between(self, one: str, other: str) -> Path:
        """What all shortest paths between two switches cross.

        The switches at the same distance are a layer of these paths. A switch that is alone in its
        layer is on all of them.
        """
        near, left = self._distances(one), self._distances(other)
        hops = left[one]
        layers: list[list[str]] = [[] for _ in range(hops + 1)]
        for switch, far in near.items():
            if far + left[switch] == hops:
                layers[far].append(switch)
        parts = [Part(Kind.SWITCH, (one,))]
        via: list[str] = []
        for here, there in zip(layers, layers[1:]):
            start, end = here[0], there[0]
            if len(here) == len(there) == 1:
                via = [*(via or here), end]
                if end != other and not self._switches[end] and len(self._beside[end]) == 2:
                    continue  # it only passes messages on, and cannot be told from its trunks
                parts.append(Part(Kind.TRUNK, tuple(min(via, via[::-1]))))
                parts.append(Part(Kind.SWITCH, (end,)))
                via = []
            elif len(here) == 1:
                parts.append(Part(Kind.UPLINKS, (start,)))
            elif len(there) == 1:
                parts += [Part(Kind.UPLINKS, (end,)), Part(Kind.SWITCH, (end,))]
        if hops:
            parts.append(Part(Kind.BETWEEN, (str(hops),)))
        return Path(hops, tuple(parts))

    def _distances(self, start: str) -> dict[str, int]:
        """Number of trunks from a switch to each switch that it reaches."""
        if start not in self._far:
            far, reached = {start: 0}, [start]
            for here in reached:
                for switch in self._beside[here] - far.keys():
                    far[switch] = far[here] + 1
                    reached.append(switch)
            self._far[start] = far
        return self._far[start]
