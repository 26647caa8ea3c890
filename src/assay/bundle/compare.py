"""Compares an acceptance with an earlier one: what the machine still reaches.

Every metric that the earlier acceptance judged must reach :data:`SHARE` of its earlier value. The
launches are judged by :func:`assay.judge.judge`, as by any other reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from assay import metrics
from assay.judge import Reference, Verdict, judge
from assay.quantities import number

#: Least share of the earlier performance that is accepted.
SHARE = 0.9


@dataclass(frozen=True)
class Comparison:
    """Two acceptances side by side.

    :ivar compared: number of metrics that were compared.
    :ivar red: metrics that do not reach the share, or that nobody measured again, one line each.
    :ivar noted: the same of metrics that were recorded and not judged.
    """

    compared: int
    red: tuple[str, ...]
    noted: tuple[str, ...]


def compare(new: Mapping[str, Any], old: Mapping[str, Any]) -> Comparison:
    """Compares two statements (:mod:`assay.bundle.contents`)."""
    there = dict(_metrics(new))
    red: list[str] = []
    noted: list[str] = []
    compared = 0
    for key, before in _metrics(old):
        if before["value"] is None or metrics.fault(before["unit"]) == "both":
            continue
        judged = before["verdict"] != Verdict.RECORDED.value
        now = there.get(key)
        name, where, metric = key
        line = f"{metric} of {name} @{where}"
        if now is None or not now["samples"] or now["unit"] != before["unit"]:
            if judged:
                red.append(f"{line}: was not measured again")
            continue
        compared += 1
        longer = metrics.lower_is_better(before["unit"])
        low, high = (None, 1 / SHARE - 1) if longer else (SHARE - 1, None)
        earlier = Reference(before["value"], before["unit"], low, high, "the earlier acceptance")
        follows = judge(now["samples"], earlier)
        if follows.verdict is not Verdict.PASS:
            a, b = (before, now) if longer else (now, before)
            reached = a["value"] / b["value"] if b["value"] else 0.0
            (red if judged else noted).append(
                f"{line}: {reached:.1%} of {number(before['value'], 6)} {before['unit']}: "
                f"{follows.why}"
            )
    return Comparison(compared, tuple(red), tuple(noted))


def _metrics(said: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str, str], Mapping[str, Any]]]:
    for case in said["cases"]:
        for name, metric in case["metrics"].items():
            yield (case["name"], case["where"], name), metric
