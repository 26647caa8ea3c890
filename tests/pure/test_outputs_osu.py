"""OSU Micro-Benchmarks: real outputs of 5.7, 6.2, 7.2 and 7.4, and damaged forms of them."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.outputs import ParseError, osu
from assay.workloads import osu as programs

DATA = Path(__file__).parents[1] / "data" / "osu"
TEXTS = {path.name.removesuffix(".txt"): path.read_text() for path in DATA.glob("*.txt")}
MIB = 1 << 20

LATENCY = TEXTS["osu_latency.7.2.np2"]
BARRIER = TEXTS["osu_barrier.5.7.full.np2"]

# Name -> program, version, rows, first row, last row. The numbers come from the files.
GOLDEN = {
    "osu_latency.5.7.np2": (
        "osu_latency", "5.7", 24,
        {"size": 0, "latency": 0.10}, {"size": 4194304, "latency": 294.36},
    ),
    "osu_latency.7.2.np2": (
        "osu_latency", "7.2", 23,
        {"size": 1, "latency": 0.37}, {"size": 4194304, "latency": 1168.40},
    ),
    "osu_bibw.5.7.np2": (
        "osu_bibw", "5.7", 23,
        {"size": 1, "bandwidth": 28.38}, {"size": 4194304, "bandwidth": 28093.03},
    ),
    "osu_mbw_mr.7.2.np2": (
        "osu_mbw_mr", "7.2", 23,
        {"size": 1, "bandwidth": 8.97, "messages_per_s": 8969313.74},
        {"size": 4194304, "bandwidth": 7587.74, "messages_per_s": 1809.06},
    ),
    "osu_reduce.5.7.full.np2": (
        "osu_reduce", "5.7", 19,
        {"size": 4, "latency": 0.15, "min": 0.05, "max": 0.25, "iterations": 1000},
        {"size": 1048576, "latency": 79.86, "min": 69.27, "max": 90.45, "iterations": 100},
    ),
    "osu_barrier.5.7.full.np2": (
        "osu_barrier", "5.7", 1,
        {"latency": 0.14, "min": 0.14, "max": 0.14, "iterations": 1000},
        {"latency": 0.14, "min": 0.14, "max": 0.14, "iterations": 1000},
    ),
    "osu_allreduce.7.4.validate.full.tail.np2": (
        "osu_allreduce", "7.4", 21,
        {
            "size": 1, "latency": 0.28, "min": 0.27, "max": 0.28, "iterations": 100,
            "validation": "Pass", "p50": 0.27, "p90": 0.35, "p99": 0.42,
        },
        {
            "size": 1048576, "latency": 254.70, "min": 254.59, "max": 254.81, "iterations": 100,
            "validation": "Pass", "p50": 242.06, "p90": 297.27, "p99": 480.46,
        },
    ),
}  # fmt: skip

# These outputs are broken, were stopped on purpose, or differ from what the caller asked for.
INCOMPLETE = {
    "osu_allreduce.7.4.validate.saturated.np2",
    "osu_bcast.5.7.memory-limit.np2",
    "osu_bcast.7.4.twotypes.np2",
    "osu_latency.5.7.killed.np2",
    "osu_latency.7.2.validate.np2",
    "osu_latency.7.4.ddt.np2",
    "osu_latency.7.4.range.np2",
}
REFUSED = {
    "osu_iallreduce.7.4.np2": "unknown test 'MPI Non-blocking Allreduce Latency Test'",
    "osu_init.7.2.np2": "unknown test 'MPI Init Test'",
    "osu_latency.7.2.cuda_not_built": r"Invalid option \[-d\]",
    "osu_latency.7.2.np1": "This test requires exactly two processes",
    "osu_mbw_mr.7.4.varied.np2": "line 2: unknown header line .*window size: varied",
}
LOGGED = sorted(name for name in TEXTS if "-log." in name)
COMPLETE = sorted(TEXTS.keys() - INCOMPLETE - REFUSED.keys() - set(LOGGED))


def has(problems, pattern):
    return any(re.search(pattern, problem) for problem in problems)


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name):
    program, version, rows, first, last = GOLDEN[name]

    parsed = osu.parse(TEXTS[name])

    assert (parsed.family, parsed.program, parsed.version) == ("osu", program, version)
    assert len(parsed.rows) == rows
    assert dict(parsed.rows[0]) == first
    assert dict(parsed.rows[-1]) == last


@pytest.mark.parametrize("name", COMPLETE)
def test_complete_outputs_are_sound_and_no_row_is_lost(name):
    parsed = osu.parse(TEXTS[name])

    assert osu.recognise(TEXTS[name])
    assert parsed.sound, parsed.problems
    printed = [line for line in TEXTS[name].split("\n") if re.match(r" *\d", line)]
    assert [len(row) for row in parsed.rows] == [len(line.split()) for line in printed]
    for row, line in zip(parsed.rows, printed):
        assert [value if isinstance(value, str) else float(value) for value in row.values()] == [
            word if word == "Pass" else float(word) for word in line.split()
        ]


def test_units_are_those_of_the_headings():
    assert osu.parse(TEXTS["osu_mbw_mr.7.4.validate.tail.np2"]).units == {
        "size": "B",
        "bandwidth": "MB/s",
        "messages_per_s": "1/s",
        "p50": "MB/s",
        "p90": "MB/s",
        "p99": "MB/s",
    }
    assert osu.parse(TEXTS["osu_latency.7.4.tail.np2"]).units["p99"] == "us"
    assert osu.parse(TEXTS["osu_latency.7.4.ddt.np2"]).units["transmit_size"] == "B"


# --- completeness -------------------------------------------------------------------------------


def test_an_output_up_to_another_size_is_complete_only_for_who_asked_for_it():
    text = TEXTS["osu_latency.7.4.range.np2"]  # -m 8:65536

    assert osu.parse(text, last_size=65536).sound
    assert osu.parse(text, last_size=100_000).sound  # -m need not be a power of two
    for last_size in (None, 32768, 131072):
        parsed = osu.parse(text, last_size=last_size)
        assert not parsed.complete
        assert has(parsed.problems, "line 18: the table ends at size 65536, not")


@pytest.mark.parametrize("name", LOGGED)
def test_log_lines_of_ucx_and_open_mpi_are_no_rows(name):
    closing = "[vm:25942] mca: base: close: component ucx closed\n## exit code 0\n"

    parsed = osu.parse(TEXTS[name] + closing, last_size=MIB)

    assert parsed.sound, parsed.problems
    assert parsed.column("size") == [1 << exponent for exponent in range(3, 21)]


@pytest.mark.parametrize("name", ["osu_bw.7.2.ucx1.22.0-log.to1MiB.np2"])
def test_cut_at_any_line_an_output_with_logs_is_not_complete(name):
    lines = TEXTS[name].split("\n")[:-1]
    wrong = []
    for end in range(len(lines)):
        try:
            parsed = osu.parse("".join(f"{line}\n" for line in lines[:end]), last_size=MIB)
        except ParseError:
            continue
        if parsed.complete:
            wrong.append(end)

    assert not wrong
    assert osu.parse("".join(f"{line}\n" for line in lines), last_size=MIB).complete


@pytest.mark.parametrize("text", [BARRIER, LATENCY[-400:]])
def test_cut_at_any_character_it_is_not_complete(text):
    head = "" if text == BARRIER else LATENCY[:-400]
    for end in range(len(text)):
        try:
            assert not osu.parse(head + text[:end]).complete, end
        except ParseError:
            continue


def test_what_follows_a_complete_table_is_not_of_it():
    text = LATENCY + "\nelapsed: 3 s\n12 files copied\nreal 0m1.2s"

    assert osu.parse(text).sound


def test_a_killed_run_says_what_killed_it():
    parsed = osu.parse(TEXTS["osu_latency.5.7.killed.np2"])

    assert not parsed.complete
    assert parsed.rows[-1] == {"size": 8192, "latency": 100.79}
    assert has(parsed.problems, r"line 19: .*Signal: Segmentation fault \(11\)")
    assert has(parsed.problems, "the table ends at size 8192, not 4194304")


def test_a_crash_after_the_last_row_is_not_overlooked():
    died = TEXTS["osu_latency.5.7.killed.np2"].split("8192                  100.79\n")[1]

    parsed = osu.parse(LATENCY + died)

    assert parsed.complete
    assert has(parsed.problems, r"line 46: .*exited on signal 11")


def test_the_memory_limit_is_named():
    parsed = osu.parse(TEXTS["osu_bcast.5.7.memory-limit.np2"], last_size=4 * MIB)

    assert not parsed.complete
    assert has(parsed.problems, "line 2: memory limit .*1048576")


# --- damaged tables -----------------------------------------------------------------------------


def spoil(text, line, new):
    assert line in text
    return text.replace(line, new, 1)


ROW = "256                     1.45\n"  # line 12


@pytest.mark.parametrize(
    ("new", "problem"),
    [
        ("256                      nan\n", "line 12: latency is nan"),
        ("256                     -nan\n", "line 12: latency is -nan"),
        ("256                      inf\n", "line 12: latency is inf"),
        ("256                     0.00\n", "line 12: latency is 0.00"),
        ("256                    -1.45\n", "line 12: latency is -1.45"),
        ("256\n", "line 12: 1 values for 2 columns"),
        ("256       1.45      1.5\n", "line 12: 3 values for 2 columns"),
        ("256                     1.4x\n", "line 12: '1.4x' is not a number"),
        ("", "line 12: size 512 after size 128: rows are missing"),
        (
            f"[node1:77] Read -1, expected 4096, errno = 1\n{ROW}",
            r"line 12: not a row of osu_latency: '\[node1:77\] Read -1",
        ),
        (
            f"[1795172736.170211] [vm:1 :0]  ucp_ep.c:7 UCX  ERROR no route\n{ROW}",
            "line 12: UCX ERROR: no route",
        ),
    ],
)
def test_a_bad_line_is_a_problem_that_names_it(new, problem):
    parsed = osu.parse(spoil(LATENCY, ROW, new))

    assert has(parsed.problems, problem), parsed.problems


def test_a_rank_that_only_sends_may_take_no_time():
    text = spoil(TEXTS["osu_gather.5.7.full.np2"], "0.05", "0.00")

    assert osu.parse(text).sound


def test_a_ucx_log_line_in_the_middle_of_a_row_is_taken_out():
    log = "[1795172736.170211] [vm:25942:0]  ucp_worker.c:1763 UCX  INFO  ep_cfg[0]: tag(tcp/lo)"
    text = spoil(LATENCY, ROW, f"256      {log}\n               1.45\n")

    parsed = osu.parse(text)

    assert parsed.sound, parsed.problems
    assert parsed.at("latency", size=256) == 1.45


@pytest.mark.parametrize(
    "name", ["osu_latency.7.2.np2", "osu_mbw_mr.7.2.np2", "osu_barrier.7.2.np2"]
)
def test_singletons_after_each_other(name):
    parsed = osu.parse(TEXTS[name] * 2)

    assert has(parsed.problems, "second .*singletons")
    if "size" in parsed.units:
        assert parsed.rows == osu.parse(TEXTS[name]).rows


@pytest.mark.parametrize(
    "name", ["osu_latency.7.2.np2", "osu_multi_lat.5.7.np2", "osu_bcast.7.2.np2"]
)
def test_singletons_at_the_same_time(name):
    text = "".join(f"{line}\n{line}\n" for line in TEXTS[name].split("\n")[:-1])

    assert has(osu.parse(text).problems, "singletons")


def test_rows_of_a_second_table_without_headings():
    rows = LATENCY.split("MPI_CHAR.\n")[1]

    assert has(osu.parse(LATENCY + rows).problems, "size 1 after size 4194304: .*singletons")


def test_several_datatypes_are_several_tables():
    parsed = osu.parse(TEXTS["osu_bcast.7.4.twotypes.np2"], last_size=64)

    assert has(parsed.problems, r"line 12: a second table .*-T")


def test_only_mbw_mr_repeats_its_title():
    assert TEXTS["osu_mbw_mr.7.2.np2"].count("# OSU") == 2
    assert osu.parse(TEXTS["osu_mbw_mr.7.2.np2"]).sound
    title, rest = LATENCY.split("\n", 1)
    assert not osu.parse(f"{title}\n{title}\n{rest}").sound


# --- validation ---------------------------------------------------------------------------------


def test_a_failed_validation_is_a_problem_that_names_the_line():
    parsed = osu.parse(TEXTS["osu_allreduce.7.4.validate.saturated.np2"])

    assert not parsed.complete
    assert has(parsed.problems, "line 9: validation says Fail: '16 ")
    assert has(parsed.problems, "line 10: .*DATA VALIDATION ERROR")


def test_any_word_but_pass_is_a_problem():
    text = TEXTS["osu_alltoall.6.2.validate.np2"]
    line = next(line for line in text.split("\n") if line.startswith("64 "))

    parsed = osu.parse(spoil(text, line, line.replace("Pass", "Skip")))

    assert parsed.complete
    assert has(parsed.problems, "validation says Skip: '64 ")


@pytest.mark.parametrize(
    ("name", "validates"),
    [
        ("osu_allreduce.6.2.validate.full.np2", True),
        ("osu_allreduce.7.2.validate.np2", False),
        ("osu_allreduce.7.4.validate.int.np2", True),
        ("osu_alltoall.6.2.validate.np2", True),
        ("osu_allreduce.7.2.np2", None),
    ],
)
def test_a_validation_that_compares_nothing_is_known(name, validates):
    facts = osu.parse(TEXTS[name]).facts

    assert facts.get("validates") is validates
    assert ("validates_why" in facts) is (validates is False)


@pytest.mark.parametrize(("version", "validates"), [("7.0", True), ("7.1", False), ("7.3", False)])
def test_the_versions_whose_reductions_are_not_compared(version, validates):
    # Sources: the code of 7.0 and 7.1, and the CHANGES of 7.4. The table is that of 7.2.
    text = spoil(TEXTS["osu_allreduce.7.2.validate.np2"], "v7.2", f"v{version}")

    assert osu.parse(text).facts["validates"] is validates


# --- headers ------------------------------------------------------------------------------------


def test_facts_of_the_header():
    facts = osu.parse(TEXTS["osu_mbw_mr.7.4.validate.tail.np2"]).facts

    assert (facts["pairs"], facts["window_size"], facts["ranks"]) == (1, 64, 2)
    assert facts["datatype"] == "MPI_CHAR"
    assert osu.parse(LATENCY).facts["ranks"] == 2
    assert osu.parse(LATENCY).facts["buffers"] == {"send": "host", "receive": "host"}
    assert "ranks" not in osu.parse(TEXTS["osu_alltoall.7.4.np4"]).facts


@pytest.mark.parametrize(
    ("text", "reason"),
    [(TEXTS[name], reason) for name, reason in REFUSED.items()]
    + [
        (LATENCY.replace("v7.2", "v9.9"), "line 1: unknown version 9.9; known are 5, 6 and 7"),
        (LATENCY.replace("v7.2", "v4.4.1"), "unknown version 4.4.1"),
        (LATENCY.replace(" v7.2", ""), "no title"),
        (LATENCY.replace("MPI ", "MPI-XPU "), "unknown test 'MPI-XPU Latency Test'"),
        (LATENCY.replace("(us)", "(ms)"), r"line 2: unknown column 'Latency \(ms\)'"),
        (LATENCY.replace("Latency (us)", "Latency (us)  Latency (us)"), "two columns latency"),
        (LATENCY.replace("# Size  ", "# Avg Latency(us)"), "two columns latency"),
        (LATENCY.replace("# Datatype", "# Weather"), "line 3: unknown header line"),
        (BARRIER.replace("# Avg", "# Size Avg"), "not the columns of osu_barrier"),
        ("CUDA support not enabled.  Please recompile benchmark with CUDA support.\n", "refused"),
        ("", "no title"),
    ],
)  # fmt: skip
def test_what_is_no_table_is_refused_with_the_reason(text, reason):
    with pytest.raises(ParseError, match=reason):
        osu.parse(text)


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_recognised_as_osu(name):
    assert osu.recognise(TEXTS[name])


def test_other_texts_are_not_recognised():
    assert not osu.recognise("# MPI Latency Test\n# Size [B]        Latency [us]\n")
    assert not osu.recognise("see the # OSU MPI Latency Test v7.2 of the manual\n")


# The headers of CUDA are constructed from the format in the source and not from a run, because no
# machine with a GPU was available. Source: print_header() in util/osu_util.c (5.7) and
# c/util/osu_util.c (7.2).
SENDS = "# Send Buffer on {} and Receive Buffer on {}\n"


def cuda(text, send="DEVICE (D)", receive="DEVICE (D)"):
    title, rest = text.lstrip("\n").split("\n", 1)
    return title.replace("OSU MPI ", "OSU MPI-CUDA ") + "\n" + SENDS.format(send, receive) + rest


@pytest.mark.parametrize(
    ("send", "receive", "buffers"),
    [
        ("DEVICE (D)", "DEVICE (D)", {"send": "device", "receive": "device"}),
        ("HOST (H)", "DEVICE (D)", {"send": "host", "receive": "device"}),
        ("MANAGED (MD)", "MANAGED (MH)", {"send": "managed", "receive": "managed"}),
    ],
)
@pytest.mark.parametrize("name", ["osu_latency.5.7.np2", "osu_bw.7.2.np2"])
def test_cuda_header_constructed_from_the_source(name, send, receive, buffers):
    parsed = osu.parse(cuda(TEXTS[name], send, receive))

    assert parsed.sound, parsed.problems
    assert parsed.facts["accelerator"] == "cuda"
    assert parsed.facts["buffers"] == buffers
    assert parsed.rows == osu.parse(TEXTS[name]).rows


def test_cuda_without_the_line_of_buffers_constructed_from_the_source():
    # Versions 5 to 7.3 always print the line, and 7.4 never does (print_preamble() in
    # c/util/osu_util_mpi.c).
    text = cuda(LATENCY).replace(SENDS.format("DEVICE (D)", "DEVICE (D)"), "")
    assert has(osu.parse(text).problems, "line 1: cuda, but no line says where the buffers are")

    parsed = osu.parse(TEXTS["osu_latency.7.4.np2"].replace("OSU MPI ", "OSU MPI-CUDA "))
    assert parsed.sound
    assert parsed.facts["accelerator"] == "cuda"
    assert "buffers" not in parsed.facts


def test_cuda_collective_constructed_from_the_source():
    # print_preamble() in util/osu_util_mpi.c of 5.7 names no buffers.
    text = TEXTS["osu_allreduce.5.7.full.np2"].replace("OSU MPI ", "OSU MPI-CUDA ")

    parsed = osu.parse(text)

    assert parsed.sound
    assert parsed.facts["buffers"] == {"send": "device", "receive": "device"}


def test_from_7_4_on_the_headers_of_pairs_never_tell_of_devices():
    assert "buffers" in osu.parse(TEXTS["osu_mbw_mr.7.2.np2"]).facts
    assert "buffers" not in osu.parse(TEXTS["osu_mbw_mr.7.4.validate.tail.np2"]).facts
    assert "buffers" not in osu.parse(TEXTS["osu_multi_lat.7.4.np2"]).facts


# --- any text -----------------------------------------------------------------------------------

NUMBERS = st.one_of(st.integers(), st.floats().map(str), st.text(max_size=5)).map(str)


@given(
    st.lists(st.lists(NUMBERS, min_size=1, max_size=4).map(" ".join), max_size=12).map("\n".join),
    st.sampled_from(["osu_latency.7.2.np2", "osu_barrier.7.2.np2", "osu_mbw_mr.7.2.np2"]),
    st.none() | st.integers(),
)
def test_any_rows_raise_nothing_but_parse_error(rows, name, last_size):
    header = "".join(f"{line}\n" for line in TEXTS[name].split("\n") if line.startswith("#"))
    try:
        parsed = osu.parse(header + rows, last_size=last_size)
    except ParseError:
        return
    assert parsed.rows or not parsed.complete


def test_a_version_with_letters_behind_it_is_compared_by_its_numbers():
    assert programs.numbers("5.3.2-git") == (5, 3, 2) < programs.VALIDATES
    assert programs.numbers("7.4") >= programs.TYPES
    assert programs.numbers("unknown") == programs.numbers(None) == ()
