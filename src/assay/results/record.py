"""The record of a test case: what was run, the evidence for it, and the verdict.

The record is one JSON object, ``assay.json``, beside the verbatim output of the case. The report
reads all measured values from these records. ReFrame's own run report lists the cases.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assay import declared, files
from assay.judge import Judgement, Reference
from assay.outputs import Parsed

FILE = "assay.json"

#: Start of the message about a case that other work on the machine disturbed.
BUSY = "the machine was busy"

#: Why the metrics of a calibration have no verdict.
CALIBRATION = "calibration run"

#: Version of the record. Increase it by one whenever a key changes its meaning.
SCHEMA = 1


def begin(test: Any) -> dict[str, Any]:
    """The part of a record that is known before the output is read.

    :param test: a :class:`assay.checks.strict.StrictCheck` after its setup.
    """
    case = test.case()
    return {
        "schema": SCHEMA,
        "test": case.pop("test"),
        "unique_name": test.unique_name,
        "display_name": test.display_name,
        "system": test.current_system.name,
        "partition": case.pop("partition"),
        "environ": case.pop("environ"),
        "kind": test.kind,
        "profile": case.pop("profile"),
        "purpose": test.purpose,
        "parameters": case,
        "figures": declared.as_json(test.figures),
        "nodes": test.hosts,
        "stack": test.current_environ.extras.get("provenance"),
        "attempts": test.launches(),
        "least_launches": test.least_launches,
    }


def of_output(parsed: Parsed | None) -> dict[str, Any]:
    """The part of a record that comes from the output; empty if the output could not be read."""
    if parsed is None:
        return {}
    return {
        "family": parsed.family,
        "program": parsed.program,
        "version": parsed.version,
        "parsed": parsed.as_dict(),
    }


def of_metric(value: float, unit: str, values: Sequence[float]) -> dict[str, Any]:
    """The measured part of a metric; `value` is the median of `values`."""
    return {"value": value, "unit": unit, "samples": list(values)}


def of_peak(what: str, peak: float, value: float, unit: str) -> dict[str, Any]:
    """The peak that a value is compared with, and the value in percent of that peak."""
    return {"what": what, "peak": peak, "unit": unit, "percent": 100 * value / peak}


def of_judgement(expected: Reference, judgement: Judgement) -> dict[str, Any]:
    """The reference that a metric was judged by, and the verdict."""
    return {
        "reference": expected.value,
        "lower": expected.lower_bound,
        "upper": expected.upper_bound,
        "source": expected.source,
        "verdict": judgement.verdict.value,
        "why": judgement.why,
    }


def write(path: Path, record: dict[str, Any]) -> None:
    """Write a record whole or not at all."""
    files.write(path, json.dumps(record, indent=1, default=str) + "\n")
