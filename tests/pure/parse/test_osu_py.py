"""The Python ports of OSU in mpi4py 4.1.2: a real output of each, and damaged forms of them."""

import pytest
from real_outputs import DATA, problems, refused, texts

from assay.parse import osu_py

TEXTS = texts("osu-py")
LATENCY = TEXTS["osu_latency.4.1.2.np2"]


ZERO = "         0                0.36\n"

test_a_bad_line_is_a_problem_that_names_it = problems(
    osu_py.parse_osu_py,
    LATENCY,
    [
        (ZERO, "", "the table begins at size 1, not 0"),
        (ZERO, "         0                \n", "line 3: 1 values for 2 columns"),  # a torn row
        *(("305.47", value, f"line 26: latency is {value}") for value in ("nan", "inf", "0.00")),
        ("305.47", "-1.00", "line 26: latency is -1.00"),
    ],
)


def test_singletons_at_the_same_time():
    lines = TEXTS["osu_multi_lat.4.1.2.np2"].split("\n")[:-1]

    parsed = osu_py.parse_osu_py("".join(f"{line}\n{line}\n" for line in lines))

    assert not parsed.sound


test_what_is_no_table_is_refused_with_the_reason = refused(
    osu_py.parse_osu_py,
    LATENCY,
    [
        ("MPI Latency", "MPI Weather", "unknown test 'Weather'"),
        ("[us]", "[ms]", "line 2: not the headings of osu_latency"),
        (LATENCY, "# OSU MPI Latency Test v7.2\n", "no title"),
    ],
)


def test_the_c_programs_are_not_recognised():
    assert not osu_py.recognise("# OSU MPI Latency Test v7.2\n# Size          Latency (us)\n")


def test_a_bandwidth_below_what_the_program_prints_is_a_problem_that_may_be_rounding():
    """From a real run on a machine that was busy with other work."""
    text = (DATA / "osu-py" / "busy" / "osu_bw.4.1.2.np2.txt").read_text()
    parsed = osu_py.parse_osu_py(text, last_size=1 << 19)
    assert parsed.complete
    assert not parsed.sound
    said = "line 3: bandwidth is 0.00, which is not a measured value"
    assert parsed.problems == parsed.rounded == (said,)


@pytest.mark.parametrize("value", ["0.00", "-0.01", "nan"])
def test_no_other_number_that_is_none_may_be_rounding(value):
    row = next(line for line in LATENCY.splitlines() if line.split()[:1] == ["8"])
    parsed = osu_py.parse_osu_py(LATENCY.replace(row, f"         8{value:>20}"))
    assert parsed.problems
    assert parsed.rounded == ()
