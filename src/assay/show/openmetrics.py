"""The values and verdicts of a run as OpenMetrics, for Prometheus, Grafana and GitLab.

The textfile collector of node_exporter reads the same text. It refuses time stamps, and one sample
in two files; so each sample names its system.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict

from assay.exits import Exit
from assay.judge import Verdict
from assay.show import nodes, summary
from assay.store.cases import Case, Session

CODES = "0 PASS, 1 FAIL, 2 not judged, 3 INCONCLUSIVE"


def render(run: Session) -> str:
    """The file. What a session does not know has no sample, as a case that was not run."""
    system = {"system": "/".join(run.systems)}
    text: list[str] = []

    def gauge(
        name: str, what: str, samples: Iterable[tuple[Mapping[str, str], float | None]]
    ) -> None:
        text.extend([f"# HELP assay_{name} {what}", f"# TYPE assay_{name} gauge"])
        for labels, value in samples:
            if value is not None:
                said = ",".join(f'{k}="{_escaped(v)}"' for k, v in {**system, **labels}.items())
                text.append(f"assay_{name}{{{said}}} {float(value)!r}")

    code = Exit[summary.outcome(run).word]
    gauge("run_verdict", "0 PASS, 1 FAIL, 3 undecided, 4 PARTIAL.", [({}, code)])
    start = run.start.timestamp() if run.start else None
    gauge("session_start_seconds", "When the session began, in Unix time.", [({}, start)])
    counts = asdict(summary.Counts.of(run.cases)).items()
    counted = [({"outcome": key}, number) for key, number in counts if key != "verdict"]
    gauge("cases", "Number of cases by outcome.", counted)
    ended = [(_labels(case), _code(case.verdict.value)) for case in run.cases if case.verdict]
    gauge("case_verdict", f"{CODES}.", ended)
    found = nodes.rows(run.cases)
    rows = [({"node": row.name, "kind": row.kind}, _code(row.verdict)) for row in found]
    gauge("node_verdict", f"Of each node, device and cable: {CODES}.", rows)
    values = [(_labels(c, metric=m.name, unit=m.unit), m) for c in run.cases for m in c.metrics]
    gauge("metric", "What was measured, in its unit.", [(k, m.value) for k, m in values])
    for side in ("lower", "upper"):
        bounds = [(labels, getattr(metric, side)) for labels, metric in values]
        gauge(f"metric_{side}_bound", f"The {side} bound of a metric, in its unit.", bounds)
    return "\n".join([*text, "# EOF", ""])


def _code(word: str) -> Exit:
    """The verdict on a case or a node has the number of an exit code."""
    return Exit.UNKNOWN if word in (Verdict.RECORDED.value, nodes.NOT_JUDGED) else Exit[word]


def _labels(case: Case, **more: str) -> dict[str, str]:
    places = {key: getattr(case, key) for key in ("system", "partition", "environ")}
    return {**places, "case": case.title, **more}


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
