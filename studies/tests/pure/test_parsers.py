"""What holds for every parser of the suite, for those of the studies."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from real_outputs import torn
from shell import ROOT

from assay.parse import ParseError
from studies.doc001 import bcast_stream
from studies.doc002 import spec_report

DATA = ROOT / "studies/tests/data"
PARSERS = {"bcast-stream": bcast_stream, "spec": spec_report}
OUTPUTS = {
    family: {path.name: path.read_text() for path in sorted((DATA / family).glob("*.txt"))}
    for family in PARSERS
}


def parsed_or_none(family, text):
    try:
        return PARSERS[family].parse(text)
    except ParseError:
        return None


@pytest.mark.parametrize("family", PARSERS)
def test_each_output_is_read_as_written_beside_it(family):
    lines = (DATA / family / "parsed.jsonl").read_text().splitlines()
    expected = {said.pop("file"): said for said in map(json.loads, lines)}
    assert expected.keys() == OUTPUTS[family].keys()
    for name, text in OUTPUTS[family].items():
        found = parsed_or_none(family, text)
        if found is None:
            assert expected[name]["family"] is None
        else:
            assert json.loads(json.dumps(found.as_dict())) == expected[name]


@pytest.mark.parametrize("family", PARSERS)
@given(data=st.data())
@settings(derandomize=True)
def test_any_text_is_read_or_refused(family, data):
    text = data.draw(st.text() | torn(OUTPUTS[family]))
    PARSERS[family].recognise(text)
    found = parsed_or_none(family, text)
    if found is not None:
        json.dumps(found.as_dict())
        assert found.rows or not found.complete


def complete(family):
    texts = OUTPUTS[family].items()
    whole = {n: t for n, t in texts if (found := parsed_or_none(family, t)) and found.complete}
    assert whole
    return whole


@pytest.mark.parametrize("family", PARSERS)
def test_a_cut_output_is_never_complete(family):
    """Each line is cut at its begin, middle and end; lines after the last one may be missing."""
    for name, text in complete(family).items():
        lines = text.rstrip().split("\n")
        for number, line in enumerate(lines):
            before = "".join(f"{each}\n" for each in lines[:number])
            for at in {0, len(line) // 2, max(0, len(line) - 1)}:
                found = parsed_or_none(family, before + line[:at])
                assert not (found and found.complete), (name, number + 1, at)


@pytest.mark.parametrize("family", PARSERS)
def test_line_ends_of_a_terminal_change_nothing(family):
    for name, text in complete(family).items():
        again = PARSERS[family].parse(text.replace("\n", "\r\n"))
        assert again.as_dict() == PARSERS[family].parse(text).as_dict(), name
