"""OSU Micro-Benchmarks: real outputs of 5.7, 6.2, 7.2 and 7.4, and damaged forms of them."""

import re

import pytest
from real_outputs import edited, has, parsed_of, problems, refused, texts

from assay.parse import osu
from assay.workloads import osu as programs

TEXTS = texts("osu")
MIB = 1 << 20

LATENCY = TEXTS["osu_latency.7.2.np2"]
BARRIER = TEXTS["osu_barrier.5.7.full.np2"]
LOGGED = sorted(name for name in TEXTS if "-log." in name)


@pytest.mark.parametrize("name", [n for n, said in parsed_of("osu").items() if said["complete"]])
def test_no_row_is_lost_and_each_value_is_as_printed(name):
    parsed = osu.parse_osu(TEXTS[name])

    printed = [line for line in TEXTS[name].split("\n") if re.match(r" *\d", line)]
    assert [len(row) for row in parsed.rows] == [len(line.split()) for line in printed]
    for row, line in zip(parsed.rows, printed):
        assert [value if isinstance(value, str) else float(value) for value in row.values()] == [
            word if word == "Pass" else float(word) for word in line.split()
        ]


# --- completeness -------------------------------------------------------------------------------


def test_an_output_up_to_another_size_is_complete_only_for_who_asked_for_it():
    text = TEXTS["osu_latency.7.4.range.np2"]  # -m 8:65536

    assert osu.parse_osu(text, last_size=65536).sound
    assert osu.parse_osu(text, last_size=100_000).sound  # -m need not be a power of two
    for last_size in (None, 32768, 131072):
        parsed = osu.parse_osu(text, last_size=last_size)
        assert not parsed.complete
        assert has(parsed.problems, "line 18: the table ends at size 65536, not")


@pytest.mark.parametrize("name", LOGGED)
def test_log_lines_of_ucx_and_open_mpi_are_no_rows(name):
    closing = "[vm:25942] mca: base: close: component ucx closed\n## exit code 0\n"

    parsed = osu.parse_osu(TEXTS[name] + closing, last_size=MIB)

    assert parsed.sound, parsed.problems
    assert parsed.column("size") == [1 << exponent for exponent in range(3, 21)]


def test_what_follows_a_complete_table_is_not_of_it():
    text = LATENCY + "\nelapsed: 3 s\n12 files copied\nreal 0m1.2s"

    assert osu.parse_osu(text).sound


def test_a_crash_after_the_last_row_is_not_overlooked():
    died = TEXTS["osu_latency.5.7.killed.np2"].split("8192                  100.79\n")[1]

    parsed = osu.parse_osu(LATENCY + died)

    assert parsed.complete
    assert has(parsed.problems, r"line 46: .*exited on signal 11")


def test_the_memory_limit_is_named():
    parsed = osu.parse_osu(TEXTS["osu_bcast.5.7.memory-limit.np2"], last_size=4 * MIB)

    assert not parsed.complete
    assert has(parsed.problems, "line 2: memory limit .*1048576")


# --- damaged tables -----------------------------------------------------------------------------


ROW = "256                     1.45\n"  # line 12
LOST = "[node1:77] Read -1, expected 4096, errno = 1\n"
NO_ROUTE = "[1795172736.170211] [vm:1 :0]  ucp_ep.c:7 UCX  ERROR no route\n"


test_a_bad_line_is_a_problem_that_names_it = problems(
    osu.parse_osu,
    LATENCY,
    [
        (ROW, "256                      nan\n", "line 12: latency is nan"),
        (ROW, "256                     -nan\n", "line 12: latency is -nan"),
        (ROW, "256                      inf\n", "line 12: latency is inf"),
        (ROW, "256                     0.00\n", "line 12: latency is 0.00"),
        (ROW, "256                    -1.45\n", "line 12: latency is -1.45"),
        (ROW, "256\n", "line 12: 1 values for 2 columns"),
        (ROW, "256       1.45      1.5\n", "line 12: 3 values for 2 columns"),
        (ROW, "256                     1.4x\n", "line 12: '1.4x' is not a number"),
        (ROW, "", "line 12: size 512 after size 128: rows are missing"),
        (ROW, f"{LOST}{ROW}", "line 12: not a row of osu_latency: '[node1:77] Read -1"),
        (ROW, f"{NO_ROUTE}{ROW}", "line 12: UCX ERROR: no route"),
    ],
)


def test_a_rank_that_only_sends_may_take_no_time():
    text = edited(TEXTS["osu_gather.5.7.full.np2"], "0.05", "0.00")

    assert osu.parse_osu(text).sound


def test_a_ucx_log_line_in_the_middle_of_a_row_is_taken_out():
    log = "[1795172736.170211] [vm:25942:0]  ucp_worker.c:1763 UCX  INFO  ep_cfg[0]: tag(tcp/lo)"
    text = edited(LATENCY, ROW, f"256      {log}\n               1.45\n")

    parsed = osu.parse_osu(text)

    assert parsed.sound, parsed.problems
    assert parsed.at("latency", size=256) == 1.45


@pytest.mark.parametrize(
    "name", ["osu_latency.7.2.np2", "osu_mbw_mr.7.2.np2", "osu_barrier.7.2.np2"]
)
def test_singletons_after_each_other(name):
    parsed = osu.parse_osu(TEXTS[name] * 2)

    assert has(parsed.problems, "second .*singletons")
    if "size" in parsed.units:
        assert parsed.rows == osu.parse_osu(TEXTS[name]).rows


@pytest.mark.parametrize(
    "name", ["osu_latency.7.2.np2", "osu_multi_lat.5.7.np2", "osu_bcast.7.2.np2"]
)
def test_singletons_at_the_same_time(name):
    text = "".join(f"{line}\n{line}\n" for line in TEXTS[name].split("\n")[:-1])

    assert has(osu.parse_osu(text).problems, "singletons")


def test_rows_of_a_second_table_without_headings():
    rows = LATENCY.split("MPI_CHAR.\n")[1]

    assert has(osu.parse_osu(LATENCY + rows).problems, "size 1 after size 4194304: .*singletons")


def test_a_rate_of_0_is_a_small_number_beside_its_message_rate():
    slow = TEXTS["osu_mbw_mr.7.4.validate.slow.np4"]
    parsed = osu.parse_osu(slow, last_size=1 << 20)
    assert parsed.sound
    assert parsed.rows[0]["bandwidth"] == 0
    wrong = slow.replace("0.00             93.91", "0.00          93910.91")
    problems = osu.parse_osu(wrong, last_size=1 << 20).problems
    assert has(problems, "size 1, bandwidth 0 contradict each other")
    nothing = slow.replace("93.91", " 0.00")
    problems = osu.parse_osu(nothing, last_size=1 << 20).problems
    assert has(problems, "messages_per_s is 0.00, which is not a measured value")


def test_only_mbw_mr_repeats_its_title():
    assert TEXTS["osu_mbw_mr.7.2.np2"].count("# OSU") == 2
    assert osu.parse_osu(TEXTS["osu_mbw_mr.7.2.np2"]).sound
    title, rest = LATENCY.split("\n", 1)
    assert not osu.parse_osu(f"{title}\n{title}\n{rest}").sound


# --- validation ---------------------------------------------------------------------------------


def test_any_word_but_pass_is_a_problem():
    text = TEXTS["osu_alltoall.6.2.validate.np2"]
    line = next(line for line in text.split("\n") if line.startswith("64 "))

    parsed = osu.parse_osu(edited(text, line, line.replace("Pass", "Skip")))

    assert parsed.complete
    assert has(parsed.problems, "validation says Skip: '64 ")


@pytest.mark.parametrize(("version", "validates"), [("7.0", True), ("7.1", False), ("7.3", False)])
def test_the_versions_whose_reductions_are_not_compared(version, validates):
    # Sources: the code of 7.0 and 7.1, and the CHANGES of 7.4. The table is that of 7.2.
    text = edited(TEXTS["osu_allreduce.7.2.validate.np2"], "v7.2", f"v{version}")

    assert osu.parse_osu(text).facts["validates"] is validates


# --- headers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["9.9", "4.4.1"])
def test_a_version_that_is_not_known_is_named(version):
    parsed = osu.parse_osu(edited(LATENCY, "v7.2", f"v{version}"))
    assert (parsed.version, parsed.facts["read_as"]) == (version, "7")
    assert parsed.complete


def made(test, heading, *rows):
    """An output in the form of 7.x, with made-up numbers."""
    return "\n".join([f"# OSU {test} Test v7.5", *heading.split("|"), *rows, ""])


ONE_SIDED = "# Window creation: MPI_Win_allocate|# Synchronization: MPI_Win_flush|# Size  "


@pytest.mark.parametrize(
    ("test", "program"),
    [
        ("MPI_Put Latency", "osu_put_latency"),
        ("MPI_Get-CUDA latency", "osu_get_latency"),
        ("MPI_Accumulate latency", "osu_acc_latency"),
        ("MPI_Get_accumulate latency", "osu_get_acc_latency"),
        ("MPI Multi-threaded Latency", "osu_latency_mt"),
        ("MPI Multi-process Latency", "osu_latency_mp"),
    ],
)
def test_one_sided_and_threaded_programs(test, program):
    text = made(test, f"{ONE_SIDED}Latency (us)", "1     2.50", "2     2.60")
    parsed = osu.parse_osu(text, last_size=2)
    assert parsed.complete
    assert parsed.program == program
    assert parsed.column("latency") == [2.5, 2.6]
    assert parsed.facts["settings"]["Synchronization"] == "MPI_Win_flush"


@pytest.mark.parametrize(
    ("test", "program"),
    [
        ("MPI_Put Bandwidth", "osu_put_bw"),
        ("MPI_Put Bi-directional Bandwidth", "osu_put_bibw"),
        ("MPI_Get Bandwidth", "osu_get_bw"),
    ],
)
def test_one_sided_bandwidth(test, program):
    text = made(test, f"{ONE_SIDED}Bandwidth (MB/s)", "1     2.50", "2     4.60")
    assert (osu.parse_osu(text, last_size=2).program, osu.parse_osu(text).complete) == (
        program,
        False,
    )


@pytest.mark.parametrize(
    ("test", "program"),
    [("MPI_Fetch_and_op", "osu_fop_latency"), ("MPI_Compare_and_swap", "osu_cas_latency")],
)
def test_programs_of_one_size(test, program):
    parsed = osu.parse_osu(made(f"{test} latency", f"{ONE_SIDED}Latency (us)", "8     0.45"))
    assert parsed.sound and parsed.program == program


NON_BLOCKING = "# Overall = Coll. Init + Compute + MPI_Test + MPI_Wait||"


@pytest.mark.parametrize(
    ("test", "program"),
    [("Non-blocking All-to-All", "osu_ialltoall"), ("Non-Blocking Broadcast", "osu_ibcast")],
)
def test_non_blocking_collectives(test, program):
    heads = "# Size  Overall(us)  Compute(us)  Pure Comm.(us)  Overlap(%)"
    text = made(f"MPI {test} Latency", NON_BLOCKING + heads, "1  9.00  5.00  4.10  2.50")
    (row,) = osu.parse_osu(text, last_size=1).rows
    assert osu.parse_osu(text, last_size=1).program == program
    assert (row["overall"], row["pure"], row["overlap"]) == (9.0, 4.1, 2.5)


def test_a_non_blocking_barrier_has_no_sizes():
    heads = "       Overall(us)       Compute(us)    Pure Comm.(us)        Overlap(%)"
    text = made(
        "MPI Non-blocking Barrier Latency", NON_BLOCKING + heads, "   9.00  5.00  4.10  2.50"
    )
    parsed = osu.parse_osu(text)
    assert parsed.sound and parsed.program == "osu_ibarrier"


test_what_is_no_table_is_refused_with_the_reason = refused(
    osu.parse_osu,
    LATENCY,
    [
        (" v7.2", "", "no title"),
        ("MPI ", "MPI-XPU ", "unknown test 'MPI-XPU Latency Test'"),
        ("(us)", "(ms)", r"line 2: unknown column 'Latency \(ms\)'"),
        ("Latency (us)", "Latency (us)  Latency (us)", "two columns latency"),
        ("# Size  ", "# Avg Latency(us)", "two columns latency"),
        ("# Datatype", "# Weather", "line 3: unknown header line"),
        (LATENCY, BARRIER.replace("# Avg", "# Size Avg"), "not the columns of osu_barrier"),
        (LATENCY, "CUDA support not enabled.  Please recompile benchmark with CUDA.\n", "refused"),
        (LATENCY, "", "no title"),
    ],
)


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
    parsed = osu.parse_osu(cuda(TEXTS[name], send, receive))

    assert parsed.sound, parsed.problems
    assert parsed.facts["accelerator"] == "cuda"
    assert parsed.facts["buffers"] == buffers
    assert parsed.rows == osu.parse_osu(TEXTS[name]).rows


def test_cuda_without_the_line_of_buffers_constructed_from_the_source():
    # Versions 5 to 7.3 always print the line, and 7.4 never does (print_preamble() in
    # c/util/osu_util_mpi.c).
    text = cuda(LATENCY).replace(SENDS.format("DEVICE (D)", "DEVICE (D)"), "")
    assert has(osu.parse_osu(text).problems, "line 1: cuda, but no line says where the buffers are")

    parsed = osu.parse_osu(TEXTS["osu_latency.7.4.np2"].replace("OSU MPI ", "OSU MPI-CUDA "))
    assert parsed.sound
    assert parsed.facts["accelerator"] == "cuda"
    assert "buffers" not in parsed.facts


def test_cuda_collective_constructed_from_the_source():
    # print_preamble() in util/osu_util_mpi.c of 5.7 names no buffers.
    text = TEXTS["osu_allreduce.5.7.full.np2"].replace("OSU MPI ", "OSU MPI-CUDA ")

    parsed = osu.parse_osu(text)

    assert parsed.sound
    assert parsed.facts["buffers"] == {"send": "device", "receive": "device"}


def test_a_version_with_letters_behind_it_is_compared_by_its_numbers():
    assert programs.numbers("5.3.2-git") == (5, 3, 2) < programs.VALIDATES
    assert programs.numbers("7.4") >= programs.TYPES
    assert programs.numbers("unknown") == programs.numbers(None) == ()
