"""The time of a parser grows with the length of its input, and not with the square of it."""

import contextlib
import time
from pathlib import Path

import pytest

from assay.outputs import ParseError, coordinator_log, openmpi, registry, ucx_info, ucx_log

#: A line of this length [B] took three seconds where each of its characters began a search to its
#: end. The limit [s] is far above the time of a linear parser.
LENGTH, LIMIT = 1 << 20, 2.0

#: Length of a text of many lines [B]. It may take ten times as long as a line of LENGTH.
MANY = 10 * LENGTH

PIECES = ["a", " ", "0", "[", "[a:", "[a:1] ", ": ", "\t", "=", "1 ", "1.0e", "|", "+", "-", "/"]

#: Begins a message of Open MPI that never ends.
FRAME = "-" * 74 + "\n"

READERS = {
    **{name: parser.parse for name, parser in registry.PARSERS.items()},
    **{module.__name__: module.parse for module in (coordinator_log, openmpi, ucx_info, ucx_log)},
    "recognise": registry.recognise,
}


#: A real output of each family.
REAL = {
    family: min((Path(__file__).parents[1] / "data" / family).glob("*.txt"))
    for family in registry.PARSERS
    if family != "ucx-info"
}


@pytest.mark.parametrize("name", READERS)
def test_a_long_line_takes_no_longer_than_its_length(name):
    before = REAL[name].read_text() if name in REAL else ""
    for piece in PIECES:
        long = piece * (LENGTH // len(piece))
        for text in (long, before + long):
            assert seconds(name, text) < LIMIT, repr(piece)


@pytest.mark.long
@pytest.mark.parametrize("name", READERS)
def test_many_lines_take_no_longer_than_their_number(name):
    text = REAL[name].read_text() if name in REAL else "[a:1] a line of a log = 1.0\n" * 1000
    middle = text.splitlines(keepends=True)[text.count("\n") // 2]
    for line in (middle, FRAME, text):
        begin = text * (line is not text)
        assert seconds(name, begin + line * (MANY // max(len(line), 20))) < LIMIT, repr(line)


def seconds(name, text):
    """Processor time that a reader takes for a text."""
    begin = time.process_time()
    with contextlib.suppress(ParseError, ValueError):
        READERS[name](text)
    return time.process_time() - begin
