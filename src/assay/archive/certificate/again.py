"""Judges a session again, from its verbatim outputs and the references of the site.

The parsers read the outputs anew, the formulas in the records give the metrics, and
:mod:`assay.judge` and :mod:`assay.prove` the verdicts and the evidence, as in the run. What does
not follow is a contradiction. What cannot be derived again is counted: it rests on the record.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from inspect import signature
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from assay import files
from assay.archive import bundle
from assay.judge import (
    GREEN,
    Peak,
    Reference,
    References,
    ReferencesError,
    Verdict,
    curves,
    judge,
    judge_ratios,
)
from assay.parse import Parsed, ParseError, formulas, openmpi, reading, ucx_log
from assay.parse.registry import PARSERS
from assay.prove import launch, transports
from assay.quantities import number
from assay.store import cases
from assay.store.cases import Case, Session, grouped
from assay.store.record import CALIBRATION, NO_MEASUREMENT, OF_SOFTWARE, Metric, Output
from assay.store.sanitize import mapping

#: How a metric was confirmed.
OUTPUTS = "outputs"

#: Files of a case that no benchmark wrote.
_OURS = (".json", ".sh", ".yaml", ".lock", ".launch")

#: Standard output and error of a job, and the logs of UCX, as ReFrame and the tests name them.
_OUT, _ERR, _UCX = "rfm_*job.out", "rfm_*job.err", "ucx.*.log"

#: Evidence in a record whose files a bundle does not have -> what it is.
_NOT_KEPT = {"node_health": "counters of the nodes", "settings": "settings", "link": "bytes moved"}

#: The time zone in a container may be any [s].
_ZONES = 15 * 3600.0


@dataclass
class Again:
    """One case, judged again.

    :ivar read_from: the files whose text gives the rows of the record.
    :ivar metrics: metric -> :data:`OUTPUTS`, or why it rests on the record.
    :ivar contradictions: what does not follow, one line each.
    """

    case: Case
    read_from: tuple[str, ...] = ()
    metrics: dict[str, str] = field(default_factory=dict)
    contradictions: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Reading:
    """What the outputs of one attempt give: the files, their rows, or a row that differs."""

    files: tuple[str, ...] = ()
    parsed: Parsed | None = None
    differs: str = ""


class _Unknown(Exception):
    """A value cannot be computed again; the argument is the reason."""


class Judge:
    """Judges the cases of a session.

    :ivar evidence: kind of evidence, and whether it was found again -> number of launches.
    """

    def __init__(self, session: Session, references: References) -> None:
        self._references = references
        self._alone = not {"--mode", "--max-retries"} & {
            word.partition("=")[0] for word in session.command.split()
        }
        self._attempts = grouped(((c.unique_name, c.where), c) for c in session.attempts)
        self._readings: dict[int, _Reading] = {}
        self._asked: list[tuple[str, str, str]] = []
        self.evidence: Counter[tuple[str, bool]] = Counter()
        self.cases = [self._case(case) for case in session.cases if case.recorded]

    def _case(self, case: Case) -> Again:
        found = Again(case)
        tries = self._attempts[case.unique_name, case.where]
        until = [c.parsed is case.parsed for c in tries].index(True) + 1
        attempts = [c for c in tries[:until] if c.metrics]
        found.read_from = self._reading(case).files
        found.contradictions += [
            reading.differs for reading in map(self._reading, attempts or [case]) if reading.differs
        ]
        for attempt in tries[:until]:
            for kind, against in _evidence(attempt):
                self.evidence[kind, against is not None] += 1
                # The record of a launch that failed names why, and has no metrics.
                if against and (attempt.metrics or attempt.verdict in GREEN):
                    place = attempt.outputs[0].parent.name
                    found.contradictions += [f"{place}: {line}" for line in against]
        if case.verdict in GREEN and case.problems:
            found.contradictions.append(
                f"the verdict is {case.verdict.value}, and there is a problem: {case.problems[0]}"
            )
        counted = [c for c in attempts if not c.busy]
        for metric in case.metrics:
            name = metric.name
            try:
                # What other work left without a verdict has the values of its last launch alone.
                self._value([case] if case.busy else counted, metric)
                found.metrics[name] = OUTPUTS
            except _Unknown as why:
                found.metrics[name] = str(why)
            except ValueError as error:
                found.metrics[name] = OUTPUTS
                found.contradictions.append(f"{name}: {error}")
            if not case.busy:
                found.contradictions += self._verdict(case, metric)
        if not case.busy:
            found.contradictions += self._curve(case, counted)
        return found

    def _value(self, attempts: Sequence[Case], metric: Metric) -> None:
        """Computes a metric again.

        :raises ValueError: the outputs give another value.
        :raises _Unknown: they do not give the value.
        """
        samples = [*metric.samples]
        if not samples:
            raise ValueError("the record has no finite samples of it")
        found = [v for attempt in attempts for v in self._own(attempt, metric.name)]
        again = found[-len(samples) :]
        if lost := len(samples) - len(again):
            raise _Unknown(f"{lost} of {len(samples)} launches left no output")
        if again != samples:
            given = f"the outputs give {_listed(again)}"
            raise ValueError(f"{given}, the record says {_listed(samples)}")
        if metric.value != (middle := statistics.median(again)):
            given = f"its launches give {number(middle, 6)}"
            raise ValueError(f"{given}, the record says {metric.value}")

    def _own(self, attempt: Case, name: str) -> list[float]:
        """The values of a metric in one launch, from its outputs."""
        said = next((metric.origin for metric in attempt.metrics if metric.name == name), None)
        if not isinstance(said, list) or not said:
            raise _Unknown("its record does not say how it was computed")
        reading = self._reading(attempt)
        if reading.parsed is None and any(map(_has_cell, said)):
            raise _Unknown("no single output has the rows that its test read")
        rows = reading.parsed.rows if reading.parsed else ()
        return [evaluate(one, rows, self._metric_of_another) for one in said]

    def _metric_of_another(self, unique_name: str, where: str, name: str, value: float) -> float:
        key = unique_name, where, name
        if key in self._asked:
            raise ValueError(f"{name} of {unique_name} is computed from itself")
        self._asked.append(key)
        try:
            others = self._attempts.get((unique_name, where), [])
            known = [v for other in others if other.recorded for v in self._own(other, name)]
        finally:
            self._asked.pop()
        if value not in known:
            was = f"{name} of {unique_name} was {_listed(known)}"
            raise ValueError(f"{was}, not {number(value, 6)}")
        return value

    def _reading(self, attempt: Case) -> _Reading:
        key = id(attempt.parsed)
        if key not in self._readings:
            self._readings[key] = _read(attempt)
        return self._readings[key]

    def _verdict(self, case: Case, metric: Metric) -> Iterator[str]:
        """What speaks against the verdict of a metric."""
        name, said = metric.name, metric.verdict.value
        if metric.why == CALIBRATION or _measured_nothing(case, metric):
            return
        of = metric.percent_of
        peak = Peak(of.what, of.peak, of=of.of) if of and of.peak else None
        named = case.hardware
        try:
            expected = self._references.find(_keys(case), name, metric.unit, peak, named)
        except ReferencesError as error:
            yield f"{name}: {error}"
            return
        if not isinstance(expected, Reference):
            if said != Verdict.RECORDED.value:
                yield f"{name}: {said}, and the site does not judge it: {expected.why}"
            return
        samples = metric.samples
        follows = judge(samples or (metric.value or 0.0,), expected)
        bounds = (follows.by.value if follows.by else None, *follows.bounds)
        before = metric.reference, metric.lower, metric.upper
        if before != bounds:
            yield (
                f"{name}: was judged by {_listed(before)} (value, bounds), and the references of "
                f"the site say {_listed(bounds)}"
            )
            return
        if samples and follows.verdict is not metric.verdict:
            yield f"{name}: says {said}, {follows.verdict.value} follows: {follows.why}"

    def _curve(self, case: Case, attempts: Sequence[Case]) -> Iterator[str]:
        """What speaks against a curve, by the rules for whole curves; the peak is left out."""
        pattern = case.curve
        readings = [self._reading(attempt).parsed for attempt in attempts]
        software = any(metric.why == NO_MEASUREMENT + OF_SOFTWARE for metric in case.metrics)
        judged = pattern in curves.limits() and all(readings) and not software
        if case.verdict not in GREEN or not judged:
            return
        once = {int(size): time for size, time in case.once.items() if size.isdigit()}
        launches, outputs = [], [*filter(None, readings)]
        for parsed in outputs:
            column = curves.column(parsed.rows)
            ratios = dict(curves.ratios(parsed.rows, pattern, once, alone=self._alone))
            if column and not self._alone:
                try:
                    bounds = self._references.envelope(_keys(case), column, parsed.units[column])
                except ReferencesError as error:
                    yield str(error)
                    return
                ratios.update(curves.outside(parsed.rows, bounds))
            launches.append(ratios)
        best = curves.best([parsed.rows for parsed in outputs], pattern, once)
        follows = judge_ratios(launches, best)
        if launches and follows.verdict is not Verdict.PASS:
            yield f"says {case.verdict.value}, {follows.verdict.value} follows: {follows.why}"


def _measured_nothing(case: Case, metric: Metric) -> bool:
    """Whether a metric says nothing of the machine, so that no yardstick judges it.

    Else a record could leave out what is red: only emulated GPUs, of which no number is judged, and
    reads of IOR, which the page cache may answer, have such metrics.
    """
    if metric.verdict is not Verdict.RECORDED or not metric.why.startswith(NO_MEASUREMENT):
        return False
    if metric.why == NO_MEASUREMENT + OF_SOFTWARE:
        return case.verdict is Verdict.RECORDED
    return case.family == "ior" and metric.name.startswith("read")


def _keys(case: Case) -> dict[str, Any]:
    return {"system": case.system, **case.key}


def _evidence(attempt: Case) -> Iterator[tuple[str, list[str] | None]]:
    """Each kind of evidence of a launch, with what the files say against its record.

    It is None where the bundle does not have the files, or the record is too old.
    """
    proof, transport = attempt.proof, attempt.transport
    ended, err, logs = (_text(attempt, name) for name in (launch.FILE, _ERR, _UCX))
    yield "exit code and time", None if ended is None else _ended(ended, attempt)
    ranks, world = mapping(proof.get("ranks")), openmpi.parse_openmpi(err or "")
    if "pml" in proof:
        hosts = dict(Counter(host for host, _ in world.selected))
        seen = {"hosts": hosts, "ranks": {**ranks, "seen": world.ranks_seen}}
        several = [f"{world.worlds} worlds came up"] if world.worlds > 1 else []
        against = [*world.aborts, *several, *_other({"pml": sorted(world.pml), **seen}, proof)]
        known = err is not None and proof.get("mpi", "openmpi") == "openmpi"
        yield "world", against if known else None
    if "means" in proof and transport in transports.TRANSPORTS:
        log = ucx_log.parse_ucx_log(logs or "")
        log = transports.without_farewells(transport, log, world.farewells if ranks else 0)
        sizes, processes = proof.get("sizes", ()), ranks.get("asked", 2)
        again = dataclasses.asdict(
            transports.prove_transport(transport, log, sizes, processes=processes)
        )
        against = [*again.pop("problems"), *_other(again, proof)]
        yield "path", against if logs is not None and "sizes" in proof else None
    for key, kind in _NOT_KEPT.items():
        if getattr(attempt, key, None) or proof.get(key):
            yield kind, None


def _ended(text: str, attempt: Case) -> list[str]:
    """What the record of a launch by its job script says against the case."""
    try:
        ended = launch.parse_launch(text)
    except ValueError as error:
        return [str(error)]
    times = {"benchmark": ended.end - ended.begin, "began": ended.begin}
    return [
        *([f"{launch.FILE} has exit code {ended.rc}"] if ended.rc else []),
        *_other(times, {k: v for k, v in asdict(attempt.seconds).items() if v is not None}),
        *launch.out_of_time(ended, 0.0, _text(attempt, _OUT) or "", _ZONES),
    ]


def _other(again: Mapping[str, Any], said: Mapping[str, Any]) -> list[str]:
    """What the files give otherwise than the record says, one line for each key."""
    return [
        f"the files give {key} {it}, the record says {said[key]}"
        for key, it in again.items()
        if key in said and it != said[key]
    ]


def _text(attempt: Case, pattern: str) -> str | None:
    """The text of the files with such names; None if there is none, or one is too large."""
    found = sorted(path for path in attempt.outputs if fnmatch(path.name, pattern))
    with suppress(ParseError):
        return "".join(map(_of_file, found)) if found else None
    return None


def _of_file(path: Path) -> str:
    return reading.of_bytes(files.read_bytes(path, bundle.MOST_OF_MEMBER))


def _read(attempt: Case) -> _Reading:
    """The rows of an attempt, if its parser reads them from its outputs."""
    said = attempt.parsed
    parser = PARSERS.get(attempt.family)
    if parser is None:
        return _Reading()
    texts = {}
    for path in (path for path in attempt.outputs if path.suffix not in _OURS):
        with suppress(ParseError):
            texts[f"{path.parent.name}/{path.name}"] = _of_file(path)
    pairs = [(a, b) for b in texts if b.endswith(".out") for a in texts if a != b]
    # A test may have told the parser the last message size.
    ways: list[dict[str, Any]] = [{}]
    sizes = [row.get("size") for row in said.rows]
    if "last_size" in signature(parser.parse).parameters and sizes:
        ways.append({"last_size": sizes[-1]})
    differs = ""
    for names in [*((name,) for name in texts), *pairs]:
        text = "".join(texts[name] for name in names)
        for options in ways:
            try:
                parsed: Parsed = parser.parse(text, **options)
            except ParseError:
                continue
            difference = _difference(parsed, said)
            if not difference:
                return _Reading(names, parsed)
            # A text of the same program is the output of the case.
            if len(names) == 1 and not differs and parsed.program == said.program:
                differs = f"{names[0]} does not give the rows of its record: {difference}"
    return _Reading(differs=differs)


def _difference(parsed: Parsed, said: Output) -> str:
    """The first difference between an output and the record of it, in words."""
    output = json.loads(json.dumps(parsed.as_dict()))
    now = cases.fields({"parsed": output})["parsed"]
    for key in ("program", "version", "complete", "problems", "units"):
        if getattr(now, key) != (before := getattr(said, key)):
            return f"{key} is {getattr(now, key)}, the record says {before}"
    if len(said.rows) != len(now.rows):
        return f"it has {len(now.rows)} rows, the record {len(said.rows)}"
    for at, (new, old) in enumerate(zip(now.rows, said.rows)):
        for column, value in new.items():
            if (recorded := old.get(column)) != value:
                return f"row {at + 1}: {column} is {value}, the record says {recorded}"
    return ""


def _has_cell(said: Any) -> bool:
    return isinstance(said, list) and (said[:1] == ["cell"] or any(map(_has_cell, said[1:])))


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(f"{v:.10g}" if isinstance(v, float) else str(v) for v in values) or "nothing"


def evaluate(
    said: Any, rows: Sequence[Mapping[str, Any]], metric: Callable[[str, str, str, float], float]
) -> float:
    """The value of a formula.

    :param metric: gives the value of a metric of another case, from the arguments of its node.
    :raises ValueError: it is no formula, or a cell is not there.
    """
    no_value = f"{said!r:.200} has no value"
    try:
        match said:
            case bool():
                pass
            case int() | float():
                return float(said)
            case ["cell", at, column] if at >= 0:
                return float(rows[at][column])
            case ["metric", case, where, name, value]:
                return metric(str(case), str(where), str(name), float(value))
            case [str(sign), a, b] if sign in formulas.SIGNS:
                by = formulas.SIGNS[sign]
                return by(evaluate(a, rows, metric), evaluate(b, rows, metric))
    except (TypeError, LookupError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"{no_value}: {error!r:.100}") from None
    raise ValueError(no_value)
