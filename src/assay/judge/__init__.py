"""Verdicts: what was measured against what this partition is expected to do."""

from assay.judge.references import Reference, References, ReferencesError
from assay.judge.verdict import Judgement, Verdict, judge, median_interval, worst

__all__ = [
    "Judgement",
    "Reference",
    "ReferencesError",
    "References",
    "Verdict",
    "judge",
    "median_interval",
    "worst",
]
