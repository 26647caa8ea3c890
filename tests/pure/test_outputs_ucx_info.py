"""ucx_info -M of UCX 1.13.1: a real output, and damaged forms of it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.outputs import ParseError, ucx_info

TEXT = (Path(__file__).parents[1] / "data" / "ucx-info" / "ucx_info.1.13.1.memcpy.txt").read_text()
TABLE = TEXT[TEXT.index("# Memcpy") :]


def test_golden():
    parsed = ucx_info.parse(TEXT)

    assert parsed.sound, parsed.problems
    assert (parsed.family, parsed.program) == ("ucx-info", "ucx_info -M")
    assert parsed.version == "1.13.1"
    assert parsed.column("size") == [1 << exponent for exponent in range(12, 29)]
    # 268435456 bytes: 17322.014 MB/s, of 2^20 bytes each
    assert parsed.at("bandwidth", size=268435456) == pytest.approx(18163.4, abs=0.1)


def test_without_v_there_is_no_version():
    parsed = ucx_info.parse(TABLE)

    assert parsed.version is None
    assert parsed.sound


def test_cut_anywhere_it_is_not_complete():
    for end in range(len("# Memcpy bandwidth:\n"), len(TABLE)):
        assert not ucx_info.parse(TABLE[:end]).complete, end


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("17322.014", "nan", "line 22: bandwidth is nan"),
        ("17322.014", "0.000", "line 22: bandwidth is 0.000"),
        ("#        1048576 bytes: 51660.451 MB/s\n", "", "size 2097152 after size 524288"),
        ("# Memcpy bandwidth:\n", "# Memcpy bandwidth:\nkilled\n", "line 6: not a row of ucx_info"),
        ("#           4096 bytes: 115909.527 MB/s\n", "", "begins at size 8192, not 4096"),
    ],
)
def test_a_bad_line_is_a_problem(old, new, problem):
    assert old in TEXT

    parsed = ucx_info.parse(TEXT.replace(old, new))

    assert any(problem in p for p in parsed.problems), parsed.problems


def test_other_outputs_of_ucx_info_are_refused():
    other = TEXT[: TEXT.index("# Memcpy")]

    assert not ucx_info.recognise(other)
    with pytest.raises(ParseError, match="no table of memory copies"):
        ucx_info.parse(other)


@given(st.text())
def test_any_rows_raise_nothing_but_parse_error(rows):
    assert not ucx_info.parse(f"# Memcpy bandwidth:\n{rows}").complete
