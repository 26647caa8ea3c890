"""Real outputs with what other programs add to them, and with parts missing."""

import re

import pytest
from real_outputs import DATA, parsed_of

from assay.parse import ParseError, registry

MIB4 = 4 << 20


def first_sound(family):
    """The first recorded output without a problem: its name, and the largest size of its rows."""
    for name, said in parsed_of(family).items():
        if not said.get("problems") and said.get("rows"):
            last = said["rows"][-1].get("size") if family == "netpipe" else None
            path = f"{family}/{name}.txt"
            if registry.parse_output(text_of(path), last_size=last).sound:
                return path, last
    raise LookupError(family)


def text_of(name):
    return (DATA / name).read_text()


#: Recorded output of each parser -> the largest size [B] of the run, where the parser needs it.
SOUND = dict(map(first_sound, registry.PARSERS))

FRAME = "-" * 74
# Open MPI 4.1.4 prints this where a device is not in its table (share/openmpi/help-mpi-btl-openib).
OPEN_MPI = [FRAME, "WARNING: No preset parameters were found for the device that Open MPI",
            "detected:", "", "  Local host:            node01", "", FRAME]  # fmt: skip
LIBIBVERBS = ["libibverbs: Warning: couldn't load driver 'librxe-rdmav34.so'"]


def at_line(text, number, lines):
    before = text.split("\n")
    return "\n".join([*before[:number], *lines, *before[number:]])


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize("warning", [OPEN_MPI, LIBIBVERBS], ids=["open mpi", "libibverbs"])
def test_a_warning_of_a_library_between_any_lines_is_no_fault(name, warning):
    text = text_of(name)
    expected = registry.parse_output(text, last_size=SOUND[name])
    lines = text.count("\n")
    for number in sorted({0, 1, lines // 4, lines // 2, 3 * lines // 4, lines}):
        parsed = registry.parse_output(at_line(text, number, warning), last_size=SOUND[name])
        assert parsed.sound, (number, parsed.problems)
        assert parsed.rows == expected.rows


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize(
    "change", ["\ufeff{}", "{}\n"], ids=["mark of the byte order", "empty line"]
)
def test_a_mark_of_the_byte_order_or_an_empty_line_is_no_fault(name, change):
    text = text_of(name)
    expected = registry.parse_output(text, last_size=SOUND[name])
    parsed = registry.parse_output(change.format(text), last_size=SOUND[name])
    assert parsed.sound, parsed.problems
    assert parsed.rows == expected.rows


@pytest.mark.parametrize(
    "name", ["osu/osu_latency.5.7.np2.txt", "osu-py/osu_latency.4.1.2.np2.txt"]
)
@pytest.mark.parametrize(
    "lines",
    [
        ["an error occurred"],
        [FRAME, "MPI_ABORT was invoked on rank 0, no warning before", FRAME],
        ["mpirun noticed that process rank 1 exited on signal 9; warning: no core"],
    ],
)
def test_an_error_between_two_rows_is_a_fault(name, lines):
    text = text_of(name)
    parsed = registry.parse_output(at_line(text, text.count("\n") // 2, lines))
    assert parsed.problems


def test_a_row_of_ucx_perftest_cut_after_four_numbers_is_no_result():
    text = text_of("ucx-perftest/ucx_perftest.1.13.1.am_bw.txt")
    (row,) = [line for line in text.split("\n") if line.startswith("Final:")]
    parsed = registry.parse_output(text.replace(row, " ".join(row.split()[:5])))
    assert not parsed.complete
    assert any("4 values for 8 columns" in problem for problem in parsed.problems)


@pytest.mark.parametrize("name", ["mpi_io_full", "ep_io", "mpi_io_simple"])
def test_bt_io_without_its_part_about_io_is_incomplete(name):
    text = text_of(f"npb/bt.S.x.{name}.np4.txt")
    assert registry.parse_output(text).sound
    part = re.compile(r"^ BTIO.*\n|^   (?:I/O|Total data).*\n", re.MULTILINE)
    parsed = registry.parse_output(part.sub("", text))
    assert parsed.program == "bt.S.x"
    assert not parsed.complete


def test_bt_io_wrote_as_often_as_its_interval_says():
    text = text_of("npb/bt.S.x.mpi_io_full.np4.txt")
    line = next(line for line in text.split("\n") if line.startswith(" Writing data set"))
    problems = registry.parse_output(text.replace(line + "\n", "", 1)).problems
    assert "11 data sets were written, not 12" in problems


def test_bt_io_says_that_it_read_an_input_file_and_between_its_writes():
    plain = registry.parse_output(text_of("npb/bt.S.x.mpi_io_full.np4.txt")).facts
    assert (plain["input_file"], plain["reads_between_writes"]) == (None, False)
    steered = registry.parse_output(text_of("npb/bt.S.x.mpi_io_full.np4.input.txt")).facts
    assert (steered["input_file"], steered["reads_between_writes"]) == ("inputbt.data", True)


@pytest.mark.parametrize(
    ("name", "last", "old", "new"),
    [
        ("netpipe/NPmpi.3.7.2.stderr.4MiB.txt", MIB4, "   172.15 Mbps", "   272.15 Mbps"),
        ("netpipe/NPmpi.3.7.2.stderr.4MiB.txt", MIB4, " 17085.13 Mbps", " 27085.13 Mbps"),
        ("osu/osu_mbw_mr.5.7.np2.txt", None, "11903.49", "21903.49"),
        ("osu/osu_allreduce.5.7.full.np2.txt", None, None, None),
    ],
)
def test_numbers_of_a_row_that_contradict_each_other(name, last, old, new):
    text = text_of(name)
    if old is None:  # the average becomes greater than the maximum
        line = next(line for line in text.split("\n") if re.match(r"1024 ", line))
        old, new = line, line.replace(line.split()[1], f"{float(line.split()[3]) + 1:.2f}", 1)
    assert text.count(old) == 1
    parsed = registry.parse_output(text.replace(old, new), last_size=last)
    assert any("contradict each other" in problem for problem in parsed.problems)


def test_an_empty_text_is_no_output():
    for text in ("", "\ufeff", "\n"):
        with pytest.raises(ParseError):
            registry.parse_output(text)
