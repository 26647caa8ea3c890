"""The time of a parser grows with the length of its input, and not with the square of it."""

import contextlib
import gc
import re
import statistics
import time
from pathlib import Path

import pytest

from assay.fleet import coordinator_log
from assay.opinions.parse import ucx_info
from assay.parse import ParseError, openmpi, registry, ucx_log

#: Length of a line [B]. A parser took three seconds for such a line where each of its characters
#: began a search to its end. A short run takes lines of a sixteenth of it.
LENGTH = 1 << 20

#: Length of a text of many lines [B].
MANY = 10 * LENGTH

#: A text is compared with so many readings of one that is as many times shorter. A linear parser
#: takes about as long for both: up to three times as long, because a long text leaves the caches
#: and takes new memory. A quadratic one takes TIMES times longer.
TIMES, MOST = 8, 4.5

#: The median of so many looks decides, unless the first is clear.
LOOKS, CLEAR = 5, 1.7

PIECES = ["a", " ", "0", "[", "[a:", "[a:1] ", ": ", "\t", "=", "1 ", "1.0e", "|", "+", "-", "/"]

#: Begins a message of Open MPI that never ends.
FRAME = "-" * 74 + "\n"

READERS = {
    **{name: parser.parse for name, parser in registry.PARSERS.items()},
    "coordinator_log": coordinator_log.parse_coordinator_log,
    "openmpi": openmpi.parse_openmpi,
    "ucx_info": ucx_info.parse_ucx_info,
    "ucx_log": ucx_log.parse_ucx_log,
    "recognise": registry.recognise,
}


#: A real output of each family.
REAL = {
    family: min((Path(__file__).parents[2] / "data" / family).glob("*.txt"))
    for family in registry.PARSERS
    if family != "ucx-info"
}


@pytest.mark.parametrize("name", READERS)
def test_a_long_line_takes_no_longer_than_its_length(name, short):
    length = LENGTH // 16 if short else LENGTH
    before = REAL[name].read_text() if name in REAL else ""
    for piece in PIECES:
        for begin in ("", before):
            assert linear(READERS[name], begin, piece, length), repr(piece)


@pytest.mark.long
@pytest.mark.parametrize("name", READERS)
def test_many_lines_take_no_longer_than_their_number(name):
    text = REAL[name].read_text() if name in REAL else "[a:1] a line of a log = 1.0\n" * 1000
    middle = text.splitlines(keepends=True)[text.count("\n") // 2]
    for line in (middle, FRAME, text):
        begin = text * (line is not text)
        # A line that is too short would be repeated too often.
        length = MANY * len(line) // max(len(line), 20)
        assert linear(READERS[name], begin, line, length), repr(line)


@pytest.mark.parametrize("pattern", ["a+b", "a.*b"])
def test_a_search_that_begins_at_each_character_is_seen(pattern):
    assert not linear(re.compile(pattern).search, "", "a", LENGTH >> 7)
    assert linear(re.compile("a").findall, "", "a", LENGTH)


def linear(read, begin, piece, length):
    """Whether the time of a reader grows with the length of a text, which is a repeated piece.

    Both times are of this process, and about as long if the reader is linear. So other work, which
    a virtual machine cannot keep out of them, adds the same to both.
    """
    short, long = (begin + piece * (n // len(piece)) for n in (length // TIMES, length))
    ratios = []
    for _ in range(LOOKS):
        took = seconds(read, long)
        # A reader may refuse a text at once. What is faster than one step for each character is
        # not slow.
        if took <= seconds(steps, long):
            return True
        ratios.append(took / max(seconds(read, short, TIMES), 1e-9))
        if ratios[0] <= CLEAR:
            return True
    return statistics.median(ratios) <= MOST


def steps(text):
    """Takes one step of Python for each character."""
    for _ in text:
        pass


def seconds(read, text, times=1):
    """Processor time that a reader takes for a text, read so many times.

    The collector of garbage is off: a long text makes many objects at once, so it would look
    through those of all other tests.
    """
    gc.disable()
    try:
        begin = time.process_time()
        for _ in range(times):
            with contextlib.suppress(ParseError, ValueError):
                read(text)
        return time.process_time() - begin
    finally:
        gc.enable()
