"""ucx_perftest: real outputs of UCX 1.13 to 1.22, and damaged forms of them."""

import pytest
from real_outputs import problems, refused, texts

from assay.opinions.parse import ucx_perftest
from assay.parse import ParseError
from assay.parse.registry import recognise

TEXTS = texts("ucx-perftest", "ucx_perftest.")
VERSIONS = ["1.13.1", "1.16.0", "1.18.1", "1.20.1", "1.22.0"]
PROGRESS = TEXTS["1.13.1.progress"]
FINAL = PROGRESS.split("\n")[-2]


@pytest.mark.parametrize("version", VERSIONS)
def test_bandwidth_and_rate_agree_in_units_of_a_million_bytes(version):
    # -t tag_bw -s 1048576: the rate is printed without decimals.
    row = ucx_perftest.parse_ucx_perftest(TEXTS[f"{version}.tag_bw-log"]).facts["final"]

    assert row["bandwidth"] == pytest.approx(row["messages_per_s"] * 1.048576, rel=1e-3)
    assert row["overhead"] == pytest.approx(1e6 / row["messages_per_s"], rel=1e-3)


def test_headings_before_1_12_constructed_from_the_source():
    # v1.9.0 to v1.11.2: src/tools/perf/perftest.c, print_header(). No run of these is recorded.
    parsed = ucx_perftest.parse_ucx_perftest(PROGRESS.replace("| 50.0%ile |", "|  typical |"))

    assert parsed.sound
    assert "typical" in parsed.units


def test_the_servers_side_tells_what_the_test_was():
    parsed = ucx_perftest.parse_ucx_perftest(
        TEXTS["1.13.1.tag_lat.server"] + TEXTS["1.13.1.tag_lat"]
    )

    assert parsed.sound, parsed.problems
    assert parsed.facts["test"] == "tag match latency"
    assert parsed.facts["message_size"] == 8
    assert parsed.facts["send_memory"] == "host"


def test_the_server_may_say_goodbye_after_the_clients_result():
    assert ucx_perftest.parse_ucx_perftest(TEXTS["1.13.1.tag_lat"] + "## exit code 0\n").sound


#: Of UCX 1.13.1, `-f -t tag_bw -s 1048576`: two pairs shared a link of 8 Mbit/s.
SLOW = """\
+--------------+--------------+------------------------------+---------------------+-----------------------+
|              |              |       overhead (usec)        |   bandwidth (MB/s)  |  message rate (msg/s) |
+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+
|     Test     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |
+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+
                           3     49.056 2195308.367 2195308.367        0.46       0.46           0           0
"""  # noqa: E501 - as it is printed


def test_less_than_one_message_in_two_seconds_is_a_rate_of_0():
    parsed = ucx_perftest.parse_ucx_perftest(SLOW)

    assert parsed.sound, parsed.problems
    assert parsed.facts["final"]["bandwidth"] == pytest.approx(0.46 * 1.048576)


def test_a_rate_of_0_must_follow_from_the_time():
    (said,) = ucx_perftest.parse_ucx_perftest(SLOW.replace("2195308.367", "219530.836")).problems
    assert "overhead 219531 us and 0 messages/s contradict each other" in said


@pytest.mark.parametrize(("time", "sound"), [("2195308.367", True), ("1195308.367", False)])
def test_a_rate_of_0_after_the_last_report_must_follow_from_the_time(time, sound):
    row = SLOW.splitlines()[-1]
    ended = f"Final: 3 49.056 inf {time} 0.00 0.46 0 0\n"
    stages = SLOW.replace(row + "\n", ended).replace("|     Test     |", "|    Stage     |")
    parsed = ucx_perftest.parse_ucx_perftest(stages)
    assert parsed.sound is sound, parsed.problems
    assert sound or "messages_per_s is 0, which is not a measured value" in parsed.problems[0]


def test_several_threads_have_a_rate():
    text = TEXTS["1.13.1.threads2"]
    *_, rate = text.split()
    (said,) = ucx_perftest.parse_ucx_perftest(text.replace(rate, "0")).problems
    assert "messages_per_s is 0, which is not a measured value" in said


# --- failures -----------------------------------------------------------------------------------


ERROR = "[1795174200.5] [vm:32232:0]  sock.c:323  UCX  ERROR connect() failed: refused\n"

test_a_bad_line_is_a_problem_that_names_it = problems(
    ucx_perftest.parse_ucx_perftest,
    PROGRESS,
    [
        (FINAL, FINAL.replace("0.116", "nan"), "line 8: latency is nan"),
        (FINAL, FINAL.replace("0.116", "0.000"), "line 8: latency is 0.000"),
        (FINAL, FINAL.replace("65.67", "-inf"), "line 8: bandwidth is -inf"),
        (FINAL, FINAL.replace("8607040", ""), "line 8: 7 values for 8 columns"),
        (FINAL, FINAL + "  1.5", "line 8: 9 values for 8 columns"),
        (FINAL, FINAL + "\n" + FINAL, "line 9: a second result"),
        (PROGRESS, PROGRESS + TEXTS["1.13.1.tag_lat"], "a second table"),  # two clients
        (FINAL, "lost connection\n" + FINAL, "line 8: not a row of ucx_perftest: 'lost conn"),
        (FINAL, "[thread 0] 77\n" + FINAL, "line 8: 1 values for 8 columns"),
        ("Final:", f"{ERROR}Final:", "UCX ERROR: connect() failed"),  # even beside a result
    ],
)


test_unknown_headings_are_an_error_that_names_the_line = refused(
    ucx_perftest.parse_ucx_perftest,
    PROGRESS,
    [
        ("50.0%ile", "best one", "line 4: unknown headings"),
        ("# iterations", "# messages", "line 4: unknown headings"),
    ],
)


def test_frames_and_settings_alone_are_not_recognised():
    assert not ucx_perftest.recognise("+-----+\n| API: protocol layer |\n")
    with pytest.raises(ParseError, match="no result table"):
        ucx_perftest.parse_ucx_perftest(TEXTS["1.13.1.tag_lat.server"])


def test_a_last_report_that_came_with_the_last_iteration():
    """The final report covers no iteration and no time. Seen with UCX 1.13.1, link of 130 us."""
    text = TEXTS["1.13.1.tag_lat"]
    (final,) = (line for line in text.splitlines() if line.startswith("Final:"))
    words = final.split()
    stalled = f"Final: {words[1]:>21} {words[2]:>10} inf {words[4]} 0.00 {words[6]} 0 {words[8]}"
    parsed = ucx_perftest.parse_ucx_perftest(text.replace(final, stalled))
    whole = ucx_perftest.parse_ucx_perftest(text)
    assert parsed.sound
    (row,) = parsed.rows
    assert row == {k: v for k, v in whole.rows[0].items() if not k.endswith("_recent")}
    assert set(parsed.units) == set(row)


def test_a_final_line_alone_is_refused_for_its_missing_headings():
    assert recognise(FINAL + "\n") == "ucx-perftest"
    with pytest.raises(ParseError, match="line 1: a result without its headings"):
        ucx_perftest.parse_ucx_perftest(FINAL + "\n")
