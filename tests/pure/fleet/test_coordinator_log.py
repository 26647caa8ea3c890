import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.fleet.coordinator_log import parse_coordinator_log
from assay.parse import ParseError

FIRST = {"asked": 3, "met": {"0": "a", "2": "c"}, "absent": ["b"]}
LAST = {"gone": {"c": "no answer within 20 s"}, "end": True}


def text(*entries):
    return "".join(json.dumps(entry) + "\n" for entry in entries)


def test_who_came_who_did_not_and_who_left():
    log = parse_coordinator_log(text(FIRST, {"node": 0}, LAST))
    assert log.nodes == ("a", "b", "c")
    assert log.entries == ({"node": 0},)
    assert log.complete
    assert log.problems == ["b did not come", "c left before the end: no answer within 20 s"]


@pytest.mark.parametrize("cut", range(1, len(text(LAST)) + 1))
def test_a_cut_log_keeps_what_was_written(cut):
    log = parse_coordinator_log(text(FIRST, {"node": 0}, LAST)[:-cut])
    assert log.entries == ({"node": 0},)
    assert log.problems[-1] == "the meeting of the nodes was cut short"


def test_two_processes_of_one_node():
    first = {"asked": 2, "met": {"0": "a", "1": "a"}, "absent": []}
    assert parse_coordinator_log(text(first, {"gone": {}, "end": True})).problems == [
        "2 processes came from a; each node was to send one"
    ]


@pytest.mark.parametrize(
    "first",
    [
        {},
        {"asked": 3, "met": {"0": "a"}, "absent": []},
        {"asked": 1, "met": {"5": "a"}, "absent": []},
        {"asked": 1, "met": ["a"], "absent": []},
        {"asked": 1, "met": {"zero": "a"}, "absent": []},
    ],
)
def test_a_first_line_that_does_not_say_who_came(first):
    with pytest.raises(ParseError, match="does not say who came"):
        parse_coordinator_log(text(first))


def test_nobody_wrote_anything_down():
    with pytest.raises(ParseError, match="the nodes did not meet"):
        parse_coordinator_log("")


def test_what_is_no_json_is_named_by_its_line():
    with pytest.raises(ParseError, match="line 2: no JSON"):
        parse_coordinator_log(text(FIRST) + "slurmstepd: error\n")


@given(st.text())
def test_any_text_is_read_or_refused(anything):
    with contextlib.suppress(ParseError):
        parse_coordinator_log(anything)
