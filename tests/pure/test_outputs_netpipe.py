"""NetPIPE 3.7.2 over Open MPI: real outputs, and damaged forms of them."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.outputs import ParseError, netpipe

DATA = Path(__file__).parents[1] / "data" / "netpipe"
TEXTS = {
    path.name.removeprefix("NPmpi.3.7.2.").removesuffix(".txt"): path.read_text()
    for path in DATA.glob("*.txt")
}
MIB4 = 4 << 20
BOTH = TEXTS["stdout.4MiB"] + TEXTS["stderr.4MiB"]
ROWS = [name for name in TEXTS if name.endswith("4MiB") and name != "stdout.4MiB"]


def test_golden():
    parsed = netpipe.parse(BOTH, last_size=MIB4)

    assert parsed.sound, parsed.problems
    assert (parsed.family, parsed.program, parsed.version) == ("netpipe", "NPmpi", None)
    assert parsed.facts == {"modes": [], "hosts": ["vm", "vm"], "ranks": 2}
    assert len(parsed.rows) == 118
    # 116: 4194304 bytes    176 times -->  113146.99 Mbps in     282.82 usec
    row = parsed.rows[116]
    assert (row["size"], row["repeats"], row["latency"]) == (4194304, 176, 282.82)


@pytest.mark.parametrize("name", ROWS)
def test_bandwidth_is_size_by_time_in_units_of_a_million_bytes(name):
    parsed = netpipe.parse(TEXTS[name], last_size=MIB4)

    assert parsed.sound, parsed.problems
    ways = 2 if "bidirectional" in parsed.facts["modes"] else 1
    for row in parsed.rows:
        if row["latency"] > 50:  # printed to 0.01 us
            assert row["bandwidth"] == pytest.approx(ways * row["size"] / row["latency"], rel=2e-4)


def test_sizes_are_perturbed_by_3_bytes_from_8_on():
    sizes = netpipe.parse(BOTH).column("size")

    assert sizes[:12] == [1, 2, 3, 4, 6, 8, 12, 13, 16, 19, 21, 24]
    assert sizes[-3:] == [4194301, 4194304, 4194307]


def test_modes():
    def modes(name):
        return netpipe.parse(TEXTS[name]).facts["modes"]

    assert modes("bidirectional.4MiB") == ["asynchronous", "bidirectional"]
    assert modes("synchronous.unperturbed.4MiB") == ["synchronous"]


@pytest.mark.parametrize(
    ("start", "end", "perturbation", "sizes"),
    [  # NPopenmpi -l START -u END -p PERTURBATION -n 100, read off its output
        (
            7, 100, 3,
            [7, 10, 10, 13, 16, 16, 19, 22, 22, 25, 28, 34, 37, 40, 46, 49, 52, 70, 73, 76,
             94, 97, 100],
        ),
        (1, 64, 8, [1, 2, 3, 4, 6, 8, 12, 16, 24, 24, 32, 40, 40, 48, 56, 56, 64, 72]),
        (1, 64, 0, [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]),
    ],
)  # fmt: skip
def test_planned_sizes(start, end, perturbation, sizes):
    assert list(netpipe._sizes(start, end, perturbation)) == sizes


def test_a_lower_bound_that_is_perturbed_itself():
    text = TEXTS["from1024to4000"]

    assert netpipe.parse(text, last_size=4000).sound
    assert netpipe.parse(text).column("size")[0] == 1021
    assert not netpipe.parse(text, last_size=4096).complete


# --- completeness -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ROWS)
def test_without_its_last_size_no_output_is_complete(name):
    parsed = netpipe.parse(TEXTS[name])

    assert not parsed.complete
    assert not parsed.problems


@pytest.mark.parametrize("name", [*ROWS, "from1024to4000"])
def test_cut_at_any_line_it_is_not_complete(name):
    last_size = MIB4 if name != "from1024to4000" else 4000
    lines = TEXTS[name].split("\n")[:-1]
    for end in range(len(lines)):
        try:
            parsed = netpipe.parse(
                "".join(f"{line}\n" for line in lines[:end]), last_size=last_size
            )
        except ParseError:
            continue
        assert not parsed.complete, end


def test_cut_within_the_last_row_it_is_not_complete():
    for end in range(len(BOTH) - 60, len(BOTH)):
        assert not netpipe.parse(BOTH[:end], last_size=MIB4).complete, end


def test_a_run_that_stopped_early_says_where():
    cut = BOTH[: BOTH.index(" 80:   65536 bytes")]

    assert "the rows end at size 65533, not 4194307" in netpipe.parse(cut, last_size=MIB4).problems


# --- damaged outputs ----------------------------------------------------------------------------

ROW = next(line for line in BOTH.split("\n") if line.startswith(" 20:"))


def test_rows_cut_in_two_by_the_log_of_ucx_are_joined():
    text = TEXTS["ucx-log.4MiB"]
    torn = [line for line in text.split("\n") if "times --> [" in line]
    assert torn

    parsed = netpipe.parse(text, last_size=MIB4)

    assert parsed.sound
    # 70: 24573 bytes 20 times --> [...log...] ... 52509.92 Mbps in 3.57 usec
    assert parsed.at("latency", size=24573) == 3.57


@pytest.mark.parametrize(
    ("new", "problem"),
    [
        (ROW.replace("usec", ""), "not a row of NetPIPE: '20:"),
        (ROW[:35], "not a row of NetPIPE: '20:"),
        ("[node1][[1,1],1] connection reset\n" + ROW, r"not a row of NetPIPE: '\[node1\]"),
        (ROW[: ROW.index(" in ")] + " in        nan usec", "latency is nan"),
        (ROW[: ROW.index(" in ")] + " in       0.00 usec", "latency is 0.00"),
        (ROW[: ROW.index("-->")] + "-->       -inf Mbps in       0.11 usec", "bandwidth is -inf"),
        (ROW.replace(" 20:", " 21:"), "row 21 where 20 was to come .rows are missing"),
        (ROW + "\n" + ROW, "row 20 where 21 was to come .of N singletons"),
        ("", "size 67 where 64 was to come: rows are missing"),
    ],
)  # fmt: skip
def test_a_bad_row_is_a_problem(new, problem):
    parsed = netpipe.parse(BOTH.replace(ROW + "\n", f"{new}\n" if new else ""), last_size=MIB4)

    assert any(re.search(problem, p) for p in parsed.problems), parsed.problems


def test_hosts_of_another_world():
    alone = BOTH.replace("1: vm\n", "")
    three = "2: vm\n" + BOTH
    twice = "0: vm\n" + BOTH

    assert "1 ranks, NetPIPE is for two" in netpipe.parse(alone, last_size=MIB4).problems
    assert "3 ranks, NetPIPE is for two" in netpipe.parse(three, last_size=MIB4).problems
    assert any("rank 0 again" in p for p in netpipe.parse(twice, last_size=MIB4).problems)


def test_without_stdout_nothing_is_said_of_the_world():
    assert "ranks" not in netpipe.parse(TEXTS["stderr.4MiB"], last_size=MIB4).facts


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (TEXTS["np1"], r"line 2: .*Need at least two processes \(only given 1\)"),
        (TEXTS["usage"], "NETPIPE USAGE"),
        (TEXTS["stdout.4MiB"], "no main loop"),
        ("", "no main loop"),
    ],
)
def test_what_has_no_rows_is_refused_with_the_reason(text, reason):
    with pytest.raises(ParseError, match=reason):
        netpipe.parse(text)


def test_an_integrity_check_measures_nothing():
    parsed = netpipe.parse(TEXTS["integrity"], last_size=64)

    assert not parsed.complete
    assert parsed.problems


def test_recognised_by_its_own_lines_only():
    assert all(netpipe.recognise(TEXTS[name]) for name in [*ROWS, "np1", "usage"])
    assert not netpipe.recognise(TEXTS["stdout.4MiB"])


@given(
    st.lists(
        st.tuples(*[st.integers(0, 10**40)] * 3, *[st.text(max_size=4)] * 2).map(
            lambda v: "{:3d}: {:7d} bytes {:6d} times --> {} Mbps in {} usec".format(*v)
        )
        | st.text(),
        max_size=8,
    ).map("\n".join),
    st.none() | st.integers(),
)
def test_any_rows_raise_nothing_but_parse_error(rows, last_size):
    try:
        parsed = netpipe.parse(f"Now starting the main loop\n{rows}", last_size=last_size)
    except ParseError:
        return
    assert parsed.rows or not parsed.complete
