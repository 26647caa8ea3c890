"""Finds the node or the link that is at fault from measured pairs, and states it in words.

:func:`diagnose` judges the measurements of the tournament; then the pairs of
:func:`.again.second_pass` are measured, and :func:`conclude` combines both passes. What the second
pass does not confirm is not a fault. What it confirms is a fault if the repeated measurements lie
clear of those of the others, and otherwise a doubt.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from assay.fleet.topology.fabric import Fabric, Kind
from assay.fleet.tournament import localise
from assay.fleet.tournament.again import Repetition, compared, parts_again
from assay.fleet.tournament.localise import Crossings, Fit, Floats, Known, Mask, Pairs
from assay.fleet.tournament.model import Diagnosis, Fault, Finding, Level, Measurement, Metric

#: A group of at least this share of the nodes that is faster than others may be the healthy one.
MINORITY = 0.25

Runs = Mapping[Finding, Repetition | None]


def diagnose(
    nodes: Sequence[str],
    metrics: Sequence[Metric],
    measurements: Iterable[Measurement],
    fabric: Fabric | None = None,
) -> Diagnosis:
    """Judge the nodes of a tournament by the measurements of their pairs.

    The result is only valid if less than half of the nodes are at fault.

    :param measurements: in any order. A pair that was measured several times counts with its
        medians. An absent pair does not count against its nodes.
    :param fabric: the network with all these nodes. With it, slow switches and trunks are found,
        too, and what they cost is taken out of the values before nodes are judged. Without it, a
        network looks like one switch.
    :raises ValueError: a node is there twice, or a value is not a positive number.
    """
    board = _Board(nodes, metrics, measurements, fabric)
    dead = board.take_dead_parts()
    findings, doubts = board.failures()
    findings += dead
    levels = {}
    for metric in metrics if board.alive else ():
        pairs = board.pairs(metric)
        found = board.search(metric, pairs)
        rest = pairs.without(found.cost)
        fit = localise.localise(rest, metric.threshold)
        base = math.exp(metric.sign * fit.base)
        levels[metric.name] = Level(base, fit.noise, found.distance)
        slow = [*_parts(metric, found), *board.slow(metric, pairs, fit, found.cost)]
        findings += slow
        if not slow:
            doubts += board.hidden(metric, rest, fit)
    doubts += [f"{node} was not measured" for node in nodes if node not in board.met]
    return Diagnosis(tuple(nodes), tuple(metrics), _ordered(findings), tuple(doubts), (), levels)


def conclude(
    first: Diagnosis, measurements: Iterable[Measurement], fabric: Fabric | None = None
) -> Diagnosis:
    """The verdict of both passes: the faults that the first suspected and the second confirmed.

    :param first: the diagnosis of the tournament by :func:`diagnose`.
    :param measurements: the measurements of the pairs of :func:`.again.second_pass`. A suspect that
        failed and was not measured stays named; one that was slow becomes a doubt.
    :param fabric: as for :func:`diagnose`.
    :raises ValueError: as :func:`diagnose`.
    """
    suspects = first.suspects
    accused = [finding for finding in first.findings if finding.repeatable]
    if not suspects and not accused:
        return first
    board = _Board(first.nodes, first.metrics, measurements, fabric)
    good = _good(first)
    seen, doubts = board.failures(np.flatnonzero(good).tolist())
    acquitted: set[Finding] = set()
    runs: dict[Finding, Repetition | None] = {}
    # If the first pass has no level, it has no value to compare with.
    for metric in first.metrics if board.alive and first.levels else ():
        level, pairs = first.levels[metric.name], board.pairs(metric)
        mine = [finding for finding in accused if finding.metric == metric.name]
        healthy, cost = parts_again(mine, metric, level, pairs, board.crossings, ~good)
        acquitted |= healthy
        if suspects:
            base = metric.sign * math.log(level.base)
            # If no pair of good nodes is left, those that are well in this metric are the standard.
            well = good if good.sum() > 1 else _good(first, metric)
            usable = well.any() and not well.all()
            known = Known(well, base, level.noise) if usable else None
            fit = localise.localise(pairs.without(cost), metric.threshold, known)
            again = board.slow(metric, pairs, fit, cost)
            seen += again
            if not again:
                doubts += board.minority(metric, pairs.without(cost), fit)
            # Trunks of which the first pass knows the cost are taken out of the values.
            far = board.crossings.hops.tolist() if metric.distance else [0] * len(board.alive)
            hops = [0 if hop in level.distance else hop for hop in far]
            ends = [frozenset(board.names(pair)) for pair in board.alive]
            logarithms = dict(zip(ends, zip(hops, board.logarithms(metric, cost))))
            named = {frozenset(f.nodes) for f in first.findings if f.metric in ("", metric.name)}
            for finding in [*again, *first.findings]:
                if finding.metric == metric.name and finding.nodes:
                    runs[finding] = compared(metric, finding.nodes, logarithms, named)
    # A part that was not measured again stays named.
    findings = [finding for finding in accused if finding not in acquitted]
    remarks = [f"{f.reason}; not so in the second pass" for f in accused if f in acquitted]
    faults, unsure, well_again = _weighed(seen, runs, first, board.met)
    return replace(
        first,
        findings=_ordered([*findings, *faults]),
        doubts=tuple(dict.fromkeys([*first.doubts, *doubts, *unsure])),
        remarks=(*first.remarks, *remarks, *well_again),
    )


def _good(first: Diagnosis, metric: Metric | None = None) -> Mask:
    """For each node whether the first pass did not suspect it, in one metric or at all."""
    of = [f for f in first.findings if metric is None or f.metric in ("", metric.name)]
    suspected = {node for finding in of for node in finding.nodes}
    return np.array([node not in suspected for node in first.nodes])


def _weighed(
    seen: Iterable[Finding], runs: Runs, first: Diagnosis, met: Container[str]
) -> tuple[list[Finding], list[str], list[str]]:
    """Faults, doubts and remarks of both passes; the second one found `seen` and measured `met`."""
    named = {finding.nodes for finding in first.findings} | {(node,) for node in first.suspects}
    shown_again = {(node, finding.metric) for finding in seen for node in finding.nodes}
    faults: list[Finding] = []
    doubts: list[str] = []
    remarks: list[str] = []
    for finding in seen:
        known = finding.nodes in named
        unclear = _unclear(finding, runs) if known else ""
        if known and not unclear:
            faults.append(finding)
        elif finding.nodes:
            but = f"but {unclear}" if known else "seen in the second pass only"
            doubts.append(f"{finding.reason}; {but}")
    for finding in (finding for finding in first.findings if not finding.repeatable):
        there = all(node in met for node in finding.nodes)
        if finding.nodes and finding.metric and not there:
            doubts.append(f"{finding.reason}; not measured again")
        elif not finding.nodes or not there:
            faults.append(finding)
        elif shown_again.isdisjoint((n, m) for n in finding.nodes for m in ("", finding.metric)):
            shown = runs.get(finding)
            unclear = "" if shown and shown.well else str(shown or _unclear(finding, runs))
            of = remarks if finding.metric and not unclear else doubts
            of.append(f"{finding.reason}; {unclear or 'not so in the second pass'}")
    return faults, doubts, remarks


def _unclear(finding: Finding, runs: Runs) -> str:
    """Why noise may explain a finding of the second pass; empty if it cannot."""
    shown = runs.get(finding)
    if shown is not None:
        return "" if shown.clear else str(shown)
    # A failure needs no standard.
    return "nothing was without suspicion beside it" if finding.metric else ""


class _Board:
    """The measurements, grouped by pair of node numbers."""

    def __init__(
        self,
        nodes: Sequence[str],
        metrics: Sequence[Metric],
        measurements: Iterable[Measurement],
        fabric: Fabric | None,
    ) -> None:
        self.nodes, self.fabric = nodes, fabric or Fabric({"": nodes}, ())
        number = {node: i for i, node in enumerate(nodes)}
        if len(number) < len(nodes):
            raise ValueError("a node is there twice")
        self.runs: dict[tuple[int, int], list[Mapping[str, float]]] = {}
        errors: dict[tuple[int, int], str] = {}
        for run in measurements:
            a, b = sorted((number[run.a], number[run.b]))
            of_pair = self.runs.setdefault((a, b), [])
            if run.values:
                _check(run, metrics)
                of_pair.append(run.values)
            else:
                errors[a, b] = run.error
        self.flaky = [
            f"{self.name(pair)}: once without a value{_because(error)}"
            for pair, error in errors.items()
            if self.runs[pair]
        ]
        self.dead = {pair: error for pair, error in errors.items() if not self.runs[pair]}
        self.met = {nodes[i] for pair in self.runs for i in pair}
        self.alive = [pair for pair, values in self.runs.items() if values]
        self.first, self.second = np.array(self.alive, dtype=np.int64).reshape(-1, 2).T

    def names(self, pair: tuple[int, int]) -> tuple[str, str]:
        return self.nodes[pair[0]], self.nodes[pair[1]]

    def name(self, pair: tuple[int, int]) -> str:
        return " - ".join(self.names(pair))

    def pairs(self, metric: Metric) -> Pairs:
        """The logarithms of goodness of all pairs that have values."""
        middle = [statistics.median(r[metric.name] for r in self.runs[p]) for p in self.alive]
        values: Floats = metric.sign * np.array([math.log(value) for value in middle])
        return Pairs(len(self.nodes), self.first, self.second, values)

    def take_dead_parts(self) -> list[Finding]:
        """The dead switches and trunks, the largest first; their pairs then count against no node.

        A trunk is named only if :data:`.localise.BLOCK` of its pairs are between nodes that had a
        value with others.
        """
        if not self.alive or not self.dead:
            return []
        pairs = [*self.alive, *self.dead]
        crossings = Crossings(self.fabric, [*map(self.names, pairs)])
        living = {node for pair in self.alive for node in pair}
        findings = []
        for parts, members in sorted(crossings.of.items(), key=lambda item: -len(item[1])):
            its = [pairs[p] for p in members.tolist()]
            if members[0] < len(self.alive) or self.dead.keys().isdisjoint(its):
                continue
            switch = all(part.kind is Kind.SWITCH for part in parts)
            support = [{*pair} for pair in its if switch or living.issuperset(pair)]
            if len(support) >= localise.BLOCK and not set.intersection(*support):
                errors = [self.dead.pop(pair, "") for pair in its]
                reason = (
                    f"{' or '.join(map(str, parts))}: no value from any of {len(errors)} pairs "
                    f"through it{_because(next(filter(None, errors), ''))}"
                )
                fault = Fault.DEAD_SWITCH if switch else Fault.DEAD_TRUNK
                findings.append(Finding(fault, (), reason, parts=parts))
        return findings

    def failures(self, good: Iterable[int] = ()) -> tuple[list[Finding], list[str]]:
        """Dead nodes and pairs, and pairs that failed once; `good` nodes are known to work."""
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
                reason = f"{self.name(pair)}: no value{_because(error)}; {_whose(sure)}"
                link = self.names(pair)
                findings.append(Finding(Fault.DEAD_PAIR, link, reason, ambiguous=not sure))
        return findings, self.flaky

    @cached_property
    def crossings(self) -> Crossings:
        """What the pairs that have values cross."""
        return Crossings(self.fabric, [*map(self.names, self.alive)])

    def search(self, metric: Metric, pairs: Pairs) -> localise.Search:
        """The slow parts of the network, and what they and distance cost."""
        _, leaf = np.unique([*map(self.fabric.leaf, self.nodes)], return_inverse=True)
        return localise.Search(pairs, self.crossings, leaf, metric.threshold, metric.distance)

    def slow(self, metric: Metric, pairs: Pairs, fit: Fit, cost: Floats) -> list[Finding]:
        """The faults of a fit in words; `cost` was taken out of the values of the pairs before."""
        findings = []
        base = metric.said(fit.base)
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
            lack = value - float(cost[p]) - fit.base - float(fit.effects[list(pair)].sum())
            change = metric.change(lack)
            reason = (
                f"{self.name(pair)}: {metric.name} {metric.said(value)}, the others have {base} "
                f"({_percent(change)}); {_whose(p not in unsure)}"
            )
            link = self.names(pair)
            findings.append(
                Finding(Fault.SLOW_PAIR, link, reason, metric.name, change, p in unsure)
            )
        return findings

    def logarithms(self, metric: Metric, cost: Floats) -> list[list[float]]:
        """The goodness of each run of each pair, without what a cause takes from it."""
        return [
            [metric.sign * math.log(run[metric.name]) - less for run in self.runs[pair]]
            for pair, less in zip(self.alive, cost.tolist())
        ]

    def hidden(self, metric: Metric, pairs: Pairs, fit: Fit) -> list[str]:
        """The faults that a fit without findings cannot exclude."""
        doubts = []
        if len(self.alive) == 1:
            doubts.append(f"{metric.name}: one pair has none to be compared with")
        limit = max(fit.node_limit, fit.pair_limit)
        if limit > metric.threshold:
            doubts.append(
                f"{metric.name}: noise hides what is less than {abs(metric.change(-limit)):.0%} "
                f"worse, the tolerance is {metric.tolerance:.0%}: measure longer"
            )
        return doubts + self.minority(metric, pairs, fit)

    def minority(self, metric: Metric, pairs: Pairs, fit: Fit) -> list[str]:
        """A doubt if one group is faster within itself: perhaps most nodes are slow, as the median.

        A machine with several switches would have several such groups.
        """
        fast = pairs.values > fit.base + max(fit.node_limit, fit.pair_limit)
        group = np.zeros(pairs.n, dtype=np.bool_)
        group[pairs.first[fast]] = group[pairs.second[fast]] = True
        inside = group[pairs.first] & group[pairs.second]
        if group.sum() < max(2, MINORITY * pairs.n) or not fast[inside].all():
            return []
        names = ", ".join(node for node, is_in in zip(self.nodes, group) if is_in)
        much = metric.said(float(np.median(pairs.values[fast])))
        return [
            f"{metric.name}: only {names} have {much} with each other, the median of all is "
            f"{metric.said(fit.base)}: perhaps most nodes are slow"
        ]


def _parts(metric: Metric, found: localise.Search) -> list[Finding]:
    """The slow parts of the network in words."""
    findings = []
    for blame in found.blamed:
        change = metric.change(blame.effect)
        switch = all(part.kind is Kind.SWITCH for part in blame.parts)
        reason = (
            f"{' or '.join(map(str, blame.parts))}: {metric.name} "
            f"{metric.said(found.base + blame.effect)} through it, pairs of nodes without it "
            f"have {metric.said(found.base)} ({_percent(change)})"
        )
        fault = Fault.SLOW_SWITCH if switch else Fault.SLOW_TRUNK
        findings.append(Finding(fault, (), reason, metric.name, change, False, blame.parts))
    return findings


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


def _ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    def rank(finding: Finding) -> tuple[bool, float, tuple[str, ...]]:
        size = 0.0 if finding.deviation is None else -abs(math.log1p(finding.deviation))
        return bool(finding.metric), size, finding.nodes

    return tuple(sorted(findings, key=rank))
