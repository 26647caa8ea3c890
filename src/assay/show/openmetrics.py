"""The values and verdicts of a run as OpenMetrics, for Prometheus, Grafana and GitLab.

The textfile collector of node_exporter reads the same text. It refuses time stamps, and one sample
in two files; so each sample names its system.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from assay.exits import Exit
from assay.show import nodes
from assay.show.strength import least_loss
from assay.show.view import View
from assay.store.cases import Case

CODES = "0 PASS, 1 FAIL, 2 not judged, 3 INCONCLUSIVE"
ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def render_metrics(view: View) -> str:
    """The file. What a session does not know has no sample, as a case that was not run."""
    run = view.session
    system, start = {"system": "/".join(run.systems)}, run.start.timestamp() if run.start else None
    counts = vars(view.counts).items()
    cases = [({"outcome": key}, number) for key, number in counts if key != "verdict"]
    code = Exit[view.outcome.word]
    values = [(_labels(c, metric=m.name, unit=m.unit), m) for c in run.cases for m in c.metrics]
    rows = [({"node": r.name, "kind": r.kind}, nodes.CODES[r.verdict]) for r in view.nodes]
    codes = {**Exit.__members__, "RECORDED": Exit.UNKNOWN}
    ended = [(_labels(case), codes[case.verdict.value]) for case in run.cases if case.verdict]
    gauges: dict[str, Iterable[tuple[Mapping[str, str], float | None]]] = {
        "run_verdict 0 PASS, 1 FAIL, 3 undecided, 4 PARTIAL.": [({}, code)],
        "session_start_seconds When the session began, in Unix time.": [({}, start)],
        "cases Number of cases by outcome.": cases,
        f"case_verdict {CODES}.": ended,
        "node_verdict 0 PASS, 1 FAIL, 3 undecided, 4 not measured.": rows,
        "metric What was measured, in its unit.": [(k, m.value) for k, m in values],
        "metric_lower_bound Its lower bound, in its unit.": [(k, m.lower) for k, m in values],
        "metric_upper_bound Its upper bound, in its unit.": [(k, m.upper) for k, m in values],
        "metric_least_loss The least factor of a loss that would have been red.": [
            ({**k, "yardstick": m.yardstick or ""}, least_loss(m)) for k, m in values
        ],
    }
    text = []
    for head, samples in gauges.items():
        name = f"assay_{head.split()[0]}"
        text += [f"# HELP assay_{head}", f"# TYPE {name} gauge"]
        for labels, value in samples:
            every = {**system, **labels}.items()
            said = ",".join(f'{k}="{v.translate(ESCAPES)}"' for k, v in every)
            text += [f"{name}{{{said}}} {float(value)!r}"] if value is not None else []
    return "\n".join([*text, "# EOF", ""])


def _labels(case: Case, **more: str) -> dict[str, str]:
    places = {"system": case.system, "partition": case.partition, "environ": case.environ}
    return {**places, "case": case.title, **more}
