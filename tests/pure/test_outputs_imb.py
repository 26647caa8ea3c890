"""Intel MPI Benchmarks: real outputs of 2019 and 2021, and damaged forms of them."""

from pathlib import Path

import pytest

from assay.outputs import ParseError, imb

DATA = Path(__file__).parents[1] / "data" / "imb"
TEXTS = {path.name.removesuffix(".txt"): path.read_text() for path in DATA.glob("*.txt")}
VERSIONS = {"2019.1": "2019 Update 1", "2021.2": "2021.2", "2021.7": "2021.7", "2021.11": "2021.11"}
SIZES = [0, *(1 << k for k in range(21))]
PINGPONG = TEXTS["2021.7.pingpong"]


def row(text, size):
    (line,) = [line for line in text.split("\n") if line.split()[:1] == [str(size)]]
    return line


LAST = row(PINGPONG, 1 << 20)

#: Runs that came to their end but must not be believed, with the reason.
PROBLEMS = {
    "2021.7.two_benchmarks": "line 47: a second table: start one benchmark, with -npmin",
    "2021.7.bcast.npmin2.np4": "line 47: a second table",
    "2021.7.bcast.singletons": "line 42: a second title (of N singletons?)",
    "2021.7.unknown_benchmark": "line 47: 'Invalid benchmark name pnigpong'",
    "2021.7.unknown_option": "line 29: 'Invalid benchmark name -nosuch'",
}
INCOMPLETE = {
    "2021.7.pingpong.killed": "IMB did not come to its end",
    "2021.7.bcast.out_of_memory": "line 55: not measured: '524288 out-of-mem.",
    "2021.7.biband.out_of_time": "line 35: not measured: '0 time-out.",
}
REFUSED = {
    "2021.7.pingpong.np1": "line 30: no result, the program refused",
    "2021.7.pingpong.singletons": "line 30: no result, the program refused",
    "2021.7.bad_msglog": "no title",
    "2021.7.pingpong.multi0": "line 31: unknown benchmark; known are PingPong, Biband, Bcast",
    "2021.7.pingpong.multi1": "line 31: unknown benchmark",
}
SOUND = sorted(TEXTS.keys() - PROBLEMS.keys() - INCOMPLETE.keys() - REFUSED.keys())


def test_golden():
    #    8          100         0.44        18.35         0.00
    parsed = imb.parse(TEXTS["2021.7.check.pingpong"])

    assert parsed.sound, parsed.problems
    assert (parsed.family, parsed.program) == ("imb", "IMB-MPI1 PingPong")
    assert parsed.rows[4] == {
        "size": 8, "repetitions": 100, "latency": 0.44, "bandwidth": 18.35, "defects": 0.0
    }  # fmt: skip
    assert dict(parsed.units) == {
        "size": "B", "repetitions": "1", "latency": "us", "bandwidth": "MB/s", "defects": "1"
    }  # fmt: skip
    words = "-msglog 0:20 -iter 100 PingPong"
    assert parsed.facts == {"ranks": 2, "checked": True, "command_line": words}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("benchmark", "columns"),
    [
        ("PingPong", ["latency", "bandwidth"]),
        ("Biband", ["bandwidth", "messages_per_s"]),
        ("Bcast", ["min", "max", "latency"]),
    ],
)
def test_every_benchmark_of_every_version(version, benchmark, columns):
    parsed = imb.parse(TEXTS[f"{version}.{benchmark.lower()}"])

    assert parsed.sound, parsed.problems
    assert (parsed.version, parsed.program) == (VERSIONS[version], f"IMB-MPI1 {benchmark}")
    assert list(parsed.units) == ["size", "repetitions", *columns]
    assert parsed.column("size") == SIZES
    assert (parsed.facts["ranks"], parsed.facts["checked"]) == (2, False)


@pytest.mark.parametrize("name", SOUND)
def test_finished_outputs_are_sound(name):
    parsed = imb.parse(TEXTS[name])

    assert imb.recognise(TEXTS[name])
    assert parsed.sound, parsed.problems


def test_sizes_that_the_options_chose():
    assert imb.parse(TEXTS["2021.7.pingpong.from4KiB"]).column("size") == [0, *SIZES[13:]]
    assert imb.parse(TEXTS["2021.7.pingpong.msglen"]).column("size") == [0, 100, 1000]


def test_the_ranks_that_imb_left_out_are_in_the_facts():
    """MpiCheck compares them with the requested number."""
    for name in ("2021.7.biband.np3", "2021.7.biband.np3.npmin3"):
        assert imb.parse(TEXTS[name]).facts["ranks"] == 2


def test_sizes_that_imb_repeated_less_often_because_of_their_time():
    parsed = imb.parse(TEXTS["2021.7.pingpong.time"])

    fewer, problems = imb.cut(parsed, 1000, 5, 64)

    assert problems == []
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
    (found,) = imb.cut(imb.parse(TEXTS[name]), asked, seconds, 64)[1]

    assert found.startswith(problem)


# --- failures -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_run_of_something_else_is_a_problem(name):
    problems = imb.parse(TEXTS[name]).problems

    assert any(problem.startswith(PROBLEMS[name]) for problem in problems), problems


@pytest.mark.parametrize("name", INCOMPLETE)
def test_an_unfinished_run_says_why(name):
    parsed = imb.parse(TEXTS[name])

    assert not parsed.complete
    assert any(problem.startswith(INCOMPLETE[name]) for problem in parsed.problems)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_result_is_refused_with_the_reason(name):
    with pytest.raises(ParseError, match=REFUSED[name]):
        imb.parse(TEXTS[name])


@pytest.mark.parametrize("name", SOUND)
def test_cut_at_any_line_it_is_not_complete(name):
    end = TEXTS[name].index("# All processes entering")
    lines = TEXTS[name][:end].split("\n")
    for count in range(len(lines)):
        try:
            parsed = imb.parse("".join(f"{line}\n" for line in lines[:count]))
        except ParseError:
            continue
        assert not parsed.complete, count


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (LAST + "\n", "", "21 of 22 sizes, the last is 524288, not 1048576"),
        (row(PINGPONG, 64) + "\n", "", "21 of 22 sizes"),
        (LAST, LAST.replace(LAST.split()[2], "nan"), "line 56: latency is nan"),
        (LAST, LAST.replace(LAST.split()[2], "0.00"), "line 56: latency is 0.00"),
        (LAST, LAST.replace(LAST.split()[3], "1.00"), "the numbers of size 1048576 contradict"),
        (LAST, LAST + " 1.5", "line 56: 5 values for 4 columns"),
        (LAST, "lost connection", "line 56: not a row of IMB-MPI1: 'lost connection'"),
    ],
)
def test_a_bad_row_is_a_problem(old, new, problem):
    parsed = imb.parse(PINGPONG.replace(old, new))

    assert any(found.startswith(problem) for found in parsed.problems), parsed.problems


@pytest.mark.parametrize(
    ("name", "column", "value"), [("biband", 2, "99999.99"), ("bcast", 4, "99999.99")]
)
def test_numbers_that_contradict_each_other(name, column, value):
    text = TEXTS[f"2021.7.{name}"]
    words = row(text, 4096).split()
    words[column] = value

    problems = imb.parse(text.replace(row(text, 4096), " ".join(words))).problems

    assert problems == ("the numbers of size 4096 contradict each other",)


def test_wrong_data_are_a_problem():
    """Constructed: no run of a build with -DCHECK had a defect here."""
    text = TEXTS["2021.7.check.bcast"]
    line = row(text, 4096)

    (problem,) = imb.parse(text.replace(line, line[: -len("0.00")] + "1.00")).problems

    assert "received data are wrong" in problem


def test_the_words_of_mpirun_after_the_end_are_a_problem():
    parsed = imb.parse(PINGPONG + "mpirun noticed that process rank 0 exited on signal 9\n")

    assert any("exited on signal 9" in problem for problem in parsed.problems)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("Benchmarks 2021.7", "Benchmarks 2031.7", "line 2: unknown version 2031.7"),
        ("Mbytes/sec", "Gbytes/sec", "line 34: unknown headings of PingPong"),
        ("# Benchmarking PingPong", "#", "line 34: a table without the name of its benchmark"),
        ("#bytes", "bytes", "no table"),
    ],
)
def test_an_unknown_form_is_an_error_that_names_the_line(old, new, reason):
    with pytest.raises(ParseError, match=reason):
        imb.parse(PINGPONG.replace(old, new))
