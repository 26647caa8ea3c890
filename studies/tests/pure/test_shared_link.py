"""Two clusters over one link: the statements of the document, and what HPL sends."""

import math

import pytest

from studies.doc003 import shared_link
from studies.doc003.shared_link import FitError, SharedLink

#: "decrease for p >= 50" at n_p = 10 000, "for p >= 250" at 40 000: the document, page 38.
BREAKS = {10_000: 50, 40_000: 250}


@pytest.fixture(scope="module")
def of_document():
    link, message = shared_link.from_breaks(BREAKS)
    return link, message


def test_one_link_explains_both_breaks_of_the_document(of_document):
    link, message = of_document
    assert {n: link.break_at(n) for n in BREAKS} == pytest.approx(BREAKS, rel=0.05)
    assert message.low < link.message == message.value < message.high


@pytest.mark.parametrize("factor,improvement", [(2, 0.25), (10, 1.00)])
def test_a_wider_link_improves_as_much_as_the_document_says(of_document, factor, improvement):
    link, _ = of_document
    assert link.improvement(40_000, factor) == pytest.approx(improvement, abs=0.05)


def test_the_latency_alone_does_not_explain_the_breaks():
    """The document says so: it breaks at 30 for n_p = 1000, and far too late for larger n_p."""
    operations = 2 * (math.log(30) - 1) / 30**2 * shared_link.operations(1000)
    link = SharedLink(operations, 0.0)
    assert link.break_at(1000) == pytest.approx(30, rel=0.01)
    assert link.break_at(10_000) > 20 * BREAKS[10_000]
    # With the latency of a fast process the breaks by bandwidth hardly move.
    both, _ = shared_link.from_breaks(BREAKS, latency=operations)
    assert both.improvement(40_000, 2) == pytest.approx(0.25, abs=0.05)


def test_without_a_link_the_speed_up_is_the_simple_one():
    link = SharedLink(0.0, 1e-9)
    assert link.speed_up(100, 40_000) == pytest.approx(100 / math.log(100))
    assert [link.speed_up(p, 40_000) for p in (1, 2)] == [1, 2], "not above p"


def test_a_link_that_never_pays_is_an_error_and_not_a_break():
    with pytest.raises(ValueError, match="so slow that the bound never grows"):
        SharedLink(0.0, 1e12).break_at(1000)


def test_one_break_is_too_little():
    with pytest.raises(FitError, match="at least 2 orders"):
        shared_link.from_breaks({10_000: 50})


#: Order -> bytes that two emulated nodes sent by their counters while xhpl 2.3 ran on one rank of
#: each with NB = 64, headers and answers included; seen on 2026-11-23.
COUNTED = {448: 568_588 + 439_721, 960: 2_216_998 + 1_973_441, 1984: 8_805_180 + 8_332_281}

#: A segment of TCP has 1448 B of 1514 B; MPI and Slurm send some kB more.
HEADERS, START = 1514 / 1448, 50_000


@pytest.mark.parametrize("order", COUNTED)
def test_the_bytes_of_two_ranks_are_those_that_counters_saw(order):
    said = shared_link.of_hpl(64).volume(2, order) * HEADERS + START
    assert said == pytest.approx(COUNTED[order], rel=0.02)


def test_a_long_panel_asks_before_it_is_sent():
    law = shared_link.of_hpl(64)
    # The panels of order 192 have 96, 64 and 32 KiB. The solution adds a message for each.
    assert law.messages(2, 192) == 3 + 1 + 1 + 3
    assert law.messages(1, 192) == 0
