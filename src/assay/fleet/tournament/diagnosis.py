"""Finds the node or the link that is at fault from measured pairs, and states it in words.

There are three steps: :func:`diagnose` judges the measurements of the tournament; then the pairs
of :func:`second_pass` are measured; then :func:`conclude` combines both passes. A deviation that
the second pass does not confirm is not a fault.
"""

from __future__ import annotations

import enum
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from assay.fleet.tournament.localise import Fit, Floats, Ints, Known, Pairs, localise
from assay.judge.verdict import Verdict

Link = tuple[str, str]

#: Partners of each suspect in the second pass; the median of three values ignores one outlier.
PARTNERS = 3

#: If a group of at least this share of the nodes has faster links than all other nodes, the group
#: may be the healthy nodes.
MINORITY = 0.25


class Fault(str, enum.Enum):
    """The kinds of faults."""

    SLOW_NODE = "slow node"
    SLOW_PAIR = "slow pair"
    DEAD_NODE = "dead node"
    DEAD_PAIR = "dead pair"
    #: All pairs are affected: the fault is in a part that all nodes share and not in a node, or the
    #: expected value is wrong.
    ALL_SLOW = "all slow"
    ALL_DEAD = "all dead"


@dataclass(frozen=True)
class Metric:
    """A quantity that is measured for each pair.

    :param tolerance: how much worse than the others a pair may be, relative: 0.05 is 5 %.
    :param expected: the value of a healthy pair, in `unit`. Without it, pairs are only compared
        with each other, and two nodes cannot be judged at all.
    :raises ValueError: the tolerance is not such a fraction, or the expected value is not positive.
    """

    name: str
    unit: str
    higher_is_better: bool
    tolerance: float
    expected: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < (1 if self.higher_is_better else math.inf):
            raise ValueError(f"{self.name}: a tolerance of {self.tolerance} is not a fraction")
        if self.expected is not None and not 0 < self.expected < math.inf:
            raise ValueError(f"{self.name}: {self.expected} is not a possible expected value")

    @property
    def sign(self) -> int:
        return 1 if self.higher_is_better else -1

    @property
    def threshold(self) -> float:
        """The tolerance as a logarithm."""
        return -self.sign * math.log1p(-self.sign * self.tolerance)

    def said(self, logarithm: float) -> str:
        """The value that belongs to a logarithm of goodness, with its unit."""
        return f"{math.exp(self.sign * logarithm):.4g} {self.unit}"

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

    :ivar nodes: one node, the two nodes of a pair, or empty if all pairs are affected.
    :ivar metric: name of the metric; empty if nothing could be measured.
    :ivar deviation: relative deviation with its sign: -0.1 is 10 % less; None if nothing was
        measured.
    :ivar reason: one line for an operator.
    :ivar ambiguous: for a pair: the fault is in its link or in one of its nodes, and the measured
        pairs do not show in which.
    """

    fault: Fault
    nodes: tuple[str, ...]
    reason: str
    metric: str = ""
    deviation: float | None = None
    ambiguous: bool = False


@dataclass(frozen=True)
class Level:
    """The level of healthy pairs in one metric, and the deviations that are visible above noise.

    :ivar base: the value of a healthy pair, in the unit of the metric.
    :ivar noise: relative standard deviation of one pair; too small if there are few nodes.
    :ivar least_node: the smallest relative deviation for which a node is named.
    :ivar least_pair: the smallest relative deviation for which a pair is named.
    """

    base: float
    noise: float
    least_node: float
    least_pair: float


@dataclass(frozen=True)
class Diagnosis:
    """The result of judging all pairs.

    :ivar findings: the faults, dead before slow, then the worst first.
    :ivar doubts: reasons why the measured pairs do not prove all nodes healthy, one line each.
    :ivar remarks: observations that are not faults, one line each.
    :ivar levels: the level of each metric; empty if no pair gave a value.
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


def diagnose(
    nodes: Sequence[str], metrics: Sequence[Metric], measurements: Iterable[Measurement]
) -> Diagnosis:
    """Judge the nodes of a tournament by the measurements of their pairs.

    The result is only valid if less than half of the nodes are at fault. With three nodes, a slow
    node can be distinguished from a slow pair. With two nodes there is only one pair: it is judged
    by the expected value, and a fault is reported for the pair.

    :param measurements: in any order. A pair that was measured several times counts with its
        medians. An absent pair does not count against its nodes.
    :raises ValueError: an unknown node, a pair of a node with itself, or a value that is not a
        positive number.
    """
    board = _Board(nodes, metrics, measurements)
    findings, doubts = board.failures()
    levels = {}
    for metric in metrics:
        if not board.alive:
            break
        pairs = board.pairs(metric)
        fit = localise(pairs, metric.threshold)
        levels[metric.name] = _level(metric, fit)
        slow = board.slow(metric, pairs, fit)
        findings += slow
        if not slow:
            doubts += board.hidden(metric, pairs, fit)
    for node in nodes:
        if node not in board.met:
            doubts.append(f"{node} was not measured")
    return Diagnosis(tuple(nodes), tuple(metrics), _ordered(findings), tuple(doubts), (), levels)


def second_pass(diagnosis: Diagnosis, partners: int = PARTNERS) -> list[list[Link]]:
    """Rounds of pairs that show whether the suspects are at fault; empty without suspects.

    Each suspect meets `partners` good nodes. A suspected pair is measured again the same number of
    times. An equal number of pairs of good nodes run at the same time as controls. No node is in
    two pairs of a round.
    """
    suspects = diagnosis.suspects
    good = [node for node in diagnosis.nodes if node not in set(suspects)]
    links = [finding.nodes for finding in diagnosis.findings if len(finding.nodes) == 2]
    wanted: list[Link] = []
    for turn in range(partners):
        wanted += [(a, b) for a, b in dict.fromkeys(links)]
        # Partners are spread over the machine, and two suspects never need the same one at once.
        step = turn * max(1, len(good) // partners)
        if turn < len(good):
            wanted += [(node, good[(i + step) % len(good)]) for i, node in enumerate(suspects)]
    rounds: list[list[Link]] = []
    busy: list[set[str]] = []
    for a, b in wanted:
        free = next((i for i, nodes in enumerate(busy) if not {a, b} & nodes), len(rounds))
        if free == len(rounds):
            rounds.append([])
            busy.append(set())
        rounds[free].append((a, b))
        busy[free] |= {a, b}
    for turn, (pairs, taken) in enumerate(zip(rounds, busy)):
        idle = [node for node in good[turn:] + good[:turn] if node not in taken]
        half = min(len(idle) // 2, len(pairs))
        pairs.extend(zip(idle[:half], idle[-half:]))
    return rounds


def conclude(first: Diagnosis, measurements: Iterable[Measurement]) -> Diagnosis:
    """The verdict of both passes: the faults that the first suspected and the second confirmed.

    :param first: the diagnosis of the tournament by :func:`diagnose`.
    :param measurements: the measurements of the pairs of :func:`second_pass`. A suspect without a
        measurement stays named.
    :raises ValueError: as :func:`diagnose`.
    """
    suspects = set(first.suspects)
    if not suspects:
        return first
    board = _Board(first.nodes, first.metrics, measurements)
    good = np.array([node not in suspects for node in first.nodes])
    seen, doubts = board.failures(np.flatnonzero(good).tolist())
    for metric in first.metrics if board.alive else ():
        level = first.levels[metric.name]
        base = metric.sign * math.log(level.base)
        known = Known(good, base, level.noise) if good.any() else None
        pairs = board.pairs(metric)
        seen += board.slow(metric, pairs, localise(pairs, metric.threshold, known))
    named = {finding.nodes for finding in first.findings}
    findings, remarks = [], list(first.remarks)
    for finding in seen:
        if finding.nodes in named or (len(finding.nodes) == 1 and suspects & set(finding.nodes)):
            findings.append(finding)
        elif finding.nodes:
            doubts.append(f"{finding.reason}; seen in the second pass only")
    again = {node for finding in findings for node in finding.nodes}
    for finding in first.findings:
        if not finding.nodes or not set(finding.nodes) <= board.met:
            findings.append(finding)
        elif not set(finding.nodes) & again:
            line = f"{finding.reason}; not so in the second pass"
            (doubts if not finding.metric else remarks).append(line)
    return replace(
        first,
        findings=_ordered(findings),
        doubts=tuple(dict.fromkeys([*first.doubts, *doubts])),
        remarks=tuple(remarks),
    )


class _Board:
    """The measurements, grouped by pair of node numbers."""

    def __init__(
        self,
        nodes: Sequence[str],
        metrics: Sequence[Metric],
        measurements: Iterable[Measurement],
    ) -> None:
        self.nodes = nodes
        number = {node: i for i, node in enumerate(nodes)}
        if len(number) < len(nodes):
            raise ValueError("a node is there twice")
        runs: dict[tuple[int, int], list[Mapping[str, float]]] = {}
        self.dead: dict[tuple[int, int], str] = {}
        self.flaky: list[str] = []
        for run in measurements:
            pair = self._pair(run, number)
            runs.setdefault(pair, [])
            if run.values:
                _check(run, metrics)
                runs[pair].append(run.values)
            else:
                self.dead[pair] = run.error
        for pair, error in list(self.dead.items()):
            if runs[pair]:
                self.flaky.append(f"{self.name(pair)}: once without a value{_because(error)}")
                del self.dead[pair]
        self.met = {nodes[i] for pair in runs for i in pair}
        self.alive = [pair for pair in runs if pair not in self.dead]
        self.runs = runs
        ends = np.array(self.alive, dtype=np.int64).reshape(-1, 2)
        self.first: Ints = ends[:, 0]
        self.second: Ints = ends[:, 1]

    @staticmethod
    def _pair(run: Measurement, number: Mapping[str, int]) -> tuple[int, int]:
        for node in (run.a, run.b):
            if node not in number:
                raise ValueError(f"{run.a} - {run.b}: {node} is not a node of this tournament")
        if run.a == run.b:
            raise ValueError(f"{run.a} cannot be measured with itself")
        a, b = sorted((number[run.a], number[run.b]))
        return a, b

    def name(self, pair: Sequence[int]) -> str:
        return " - ".join(self.nodes[i] for i in pair)

    def pairs(self, metric: Metric) -> Pairs:
        """The logarithms of goodness of all pairs that have values."""
        values: Floats = np.array(
            [
                metric.sign
                * math.log(statistics.median([run[metric.name] for run in self.runs[p]]))
                for p in self.alive
            ]
        )
        return Pairs(len(self.nodes), self.first, self.second, values)

    def failures(self, good: Iterable[int] = ()) -> tuple[list[Finding], list[str]]:
        """Dead nodes and pairs, and pairs that failed only sometimes.

        :param good: nodes that are known to work, for example from an earlier pass.
        """
        living = Counter(i for pair in self.alive for i in pair)
        living.update(dict.fromkeys(good, 0))
        if len(self.dead) > 1 and not living:
            error = _because(next(iter(self.dead.values())))
            reason = f"no value from any of {len(self.dead)} pairs{error}"
            return [Finding(Fault.ALL_DEAD, (), reason)], self.flaky
        lost: dict[int, list[str]] = {}
        for pair, error in self.dead.items():
            for i, other in (pair, pair[::-1]):
                if other in living:
                    lost.setdefault(i, []).append(error)
        findings, named = [], set()
        for i, errors in lost.items():
            if len(errors) >= 2 and len(errors) > living[i]:
                named.add(i)
                of = f"{len(errors)} of its" if living[i] else "any of its"
                reason = (
                    f"{self.nodes[i]}: no value from {of} {len(errors) + living[i]} pairs"
                    f"{_because(errors[0])}"
                )
                findings.append(Finding(Fault.DEAD_NODE, (self.nodes[i],), reason))
        for pair, error in self.dead.items():
            if named.isdisjoint(pair):
                sure = living.keys() >= set(pair)
                findings.append(
                    Finding(
                        Fault.DEAD_PAIR,
                        (self.nodes[pair[0]], self.nodes[pair[1]]),
                        f"{self.name(pair)}: no value{_because(error)}; {_whose(sure)}",
                        ambiguous=not sure,
                    )
                )
        return findings, self.flaky

    def slow(self, metric: Metric, pairs: Pairs, fit: Fit) -> list[Finding]:
        """The faults that a fit of these pairs shows, in words."""
        findings = []
        base = metric.said(fit.base)
        if metric.expected is not None:
            lack = fit.base - metric.sign * math.log(metric.expected)
            if lack < -metric.threshold:
                findings.append(self._all_slow(metric, base, metric.change(lack)))
        slow = set(fit.slow_nodes.tolist())
        for i in slow:
            count = sum(i in pair and slow.isdisjoint(set(pair) - {i}) for pair in self.alive)
            them = f"all {count}" if count == len(self.nodes) - 1 else f"{count}"
            effect = float(fit.effects[i])
            change = metric.change(effect)
            reason = (
                f"{self.nodes[i]}: {metric.name} {metric.said(fit.base + effect)} to {them} "
                f"others, the others have {base} among each other ({_percent(change)})"
            )
            node = (self.nodes[i],)
            findings.append(Finding(Fault.SLOW_NODE, node, reason, metric.name, change))
        unsure = set(fit.open_pairs.tolist())
        for p in fit.slow_pairs.tolist():
            pair = self.alive[p]
            value = float(pairs.values[p])
            change = metric.change(value - fit.base - float(fit.effects[list(pair)].sum()))
            reason = (
                f"{self.name(pair)}: {metric.name} {metric.said(value)}, the others have {base} "
                f"({_percent(change)}); {_whose(p not in unsure)}"
            )
            link = (self.nodes[pair[0]], self.nodes[pair[1]])
            findings.append(
                Finding(Fault.SLOW_PAIR, link, reason, metric.name, change, p in unsure)
            )
        return findings

    def _all_slow(self, metric: Metric, base: str, change: float) -> Finding:
        but = f"{base}, expected {metric.expected:.4g} {metric.unit} ({_percent(change)})"
        if len(self.alive) > 1:
            reason = f"all pairs: median {metric.name} {but}"
            return Finding(Fault.ALL_SLOW, (), reason, metric.name, change)
        a, b = self.alive[0]
        reason = f"{self.name((a, b))}: {metric.name} {but}; {_whose(False)}"
        link = (self.nodes[a], self.nodes[b])
        return Finding(Fault.SLOW_PAIR, link, reason, metric.name, change, ambiguous=True)

    def hidden(self, metric: Metric, pairs: Pairs, fit: Fit) -> list[str]:
        """The faults that a fit without findings cannot exclude."""
        doubts = []
        if len(self.alive) == 1 and metric.expected is None:
            doubts.append(
                f"{metric.name}: one pair has none to be compared with; say what is expected"
            )
        limit = max(fit.node_limit, fit.pair_limit)
        if limit > metric.threshold:
            doubts.append(
                f"{metric.name}: noise hides what is less than {abs(metric.change(-limit)):.0%} "
                f"worse, the tolerance is {metric.tolerance:.0%}: measure longer"
            )
        # If half of the nodes are slow, the median is slow too. Then a few nodes look too fast, but
        # only in pairs with each other. A machine with several switches would have several such
        # groups.
        fast = pairs.values > fit.base + limit
        group = np.zeros(pairs.n, dtype=np.bool_)
        group[pairs.first[fast]] = group[pairs.second[fast]] = True
        inside = group[pairs.first] & group[pairs.second]
        if group.sum() >= max(2, MINORITY * pairs.n) and fast[inside].all():
            names = ", ".join(node for node, is_in in zip(self.nodes, group) if is_in)
            much = metric.said(float(np.median(pairs.values[fast])))
            doubts.append(
                f"{metric.name}: only {names} have {much} with each other, the median of all is "
                f"{metric.said(fit.base)}: perhaps most nodes are slow"
            )
        return doubts


def _check(run: Measurement, metrics: Sequence[Metric]) -> None:
    for metric in metrics:
        value = run.values.get(metric.name)
        if value is None or not 0 < value < math.inf:
            raise ValueError(f"{run.a} - {run.b}: {metric.name} is {value}, not a positive number")


def _because(error: str) -> str:
    return f" ({error})" if error else ""


def _percent(change: float) -> str:
    return f"{100 * change:+.1f} %"


def _whose(link: bool) -> str:
    return "both are well with others" if link else "the link, or one of the two"


def _level(metric: Metric, fit: Fit) -> Level:
    return Level(
        base=math.exp(metric.sign * fit.base),
        noise=fit.noise,
        least_node=abs(metric.change(-fit.node_limit)),
        least_pair=abs(metric.change(-fit.pair_limit)),
    )


def _ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    def rank(finding: Finding) -> tuple[bool, float, tuple[str, ...]]:
        size = 0.0 if finding.deviation is None else -abs(math.log1p(finding.deviation))
        return bool(finding.metric), size, finding.nodes

    return tuple(sorted(findings, key=rank))
