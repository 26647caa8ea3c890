"""The record of a test case: what was run, what proves it, and what was said of it.

One JSON object, ``assay.json``, beside the verbatim output of each case. The report reads nothing
else but these and ReFrame's own run report.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assay import files
from assay.judge import Judgement, Reference
from assay.outputs import Parsed

FILE = "assay.json"

#: Begins what is said of a case that other work on the machine disturbed.
BUSY = "the machine was busy"

#: Raised by one whenever a key changes its meaning.
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
        "nodes": test.hosts,
        "stack": test.current_environ.extras.get("provenance"),
        "attempts": test.launches(),
    }


def of_output(parsed: Parsed | None) -> dict[str, Any]:
    """The part of a record that comes from the output; empty where it could not be read."""
    if parsed is None:
        return {}
    return {
        "family": parsed.family,
        "program": parsed.program,
        "version": parsed.version,
        "parsed": parsed.as_dict(),
    }


def of_metric(value: float, unit: str, values: Sequence[float]) -> dict[str, Any]:
    """What was measured of a metric; `value` is the median of `values`."""
    return {"value": value, "unit": unit, "samples": list(values)}


def of_peak(what: str, peak: float, value: float, unit: str) -> dict[str, Any]:
    """What a value is a percentage of."""
    return {"what": what, "peak": peak, "unit": unit, "percent": 100 * value / peak}


def of_judgement(expected: Reference, judgement: Judgement) -> dict[str, Any]:
    """What a metric was judged by, and the verdict."""
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
