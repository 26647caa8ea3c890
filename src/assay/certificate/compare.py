"""Compares an acceptance with an earlier one: what the machine still reaches.

Every metric that the earlier acceptance judged must reach a share of its earlier value: 0.9, unless
the site states another by ``reacceptance`` in its ``promise.yaml``. The launches are judged by
:func:`assay.judge.judge`, as by any other reference. Of two different shares, the greater one
holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from assay import metrics
from assay.judge import Reference, Verdict, judge
from assay.quantities import number


@dataclass(frozen=True)
class Comparison:
    """Two acceptances side by side.

    :ivar share: the least share that is accepted.
    :ivar compared: number of metrics that were compared.
    :ivar red: metrics that do not reach the share, or that nobody measured again, one line each.
    :ivar noted: the same of metrics that were recorded and not judged.
    """

    share: float
    compared: int
    red: tuple[str, ...]
    noted: tuple[str, ...]


def compare(new: Mapping[str, Any], old: Mapping[str, Any]) -> Comparison:
    """Compares two statements (:mod:`assay.certificate.statement`)."""
    share = max(new["reacceptance"], old["reacceptance"])
    there = dict(_metrics(new))
    red: list[str] = []
    noted: list[str] = []
    compared = 0
    for (name, where, metric), before in _metrics(old):
        if before["value"] is None or metrics.fault(before["unit"]) == "both":
            continue
        judged = before["verdict"] != Verdict.RECORDED.value
        now = there.get((name, where, metric))
        line = f"{metric} of {name} @{where}"
        if now is None or not now["samples"] or now["unit"] != before["unit"]:
            if judged:
                red.append(f"{line}: was not measured again")
            continue
        compared += 1
        follows = judge(now["samples"], _expected(before, share))
        if follows.verdict is not Verdict.PASS:
            reached = _share(before, now)
            (red if judged else noted).append(
                f"{line}: {reached:.1%} of {number(before['value'], 6)} {before['unit']}: "
                f"{follows.why}"
            )
    return Comparison(share, compared, tuple(red), tuple(noted))


def _metrics(said: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str, str], Mapping[str, Any]]]:
    for case in said["cases"]:
        for name, metric in case["metrics"].items():
            yield (case["name"], case["where"], name), metric


def _expected(before: Mapping[str, Any], share: float) -> Reference:
    longer = metrics.lower_is_better(before["unit"])
    return Reference(
        before["value"],
        before["unit"],
        None if longer else share - 1,
        1 / share - 1 if longer else None,
        "the earlier acceptance",
    )


def _share(before: Mapping[str, Any], now: Mapping[str, Any]) -> float:
    longer = metrics.lower_is_better(before["unit"])
    a, b = (before, now) if longer else (now, before)
    return float(a["value"] / b["value"]) if b["value"] else 0.0
