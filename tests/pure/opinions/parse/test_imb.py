"""Intel MPI Benchmarks: real outputs of 2019 and 2021, and damaged forms of them."""

import re

import pytest
from real_outputs import problems, refused, texts

from assay.opinions.parse import imb
from assay.parse import ParseError
from assay.parse.registry import recognise

TEXTS = texts("imb")
PINGPONG = TEXTS["2021.7.pingpong"]
SIZES = [0, *(1 << power for power in range(21))]


def row(text, size):
    (line,) = [line for line in text.split("\n") if line.split()[:1] == [str(size)]]
    return line


LAST = row(PINGPONG, 1 << 20)
END = "# All processes entering MPI_Finalize\n"


def test_sizes_that_imb_repeated_less_often_because_of_their_time():
    parsed = imb.parse_imb(TEXTS["2021.7.pingpong.time"])

    fewer, found = imb.cut(parsed, 1000, 5, 64)

    assert found == []
    assert list(fewer) == SIZES[2:]
    assert (fewer[2], fewer[1 << 20]) == (940, 42)


@pytest.mark.parametrize(
    ("name", "asked", "seconds", "problem"),
    [
        # 64 messages in each direction
        ("2021.7.biband", 300, 10, "20 repetitions of 0 B were measured in 0.00023 s, 300 were"),
        ("2021.7.bcast", 3000, 10, "200 repetitions of 0 B were measured in 1e-05 s, 3000 were"),
        ("2021.7.pingpong.time", 1000, 100, "51 repetitions of 262144 B were measured in 5.2 s"),
        ("2021.7.pingpong.time", 940, 5, "1000 repetitions of 0 B were measured, 940 before"),
    ],
)
def test_repetitions_that_the_time_limit_does_not_explain(name, asked, seconds, problem):
    (found,) = imb.cut(imb.parse_imb(TEXTS[name]), asked, seconds, 64)[1]

    assert found.startswith(problem)


test_a_bad_row_is_a_problem = problems(
    imb.parse_imb,
    PINGPONG,
    [
        (LAST + "\n", "", "21 of 22 sizes, the last is 524288, not 1048576"),
        (row(PINGPONG, 64) + "\n", "", "21 of 22 sizes"),
        (LAST, LAST.replace(LAST.split()[2], "nan"), "line 56: latency is nan"),
        (LAST, LAST.replace(LAST.split()[2], "0.00"), "line 56: latency is 0.00"),
        (LAST, LAST.replace(LAST.split()[3], "1.00"), "size 1048576 contradict each other"),
        (LAST, LAST + " 1.5", "line 56: 5 values for 4 columns"),
        (LAST, "lost connection", "line 56: not a row of IMB-MPI1: 'lost connection'"),
        (
            END,
            f"{END}mpirun noticed that process rank 0 exited on signal 9\n",
            "exited on signal 9",
        ),
    ],
)


@pytest.mark.parametrize(
    ("name", "column", "said"),
    [
        ("biband", 2, "bandwidth 99999.99, messages_per_s 244784, size 4096 contradict each other"),
        ("bcast", 4, "latency 99999.99, max "),
    ],
)
def test_numbers_that_contradict_each_other(name, column, said):
    text = TEXTS[f"2021.7.{name}"]
    words = row(text, 4096).split()
    words[column] = "99999.99"

    parsed = imb.parse_imb(text.replace(row(text, 4096), " ".join(words)))

    (problem,) = parsed.problems
    assert said in problem


def test_wrong_data_are_a_problem():
    """Constructed: no run of a build with -DCHECK had a defect here."""
    text = TEXTS["2021.7.check.bcast"]
    line = row(text, 4096)

    (problem,) = imb.parse_imb(text.replace(line, line[: -len("0.00")] + "1.00")).problems

    assert "received data are wrong" in problem


def test_a_version_that_is_not_known_is_named():
    parsed = imb.parse_imb(PINGPONG.replace("Benchmarks 2021.7", "Benchmarks 2031.7"))

    assert parsed.sound
    assert (parsed.version, parsed.facts["read_as"]) == ("2031.7", "2021")


@pytest.mark.parametrize("benchmark", ["Allgather", "Alltoallv", "Scatter", "Reduce_local"])
def test_other_benchmarks_in_the_form_of_bcast(benchmark):
    text = TEXTS["2021.7.bcast"].replace("Benchmarking Bcast", f"Benchmarking {benchmark}")
    if benchmark.startswith("Reduce"):  # it leaves out what is shorter than a number
        text = text.replace(row(text, 1) + "\n", "").replace(row(text, 2) + "\n", "")

    parsed = imb.parse_imb(text)

    assert parsed.sound
    assert parsed.program == f"IMB-MPI1 {benchmark}"


@pytest.mark.parametrize(("benchmark", "times"), [("Sendrecv", 2), ("Exchange", 4)])
def test_a_bandwidth_that_counts_each_message_more_often(benchmark, times):
    lines = []
    for line in TEXTS["2021.7.bcast"].replace("g Bcast", f"g {benchmark}").split("\n"):
        words, more = line.split(), ""
        if words[:1] == ["#bytes"]:
            more = "   Mbytes/sec"
        elif words and words[0].isdecimal():
            more = f"  {times * int(words[0]) / float(words[3]):.2f}"
        lines.append(line + more)
    text = "\n".join(lines)

    assert imb.parse_imb(text).sound
    assert not imb.parse_imb(text.replace(benchmark, "PingPing")).sound


def test_several_numbers_of_ranks_and_several_groups():
    several = imb.parse_imb(TEXTS["2021.7.bcast.npmin2.np4"])
    groups = imb.parse_imb(TEXTS["2021.7.pingpong.multi1"])

    assert several.sound and groups.sound
    assert sorted(set(several.column("ranks"))) == [2, 4] and several.facts["ranks"] is None
    assert sorted(set(groups.column("group"))) == [0, 1] and groups.facts["ranks"] == 2


def test_a_barrier_and_the_tail_of_its_times():
    table = PINGPONG.index(row(PINGPONG, 0))
    text = PINGPONG[:table].replace("PingPong", "Barrier")
    text = text.replace("#bytes ", "").replace(
        "t[usec]   Mbytes/sec", "t_min[usec] t_max[usec] t_avg[usec]"
    )
    text = f"{text}  1000  1.50  1.80  1.60\n[ 1.00, 2.00, 3.50 ]\n\n\n{END}\n"

    parsed = imb.parse_imb(text)

    assert parsed.sound, parsed.problems
    assert parsed.rows == ({"repetitions": 1000, "min": 1.5, "max": 1.8, "latency": 1.6},)


@pytest.mark.parametrize("name", ["2021.7.two_benchmarks", "2021.7.bcast.singletons"])
def test_two_tables_that_do_not_belong_together_are_a_problem(name):
    assert any("a second t" in problem for problem in imb.parse_imb(TEXTS[name]).problems)


test_an_unknown_form_is_an_error_that_names_the_line = refused(
    imb.parse_imb,
    PINGPONG,
    [
        ("Mbytes/sec", "Gbytes/sec", "line 34: unknown headings of PingPong"),
        ("# Benchmarking PingPong", "#", "line 34: a table without the name of its benchmark"),
        ("#bytes", "bytes", "no table"),
    ],
)


def test_an_excerpt_without_the_title_is_read_and_never_sound():
    excerpt = PINGPONG[PINGPONG.index("# Benchmarking") :]
    excerpt = excerpt.replace("# Bench", "#- Bench")

    assert recognise(excerpt) == "imb"
    parsed = imb.parse_imb(excerpt)
    assert parsed.rows == imb.parse_imb(PINGPONG).rows
    assert (parsed.version, parsed.problems) == (
        None,
        ("no title of the Intel MPI Benchmarks: an excerpt",),
    )


def test_an_invalid_buffer_is_the_first_problem_of_an_excerpt():
    excerpt = PINGPONG[PINGPONG.index("# Benchmarking") :]
    damaged = excerpt.replace(LAST, f"Process 1: Got invalid buffer:\n{LAST}")

    assert (
        "received data are wrong: 'Process 1: Got invalid buffer"
        in imb.parse_imb(damaged).problems[0]
    )


def test_old_versions_count_mbytes_of_2_to_the_20():
    """IMB 4.1; 2017 prints its name in that way, too."""
    title = "Intel (R) MPI Benchmarks 4.1, MPI-1 part    "
    old = re.sub(r"Intel\(R\) MPI Benchmarks .*, MPI-1 part", title, PINGPONG)

    def binary(found):
        return f"{found[1]}{float(found[3]) / 1.048576:13.2f}"

    old = re.sub(r"(?m)^((?: +[\d.]+){3})( +)([\d.]+)$", binary, old)
    parsed = imb.parse_imb(old)
    assert (parsed.sound, parsed.version) == (True, "4.1")
    assert parsed.quantity("bandwidth", size=1 << 20).value == pytest.approx(
        imb.parse_imb(PINGPONG).quantity("bandwidth", size=1 << 20).value, rel=1e-3
    )
    assert not imb.parse_imb(old.replace("4.1", "2021.7")).sound


def test_another_part_than_mpi_1_is_refused_by_name():
    with pytest.raises(ParseError, match="the MPI-NBC part of the Intel MPI Benchmarks"):
        imb.parse_imb(PINGPONG.replace("MPI-1 part", "MPI-NBC part"))
