"""How strong a PASS is: what judged the cases, and the least loss that would have been red."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from assay.judge import ANY, YARDSTICKS, Verdict
from assay.judge.references import CALIBRATION, PUBLISHED, SHARED, SITE
from assay.metrics import fault
from assay.store.cases import Case, grouped
from assay.store.record import Metric

#: Kind of part -> the words of a test's `proves` that show its loss. A node has these parts.
PARTS = {
    "processor": ("processor",),
    "memory": ("memory",),
    "network": ("latency", "rate"),
    "GPU": ("GPU", "GPU link"),
    "disk": ("write", "read"),
}

#: Each of these words -> what it measures of which part, such as ``network rate``.
SIDES = {
    word: word if word.startswith(part) else f"{part} {word}"
    for part, words in PARTS.items()
    for word in words
}

#: Yardstick -> in words, after a number of cases.
WORDS = {
    SITE: "by references of the site",
    CALIBRATION: "by the calibration of this machine",
    SHARED: "by a baseline of such a machine",
    PUBLISHED: "by what machines of this hardware publish",
    ANY: "by bounds of any machine",
}


@dataclass(frozen=True)
class Strength:
    """What the verdict of a run rests on.

    :ivar cases: yardstick -> number of cases that it judged. A case counts for its strongest one.
    :ivar losses: what was measured of a part, such as ``network rate`` -> the least factor of a
        loss that would have been red.
    :ivar blind: what was measured, and of which no loss would have been red.
    """

    cases: Mapping[str, int]
    losses: Mapping[str, float]
    blind: tuple[str, ...]

    @classmethod
    def of(cls, cases: Sequence[Case]) -> Strength:
        judged = [
            {_yardstick(m) for m in case.metrics if m.verdict is not Verdict.RECORDED}
            for case in cases
        ]
        first = (next((name for name in YARDSTICKS if name in used), "") for used in judged)
        counted = Counter(filter(None, first))
        found = grouped((part, loss) for case in cases for part, loss in _losses(case))
        losses = {what: min(filter(None, its), default=None) for what, its in found.items()}
        losses = {what: losses[what] for what in SIDES.values() if what in losses}
        blind = tuple(what for what, loss in losses.items() if loss is None)
        known = {what: loss for what, loss in losses.items() if loss is not None}
        return cls({name: counted[name] for name in YARDSTICKS if counted[name]}, known, blind)

    @property
    def wide_only(self) -> bool:
        """Whether bounds of any machine alone judged."""
        return [*self.cases] == [ANY]

    @property
    def said(self) -> list[str]:
        """Sentences without a full stop: what judged, what would have been red, what would not."""
        judged = [f"{number} {WORDS[name]}" for name, number in self.cases.items()]
        losses = [f"{part} {said_loss(loss)}" for part, loss in self.losses.items()]
        lines = [f"judged: {', '.join(judged)}"] if judged else []
        lines += [f"the least loss that would have been red: {', '.join(losses)}"] if losses else []
        blind = f"without a loss that would have been red: {', '.join(self.blind)}"
        return [*lines, blind] if self.blind else lines


def _yardstick(metric: Metric) -> str:
    """What judged a metric. Records of a version that did not say it are of the site."""
    return its if (its := metric.yardstick) in YARDSTICKS else YARDSTICKS[0]


def _losses(case: Case) -> Iterable[tuple[str, float | None]]:
    """(what is measured, the least loss that would have been red) of each metric that shows it."""
    if case.verdict is None or case.values.get("sync") == "cached":  # shows no disk
        return
    metrics = {metric.name: metric for metric in case.metrics}
    for word, what in SIDES.items():
        # Within a node, bytes cross no network.
        if word in PARTS["network"] and len(case.hosts) == 1:
            continue
        for name in metrics.keys() & {*case.proves.get(word, ())}:
            yield what, least_loss(metrics[name])


def least_loss(metric: Metric) -> float | None:
    """The least factor by which a worse value would have been red; None if none would."""
    value, lower, upper = metric.value, metric.lower, metric.upper
    if value is None or value <= 0 or metric.verdict is not Verdict.PASS:
        return None
    above = upper / value if upper is not None else None
    below = value / lower if lower else None
    losses = {"lower": (below,), "upper": (above,)}.get(fault(metric.unit), (above, below))
    return min((loss for loss in losses if loss is not None), default=None)


def said_loss(loss: float) -> str:
    """A factor in words: ``4 % slower``, ``40 times slower``."""
    if loss < 2:
        return f"{max(1, round(100 * (1 - 1 / loss)))} % slower"
    return f"{loss:.0f} times slower" if loss >= 10 else f"{loss:.1f} times slower"
