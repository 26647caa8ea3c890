"""Verdicts: measured values compared with what a partition is expected to reach."""

from assay.judge.peaks import Hardware, Known, Peak, hardware, peak
from assay.judge.plausible import Ratios, judge_ratios, of_peak
from assay.judge.reference_files import ReferencesError
from assay.judge.references import (
    ANY,
    CALIBRATED,
    YARDSTICKS,
    Recorded,
    Reference,
    References,
    describe,
)
from assay.judge.verdict import (
    GREEN,
    LAUNCHES_FOR_95_PERCENT,
    LAUNCHES_IN_BUDGET,
    LAUNCHES_TO_FAIL,
    LAUNCHES_TO_PASS,
    RED,
    Fault,
    Outcome,
    Verdict,
    decided,
    judge,
    median_interval,
    outcome,
    worst,
    worst_first,
)

__all__ = [
    "ANY", "CALIBRATED", "GREEN", "LAUNCHES_FOR_95_PERCENT", "LAUNCHES_IN_BUDGET",
    "LAUNCHES_TO_FAIL", "LAUNCHES_TO_PASS", "RED", "YARDSTICKS", "Fault", "Hardware",
    "Known", "Outcome", "Peak", "Ratios", "Recorded", "Reference", "References", "ReferencesError",
    "Verdict", "decided", "describe", "hardware", "judge", "judge_ratios", "median_interval",
    "of_peak", "outcome", "peak", "worst", "worst_first",
]  # fmt: skip
