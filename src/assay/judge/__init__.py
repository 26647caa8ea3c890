"""Verdicts: what was measured against what this partition is expected to do."""

from assay.judge.peaks import peak
from assay.judge.references import Reference, References, ReferencesError
from assay.judge.verdict import (
    LAUNCHES_FOR_95_PERCENT,
    LAUNCHES_IN_BUDGET,
    LAUNCHES_TO_FAIL,
    Judgement,
    Verdict,
    judge,
    median_interval,
    worst,
)

__all__ = [
    "LAUNCHES_FOR_95_PERCENT",
    "LAUNCHES_IN_BUDGET",
    "LAUNCHES_TO_FAIL",
    "Judgement",
    "Reference",
    "References",
    "ReferencesError",
    "Verdict",
    "judge",
    "median_interval",
    "peak",
    "worst",
]
