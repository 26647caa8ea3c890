"""The time of a parser grows with the length of its input, and not with the square of it."""

import contextlib
import time

import pytest

from assay.outputs import ParseError, coordinator_log, openmpi, registry, ucx_info, ucx_log

#: A line of this length [B] took three seconds where each of its characters began a search to its
#: end. The limit [s] is far above the time of a linear parser.
LENGTH, LIMIT = 1 << 16, 1.0

PIECES = ["a", " ", "0", "[", "[a:", "[a:1] ", ": ", "\t", "=", "1 ", "1.0e", "|", "+", "-", "/"]

READERS = {
    **{name: parser.parse for name, parser in registry.PARSERS.items()},
    **{module.__name__: module.parse for module in (coordinator_log, openmpi, ucx_info, ucx_log)},
    "recognise": registry.recognise,
}


@pytest.mark.parametrize("name", READERS)
def test_a_long_line_takes_no_longer_than_its_length(name):
    for piece in PIECES:
        text = piece * (LENGTH // len(piece))
        begin = time.process_time()
        with contextlib.suppress(ParseError, ValueError):
            READERS[name](text)
        assert time.process_time() - begin < LIMIT, repr(piece)
