"""A criterion from the population: who is worse than the others, without any reference.

The members are nodes, cores of nodes, or servers. Each was measured in one or more rounds. In each
round a value is divided by the median of the population, because a device that all members share
may be busy in one round. The share of a member is the median of its ratios over the rounds.

The population is cleaned step by step. In each step the worst member stands apart, and the others
give the criterion: worse by more than the tolerance, and by more than 3.5 spreads. The spread is
the scaled median absolute deviation of the logarithms of the shares, because disturbances multiply
rates and times: 0.05 is 5 %. Whoever is below the criterion leaves, until nobody does.

Nobody is accused unless those that remain are a majority of all, so there must be three members.
Other members that are worse by more than the tolerance are undecided, with the reason.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.quantities import NORMAL
from assay.store.cases import grouped

#: Name of a member -> its value in one round.
Round = Mapping[str, float]

#: Distance from which on a value is an outlier [spreads]. Iglewicz and Hoaglin, "How to Detect and
#: Handle Outliers" (1993), recommend 3.5 for this modified z-score.
SPREADS = 3.5

#: Number of values -> factor for the bias of the median absolute deviation of few normal values
#: (Croux and Rousseeuw, "Time-efficient algorithms for two highly robust estimators of scale",
#: 1992). From ten values on it is n / (n - 0.8).
FEW = {2: 1.196, 3: 1.495, 4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}

#: Least share that has a logarithm here; a rate of 0 has a share of 0.
TINY = 1e-12


@dataclass(frozen=True)
class Population:
    """The criterion, and where each member lies.

    :ivar shares: name -> value divided by the median of the members, as the median over the rounds;
        0.5 is half as good. Of all names.
    :ivar measured: number of names.
    :ivar members: the names that the criterion is made of: those that no step removed.
    :ivar spread: robust standard deviation of the logarithms of the shares of the members, without
        the worst of them.
    :ivar bound: the least usual share.
    :ivar outliers: names below the bound, the worst first; empty if the members are no majority.
    :ivar undecided: other names that are worse by more than the tolerance, the worst first.
    """

    shares: Mapping[str, float]
    measured: int
    members: tuple[str, ...]
    spread: float
    bound: float
    outliers: tuple[str, ...]
    undecided: tuple[str, ...]

    @property
    def suspects(self) -> list[str]:
        """All names that are worse by more than the tolerance, accused or not."""
        return [*self.outliers, *self.undecided]

    @property
    def usual(self) -> frozenset[str]:
        """The members without suspicion."""
        return frozenset(self.members) - {*self.undecided}

    @property
    def majority(self) -> bool:
        """Whether the members are more than half of all."""
        return 2 * len(self.members) > self.measured

    def distance(self, share: float) -> float:
        """How far a share is below the median of the members [spreads]; may be infinite."""
        if share == 0 or self.spread == 0:
            return math.inf if share < 1 else 0.0
        return -math.log(share) / self.spread

    def why_not(self) -> str:
        """Why the undecided names are not accused."""
        if not self.majority:
            return f"no majority of the {self.measured} agrees"
        return f"the spread of the others explains it ({self.spread:.1%})"

    def as_entry(self) -> dict[str, Any]:
        """What the record of a case keeps of the criterion."""
        return {
            "measured": self.measured,
            "members": len(self.members),
            "spread": self.spread,
            "bound": self.bound,
            "outliers": {name: self.shares[name] for name in self.outliers},
            "undecided": {name: self.shares[name] for name in self.undecided},
        }


@dataclass(frozen=True)
class Finding:
    """A member that one look, or both looks, find worse than the others.

    :ivar share: its share, the better one of both looks.
    :ivar accused: whether it is an outlier of a population that has a majority.
    :ivar own: the median of its values over both looks.
    :ivar others: the same of each member that is not worse; of all others if there is none.
    :ivar said: the end of a line about it: its distance, or the reason why it is not accused.
    :ivar whom: the others, as a message names them.
    """

    name: str
    share: float
    accused: bool
    own: float
    others: Sequence[float]
    said: str
    whom: str = ""

    @property
    def usual(self) -> float:
        """The median of the others."""
        return statistics.median(self.others)


def spread(values: Sequence[float]) -> float:
    """Robust standard deviation: the scaled median absolute deviation; 0 below two values."""
    n = len(values)
    if n < 2:
        return 0.0
    middle = statistics.median(values)
    deviation = statistics.median(abs(value - middle) for value in values)
    return NORMAL * FEW.get(n, n / (n - 0.8)) * deviation


def shares(
    rounds: Iterable[Round], members: Collection[str] | None = None, fault: str = "lower"
) -> dict[str, list[float]]:
    """Name -> its value divided by the median of the members, for each of its rounds.

    :param members: whose median counts; None for all. A round without any of them does not count.
    :param fault: the side of a fault, ``lower`` for rates and ``upper`` for times. Of times the
        inverse is given, so that a share below 1 is always worse.
    :raises ValueError: a value is negative or not finite, or a time is 0.
    """
    found: dict[str, list[float]] = {}
    for of_round in rounds:
        counted = [its for name, its in of_round.items() if members is None or name in members]
        for name, value in of_round.items():
            if not (math.isfinite(value) and (value > 0 or (value == 0 and fault == "lower"))):
                raise ValueError(f"{name}: {value} is not a measurement")
        middle = statistics.median(counted) if counted else 0.0
        if middle == 0:
            continue
        for name, value in of_round.items():
            ratio = value / middle if fault == "lower" else middle / value
            found.setdefault(name, []).append(ratio)
    return found


def population_of(rounds: Sequence[Round], tolerance: float, fault: str = "lower") -> Population:
    """The population of these rounds, cleaned step by step.

    :param tolerance: the share by which a member may be worse without any suspicion, above 0.
    :param fault: as in :func:`shares`.
    :raises ValueError: as :func:`shares`.
    """
    everybody = list(dict.fromkeys(name for of_round in rounds for name in of_round))
    members = everybody
    found = _middle(rounds, frozenset(members), fault) if len(members) < 2 else {}
    wide, bound = 0.0, 1 - tolerance
    removed: set[str] = set()
    while len(members) > 1:
        # The worst member is judged by the others, or it would excuse itself among few.
        within = _middle(rounds, frozenset(members), fault)
        worst = min(members, key=lambda name: within.get(name, math.inf))
        others = [name for name in members if name != worst]
        found = _middle(rounds, frozenset(others), fault)
        wide = spread([math.log(max(found[name], TINY)) for name in others if name in found])
        bound = min(1 - tolerance, math.exp(-SPREADS * wide))
        slow = {name for name in members if found.get(name, 1) < bound}
        if not slow:
            break
        removed |= slow
        members = [name for name in members if name not in slow]
    below = sorted((n for n in found if found[n] < 1 - tolerance), key=found.__getitem__)
    accused = removed if 2 * len(members) > len(everybody) else set()
    outliers = tuple(name for name in below if name in accused)
    undecided = tuple(name for name in below if name not in accused)
    measured = len(everybody)
    return Population(found, measured, tuple(members), wide, bound, outliers, undecided)


def confirmed(
    first: Sequence[Round], second: Sequence[Round], tolerance: float, fault: str = "lower"
) -> list[Finding]:
    """The members that both looks find worse, compared with those without suspicion.

    A member without a round in the second look stays named.
    """
    population = population_of(first, tolerance, fault)
    again = _middle(second, population.usual, fault)
    values = grouped(item for of_round in (*first, *second) for item in of_round.items())
    middle = {name: statistics.median(own) for name, own in values.items()}
    worse = {
        name: share
        for name in population.suspects
        if (share := max(population.shares[name], again.get(name, 0.0))) < 1 - tolerance
    }
    usual = [value for name, value in middle.items() if name not in worse]
    findings = []
    for name, share in worse.items():
        accused = name in population.outliers
        said = f"; nobody is accused: {population.why_not()}"
        if accused:
            distance = population.distance(share)
            times = f", {distance:.3g} times the spread of the others ({population.spread:.1%})"
            said = times if distance < math.inf else ""
        others = usual or [value for its, value in middle.items() if its != name]
        findings.append(Finding(name, share, accused, middle[name], others, said))
    return findings


def _middle(rounds: Sequence[Round], members: Collection[str], fault: str) -> dict[str, float]:
    """Name -> the median of its shares over the rounds."""
    return {n: statistics.median(of_name) for n, of_name in shares(rounds, members, fault).items()}
