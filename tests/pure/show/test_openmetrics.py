"""What other programs read of a run, JUnit XML and OpenMetrics, says what its page says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest
from msgspec import structs
from prometheus_client.openmetrics.parser import text_string_to_metric_families as as_openmetrics
from prometheus_client.parser import text_string_to_metric_families as as_prometheus
from report_results import Results
from shell import ROOT

from assay import cli
from assay.exits import Exit
from assay.judge import Verdict
from assay.show import junit, nodes, openmetrics, summary
from assay.show.view import View
from assay.store import session
from assay.store.cases import Session

RECORDED = sorted(ROOT.glob("tests/data/**/run-report-*.json"))
DASHBOARD = json.loads((ROOT / "examples/grafana/assay.json").read_text(encoding="utf-8"))


def read(run: Session) -> Xml.Element:
    (suite,) = Xml.fromstring(junit.render_junit(View.of(run)))
    return suite


def of_run(suite: Xml.Element) -> list[Xml.Element]:
    return [case for case in suite.iter("testcase") if case.get("classname") == "assay"]


@pytest.mark.parametrize("file", RECORDED, ids=lambda path: path.parents[1].name)
def test_the_elements_of_a_suite_are_the_counts_of_the_page(file: Path) -> None:
    run = session.load_session(file)
    counts, suite = summary.Counts.of(run.cases), read(run)
    whole = [entry for case in of_run(suite) for entry in case]
    found = {tag: len([*suite.iter(tag)]) for tag in ("testcase", "failure", "error", "skipped")}
    assert {tag: str(number) for tag, number in found.items()} == {
        "testcase": suite.get("tests"),
        "failure": suite.get("failures"),
        "error": suite.get("errors"),
        "skipped": suite.get("skipped"),
    }
    assert found["testcase"] - len(of_run(suite)) == len(run.cases)
    assert found["failure"] - sum(e.tag == "failure" for e in whole) == counts.failed
    assert found["error"] - sum(e.tag == "error" for e in whole) == counts.inconclusive
    assert found["skipped"] == counts.not_run + counts.unfinished
    names = [case.get("name") for case in suite.iter("testcase")]
    assert len(set(names)) == len(names)


def test_a_case_has_its_reason_its_numbers_and_its_outputs(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI_PROJECT_DIR", str(results.directory))
    run = session.load_session(results.file)
    suite = read(run)
    found = {case.get("name"): case for case in suite.iter("testcase")}
    for case in run.cases:
        there = found[f"{case.title} @{case.where}"]
        said = {each.get("name"): each.get("value") for each in there.iter("property")}
        assert said.pop("verdict") == (case.verdict.value if case.verdict else "not run")
        assert {k: float(v or "") for k, v in said.items()} == {
            f"{m.name} [{m.unit}]": m.value for m in case.metrics
        }
        for entry in (*there.iter("failure"), *there.iter("skipped")):
            assert entry.get("message") == case.why
        attached = re.findall(r"\[\[ATTACHMENT\|(.*)\]\]", there.findtext("system-out") or "")
        assert [results.directory / place for place in attached] == [*case.outputs]
    assert any(case.outputs for case in run.cases)


@pytest.mark.parametrize(
    ("changes", "tag", "word"),
    [
        ({"faults": ("the site is another",)}, "failure", "FAIL"),
        ({"partial": ("2 of 9 promised cases selected by -n Hpl",)}, "error", "PARTIAL"),
        ({}, "", ""),
    ],
)
def test_what_is_wrong_with_the_whole_run_is_a_case(
    results: Results, changes: dict[str, Any], tag: str, word: str
) -> None:
    results.only("Hpcc@intra-node")
    run = structs.replace(session.load_session(results.file), **{"partial": (), **changes})
    whole = of_run(read(run))
    assert [(e.tag, e.get("type"), e.get("message")) for case in whole for e in case] == (
        [(tag, word, *changes.popitem()[1])] if changes else []
    )


def test_an_undecided_case_is_an_error_and_no_fault_of_the_run(results: Results) -> None:
    run = session.load_session(results.file)
    cases = [structs.replace(c, verdict=Verdict.INCONCLUSIVE, why="no") for c in run.cases]
    suite = read(structs.replace(run, cases=tuple(cases), partial=()))
    assert (suite.get("errors"), of_run(suite)) == (str(len(cases)), [])


@pytest.mark.parametrize("file", RECORDED, ids=lambda path: path.parents[1].name)
@pytest.mark.parametrize("reads", [as_prometheus, as_openmetrics])
def test_the_metrics_are_read_by_prometheus_in_both_formats(file: Path, reads: Any) -> None:
    run = session.load_session(file)
    found = {family.name: family for family in reads(openmetrics.render_metrics(View.of(run)))}
    assert {family.type for family in found.values()} == {"gauge"}

    def samples(name: str) -> dict[tuple[str, ...], float]:
        return {tuple(s.labels.values()): s.value for s in found[f"assay_{name}"].samples}

    (code,) = samples("run_verdict").values()
    assert code == Exit[summary.outcome(run).word]
    assert [*samples("session_start_seconds").values()] == [run.start and run.start.timestamp()]
    counts = summary.Counts.of(run.cases)
    assert samples("cases")["/".join(run.systems), "passed"] == counts.passed
    values = samples("metric")
    assert len(values) == sum(m.value is not None for case in run.cases for m in case.metrics)
    for case in run.cases:
        at = (case.system, case.partition, case.environ, case.title)
        assert (at in samples("case_verdict")) is (case.verdict is not None)
        for metric in case.metrics:
            key = (*at, metric.name, metric.unit)
            assert values.get(key) == metric.value
            assert samples("metric_lower_bound").get(key) == metric.lower
            assert samples("metric_upper_bound").get(key) == metric.upper
    codes = {"PASS": 0, "FAIL": 1, "UNDECIDED": 3, "NOT MEASURED": 4}
    for row in nodes.rows(run):
        assert (
            samples("node_verdict")["/".join(run.systems), row.name, row.kind]
            == (codes[row.verdict])
        )


@pytest.mark.parametrize(
    ("unjudged", "partial", "code"),
    [
        ("below its bound", ("1 case was not judged",), Exit.PASS),
        ("below its bound", ("1 of 2 promised cases selected", "1 case was not judged"), 4),
        ("", ("1 of 2 promised cases selected",), Exit.PARTIAL),
    ],
)
def test_other_work_alone_makes_the_machine_of_a_person_not_red(
    results: Results, unjudged: str, partial: tuple[str, ...], code: int
) -> None:
    run = session.load_session(results.file)
    cases = [structs.replace(c, verdict=Verdict.RECORDED) for c in run.cases]
    cases[0] = structs.replace(cases[0], not_judged=(unjudged,) if unjudged else ())
    run = structs.replace(run, cases=tuple(cases), faults=(), partial=partial)
    assert (summary.exit_code(run), summary.outcome(run).word) == (code, "PARTIAL")


def test_a_label_with_any_text_is_read_back(results: Results) -> None:
    run = session.load_session(results.file)
    odd = 'a"b\\c\\nd\ne'
    case = structs.replace(run.cases[0], display_name=odd)
    text = openmetrics.render_metrics(View.of(structs.replace(run, cases=(case,))))
    for reads in (as_prometheus, as_openmetrics):
        (family,) = (f for f in reads(text) if f.name == "assay_case_verdict")
        assert family.samples[0].labels["case"] == odd


def test_the_report_writes_both_files(results: Results) -> None:
    xml, text = results.directory / "junit.xml", results.directory / "assay.prom"
    code = cli.main(["report", "--junit", str(xml), "--metrics", str(text)])
    run = session.load_session(results.file)
    assert code == summary.exit_code(run)
    assert xml.read_text() == junit.render_junit(View.of(run))
    assert text.read_text() == openmetrics.render_metrics(View.of(run))


def test_a_file_that_cannot_be_written_is_one_line(
    results: Results, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["report", "--metrics", str(results.directory / "no/such.prom")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def queries() -> list[str]:
    targets = [target for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    variables = [str(each["query"]) for each in DASHBOARD["templating"]["list"][1:]]
    return [*(target["expr"] for target in targets), *variables]


def test_the_dashboard_asks_only_for_what_the_file_has(results: Results) -> None:
    families = [
        *as_prometheus(openmetrics.render_metrics(View.of(session.load_session(results.file))))
    ]
    labels: dict[str, set[str]] = {
        sample.name: {*sample.labels} for family in families for sample in family.samples
    }
    asked = re.findall(r"(assay_\w+)(?:\{([^}]*)\})?", " ".join(queries()))
    assert {name for name, _ in asked} == labels.keys()
    for name, wanted in asked:
        assert set(re.findall(r"(\w+)\s*=", wanted)) <= labels[name], name
