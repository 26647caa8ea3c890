"""Names the rail that is worse than the others: a device of two neighbours, compared with all.

Each node is measured with its neighbour over each of its devices, in several looks, each in both
directions. Who is worse in the first look and in the others is accused, if a majority of the rails
agrees. The two ends of a rail cannot be told apart, so both nodes are named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.accused import Against, How
from assay.fleet.sweep import against
from assay.judge import population
from assay.quantities import number

#: How much worse a rail may be than the others: of a bandwidth as NVIDIA's ngc_multinode_perf asks
#: for (90 % of the rate of a port), of a latency chosen.
TOLERANCE = {"lower": 0.1, "upper": 0.3}

#: Two nodes and their device.
Rail = tuple[str, str, str]


def slow(
    values: Mapping[Rail, Sequence[float]], unit: str, fault: str
) -> tuple[list[str], list[str]]:
    """The rails that are worse in the first look and in the others: accused, and undecided.

    :param values: of each look, in order of time, in `unit`: the lower one of both directions.
    :param fault: the side of a fault: ``lower`` for rates, ``upper`` for times.
    :raises ValueError: a value is no measurement.
    """
    names = {f"{a} - {b} over {device}": (a, b) for a, b, device in values}
    of_name = dict(zip(names, values.values()))
    rounds = [
        {name: looks[at] for name, looks in of_name.items() if at < len(looks)}
        for at in range(max(map(len, values.values()), default=0))
    ]
    accused: list[str] = []
    undecided: list[str] = []
    for finding in population.confirmed(rounds[:1], rounds[1:], TOLERANCE[fault], fault):
        line = (
            f"{finding.name}: {number(finding.own)} {unit}, the median of {len(finding.usual)} "
            f"other rails is {against(finding.own, finding.usual, unit)}{finding.said}"
        )
        if finding.accused:
            accused.append(Against(line, names[finding.name], How.SLOW))
        else:
            undecided.append(line)
    return accused, undecided
