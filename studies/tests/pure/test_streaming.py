"""Broadcast for streaming: the parser on real outputs, derived columns, judgement, and figures."""

from __future__ import annotations

from pathlib import Path

import pytest
import report_records as records
from ci import wanted
from msgspec.structs import replace
from real_outputs import edited, has, texts

from assay.declared import Figure
from assay.parse import ParseError
from assay.show import figure, figures
from studies.doc001 import bcast_stream
from studies.doc001 import rounds as streaming

STUDIES = Path(streaming.__file__).parents[1]
REAL = texts("bcast-stream", data=STUDIES / "tests/data")
HEALTHY = REAL["np2"]


def test_a_real_stream_is_whole_and_every_frame_is_accounted_for():
    parsed = bcast_stream.parse(HEALTHY)
    assert parsed.sound
    assert parsed.facts["ranks"] == 2
    assert len(parsed.rows) == 8
    for row in parsed.rows:
        assert row["verified"] == row["frames"] + row["alone"]
    assert {row["dropped"] > 0 for row in parsed.rows if row["error_rate"]} == {True}


def test_a_damaged_payload_and_a_lost_frame_are_problems():
    assert has(bcast_stream.parse(REAL["damaged.np2"]).problems, "1 frames had a wrong payload")
    assert has(bcast_stream.parse(REAL["withheld.np2"]).problems, "1 frames were lost for good")


ROW = "2 rma 0 64 48 48 0.202254 237.33 0.02 79449.835 0 0 0 0 96"


@pytest.mark.parametrize(
    "new,words",
    [
        (ROW.replace(" 96", " 95"), "96 frames went to the workers, and 95 verified"),
        (ROW.replace("0 0 0 0 96", "30 30 0 0 96"), "30 of 96 frames were dropped, not 0 of them"),
        (ROW.replace("0 0 0 0 96", "1 0 0 0 96"), "1 frames were dropped, 0 retrieved and 0 lost"),
        (ROW.replace("237.33", "239.00"), "rate, time and number of frames contradict each other"),
        (ROW.replace("0.202254 237.33", "0.000202 237624.00"), "bandwidth, rate and size"),
        (ROW.replace("237.33 0.02", "237.33 0.03"), "bandwidth, rate and size of the frames contr"),
        (ROW.replace("237.33", "nan"), "a value is not a measurement"),
        (ROW.replace("79449.835", "0.000"), "a value is not a measurement"),
        (ROW.replace(" 0.02 ", " inf "), "a value is not a measurement"),
    ],
)
def test_numbers_that_do_not_agree_are_a_problem(new, words):
    assert has(bcast_stream.parse(edited(HEALTHY, ROW, new)).problems, words)


def test_a_slow_rate_that_is_rounded_agrees_with_its_time():
    """32 frames of 1 MiB in 13.42 s are 2.384 frames/s, which are printed as 2.38."""
    slow = edited(HEALTHY, ROW, "2 rma 0 1048576 32 32 13.420000 2.38 2.50 100.000 0 0 0 0 64")
    assert not has(bcast_stream.parse(slow).problems, "rate, time and number of frames")


def test_an_output_that_is_not_understood_is_an_error():
    with pytest.raises(ParseError, match="the program refused"):
        bcast_stream.parse(REAL["refused.np2"])
    with pytest.raises(ParseError, match="unknown version '2'"):
        bcast_stream.parse(edited(HEALTHY, "bcast_stream 1", "bcast_stream 2"))
    with pytest.raises(ParseError, match="2 runs in one text"):
        bcast_stream.parse(HEALTHY + HEALTHY)
    with pytest.raises(ParseError, match="14 values for 15 columns"):
        bcast_stream.parse(edited(HEALTHY, ROW, ROW[:-3]))
    assert not bcast_stream.parse(HEALTHY[: HEALTHY.index("# end")]).complete


def test_numbers_of_ranks_double_up_to_all():
    assert [streaming.counts(n) for n in (2, 3, 4, 12)] == [[2], [2, 3], [2, 4], [2, 4, 8, 12]]


def rounds(ranks=4, cost=1.0):
    """Made rounds: a rate that falls by `cost` times ten times the error rate."""
    return [
        {"ranks": p, "repair": repair, "error_rate": rate, "frame_size": size, "frames": 100,
         "alone": 100, "time": 1.0, "rate": (1000.0 if repair == "rma" else 800.0) / p
         / (1 + 10 * cost * rate), "bandwidth": 100.0, "latency": 2.0 + p,
         "dropped": int(100 * rate), "retrieved": 0, "lost": 0, "wrong": 0, "verified": 100,
         "round_trip": 4.0}
        for p in streaming.counts(ranks)
        for rate in streaming.ERROR_RATES
        for size in streaming.SIZES
        for repair in ("nack", "rma")
    ]  # fmt: skip


#: What the made rounds were asked for: 100 frames, whatever their size.
ASKED = (4, 100, 1 << 40)


def test_a_round_that_did_not_run_is_named():
    assert streaming.unmeasured(rounds(), *ASKED) == []
    (line,) = streaming.unmeasured(rounds()[1:], *ASKED)
    assert line == "63 rounds ran, 64 were asked for, and 1 of these are missing"
    assert streaming.unmeasured(rounds() + rounds()[:1], *ASKED)


def test_rounds_that_sent_fewer_frames_are_named():
    assert streaming.unmeasured(rounds(), 4, 1 << 40, 100) == []  # at least two windows
    (line,) = streaming.unmeasured(rounds(), 4, 1000, 1000 * 64)
    assert line == "a round sent 100 frames of 64 B and 100 alone, 1000 and 100 were asked for"
    few = [{**row, "alone": 99 if row["repair"] == "rma" else 100} for row in rounds()]
    assert len(streaming.unmeasured(few, *ASKED)) == len(streaming.SIZES)


@pytest.mark.parametrize("repair", ["nack", "rma"])
def test_a_repair_that_repaired_nothing_is_named(repair):
    nothing = [{**row, "dropped": row["dropped"] * (row["repair"] != repair)} for row in rounds()]
    (line,) = streaming.unmeasured(nothing, *ASKED)
    assert line == f"no frame was dropped at 1%, so no repair by {repair} ran"


def test_a_round_of_a_millisecond_is_not_judged():
    assert streaming.slowed([{**row, "time": 0.001} for row in rounds(cost=20)]) == []


@pytest.mark.parametrize(("lost", "named"), [(0.06, 0), (0.08, 1)])
def test_a_short_round_that_waits_for_what_it_lost_is_named(lost, named):
    """A made stream of 10 ms: 1 % of loss may double it, and a pause may add 50 ms."""
    made = [
        {**row, "time": lost if row["error_rate"] == 0.01 else 0.01}
        for row in rounds()
        if row["frame_size"] == 64
    ]
    longer = [row for row in rounds() if row["frame_size"] != 64]
    slow = [{**row, "rate": row["frames"] / row["time"]} for row in made]
    assert len(streaming.slowed(slow + longer)) == named


def test_loss_that_halves_the_stream_is_named_for_each_size():
    assert streaming.slowed(rounds()) == []
    lines = streaming.slowed(rounds(cost=20))
    assert len(lines) == len(streaming.SIZES)
    assert "with 1% lost, 250 without: at least 50% must remain" in lines[0]


def test_the_backup_buffer_is_what_two_round_trips_of_the_stream_carry():
    # 1 GB/s for 2 x 5 us are 10 kB.
    assert streaming.backup(1000.0, 5.0) == pytest.approx(10_000)


FIGURES = STUDIES / "doc001/figures.yaml"


def test_all_figures_of_the_document_are_drawn_with_a_line_for_each_error_rate():
    rows = list(streaming.drawn(rounds()))
    case = records.case("Stream", rows, {**bcast_stream.UNITS, **streaming.UNITS}, family="assay")
    declared = [
        Figure("lines", name, streaming.AT, column, over=over)
        for name, (column, over) in streaming.FIGURES.items()
    ]
    case = replace(case, figures=tuple(declared))
    drawn = figure.all_figures(figures.sections([case]))
    by_name = {name: one for one in drawn for name, _ in one.shows}
    assert by_name.keys() == streaming.FIGURES.keys()
    part = by_name["broadcast rate as a part of nack"]
    assert part.table[0] == ("frame size", "0 % [%]", "0.01 % [%]", "0.1 % [%]", "1 % [%]")
    assert {cell for row in part.table[1:] for cell in row[1:]} == {"125"}
    over = by_name["broadcast rate over ranks"]
    assert [row[0] for row in over.table[1:]] == ["2", "4"]
    assert len(over.table[0]) == 1 + 8
    assert not [a for a in wanted.absent([case], drawn, [FIGURES]) if a.at == streaming.AT]
