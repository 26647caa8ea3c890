"""The page: complete in itself, escaped, and in agreement with the records."""

from __future__ import annotations

import html.parser
import re
import urllib.parse
from types import SimpleNamespace

import pytest
from ci import wanted
from report_results import Results
from shell import ROOT

from assay.show import figure, figures, page, summary
from assay.show.view import View
from assay.store import session
from studies.validation import HOSTS

LISTS = [ROOT / "studies/figures.yaml"]

VOID = {"meta", "br", "link", "img", "hr", "input"}
#: Attributes whose value a browser fetches or follows.
FETCHING = ("href", "xlink:href", "src", "srcset", "action", "poster", "data")


class Document(html.parser.HTMLParser):
    """Ids, references and nesting of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: dict[str, list[str]] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            self.text.setdefault(self.open[-1], []).append(data)

    def all(self, attribute: str) -> list[str]:
        return [attrs[attribute] for _, attrs in self.tags if attrs.get(attribute)]


def render(results: Results) -> str:
    run = session.load_session(results.file)
    sections = figures.sections(run.cases)
    absent = wanted.absent(run.cases, figure.all_figures(sections), LISTS)
    return page.render_page(View.of(run), sections, absent, results.directory / "report.html")


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """The unchanged session: its `results`, `run` and `text` of the page."""
    results = Results(tmp_path_factory.mktemp("session"))
    return SimpleNamespace(
        results=results, run=session.load_session(results.file), text=render(results)
    )


def test_the_page_is_well_formed_and_its_ids_are_unique(real):
    document = Document(real.text)
    assert document.open == []
    ids = document.all("id")
    assert len(ids) == len(set(ids))
    within = [href[1:] for href in document.all("href") if href.startswith("#")]
    within += [href[1:] for href in document.all("xlink:href") if href.startswith("#")]
    within += [name for names in document.all("aria-labelledby") for name in names.split()]
    assert within
    assert set(within) <= set(ids)


def test_the_page_fetches_nothing(real):
    document = Document(real.text)
    assert not {"link", "iframe", "object", "base", "embed"} & {tag for tag, _ in document.tags}
    # The script is in the page and asks for nothing.
    assert [attrs for tag, attrs in document.tags if tag == "script"] == [{}]
    (script,) = document.text["script"]
    assert re.findall(r"fetch|XMLHttp|import|WebSocket|sendBeacon|https?:|\.src\b", script) == []
    places = [value for name in FETCHING for value in document.all(name)]
    assert places
    # An address may be part of the text of an output, but never a link that a browser follows.
    assert [p for p in places if re.match(r"(?!data:)[a-z+]+:|//", p.strip(), re.I)] == []
    assert re.findall(r"url\((?!#)|@import", real.text) == []
    spaces = {
        value for _, attrs in document.tags for name, value in attrs.items() if "xmlns" in name
    }
    assert spaces <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_links_lead_to_the_outputs(real):
    document = Document(real.text)
    links = [h for tag, a in document.tags if tag == "a" and not (h := a["href"]).startswith("#")]
    assert len(links) > 10
    for link in links:
        assert (real.results.directory / urllib.parse.unquote(link)).is_file()


def test_links_survive_odd_names(results):
    odd = results.record("Hpcc@intra-node").parent / "a b#c?d%41.txt"
    odd.write_text("")
    document = Document(render(results))
    places = [urllib.parse.unquote(link) for link in document.all("href")]
    assert str(odd.relative_to(results.directory)) in places


def test_outputs_cannot_speak_html(results):
    evil = "</svg><script>alert(1)</script>&$x_"

    def spoil(record):
        record.update(program=evil, problems=[evil], version=evil, proof={evil: evil})
        metric = {"value": 1.0, "unit": evil, "verdict": "FAIL", "why": evil, "source": evil}
        metric["percent_of"] = {"what": evil, "peak": 2.0, "unit": evil, "percent": 50.0}
        record["metrics"] = {evil: metric}

    results.edit_record("Hpcc@intra-node", spoil)
    results.edit_record("NodeHealth@scratch", lambda r: r.update(provenance={evil: evil}))

    def names(report):
        for entry in report["runs"][0]["testcases"]:
            entry["fail_reason"] = evil
        report["session_info"].update(cmdline=evil, hostname=evil)

    results.edit(names)
    text = render(results)
    assert len(re.findall("<script", text)) == 1
    assert "alert(1)" not in "".join(Document(text).text["script"])
    assert text.count("&lt;script&gt;") > 10
    assert Document(text).open == []


def test_every_figure_says_what_it_shows_and_has_its_numbers(real):
    drawn = re.findall(r"<figure>.*?</figure>", real.text, re.DOTALL)
    assert len(drawn) >= 6
    for found in drawn:
        assert "<svg" in found
        assert 'role="img"' in found
        assert re.search(r"<title id=[^>]*>[^<]+</title><desc id=[^>]*>[^<]+</desc>", found)
        assert re.search(r"<figcaption>[^<]+</figcaption>", found)
        assert re.search(r"<td class=\"n\">\d", found)


def test_figures_without_a_measurement_are_named_once_for_each_reason(real):
    table = real.text[real.text.index('id="absent"') : real.text.index('id="provenance"')]
    rows = re.findall(
        r'<tr><th scope="row">(.*?)</th><td>(.*?)</td><td><code>(.*?)</code></td><td>(.*?)</td>',
        table,
    )
    told = [(name, at) for names, at, *_ in rows for name in names.split("; ")]
    cases = real.run.cases
    drawn = figure.all_figures(figures.sections(cases))
    expected = [(a.figure, a.at) for a in wanted.absent(cases, drawn, LISTS) if not a.part]
    assert sorted(told) == sorted(expected)
    assert ("bcast; gather; reduce; allreduce; alltoall", "between hosts") in [
        row[:2] for row in rows
    ]
    assert ("point to point: latency", HOSTS) not in told
    assert {row[3] for row in rows} == {"no case was selected"}


def test_every_verdict_is_a_word_and_failures_come_first(real):
    badge = r'class="badge ([a-z-]+)"><span[^>]*>[^<]*</span> ([A-Za-z ]+)</span>'
    words = re.findall(badge, real.text)
    assert len(words) > len(real.run.cases)
    assert all(css == word.lower().replace(" ", "-") for css, word in words)
    cases = real.text[real.text.index('id="cases"') :]
    order = re.findall(r'<details class="case"><summary><span class="badge ([a-z-]+)"', cases)
    ranks = ["fail", "inconclusive", "pass", "recorded", "not-run"]
    assert order == sorted(order, key=ranks.index)
    assert order[0] == "fail"
    assert len(order) == len(real.run.cases)


def test_partitions_are_counted_worst_first(real):
    start = real.text.index('id="partitions"')
    table = real.text[start : real.text.index("</tbody>", start)]
    rows = [
        (name, list(map(int, re.findall(r'<td class="n[^"]*">(\d+)</td>', row))))
        for name, row in re.findall(r'<tr><th scope="row">([^<]+)</th>(.*?)</tr>', table, re.DOTALL)
    ]
    assert rows[0][0] == "intra-node"
    for name, numbers in rows:
        counts = summary.Counts.of(c for c in real.run.cases if c.partition == name)
        assert numbers == [
            counts.passed, counts.failed, counts.inconclusive, counts.recorded, counts.not_run,
        ]  # fmt: skip


def test_what_is_absolute_inside_a_table_scrolls_with_it():
    """Seen at 390 px: the hidden words of the nodes made the whole page 501 px wide."""
    style = (page.HERE / "page.css").read_text()
    assert re.search(r"\.spoken \{ position: absolute;", style)
    assert re.search(r"^\.scroll \{ position: relative; overflow-x: auto;", style, re.MULTILINE)


def test_the_page_shows_the_settings_of_the_machine_and_those_that_nobody_asked_for(results):
    machine = {"/etc/openmpi/openmpi-mca-params.conf:71": "btl_tcp_if_include = lo"}
    results.edit_record(
        "NodeHealth@scratch",
        lambda record: record.update(
            settings={"sha256": "c0ffee", "machine": machine},
            machine=[{"nodes": ["node07"], "parts": ["gpu unknown: x"], "hardware": []}],
            doubts=["MALLOC_ARENA_MAX=1 was set"],
            notes=["UCX_VFS_ENABLE=n was set"],
        ),
    )
    page = render(results)
    provenance = page[page.index('id="provenance"') :]
    for said in ("openmpi-mca-params.conf:71", "btl_tcp_if_include = lo", "c0ffee",
                 "UCX_VFS_ENABLE=n was set", "MALLOC_ARENA_MAX=1 was set", "node07",
                 "gpu unknown: x"):  # fmt: skip
        assert said in provenance
    banner = page[: page.index('id="suspects"')]
    assert "UCX_VFS_ENABLE" not in banner


def test_provenance_that_all_nodes_share_is_told_once(real):
    provenance = real.text[real.text.index('id="provenance"') :]
    assert len(re.findall(r'<th scope="row">kernel', provenance)) == 1
    # The free memory differs between partitions, because each was measured at another time.
    assert len(re.findall(r'<th scope="row">memory.MemAvailable', provenance)) == 3


def test_the_page_is_the_same_for_the_same_session(real):
    assert render(real.results) == real.text


def test_a_session_without_any_case_still_has_a_page(results):
    results.only()
    text = render(results)
    assert "No test was selected." in text
    assert Document(text).open == []
