"""perftest: real outputs over soft-RoCE, and damaged forms of them."""

import pytest
from real_outputs import edited, incomplete, problems, refused, texts

from assay.opinions.parse import ib_perftest
from assay.parse import ParseError

TEXTS = texts("ib-perftest", "4.5.")
BW, LAT = TEXTS["ib_write_bw.client"], TEXTS["ib_send_lat.client"]
ROW = " 65536      200              2.37               1.85   \t\t   0.000030"
TIMES = " 8       200          1822.13        57264.32"


#: The server of these only lends its memory.
PASSIVE = ("ib_read_lat.server", "ib_atomic_lat.server")


@pytest.mark.parametrize(
    "name", sorted(n for n in TEXTS if n.startswith("ib_") and n not in PASSIVE)
)
def test_a_real_output_is_sound_and_names_its_program(name):
    parsed = ib_perftest.parse_ib_perftest(TEXTS[name])
    assert parsed.sound, parsed.problems
    assert parsed.program == name.split(".")[0]
    assert parsed.facts["connection"] == "RC"
    assert parsed.facts["device"] == "rxe0"
    assert parsed.facts["validates"] is False


@pytest.mark.parametrize(("name", "said"), [("ib_write_bw", "is 0.00"), ("ib_send_lat", "is inf")])
def test_a_processor_without_a_known_clock_gives_no_numbers(name, said):
    parsed = ib_perftest.parse_ib_perftest(TEXTS[f"no-clock.{name}.client"])
    assert not parsed.sound
    assert any(said in problem for problem in parsed.problems), parsed.problems


@pytest.mark.parametrize("name", PASSIVE)
def test_a_server_that_measures_nothing_is_refused(name):
    with pytest.raises(ParseError, match=r"no table; it ends with ' ?GID: 00:"):
        ib_perftest.parse_ib_perftest(TEXTS[name])


def test_values_and_their_units():
    parsed = ib_perftest.parse_ib_perftest(BW)
    (row,) = parsed.rows
    assert (row["size"], row["iterations"]) == (65536, 200)
    assert row["bandwidth"] == pytest.approx(1.85 * 1.048576)
    assert parsed.units["bandwidth"] == "MB/s"
    assert parsed.facts == {
        "device": "rxe0", "transport": "IB", "connection": "RC", "mtu": 1024,
        "link_type": "Ethernet", "gid_index": 1, "bidirectional": False, "validates": False,
    }  # fmt: skip
    latency = ib_perftest.parse_ib_perftest(LAT)
    assert latency.quantity("latency", size=8).value == 12765.77
    assert latency.units["latency"] == "us"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no-device", "it said ' ?Did not detect devices"),
        ("no-size", "it said ' ?Message Size should be between 1 and 2147483647"),
    ],
)
def test_a_program_that_measured_nothing_is_refused_with_its_first_words(name, said):
    with pytest.raises(ParseError, match=said):
        ib_perftest.parse_ib_perftest(TEXTS[name])


test_a_bad_line_is_a_problem = problems(
    ib_perftest.parse_ib_perftest,
    BW,
    [
        (ROW, ROW.replace("1.85", "2.85"), "contradict each other"),
        (ROW, ROW.replace("65536", "32768"), "contradict each other"),
        (ROW, ROW.replace("1.85", "nan"), "bandwidth is nan"),
        (ROW, ROW.replace("1.85", "0.00"), "which is not a measured value"),
        (ROW, f"{ROW}\n Completion with error", "3 values for 5 columns"),
        (ROW, f"{ROW}\n{BW}", "a second run"),
    ],
)

test_times_that_disagree_are_a_problem = problems(
    ib_perftest.parse_ib_perftest,
    LAT,
    [(TIMES, TIMES.replace("57264.32", "7264.32"), "time_max 7264.32 contradict each other: ")],
)

test_an_output_without_its_last_line_is_not_complete = incomplete(
    ib_perftest.parse_ib_perftest, BW, [(f"{ROW}\n{'-' * 87}\n", f"{ROW}\n"), (f"{ROW}\n", "")]
)

test_an_unknown_form_is_refused = refused(
    ib_perftest.parse_ib_perftest,
    BW,
    [
        ("BW average[MB/sec]", "BW average[kB/sec]", "columns of this table are not known"),
        ("MsgRate[Mpps]", "MsgRate[Mpps]   Heat[K]", "columns of this table are not known"),
        ("RDMA_Write BW Test", "RDMA_Write Sideways BW Test", "no heading of perftest"),
    ],
)


def test_gigabits_are_converted():
    """Constructed: 0.00003 million messages of 64 KiB in a second are 0.0157 Gbit/s."""
    text = BW.replace("MB/sec", "Gb/sec").replace("1.85 ", "0.0157 ")
    (row,) = ib_perftest.parse_ib_perftest(text).rows

    assert row["bandwidth"] == pytest.approx(1.9625)
    assert ib_perftest.parse_ib_perftest(text).sound
    assert not ib_perftest.parse_ib_perftest(BW.replace("MB/sec", "Gb/sec")).sound


@pytest.mark.parametrize("kind", ["Bidirectional ", "Bidirectional Post List ", "Post List "])
def test_both_directions_and_lists_of_requests(kind):
    parsed = ib_perftest.parse_ib_perftest(edited(BW, "RDMA_Write BW", f"RDMA_Write {kind}BW"))

    assert parsed.sound
    assert parsed.program == "ib_write_bw"
    assert parsed.facts["bidirectional"] == kind.startswith("Bi")


def test_a_warning_of_the_clock_is_no_row():
    clock = "Conflicting CPU frequency values detected: 1003.892000 != 1940.696000. CPU Frequency"

    assert ib_perftest.parse_ib_perftest(
        edited(BW, f"{ROW}\n", f"{clock} is not max.\n{ROW}\n")
    ).sound


def test_what_follows_the_table_is_a_problem():
    text = edited(BW, f"{ROW}\n{'-' * 87}\n", f"{ROW}\n{'-' * 87}\n Failed status 12: wr_id 0\n")
    assert ib_perftest.parse_ib_perftest(text).problems == (
        "line 25: not a row of perftest: 'Failed status 12: wr_id 0'",
    )


def test_an_error_instead_of_the_table_is_named():
    table = BW[BW.index(" #bytes") :]
    with pytest.raises(ParseError, match=r"no table; it ends with .+Couldn't"):
        ib_perftest.parse_ib_perftest(edited(BW, table, " Couldn't read remote address\n"))
