"""Each claim of a document: no empty cell, and red in a run that is the opposite of it."""

from __future__ import annotations

import ast
import contextlib
import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import report_records as records
import yaml
from ci import paper

from assay.exits import Exit
from assay.judge import Verdict
from assay.parse import ParseError
from assay.parse.registry import parse_output
from assay.store.cases import Session
from assay.store.session import ReportError
from studies import claims
from studies.claims import LEAST, MOST, Claim, Point, Relation, Side, Word

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted(ROOT.glob("studies/**/claims.yaml"))
EVERY = {
    f"{paper.document(path.parent)}-{claim.name}": claim
    for path in FILES
    for claim in claims.read(path)
}
RELATED = {name: claim for name, claim in EVERY.items() if claim.relation}


def made(side, value, unit="1", case=0):
    """Points of which a side, or the quotient of its sides, is a value."""
    if side.above is not None:
        return [*made(side.above, value, unit, case + 1), *made(side.below, 1.0, unit, case + 2)]
    fields = {}
    for name, asked in side.of.items():
        one = asked.get("min", asked.get("max")) if isinstance(asked, dict) else asked
        one = one[0] if isinstance(one, list) else one
        fields[name] = {MOST: 1000, LEAST: 1}.get(one, one) if isinstance(one, str) else one
    value *= float(fields.get(side.per, 1))
    return [Point(fields, {side.value: (value, unit)}, case)]


def run_with(relation, value):
    if relation.below is None:
        return made(relation.above, value, relation.unit)
    return [*made(relation.above, value, case=10), *made(relation.below, 1.0, case=20)]


def placed(run, relation):
    """The points, each with the fields that must agree on both sides."""
    common = {field: next((p.fields[field] for p in run if field in p.fields), "x")
              for field in relation.over}  # fmt: skip
    return [replace(point, fields={**point.fields, **common}) for point in run]


def inside_and_outside(relation):
    low, high = relation.band
    if low is None:
        return high * 0.9, [high * 1.1]
    return (low * 1.1, [low * 0.9]) if high is None else ((low + high) / 2, [low * 0.9, high * 1.1])


def said(claim, value):
    return claims.judge(claim, placed(run_with(claim.relation, value), claim.relation))


def test_each_document_has_its_claims():
    assert [paper.document(path.parent) for path in FILES] == ["000", "001", "002", "003", "004"]
    assert len(EVERY) == sum(len(claims.read(path)) for path in FILES) > 60


@pytest.mark.parametrize("name", RELATED)
def test_a_claim_holds_in_a_run_that_agrees_and_falls_in_its_opposite(name):
    claim = RELATED[name]
    within, without = inside_and_outside(claim.relation)
    assert said(claim, within).word is Word.HOLDS
    for value in without:
        found = said(claim, value)
        assert found.word is Word.FALLS
        assert claims.band(claim.relation) in found.said


def test_a_claim_names_a_test_that_is_there():
    names = {
        node.name
        for folder in ("reframe", "studies")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    }
    assert {claim.test for claim in EVERY.values()} <= {*names, "none"}


def _fields(test):
    """Fields of the cases of a test: its parameters, and words of the file that defines it."""
    listed = (ROOT / "reframe/cases.txt").read_text()
    cases = re.findall(rf"(?m)^{test}(?: [^|]*)?\|", listed)
    found = {name for case in cases for name in re.findall(r"%([\w.]+)=", case)}
    for path in (ROOT / "studies").glob("doc*/*.py"):
        if f"class {test}(" in path.read_text():
            found |= set(re.findall(r"\w+", path.read_text()))
    return found


#: Fields of each case.
OF_ALL = {"test", "partition", "system", "environ", "transport", "hosts"}


def _columns():
    """The columns of all recorded outputs."""
    for path in (ROOT / "tests/data").rglob("*.txt"):
        with contextlib.suppress(ParseError, UnicodeDecodeError):
            for row in parse_output(path.read_text()).rows:
                yield from row


def unknown_fields(claim, columns):
    for side in claims.sides(claim):
        asked = {*side.of, *claim.relation.over, *([side.per] if side.per else [])}
        its = side.of["test"]
        for test in its if isinstance(its, list) else [its]:
            yield from asked - OF_ALL - columns - _fields(test)


def test_a_side_asks_for_fields_that_its_test_has():
    """A side that asks for another field finds no number on any machine."""
    columns = set(_columns())
    for name, claim in RELATED.items():
        assert not [*unknown_fields(claim, columns)], name
    side = Side("bandwidth", {"test": "FabtestsRma", "side": "near"})
    claim = msgspec.structs.replace(RELATED[name], relation=Relation(side, (1, None), "made"))
    assert [*unknown_fields(claim, columns)] == ["side"]


@pytest.mark.parametrize("cell", ["claim", "figure", "hardware", "command", "why"])
def test_an_empty_cell_is_refused(tmp_path, cell):
    content = yaml.safe_load((ROOT / "studies/doc001/claims.yaml").read_text())
    content[0][cell] = " "
    (tmp_path / "claims.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(ReportError, match=cell if cell != "why" else "why it has none"):
        claims.read(tmp_path / "claims.yaml", ReportError)


def test_a_relation_without_a_bound_or_a_source_and_a_side_of_nothing_are_refused():
    side = {"value": "latency", "of": {"test": "Osu"}}
    for band, source in (([None, None], "text"), ([1, None], "")):
        with pytest.raises(msgspec.ValidationError, match="a bound, and a source"):
            msgspec.convert({"above": side, "band": band, "source": source}, Relation)
    with pytest.raises(msgspec.ValidationError, match="what it is of"):
        msgspec.convert({"value": "latency"}, Side)


# --- made records, as a session has them ----------------------------------------------------------


def gpu(configuration, latency, hosts=2):
    rows = [{"size": size, "latency": latency * size} for size in (8, 16)]
    return records.case("OsuGpu", rows, records.OSU["latency"], benchmark="latency", buffers="DD",
                        configuration=configuration, hosts=hosts)  # fmt: skip


def judged(name, *cases, lacks=(), emulated=False):
    return claims.judge(EVERY[name], paper.points(cases), emulated, lacks)


def test_both_ways_together_are_compared_with_each_alone_between_nodes_at_8_bytes():
    best, rdma, gdrcopy = gpu("all", 2), gpu("no-gdrcopy", 6), gpu("no-rdma", 3)
    assert judged("000-both-before-rdma", best, rdma).said.startswith("3, ")
    assert judged("000-both-before-gdrcopy", best, gdrcopy).word is Word.HOLDS
    assert judged("000-both-before-gdrcopy", best, gpu("no-rdma", 1)).word is Word.FALLS
    within = gpu("all", 2, hosts=1), gpu("no-ipc-no-gdrcopy", 4, hosts=1)
    more = judged("000-both-more-between-nodes", best, gpu("no-rdma-no-gdrcopy", 8), *within)
    assert (more.word, more.said) == (Word.HOLDS, "2, asked for: at least 1")


def test_rates_in_different_units_are_compared():
    btio = records.case("BtIo", [{"io_rate": 90.0}], {"io_rate": "MB/s"}, subtype="simple",
                        ranks=4, partition="lustre-hdd")  # fmt: skip
    rows = [{"file_size": 64, "write": 1e6}, {"file_size": 128, "write": 5e5}]
    iozone = records.case("Iozone", rows, records.IOZONE, sync="cached", partition="lustre-hdd")
    found = judged("000-btio-below-iozone", btio, iozone)
    assert (found.word, found.said.split(",")[0]) == (Word.HOLDS, "0.08789")


def test_what_was_not_measured_says_why_and_a_case_with_a_problem_is_no_measurement():
    damaged = records.case("OsuGpu", [{"size": 8, "latency": 1.0}], benchmark="latency",
                           problems=["no"], configuration="no-rdma", buffers="DD")  # fmt: skip
    found = judged("000-both-before-gdrcopy", gpu("all", 2), damaged, lacks={"it was busy"})
    assert (found.word, found.said) == (Word.UNKNOWN, "it was busy")


def test_emulated_nodes_show_the_shape_of_a_link_and_no_number_of_hardware():
    link = {"latency_within": 30, "latency_across": 140, "bandwidth_across": 930,
            "bandwidth_within": 1400}  # fmt: skip
    run = claims.points(0, {"test": "CrossingPairs"},
                        {name: (value, "us" if "lat" in name else "MB/s")
                         for name, value in link.items()}, (), {})  # fmt: skip
    for name, word in (("latency-145-us", Word.UNKNOWN), ("latency-far-above-within", Word.HOLDS)):
        assert claims.judge(EVERY[f"003-{name}"], run, emulated=True).word is word
        assert claims.judge(EVERY[f"003-{name}"], run).word is Word.HOLDS


# --- the end of make paper ------------------------------------------------------------------------


def session(*cases, **others):
    return Session(Path(), "", "", None, 0.0, "", "", cases, **others)


def test_what_is_not_measured_is_not_wrong_and_what_falls_or_fails_is():
    one = gpu("all", 2)
    found = {"000": [judged("000-both-before-gdrcopy", one)]}
    assert paper.ended(session(one), found) is Exit.PASS
    fallen = {"000": [judged("000-both-before-gdrcopy", one, gpu("no-rdma", 1))]}
    assert paper.ended(session(one), fallen) is Exit.FAIL
    failed = msgspec.structs.replace(one, verdict=Verdict.FAIL)
    assert paper.ended(session(failed), found) is Exit.FAIL
    assert paper.ended(session(one, faults=("a fault",)), found) is Exit.FAIL
    aborted = msgspec.structs.replace(one, verdict=None, aborted=True, why="a signal")
    late = msgspec.structs.replace(aborted, why="deadline of the run (240s) was reached")
    assert paper.ended(session(aborted), found) is Exit.INTERRUPTED
    assert paper.ended(session(late), found) is Exit.PASS
    cancelled = msgspec.structs.replace(failed, why=f"job error: cancelled: {late.why}")
    assert paper.ended(session(cancelled), found) is Exit.PASS
    wrong = msgspec.structs.replace(cancelled, problems=("the residual is too large",))
    assert paper.ended(session(wrong), found) is Exit.FAIL


def test_the_last_line_names_each_claim_with_its_verdict_and_what_it_needs():
    run = gpu("all", 2), gpu("no-rdma", 3), gpu("no-gdrcopy", 1)
    found = [judged(f"000-{name}", *run) for name in ("both-before-gdrcopy", "both-before-rdma")]
    line = claims.closing("000", [*found, judged("000-btio-share")])
    assert "holds: both-before-gdrcopy (1.5, " in line
    assert "does not hold: both-before-rdma (0.5, " in line
    assert "could not be measured here: btio-share (" in line
    assert "needs Lustre and sixteen nodes: make paper SITE=ibisco" in line


def test_the_page_has_each_claim_with_a_mark_and_escapes_what_it_is_given():
    claim = msgspec.structs.replace(EVERY["001-multicast"], why="<b>")
    text = paper.render({"001": [claims.judge(claim, ())]}, ())
    assert "<td>? could not be measured here</td><td>&lt;b&gt;</td><td>never</td>" in text
    assert "no figure of this document" in text
    assert isinstance(claim, Claim)
