"""ucx_perftest: real outputs of UCX 1.13 to 1.22, and damaged forms of them."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.outputs import ParseError, ucx_perftest

DATA = Path(__file__).parents[1] / "data" / "ucx-perftest"
TEXTS = {
    path.name.removeprefix("ucx_perftest.").removesuffix(".txt"): path.read_text()
    for path in DATA.glob("*.txt")
}
VERSIONS = ["1.13.1", "1.16.0", "1.18.1", "1.20.1", "1.22.0"]
REFUSED = {
    "1.13.1.csv": "line 1: CSV",
    "1.13.1.no-cuda": 'no result table; line 1: UCX ERROR: unsupported memory type: "cuda"',
    "1.13.1.tag_lat.server": "no result table",
}
FAILED = sorted(n for n in TEXTS if n.split(".", 3)[3] in ("no-cuda", "no-device"))
FINISHED = sorted(TEXTS.keys() - REFUSED.keys() - set(FAILED))

PROGRESS = TEXTS["1.13.1.progress"]
FINAL = PROGRESS.split("\n")[-2]


def test_golden():
    # Final: 12000000 0.100 0.102 0.116 75.09 65.67 9842291 8607040
    parsed = ucx_perftest.parse(PROGRESS)

    assert parsed.sound, parsed.problems
    assert (parsed.family, parsed.program) == ("ucx-perftest", "ucx_perftest")
    (row,) = parsed.rows
    assert parsed.facts["final"] == row
    assert list(row) == list(parsed.units)
    assert (row["iterations"], row["p50"]) == (12000000, 0.100)
    assert (row["latency_recent"], row["latency"]) == (0.102, 0.116)
    assert (row["messages_per_s_recent"], row["messages_per_s"]) == (9842291, 8607040)
    assert row["bandwidth"] == pytest.approx(68.86, abs=0.01)  # 65.67 MiB/s


@pytest.mark.parametrize("name", FINISHED)
def test_finished_outputs_are_sound(name):
    parsed = ucx_perftest.parse(TEXTS[name])

    assert ucx_perftest.recognise(TEXTS[name])
    assert parsed.sound, parsed.problems
    assert len(parsed.rows) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_bandwidth_and_rate_agree_in_units_of_a_million_bytes(version):
    # -t tag_bw -s 1048576: the rate is printed without decimals.
    parsed = ucx_perftest.parse(TEXTS[f"{version}.tag_bw-log"])

    row = parsed.facts["final"]
    assert parsed.version == version
    assert row["bandwidth"] == pytest.approx(row["messages_per_s"] * 1.048576, rel=1e-3)
    assert row["overhead"] == pytest.approx(1e6 / row["messages_per_s"], rel=1e-3)
    assert parsed.units["bandwidth"] == "MB/s"
    assert "latency" not in row


def test_columns_follow_the_headings():
    assert "p99.9" in ucx_perftest.parse(TEXTS["1.13.1.percentile99.9"]).units
    assert list(ucx_perftest.parse(TEXTS["1.13.1.threads2"]).units) == [
        "iterations",
        "latency",
        "bandwidth",
        "messages_per_s",
    ]
    assert ucx_perftest.parse(TEXTS["1.13.1.final"]).at("latency", iterations=20000) == 0.124


def test_headings_before_1_12_constructed_from_the_source():
    # v1.9.0 to v1.11.2: src/tools/perf/perftest.c, print_header(). No run of these is recorded.
    parsed = ucx_perftest.parse(PROGRESS.replace("| 50.0%ile |", "|  typical |"))

    assert parsed.sound
    assert "typical" in parsed.units


def test_the_servers_side_tells_what_the_test_was():
    parsed = ucx_perftest.parse(TEXTS["1.13.1.tag_lat.server"] + TEXTS["1.13.1.tag_lat"])

    assert parsed.sound, parsed.problems
    assert parsed.facts["test"] == "tag match latency"
    assert parsed.facts["message_size"] == 8
    assert parsed.facts["send_memory"] == "host"


def test_the_server_may_say_goodbye_after_the_clients_result():
    assert ucx_perftest.parse(TEXTS["1.13.1.tag_lat"] + "## exit code 0\n").sound


# --- failures -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAILED)
def test_failed_runs_say_why(name):
    try:
        parsed = ucx_perftest.parse(TEXTS[name])
    except ParseError as error:
        assert "unsupported memory type" in str(error)
        return
    assert not parsed.complete
    assert any("UCX ERROR: Failed to run test: No such device" in p for p in parsed.problems)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_result_is_refused_with_the_reason(name):
    with pytest.raises(ParseError, match=REFUSED[name]):
        ucx_perftest.parse(TEXTS[name])


def test_an_error_of_ucx_is_a_problem_even_beside_a_result():
    error = "[1795174200.5] [vm:32232:0]  sock.c:323  UCX  ERROR connect() failed: refused\n"

    parsed = ucx_perftest.parse(PROGRESS.replace("Final:", error + "Final:"))

    assert parsed.complete
    assert any("UCX ERROR: connect() failed" in p for p in parsed.problems)


@pytest.mark.parametrize("name", FINISHED)
def test_cut_at_any_line_it_is_not_complete(name):
    lines = TEXTS[name].split("\n")[:-1]
    for end in range(len(lines)):
        try:
            parsed = ucx_perftest.parse("".join(f"{line}\n" for line in lines[:end]))
        except ParseError:
            continue
        assert not parsed.complete, end


def test_cut_within_the_final_line_it_is_not_complete():
    for end in range(len(PROGRESS) - len(FINAL), len(PROGRESS)):
        assert not ucx_perftest.parse(PROGRESS[:end]).complete, end


@pytest.mark.parametrize(
    ("new", "problem"),
    [
        (FINAL.replace("0.116", "nan"), "line 8: latency is nan"),
        (FINAL.replace("0.116", "0.000"), "line 8: latency is 0.000"),
        (FINAL.replace("65.67", "-inf"), "line 8: bandwidth is -inf"),
        (FINAL.replace("8607040", ""), "line 8: 7 values for 8 columns"),
        (FINAL + "  1.5", "line 8: 9 values for 8 columns"),
        (FINAL + "\n" + FINAL, "line 9: a second result"),
        ("lost connection\n" + FINAL, "line 8: not a row of ucx_perftest: 'lost connection'"),
        ("[thread 0] 77\n" + FINAL, "line 8: 1 values for 8 columns"),
    ],
)
def test_a_bad_line_is_a_problem_that_names_it(new, problem):
    parsed = ucx_perftest.parse(PROGRESS.replace(FINAL, new))

    assert any(re.search(problem, p) for p in parsed.problems), parsed.problems


def test_two_clients_in_one_text():
    problems = ucx_perftest.parse(PROGRESS + TEXTS["1.13.1.tag_lat"]).problems

    assert any("a second table" in p for p in problems)


@pytest.mark.parametrize(("old", "new"), [("50.0%ile", "best one"), ("# iterations", "# messages")])
def test_unknown_headings_are_an_error_that_names_the_line(old, new):
    with pytest.raises(ParseError, match="line 4: unknown headings"):
        ucx_perftest.parse(PROGRESS.replace(old, new))


def test_recognised_by_its_headings_only():
    assert ucx_perftest.recognise(TEXTS["1.13.1.no-cuda"])
    assert ucx_perftest.recognise(TEXTS["1.13.1.csv"])
    assert not ucx_perftest.recognise("+-----+\n| API: protocol layer |\n")


@given(st.text(), st.none() | st.integers())
def test_any_rows_raise_nothing_but_parse_error(rows, last_size):
    header = "".join(PROGRESS.splitlines(keepends=True)[:5])
    for text in (header + rows, f"{header}Final:   {rows}"):
        try:
            parsed = ucx_perftest.parse(text, last_size=last_size)
        except ParseError:
            continue
        assert parsed.rows or not parsed.complete


def test_a_last_report_that_came_with_the_last_iteration():
    """The final report covers no iteration and no time. Seen with UCX 1.13.1, link of 130 us."""
    text = TEXTS["1.13.1.tag_lat"]
    (final,) = (line for line in text.splitlines() if line.startswith("Final:"))
    words = final.split()
    stalled = f"Final: {words[1]:>21} {words[2]:>10} inf {words[4]} 0.00 {words[6]} 0 {words[8]}"
    parsed = ucx_perftest.parse(text.replace(final, stalled))
    whole = ucx_perftest.parse(text)
    assert parsed.sound
    (row,) = parsed.rows
    assert row == {k: v for k, v in whole.rows[0].items() if not k.endswith("_recent")}
    assert set(parsed.units) == set(row)
