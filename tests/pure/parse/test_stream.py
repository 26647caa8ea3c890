"""STREAM: a real output of 5.10, forms of other versions, and damaged ones."""

import pytest
from real_outputs import edited, incomplete, problems, refused, texts

from assay.parse import stream

HEALTHY = texts("stream")["healthy"]


def test_the_functions_of_a_run():
    parsed = stream.parse_stream(HEALTHY)

    assert parsed.sound
    assert parsed.column("function") == ["Copy", "Scale", "Add", "Triad"]
    assert parsed.quantity("rate", function="Triad").unit == "MB/s"
    facts = {"array": 20_000_000, "element": 8, "threads": 2, "repeats": 10}
    assert parsed.facts == facts


@pytest.mark.parametrize(
    ("old", "new", "fact", "value"),
    [
        ("Array size = ", "Total Aggregate Array size = ", "array", 20_000_000),
        ("Array size = ", "Data is distributed across 4 MPI ranks\n Array size = ", "ranks", 4),
        ("(elements), Offset = 0 (elements)", ", Offset = 0", "array", 20_000_000),  # 5.9
        ("Each kernel will be executed 10 times.", "Each test is run 10 times", "repeats", 10),
        ("Best Rate MB/s", "Rate (MB/s)", "threads", 2),
        ("Revision: 5.10", "Revision: 6.0", "read_as", "5.10"),
    ],
)
def test_other_versions_say_it_otherwise(old, new, fact, value):
    parsed = stream.parse_stream(edited(HEALTHY, old, new))

    assert parsed.sound, parsed.problems
    assert parsed.facts[fact] == value


RATE = str(stream.parse_stream(HEALTHY).at("rate", function="Add"))

test_a_damage_is_a_problem = problems(
    stream.parse_stream,
    HEALTHY,
    [
        (RATE, RATE[1:], "B in"),
        ("Solution Validates", "Failed Validation on array a[]", "Failed Validation on array a[]"),
        ("Solution Validates", "Solution", "did not say that its solution validates"),
        ("Threads counted = 2", "Threads counted = 1", "1 threads ran, 2 were asked for"),
        ("Threads requested = 2", "Threads", "2 threads ran, none were asked for"),
        ("Scale:", "Copy: ", "a function has more than one row"),
        ("Add: ", "Sum: ", "no row of Add"),
        (RATE, "nan", "rate is nan"),
        (RATE, "", "3 values for 4 columns"),
    ],
)
test_a_row_less_is_not_complete = incomplete(stream.parse_stream, HEALTHY, [("Triad:", "Tri")])
test_appended_runs_are_refused = refused(
    stream.parse_stream,
    HEALTHY,
    [
        ("STREAM version", HEALTHY + "STREAM version", "2 runs in one text"),
        ("STREAM version", "STREAM", "version of STREAM not found"),
    ],
)
