"""NetPIPE 3.7.2 over Open MPI: real outputs, and damaged forms of them."""

from functools import partial

import pytest
from real_outputs import problems, texts

from assay.opinions.parse import netpipe
from assay.parse import ParseError

TEXTS = texts("netpipe", "NPmpi.3.7.2.")
MIB4 = 4 << 20
BOTH = TEXTS["stdout.4MiB"] + TEXTS["stderr.4MiB"]
ROWS = [name for name in TEXTS if name.endswith("4MiB") and name != "stdout.4MiB"]


def test_both_streams_in_one_text():
    parsed = netpipe.parse_netpipe(BOTH, last_size=MIB4)

    assert parsed.sound, parsed.problems
    assert parsed.facts == {
        "modes": [],
        "hosts": ["vm", "vm"],
        "ranks": 2,
        "first_size": 1,
    }
    assert parsed.rows == netpipe.parse_netpipe(TEXTS["stderr.4MiB"]).rows


@pytest.mark.parametrize("name", ROWS)
def test_bandwidth_is_size_by_time_in_units_of_a_million_bytes(name):
    parsed = netpipe.parse_netpipe(TEXTS[name], last_size=MIB4)

    assert parsed.sound, parsed.problems
    ways = 2 if "bidirectional" in parsed.facts["modes"] else 1
    for row in parsed.rows:
        if row["latency"] > 50:  # printed to 0.01 us
            assert row["bandwidth"] == pytest.approx(ways * row["size"] / row["latency"], rel=2e-4)


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

    assert netpipe.parse_netpipe(text, last_size=4000).sound
    assert netpipe.parse_netpipe(text).column("size")[0] == 1021
    assert not netpipe.parse_netpipe(text, last_size=4096).complete


# --- completeness -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ROWS)
def test_without_its_last_size_no_output_is_complete(name):
    parsed = netpipe.parse_netpipe(TEXTS[name])

    assert not parsed.complete
    assert not parsed.problems


# --- damaged outputs ----------------------------------------------------------------------------

ROW = next(line for line in BOTH.split("\n") if line.startswith(" 20:"))


def test_rows_cut_in_two_by_the_log_of_ucx_are_joined():
    text = TEXTS["ucx-log.4MiB"]
    torn = [line for line in text.split("\n") if "times --> [" in line]
    assert torn

    parsed = netpipe.parse_netpipe(text, last_size=MIB4)

    assert parsed.sound
    # 70: 24573 bytes 20 times --> [...log...] ... 52509.92 Mbps in 3.57 usec
    assert parsed.at("latency", size=24573) == 3.57


test_a_bad_row_or_another_world_is_a_problem = problems(
    partial(netpipe.parse_netpipe, last_size=MIB4),
    BOTH,
    [
        (ROW, ROW.replace("usec", ""), "not a row of NetPIPE: '20:"),
        (ROW, ROW[:35], "not a row of NetPIPE: '20:"),
        (ROW, "[node1][[1,1],1] connection reset\n" + ROW, "not a row of NetPIPE: '[node1]"),
        (ROW, ROW[: ROW.index(" in ")] + " in        nan usec", "latency is nan"),
        (ROW, ROW[: ROW.index(" in ")] + " in       0.00 usec", "latency is 0.00"),
        (ROW, ROW[: ROW.index("-->")] + "-->  -inf Mbps in  0.11 usec", "bandwidth is -inf"),
        (ROW, ROW.replace(" 20:", " 21:"), "row 21 where 20 was to come (rows are missing"),
        (ROW, ROW + "\n" + ROW, "row 20 where 21 was to come (of N singletons"),
        (ROW + "\n", "", "size 67 where 64 was to come: rows are missing"),
        (BOTH[BOTH.index(" 80:   65536 bytes") :], "", "the rows end at size 65533, not 4194307"),
        ("1: vm\n", "", "1 ranks, NetPIPE is for two"),
        ("0: vm\n", "2: vm\n0: vm\n", "3 ranks, NetPIPE is for two"),
        ("0: vm\n", "0: vm\n0: vm\n", "rank 0 again"),
    ],
)


def test_an_integrity_check_measures_nothing():
    parsed = netpipe.parse_netpipe(TEXTS["integrity"], last_size=64)

    assert not parsed.complete
    assert parsed.problems


def test_recognised_by_its_own_lines_only():
    assert all(netpipe.recognise(TEXTS[name]) for name in [*ROWS, "np1", "usage"])
    assert not netpipe.recognise(TEXTS["stdout.4MiB"])
    with pytest.raises(ParseError, match="no main loop"):
        netpipe.parse_netpipe(TEXTS["stdout.4MiB"])
