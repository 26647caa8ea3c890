"""Messages up to 1 GiB: what fits into memory, and a rate that falls towards the longest."""

import pytest

from studies.doc003 import long_messages

#: A curve as of the link of the document: 145 us and 930 MB/s.
CURVE = [{"size": 1 << k, "bandwidth": (1 << k) / (145 + (1 << k) / 930)} for k in range(31)]


@pytest.mark.parametrize(
    "memory,exponent", [(64 << 30, 30), (2 << 30, 30), ((2 << 30) - 1, 29), (1 << 21, 20)]
)
def test_a_rank_has_memory_for_two_messages(memory, exponent):
    assert long_messages.top(memory) == exponent


def test_a_node_without_memory_is_an_error():
    with pytest.raises(ValueError, match="no two messages of 1 MiB: raise it"):
        long_messages.top(2**21 - 1)


def test_a_rate_that_falls_towards_the_longest_message_is_named():
    rows = [dict(row) for row in CURVE]
    best = max(row["bandwidth"] for row in rows)
    rows[-1]["bandwidth"] = 0.95 * best
    assert long_messages.fading(rows) == []
    rows[-1]["bandwidth"] = 0.5 * best
    (line,) = long_messages.fading(rows)
    assert line.startswith(f"{0.5 * best:.4g} MB/s at {rows[-1]['size']} B and ")
    assert "do its adapters buffer enough?" in line
