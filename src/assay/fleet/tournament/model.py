"""What a tournament measures and finds, as :mod:`.diagnosis` and its callers exchange it."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from assay.fleet.topology.fabric import Part
from assay.judge import Verdict
from assay.quantities import number

Link = tuple[str, str]


class Fault(str, enum.Enum):
    """The kinds of faults."""

    SLOW_NODE = "slow node"
    SLOW_PAIR = "slow pair"
    DEAD_NODE = "dead node"
    DEAD_PAIR = "dead pair"
    #: A part of the network that several nodes share: a switch, a trunk, or all of a distance.
    SLOW_SWITCH = "slow switch"
    SLOW_TRUNK = "slow trunk"
    DEAD_SWITCH = "dead switch"
    DEAD_TRUNK = "dead trunk"
    #: The fault is in a part that all nodes share, and not in a node.
    ALL_DEAD = "all dead"


@dataclass(frozen=True)
class Metric:
    """A quantity of each pair, which may be worse than the others by the tolerance: 0.05 is 5 %.

    :raises ValueError: the tolerance is not such a fraction.
    """

    name: str
    unit: str
    higher_is_better: bool
    tolerance: float

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < (1 if self.higher_is_better else math.inf):
            raise ValueError(f"{self.name}: a tolerance of {self.tolerance} is not a fraction")

    @property
    def sign(self) -> int:
        return 1 if self.higher_is_better else -1

    @property
    def distance(self) -> bool:
        """Whether a healthy pair is worse the more trunks lie between its nodes: a latency is."""
        return not self.higher_is_better

    @property
    def threshold(self) -> float:
        """The tolerance as a logarithm."""
        return -self.sign * math.log1p(-self.sign * self.tolerance)

    def said(self, logarithm: float) -> str:
        """The value that belongs to a logarithm of goodness, with its unit."""
        return f"{number(math.exp(self.sign * logarithm))} {self.unit}"

    def change(self, effect: float) -> float:
        """The relative change of the value that belongs to an effect on its goodness."""
        return math.expm1(self.sign * effect)


@dataclass(frozen=True)
class Measurement:
    """The result of one run between two nodes: a value for each metric, or only an error."""

    a: str
    b: str
    values: Mapping[str, float] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True)
class Finding:
    """One fault.

    :ivar nodes: one node, the two of a pair, or none: all pairs, or a part of the network.
    :ivar reason: one line for an operator.
    :ivar metric: its name; empty if nothing was measured.
    :ivar deviation: relative, with its sign: -0.1 is 10 % less; None if nothing was measured.
    :ivar ambiguous: whether the measured pairs do not tell the link of a pair from its nodes.
    :ivar parts: the part of the network; several if the measured pairs do not tell them apart.
    """

    fault: Fault
    nodes: tuple[str, ...]
    reason: str
    metric: str = ""
    deviation: float | None = None
    ambiguous: bool = False
    parts: tuple[Part, ...] = ()

    @property
    def repeatable(self) -> bool:
        """Whether the second pass measures this part of the network again; not if it is dead."""
        return bool(self.parts) and bool(self.metric)

    @property
    def part(self) -> str:
        """The name of the part of the network; "" for a fault of nodes."""
        return " or ".join(map(str, self.parts))


@dataclass(frozen=True)
class Level:
    """The level of healthy pairs in one metric.

    :ivar base: the value of a healthy pair, in the unit of the metric.
    :ivar noise: relative standard deviation of one pair; too small if there are few nodes.
    :ivar distance: number of trunks between two nodes -> logarithm of the goodness that a healthy
        pair lacks for them; empty where they are unknown, or cost nothing.
    """

    base: float
    noise: float
    distance: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Diagnosis:
    """The result of judging all pairs.

    :ivar findings: the faults, dead before slow, then the worst first.
    :ivar doubts: reasons why the measured pairs do not prove all nodes healthy, one line each.
    :ivar remarks: observations that are not faults, one line each.
    :ivar levels: metric -> its level; empty if no pair gave a value.
    """

    nodes: tuple[str, ...]
    metrics: tuple[Metric, ...]
    findings: tuple[Finding, ...]
    doubts: tuple[str, ...]
    remarks: tuple[str, ...]
    levels: Mapping[str, Level]

    @property
    def verdict(self) -> Verdict:
        """FAIL when something is at fault, INCONCLUSIVE when it cannot be excluded."""
        if self.findings:
            return Verdict.FAIL
        return Verdict.INCONCLUSIVE if self.doubts else Verdict.PASS

    @property
    def suspects(self) -> tuple[str, ...]:
        """Every node that a finding names, alone or in a pair, in the order of `nodes`."""
        named = {node for finding in self.findings for node in finding.nodes}
        return tuple(node for node in self.nodes if node in named)
