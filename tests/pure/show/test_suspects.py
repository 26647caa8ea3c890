"""The first screen: the verdict, the suspects, and what was judged, from recorded sessions.

tests/data/faults has sessions of the emulated cluster, each with one fault in node02.
"""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import shutil
from functools import cache

import pytest
from msgspec import structs
from report_results import DATA
from tests.pure.show.test_nodes import of_slurm
from tests.pure.show.test_page import Document

from assay.accused import Against, How, accusations
from assay.judge import Verdict
from assay.show import page, remedies, summary, suspects
from assay.show.view import View
from assay.store import session
from assay.store.record import Metric

FAULTS = DATA.parents[1] / "faults"

#: Folder -> what the evidence against node02 says.
EVIDENCE = {
    "crash": "DOWN+NOT_RESPONDING (Not responding)",
    "delay": "latency 201.3 us to all 3 others, the others have 133 us among each other (+51.3 %)",
    "disk-full": "No space left on device",
    "disk-slow": "write 5.163e+04 KiB/s, the median of 3 others is 1.166e+06 KiB/s (-95.6 %)",
    "drift-mount": "mounts /srv/vcluster/scratch is absent",
    "drift-mtu": "network.interfaces eth0 mtu is 1400, 1500 on 3 others",
    "loss": "1769 of 442249 segments were sent again (0.40%), with every other node",
    "memory": "memory left to a process is 2.097e+08 B",
    "node-drained": "IDLE+DRAIN (fault)",
    "rate": "bandwidth 107.6 MB/s to all 3 others, the others have 119.2 MB/s among each other",
}


@cache
def run(name):
    return of_slurm(session.load_session(FAULTS / name / "reports" / "run-report-0.json"))


def rendered(of_run):
    return page.render_page(View.of(of_run), [], (), of_run.file.parents[1] / "report.html")


@cache
def text_of(name):
    return rendered(run(name))


def words(html):
    """The text of a part of a page."""
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def part(html, start, end):
    return words(html[html.index(f'id="{start}"') : html.index(f'id="{end}"')])


def banner(html):
    return words(re.search(r'<p class="word">(.*?)</p>', html)[1])


def accusing(case, *problems):
    """The case as if its record had these problems, and no other."""
    return structs.replace(case, accused=accusations(problems), problems=tuple(map(str, problems)))


def test_every_recorded_fault_is_tested():
    assert set(EVIDENCE) == {path.name for path in FAULTS.iterdir() if path.is_dir()}


@pytest.mark.parametrize("name", EVIDENCE)
def test_the_bad_node_and_its_evidence_are_on_the_first_screen(name):
    first = part(text_of(name), "suspects", "judged")
    assert first.startswith('id="suspects"') or "Suspects node02 :" in first
    (suspect, *_) = suspects.suspects(suspects.causes(run(name).cases))
    assert suspect.nodes == ("node02",)
    assert EVIDENCE[name] in first
    assert EVIDENCE[name] in suspect.causes[0].said


@pytest.mark.parametrize("name", EVIDENCE)
def test_no_node_is_named_without_its_record(name, tmp_path):
    """The names come from the diagnosis and not from the words of a message."""
    copied = tmp_path / name
    shutil.copytree(FAULTS / name, copied)
    for path in copied.rglob("assay.json"):
        record = json.loads(path.read_text())
        record["accused"] = []
        path.write_text(json.dumps(record))
    blind = session.load_session(copied / "reports" / "run-report-0.json")
    assert suspects.suspects(suspects.causes(blind.cases)) == []
    assert "No test accuses a node." in rendered(blind)


@pytest.mark.parametrize("name", EVIDENCE)
def test_every_cause_leads_to_its_case(name):
    document = Document(text_of(name))
    ids = document.all("id")
    causes = suspects.causes(run(name).cases)
    links = [href for href in document.all("href") if href.startswith("#case-")]
    assert len(links) >= len(causes) > 0
    assert {link[1:] for link in links} <= set(ids)


@pytest.mark.parametrize("name", EVIDENCE)
def test_the_first_screen_says_what_ran_where(name):
    html = text_of(name)
    facts = part(html, "facts", "causes")
    assert "host login" in facts
    assert "node01" in facts
    assert "stack system (packages of the distribution)" in facts
    report = json.loads((FAULTS / name / "reports" / "run-report-0.json").read_text())
    assert f"{report['session_info']['time_start'][6:8]} November 2026" in facts
    suites = [c.provenance["suite"]["commit"] for c in run(name).cases if c.provenance]
    assert (suites[0] if suites else "commit not recorded") in facts


def test_the_first_screen_says_how_much_was_judged():
    judged = part(text_of("disk-full"), "judged", "facts")
    total = len(run("disk-full").cases)
    assert f"0 of {total} cases were judged; 1 more failed" in judged
    assert "Not judged: node (4 recorded, 1 not run)." in judged


def test_the_nodes_are_a_table_and_the_bad_one_is_its_first_row():
    cases = run("disk-full").cases
    found = suspects.attendance(cases, suspects.suspects(suspects.causes(cases)))
    assert next(iter(found.rows)) == "node02"
    assert found.rows["node02"]["EachNode"][0] == suspects.ACCUSED
    assert found.rows["node03"]["EachNode"][0] == suspects.IN_FAILED
    assert found.rows["node01"]["NodeHealth"][0] == "recorded"
    assert "NodeHealth" not in found.rows["node03"]
    assert '<td class="fared-accused">' in text_of("disk-full")


def test_the_tests_that_accuse_a_node_are_the_first_columns():
    """A phone and paper cut off the last ones."""
    cases = run("rate").cases
    found = suspects.attendance(cases, suspects.suspects(suspects.causes(cases)))
    assert found.tests == ("Tournament", "Census", "EachNode", "NetPipe", "UcxPerftest")
    assert suspects.attendance(cases, ()).tests == found.tests
    calm = [structs.replace(case, accused=()) for case in cases]
    assert suspects.attendance(calm, ()).tests == tuple(sorted(found.tests))


def test_strong_evidence_comes_first_and_a_pair_after_a_node():
    case = next(c for c in run("disk-full").cases if c.test == "EachNode")
    spoken = accusing(
        case,
        Against("n4 - n5: slow", ("n4", "n5"), How.SLOW),
        Against("n3: mtu is 1400", ["n3"], How.DIFFERS),
        Against("n1: slow", ["n1"], How.SLOW),
        Against("n1 - n2: slow", ("n1", "n2"), How.SLOW),
        Against("n2 is DOWN", ["n2"], How.OUT),
    )
    found = suspects.suspects(suspects.causes([spoken]))
    assert [one.nodes for one in found] == [("n2",), ("n1",), ("n3",), ("n4", "n5")]
    assert [one.causes[0].evidence for one in found] == ["DOWN", "slow", "mtu is 1400", "slow"]
    assert [len(one.causes) for one in found] == [2, 2, 1, 1]


def test_a_message_of_several_cases_is_told_once():
    memory = suspects.causes(run("memory").cases)
    (cause,) = [one for one in memory if one.nodes]
    assert len(cause.cases) == 2


@pytest.mark.parametrize(("cases", "said"), [(4, "and 1 more case"), (5, "and 2 more cases")])
def test_a_message_of_many_cases_names_three_and_counts_the_others(cases, said):
    (case, *_) = (c for c in run("memory").cases if c.accused)
    html = rendered(structs.replace(run("memory"), cases=(case,) * cases))
    # After the message with its links comes what to do, or the end of its entry in the list.
    assert re.search(rf"{said}</span>(<span|</li>)", html)


def test_an_undecided_suspect_is_marked():
    case = next(c for c in run("disk-full").cases if c.test == "EachNode")
    doubtful = structs.replace(case, verdict=Verdict.INCONCLUSIVE)
    (one, *_) = suspects.suspects(suspects.causes([doubtful]))
    assert not one.sure
    html = rendered(structs.replace(run("disk-full"), cases=(doubtful,)))
    assert "undecided" in part(html, "suspects", "judged")


def test_a_part_of_a_run_and_an_interrupted_run_never_read_pass(results):
    results.only("Hpcc@intra-node")
    whole = session.load_session(results.file)
    assert banner(rendered(whole)).endswith("PASS")
    partial = structs.replace(whole, partial=("1 of 4 promised cases selected by -n Hpcc",))
    assert banner(rendered(partial)).endswith("PARTIAL")
    cut = structs.replace(whole.cases[0], verdict=None, aborted=True, why="aborted")
    for cases in ((cut,), (*whole.cases, cut)):
        html = rendered(structs.replace(whole, cases=cases))
        assert banner(html).endswith("INTERRUPTED")
        assert 'class="banner pass"' not in html
    assert re.search(r"<title>INTERRUPTED: ", html)


def test_a_run_that_judged_little_says_so_beside_its_verdict(results):
    results.only("Hpcc@intra-node")
    whole = session.load_session(results.file)
    skipped = structs.replace(whole.cases[0], verdict=None, why="no GPU", metrics=())
    few = structs.replace(whole, cases=(*whole.cases, skipped, skipped))
    said = "This verdict is about 1 of 3 cases: the others were not judged."
    assert said in rendered(few)
    assert "This verdict is about" not in rendered(whole)


def test_the_page_is_whole_without_its_script():
    html = text_of("disk-full")
    without = re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)
    document = Document(without)
    # The script makes every control itself, so none is dead without it.
    assert not {"button", "input", "dialog", "noscript"} & {tag for tag, _ in document.tags}
    names = {name for _, attributes in document.tags for name in attributes}
    assert "hidden" not in names
    assert [name for name in names if name.startswith("on")] == []
    assert "node02" in part(without, "suspects", "judged")
    style = (page.HERE / "page.css").read_text()
    screen = style[: style.index("@media print")]
    hiding = re.findall(r"([^{}]+)\{[^}]*display: none", screen)
    assert {rule.strip() for rule in hiding} == {"[hidden]", "#sign", "button.zoom"}


def test_the_paper_has_a_line_to_sign_and_leaves_out_what_fills_pages():
    style = (page.HERE / "page.css").read_text()
    paper = style[style.index("@media print") :]
    assert re.search(r"\.screen[^{]*\{ display: none; \}", paper)
    assert "#sign { display: block;" in paper
    html = text_of("disk-full")
    assert re.search(r'<section id="sign">.*Name.*Date.*Signature', html, re.DOTALL)
    # The second sheet may lie alone, so it says which run is signed.
    signed = words(html[html.index('id="sign"') :])
    assert "vcluster, 22 November 2026, 19:33 UTC, session d9e6a8fd-" in signed
    for section in ("metrics", "cases", "provenance"):
        assert f'<section id="{section}" class="screen">' in html
    for section in ("causes", "nodes", "partitions", "not-run"):
        assert f'<section id="{section}">' in html


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "PASS Accept this run: all that was judged lies within its bounds."),
        ({"partial": ("by -n",)}, "PARTIAL Do not accept this run as a whole: it is only a part."),
        ({"verdict": Verdict.FAIL}, "FAIL Do not accept this run. 1 case failed."),
        (
            {"verdict": Verdict.INCONCLUSIVE},
            "INCONCLUSIVE Do not accept this run yet: measure again what could not be decided. "
            "1 case could not be decided.",
        ),
        ({"verdict": None, "aborted": True}, "INTERRUPTED Do not accept this run: it ended before"),
    ],
)
def test_the_first_sentence_says_whether_to_accept_the_run(results, change, said):
    results.only("Hpcc@intra-node")
    run = session.load_session(results.file)
    partial = change.pop("partial", ())
    (case,) = (structs.replace(case, **change) for case in run.cases)
    html = rendered(structs.replace(run, cases=(case,), partial=partial))
    verdict = words(re.search(r'<section class="banner.*?</section>', html, re.DOTALL)[0])
    assert said in verdict


def test_the_numbers_are_those_of_most_nodes_with_their_bounds():
    rows = part(text_of("disk-slow"), "numbers", "judged")
    assert "latency 134.8 us" in rows
    assert "89.6 us to 180.5 us; Tournament latency_median , inter-node" in rows
    assert "memory not measured HPL not measured" in rows
    case = next(c for c in run("disk-slow").cases if c.test == "Tournament" and c.metrics)
    good, bad = (
        Metric("latency_median", v, "us", v and Verdict.FAIL, upper=3.0) for v in (1.0, 9.0)
    )
    spoilt = structs.replace(case, metrics=(*case.metrics, bad))
    assert dict(summary.headlines([case, spoilt]))["latency"] == (spoilt, bad)
    both = [structs.replace(case, metrics=(one,)) for one in (bad, good)]
    assert dict(summary.headlines(both))["latency"] == (both[1], good)


def test_a_run_of_an_older_suite_has_no_numbers_there_and_is_not_called_unmeasured():
    older = session.load_session(FAULTS / "disk-slow" / "reports" / "run-report-0.json")
    html = rendered(older)
    assert 'id="judged"' in html
    assert 'id="numbers"' not in html
    assert "not measured" not in html


IPC = [
    "cuda_ipc carried nothing: UCX did not count messages of 8 B, between GPU-6d-00 and GPU-6d-01",
    "cuda_ipc carried nothing: UCX did not count messages of 1048576 B, between GPU-6d75-00 and "
    "GPU-6d75-02",
    "round 0: cuda_ipc carried nothing: UCX did not count any message",
    "cuda_ipc carried the messages of some of 3 senders, or their fragments",
]  # fmt: skip


def test_one_broken_path_is_one_cause_with_its_node():
    case = next(c for c in run("disk-full").cases if c.test == "EachNode")
    case = structs.replace(
        case, accused=(), proof={"hosts": {"vm": 2}}, nodes=(), verdict=Verdict.FAIL
    )
    broken = [structs.replace(case, why=why) for why in IPC]
    (cause,) = suspects.causes(broken)
    assert (cause.said, cause.alike, cause.at) == (IPC[0], tuple(IPC[1:]), ("vm",))
    first = part(rendered(structs.replace(run("rate"), cases=tuple(broken))), "suspects", "judged")
    assert first.count("cuda_ipc") == 1
    assert "on vm: EachNode" in first
    assert "; 3 more" in first
    # The same words on another node, or about another path, are another cause.
    elsewhere = structs.replace(case, why=IPC[0], proof={"hosts": {"n2": 2}})
    other = structs.replace(case, why=IPC[0].replace("cuda_ipc", "rc_mlx5"))
    assert len(suspects.causes([*broken, elsewhere, other])) == 3


def test_what_to_type_can_be_pasted_as_it_is():
    html = text_of("rate")
    pasted = re.findall(r"<pre><code>(.*?)</code></pre>", html, re.DOTALL)
    drain, again = (shlex.split(page.Markup(text).unescape()) for text in pasted)
    assert drain[:4] == ["scontrol", "update", "nodename=node02", "state=drain"]
    assert again == ["make", "acceptance", "SITE=vcluster", "REFRAME_ARGS=-n '^Tournament'"]
    (cause, *_) = suspects.causes(run("node-drained").cases)
    assert cause.remedy[1] == "Type `scontrol show node node02` for the reason."
    hostile = dataclasses.replace(cause, nodes=("n1", "$(reboot)", "a,b"))
    assert hostile.remedy[1] == "Type `scontrol show node n1` for the reason."
    for remedy in remedies.known():
        text = remedies.step(remedy, cause.cases)
        assert "NAME" not in text
        assert "{" not in text
        for command in re.findall("`([^`]+)`", text):
            assert not command.startswith("assay"), command


def test_a_page_without_a_cause_begins_with_its_numbers(results):
    results.only("Hpcc@intra-node")
    assert '<div class="cover well">' in rendered(session.load_session(results.file))
    assert '<div class="cover">' in text_of("rate")
    assert ".well #numbers { grid-area: 1 / 1" in (page.HERE / "page.css").read_text()
