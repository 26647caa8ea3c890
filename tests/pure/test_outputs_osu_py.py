"""The Python ports of OSU in mpi4py 4.1.2: a real output of each, and damaged forms of them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.outputs import ParseError, osu_py

DATA = Path(__file__).parents[1] / "data" / "osu-py"
TEXTS = {path.name.removesuffix(".txt"): path.read_text() for path in DATA.glob("*.txt")}
NAMES = sorted(name for name in TEXTS if name.endswith("4.1.2.np2"))

LATENCY = TEXTS["osu_latency.4.1.2.np2"]

# The numbers come from the files.
GOLDEN = {
    "osu_latency.4.1.2.np2": (
        24,
        {"size": 0, "latency": 0.36},
        {"size": 4194304, "latency": 305.47},
    ),
    "osu_bw.4.1.2.np2": (
        23,
        {"size": 1, "bandwidth": 2.88},
        {"size": 4194304, "bandwidth": 15022.15},
    ),
    "osu_bcast.4.1.2.np2": (
        22,
        {"size": 0, "latency": 0.18},
        {"size": 1048576, "latency": 71.16},
    ),
    "osu_barrier.4.1.2.np2": (1, {"size": 0, "latency": 0.38}, {"size": 0, "latency": 0.38}),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name):
    rows, first, last = GOLDEN[name]

    parsed = osu_py.parse(TEXTS[name])

    assert len(parsed.rows) == rows
    assert dict(parsed.rows[0]) == first
    assert dict(parsed.rows[-1]) == last


@pytest.mark.parametrize("name", NAMES)
def test_every_port_is_read_whole(name):
    parsed = osu_py.parse(TEXTS[name])

    assert osu_py.recognise(TEXTS[name])
    assert parsed.sound, parsed.problems
    assert (parsed.family, parsed.version) == ("osu-py", None)
    assert parsed.program == name.partition(".")[0]


@pytest.mark.parametrize("name", ["osu_bw.4.1.2.np2", "osu_bibw.4.1.2.np2"])
def test_the_heading_of_the_bandwidth_ports_is_wrong(name):
    assert "# Size [B]        Latency [us]" in TEXTS[name]

    parsed = osu_py.parse(TEXTS[name])

    assert parsed.units == {"size": "B", "bandwidth": "MB/s"}
    # A message of 4 MiB in 14000 us would be a hundred times slower than osu_latency shows.
    assert parsed.at("bandwidth", size=4194304) > 1000


@pytest.mark.parametrize("name", NAMES)
def test_cut_at_any_line_it_is_not_complete(name):
    lines = TEXTS[name].split("\n")[:-1]
    for end in range(1, len(lines)):
        assert not osu_py.parse("".join(f"{line}\n" for line in lines[:end])).complete, end


def test_cut_within_the_last_row_it_is_not_complete():
    for end in range(len(LATENCY) - 30, len(LATENCY)):
        assert not osu_py.parse(LATENCY[:end]).complete, end


def test_a_table_that_lost_its_beginning_is_not_complete():
    lost = LATENCY.replace("         0                0.36\n", "")
    assert lost != LATENCY

    parsed = osu_py.parse(lost)

    assert not parsed.complete
    assert "the table begins at size 1, not 0" in parsed.problems


def test_two_singletons_that_printed_whole_tables():
    # osu_alltoall.py started twice without mpirun: no error, exit code 0.
    parsed = osu_py.parse(TEXTS["osu_alltoall.4.1.2.singletons2"])

    assert any("line 25: a second table (of N singletons?)" in p for p in parsed.problems)


def test_singletons_at_the_same_time():
    lines = TEXTS["osu_multi_lat.4.1.2.np2"].split("\n")[:-1]

    parsed = osu_py.parse("".join(f"{line}\n{line}\n" for line in lines))

    assert not parsed.sound


@pytest.mark.parametrize("value", ["nan", "inf", "0.00", "-1.00"])
def test_what_is_no_latency_is_a_problem(value):
    parsed = osu_py.parse(LATENCY.replace("305.47", value))

    assert any(f"line 26: latency is {value}" in p for p in parsed.problems)


def test_a_torn_row_and_its_successor():
    torn = LATENCY.replace("         0                0.36\n", "         0                \n")

    problems = osu_py.parse(torn).problems

    assert any("line 3: 1 values for 2 columns" in p for p in problems)


def test_only_three_ports_prove_the_number_of_ranks():
    stated = {osu_py.parse(TEXTS[n]).program for n in NAMES if osu_py.parse(TEXTS[n]).facts}

    assert stated == {"osu_latency", "osu_bw", "osu_bibw"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (TEXTS["osu_latency.4.1.2.np1"], "line 1: .*This test requires exactly two processes"),
        (LATENCY.replace("MPI Latency", "MPI Weather"), "unknown test 'Weather'"),
        (LATENCY.replace("[us]", "[ms]"), "line 2: not the headings of osu_latency"),
        ("# OSU MPI Latency Test v7.2\n", "no title"),
    ],
)
def test_what_is_no_table_is_refused_with_the_reason(text, reason):
    with pytest.raises(ParseError, match=reason):
        osu_py.parse(text)


def test_the_c_programs_are_not_recognised():
    assert not osu_py.recognise("# OSU MPI Latency Test v7.2\n# Size          Latency (us)\n")


@given(st.text(), st.none() | st.integers())
def test_any_rows_raise_nothing_but_parse_error(rows, last_size):
    header = "".join(LATENCY.splitlines(keepends=True)[:2])
    try:
        parsed = osu_py.parse(header + rows, last_size=last_size)
    except ParseError:
        return
    assert parsed.rows or not parsed.complete


def test_a_bandwidth_below_what_the_program_prints_is_a_problem_that_may_be_rounding():
    """From a real run on a machine that was busy with other work."""
    text = (DATA / "busy" / "osu_bw.4.1.2.np2.txt").read_text()
    parsed = osu_py.parse(text, last_size=1 << 19)
    assert parsed.complete
    assert not parsed.sound
    said = "line 3: bandwidth is 0.00, that is no measurement"
    assert parsed.problems == parsed.rounded == (said,)


@pytest.mark.parametrize("value", ["0.00", "-0.01", "nan"])
def test_no_other_number_that_is_none_may_be_rounding(value):
    latency = TEXTS["osu_latency.4.1.2.np2"]
    row = next(line for line in latency.splitlines() if line.split()[:1] == ["8"])
    parsed = osu_py.parse(latency.replace(row, f"         8{value:>20}"))
    assert parsed.problems
    assert parsed.rounded == ()
