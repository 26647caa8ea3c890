"""Figures: declared by tests, kept in records and plans, and read without the names of tests."""

import ast
import re
from pathlib import Path

import pytest
from ci import wanted
from hypothesis import given
from hypothesis import strategies as st
from report_results import DATA
from shell import ROOT

from assay.declared import PARTITION, Figure, as_json
from assay.show import figure
from assay.show import figures as drawings
from assay.store import run_folder, session
from assay.store.cases import figures
from studies.validation import HOSTS


@pytest.mark.parametrize("room", ["show", "store"])
def test_no_room_behind_the_tests_names_a_test(room):
    names = {
        node.name
        for path in [*(ROOT / "reframe").rglob("*.py"), *(ROOT / "studies").glob("*/*.py")]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and node.bases  # a test has a base
    }
    assert {"OsuGpuBase", "OsuGpu", "BtIo", "HplStudy"} <= names
    assert not {"Probe", "Relation"} & names
    for path in (ROOT / "src/assay" / room).iterdir():
        if path.is_file():
            words = set(re.findall(r"\w+", path.read_text()))
            assert not words & names, f"{path.name}: declare it in the test (figures)"


def test_a_kind_that_is_not_drawn_is_refused():
    with pytest.raises(ValueError, match=r"unknown kind 'pie'; known are curve, collective, heat"):
        Figure("pie", "bcast")


def test_what_is_written_is_read_back():
    declared = [Figure("curve", "f", HOSTS), Figure("heat map", "g", PARTITION, "read")]
    assert list(figures(as_json(declared))) == declared


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5) | st.just({"kind": "curve"}),
        lambda inside: st.lists(inside) | st.dictionaries(st.sampled_from(["kind", "x"]), inside),
    )
)
def test_whatever_a_file_says_is_figures_or_nothing(raw):
    assert all(isinstance(found, Figure) for found in figures(raw))


def test_a_place_is_text_and_not_a_format():
    assert Figure("curve", "f", "{partition.__class__}").where("p") == "{partition.__class__}"


def test_the_figures_of_a_recorded_session_are_those_that_its_tests_declared():
    recorded = session.load_session(DATA / "reports" / "run-report-0.json").cases
    drawn = figure.all_figures(drawings.sections(recorded))
    assert {key for found in drawn for key in found.shows} == {
        ("point to point: latency", "between hosts"),
        ("point to point: bandwidth", "between hosts"),
        ("IOzone: read", "scratch"),
        ("IOzone: write", "scratch"),
        ("IOzone: SYNC write", "scratch"),
    }
    absent = wanted.absent(recorded, drawn, [ROOT / "studies/figures.yaml"])
    missing = {(a.figure, a.at): a.why for a in absent if not a.part}
    assert missing["bcast", "between hosts"] == "no case was selected"


def test_a_case_that_was_not_run_has_the_figures_of_the_plan():
    place = {"system": "s", "partition": "p", "environ": "e", "unique_name": "Imb_1"}
    entry = {**place, "display_name": "Imb %benchmark=latency", "result": "skip"}
    planned = {**entry, "figures": as_json([Figure("curve", "f", HOSTS)])}
    reader = session._Reader(Path("r"), {})
    reader._planned = {("Imb_1", "s:p+e"): session.case_named(planned)}
    assert reader.case(session.case_named(entry), entry).figures == (Figure("curve", "f", HOSTS),)
    assert session.case_named({**planned, "figures": []}).figures == ()
    assert session.case_named(planned).figures == (Figure("curve", "f", HOSTS),)
    assert run_folder.SCHEMA == 1, "plans from before have no figures, and are read as well"
    assert session.case_named(entry).figures == ()
