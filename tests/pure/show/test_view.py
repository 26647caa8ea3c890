"""The page of many cases: folded by test, small, and with a way to each case."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import report_records

from assay.accused import Accusation
from assay.judge import Verdict
from assay.show import figures, page, view
from assay.store.cases import Case, Session
from assay.store.record import Metric

#: What a page of 10,000 cases may have: bytes, elements.
BYTES, ELEMENTS = 3_000_000, 20_000

RED = 0.02


def many(number: int) -> list[Case]:
    """Made cases of 20 tests on 500 nodes, of which each fiftieth failed."""
    cases = []
    for n in range(number):
        node, failed = f"node{n % 500:03}", n % round(1 / RED) == 0
        verdict = Verdict.FAIL if failed else Verdict.PASS
        said = f"{node}: rate {n} MB/s is too low"
        name = f"Made{n % 20} %copy={n}"
        cases.append(
            Case(
                f"Made{n % 20}", name, f"Made_{n}", "s", "p", "e", verdict,
                kind="network", nodes=(node,), parameters={"copy": n}, why=said if failed else "",
                problems=(said,) if failed else (), recorded=True, proof={"ranks": {"asked": 2}},
                accused=(Accusation((node,), "failed", said),) if failed else (),
                metrics=tuple(
                    Metric(m, 100.0 + n, "MB/s", verdict, lower=90.0) for m in ("rate", "other")
                ),
                outputs=(Path(f"/r/results/output/T/s/p/e/Made_{n}/rfm_job.out"),),
            )
        )  # fmt: skip
    return cases


def rendered(cases: list[Case]) -> str:
    run = Session(Path("/r/results/reports/run-report-0.json"), "u", "h", None, 1.0, "c", "4", ())
    made = view.View.of(view.replace(run, cases=tuple(cases)))
    sections = figures.sections(cases, made.whole)
    return page.render_page(made, sections, [], Path("/r/results/report.html"))


@pytest.fixture(scope="module")
def folded() -> str:
    return rendered([*many(10_000), *report_records.cluster()])


def test_a_page_of_many_cases_is_small(folded: str) -> None:
    assert len(folded.encode()) <= BYTES
    assert len(re.findall(r"<[a-z]", folded)) <= ELEMENTS


def test_each_case_has_its_lines_or_a_link_to_its_folder(folded: str) -> None:
    cases = folded[folded.index('<section id="cases"') :]
    links = set(re.findall(r'href="output/T/s/p/e/(Made_\d+)/', cases))
    assert links == {f"Made_{n}" for n in range(10_000)}
    in_full = cases.count('<details class="case">')
    assert in_full == page.MOST_ROWS
    for test in range(20):
        assert f"Made{test}: 500 ran: " in cases
    anchors = re.findall(r'id="(case-\d+)"', folded)
    assert {*re.findall(r'href="#(case-\d+)"', folded)} <= {*anchors}


def test_a_folded_page_says_what_is_elsewhere(folded: str) -> None:
    text = re.sub(r"<[^>]+>", "", folded)
    red = 200 + sum(case.verdict is Verdict.FAIL for case in report_records.cluster())
    assert f"In full are {page.MOST_ROWS} of {red} that failed or stayed undecided." in text
    assert "assay report --metrics FILE writes all 20" in text
    assert "assay report --figures DIR draws all." in text
    assert (
        f"And {500 + 25 - page.MOST_ROWS} more, not on this page: assay nodes writes all." in text
    )


def test_a_page_of_few_cases_shows_each() -> None:
    html = rendered(many(view.WHOLE))
    assert html.count('<details class="case">') == view.WHOLE
    assert "folded by test" not in html
    assert "folded by test" in rendered(many(view.WHOLE + 1))
