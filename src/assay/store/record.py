"""The record of a test case: what was run, the evidence for it, and the verdict.

The record is one JSON object, ``assay.json``, beside the verbatim output of the case. A test writes
it, and the report reads all measured values from it. ReFrame's own run report lists the cases.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from assay import declared, files
from assay.judge import RED, Judgement, Reference, Verdict
from assay.parse import Parsed
from assay.store.cases import Accusation, Case, Metric, figures
from assay.store.sanitize import finite, line, mapping, sequence

FILE = "assay.json"

#: Start of the message about a case that other work on the machine disturbed.
BUSY = "the machine was busy"

#: Key of the record of a launch that passed, of a case that needs more launches to pass.
AGAIN = "again"

#: Why the metrics of a calibration have no verdict.
CALIBRATION = "calibration run"

#: Version of the record. Increase it by one whenever a key changes its meaning.
SCHEMA = 1


def begin(test: Any, case: dict[str, Any], nodes: list[str], launches: int) -> dict[str, Any]:
    """The part of a record that is known before the output is read.

    :param test: a :class:`assay.run.strict.StrictCheck` after its setup.
    :param case: the keys by which the references of the case are looked up.
    """
    return {
        "schema": SCHEMA,
        "test": case.pop("test"),
        "unique_name": test.unique_name,
        "display_name": test.display_name,
        "system": case.pop("system"),
        "partition": case.pop("partition"),
        "environ": case.pop("environ"),
        "scheduler": test.current_partition.scheduler.registered_name,
        "kind": test.kind,
        "profile": case.pop("profile"),
        "purpose": test.purpose,
        "parameters": case,
        "figures": declared.as_json(test.figures),
        "proves": declared.proven_by(test.proves, test.declares),
        "nodes": nodes,
        "stack": test.current_environ.extras.get("provenance"),
        "attempts": launches,
        "least_launches": test.least_launches,
    }


def of_output(parsed: Parsed | None) -> dict[str, Any]:
    """The part of a record that comes from the output; empty if the output could not be read."""
    if parsed is None:
        return {}
    output = {key: its for key, its in vars(parsed).items() if key != "rounded"}
    named = {key: output[key] for key in ("family", "program", "version")}
    return {**named, "parsed": output}


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


def with_record(case: Case, record: Mapping[str, Any]) -> Case:
    """The case with the content of its record, which decides its verdict."""
    parsed = mapping(record.get("parsed"))
    its: dict[str, Any] = {key: mapping(record.get(key)) for key in ("proof", "provenance")}
    for key in ("problems", "not_judged", "doubts"):
        its[key] = tuple(map(line, sequence(record.get(key))))
    for key in ("family", "program", "version", "busy"):
        its[key] = line(record.get(key))
    for key in ("test", "kind", "transport"):
        its[key] = line(record.get(key)) or getattr(case, key)
    case = replace(
        case,
        **its,
        metrics=metrics(record),
        accused=tuple(_accusations(record.get("accused"))),
        rows=tuple(r for r in sequence(parsed.get("rows")) if isinstance(r, dict)),
        units={str(k): line(v) for k, v in mapping(parsed.get("units")).items()},
        facts=mapping(parsed.get("facts")),
        parameters={str(k): line(v) for k, v in mapping(record.get("parameters")).items()}
        or case.parameters,
        benchmark_seconds=finite(mapping(record.get("seconds")).get("benchmark")) or 0.0,
        launches=int(finite(record.get("attempts")) or 1),
        record=record,
    )
    if "figures" in record:
        case = replace(case, figures=figures(record["figures"]))
    verdict = _verdict(record.get("verdict"))
    return replace(case, verdict=verdict, why=cause(case, verdict))


def _accusations(raw: Any) -> Iterator[Accusation]:
    """The entries that name a node or a part of the network; an old record has none."""
    for entry in map(mapping, sequence(raw)):
        nodes = tuple(line(node) for node in sequence(entry.get("nodes")))
        part = line(entry.get("part"))
        if nodes or part:
            yield Accusation(nodes, line(entry.get("how")), line(entry.get("problem")), part)


def metrics(record: Mapping[str, Any]) -> tuple[Metric, ...]:
    """The metrics of a record, in its order."""
    entries = mapping(record.get("metrics")).items()
    return tuple(_metric(name, mapping(raw)) for name, raw in entries)


def _metric(name: str, raw: Mapping[str, Any]) -> Metric:
    peak = mapping(raw.get("percent_of"))
    its: dict[str, Any] = {
        key: finite(raw.get(key)) for key in ("value", "reference", "lower", "upper")
    }
    its |= {key: line(raw.get(key)) for key in ("unit", "why", "source")}
    return Metric(
        name=name,
        verdict=_verdict(raw.get("verdict")),
        samples=tuple(s for s in map(finite, sequence(raw.get("samples"))) if s is not None),
        percent=finite(peak.get("percent")),
        peak=finite(peak.get("peak")),
        peak_unit=line(peak.get("unit")),
        peak_of=line(peak.get("what")),
        cell=_cell(raw.get("origin")),
        **its,
    )


def _cell(origin: Any) -> tuple[int, str] | None:
    """The cell that a metric is, by its formula (:mod:`assay.parse.formulas`)."""
    said = sequence(origin)
    kind, row, column = said[0] if len(said) == 1 and len(sequence(said[0])) == 3 else ("", 0, "")
    if kind == "cell" and type(row) is int and row >= 0:
        return row, line(column)
    return None


def cause(case: Case, verdict: Verdict) -> str:
    """Why a case is not a PASS, in one line: its first problem, else its first bad metric.

    In a case that failed, a problem that decides nothing (its text begins with INCONCLUSIVE)
    comes last: it is not why the case failed.
    """
    if verdict not in RED:
        return ""
    causes = list(case.problems) + [
        f"{metric.name}: {metric.why}" for metric in case.metrics if metric.verdict is verdict
    ]
    if verdict is Verdict.FAIL:
        causes.sort(key=lambda text: text.startswith(f"{Verdict.INCONCLUSIVE.value}: "))
    more = f" (and {len(causes) - 1} more)" if len(causes) > 1 else ""
    return causes[0] + more if causes else ""


def _verdict(raw: Any) -> Verdict:
    """A verdict as the record writes it; anything else is a FAIL."""
    return Verdict(raw) if raw in [*Verdict] else Verdict.FAIL
