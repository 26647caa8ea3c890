"""ucx_info -M of UCX 1.13.1: a real output, and damaged forms of it."""

import pytest
from real_outputs import problems, texts

from assay.opinions.parse import ucx_info
from assay.parse import ParseError

TEXT = texts("ucx-info")["ucx_info.1.13.1.memcpy"]
OTHERS, TABLE = TEXT[: TEXT.index("# Memcpy")], TEXT[TEXT.index("# Memcpy") :]


def test_without_v_there_is_no_version():
    parsed = ucx_info.parse_ucx_info(TABLE)

    assert parsed.version is None
    assert parsed.sound


test_a_bad_line_is_a_problem = problems(
    ucx_info.parse_ucx_info,
    TEXT,
    [
        ("17322.014", "nan", "line 22: bandwidth is nan"),
        ("17322.014", "0.000", "line 22: bandwidth is 0.000"),
        ("#        1048576 bytes: 51660.451 MB/s\n", "", "size 2097152 after size 524288"),
        ("# Memcpy bandwidth:\n", "# Memcpy bandwidth:\nkilled\n", "line 6: not a row of ucx_info"),
        ("#           4096 bytes: 115909.527 MB/s\n", "", "begins at size 8192, not 4096"),
    ],
)


def test_other_outputs_of_ucx_info_are_refused():
    assert not ucx_info.recognise(OTHERS)
    with pytest.raises(ParseError, match="no table of memory copies"):
        ucx_info.parse_ucx_info(OTHERS)
