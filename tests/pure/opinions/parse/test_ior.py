"""IOR and mdtest: real outputs of 3.0.1 to 4.1, and damaged forms of them."""

import re

import pytest
from real_outputs import edited, incomplete, problems, refused, texts

from assay.opinions.parse import ior, mdtest
from assay.parse import ParseError

IOR, MDTEST = texts("ior"), texts("mdtest")
EASY, HARD = IOR["easy"], IOR["hard"]
WROTE = next(line for line in EASY.split("\n") if line.startswith("write  ") and "POSIX" in line)
RESULT = next(line for line in EASY.split("\n") if line.startswith("write     372"))
CREATED = next(line for line in MDTEST["easy"].split("\n") if line.startswith("   File creation"))


def test_the_phases_of_an_easy_run():
    parsed = ior.parse_ior(EASY)

    write, read = parsed.rows
    assert parsed.sound
    assert (write["operation"], read["operation"]) == ("write", "read")
    assert write["moved"] == read["moved"] == 964689920
    assert parsed.quantity("bandwidth", operation="write").unit == "MiB/s"
    assert write["limited_after"] > 2 and read["limited_after"] == 0
    assert parsed.facts == {"command_line": "ior -f easy.ior", "nodes": 1, "ranks": 2}


def test_the_bytes_are_those_of_all_blocks_where_no_time_limit_cut_them():
    assert [row["moved"] for row in ior.parse_ior(HARD).rows] == [2 * 20000 * 47008] * 2


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("wrong_data", "line 34: WARNING: Incorrect data on read (1 errors found)."),
        ("truncated", "returned EOF prematurely"),
        ("missing", "ERROR: open64("),
        ("full_disk", "failed No space left on device"),
        ("killed", "IOR did not come to its end"),
    ],
)
def test_a_broken_run_of_ior_is_a_problem(name, problem):
    parsed = ior.parse_ior(IOR[name])

    assert any(problem in said for said in parsed.problems), parsed.problems


@pytest.mark.parametrize("name", ["truncated", "missing", "full_disk", "killed"])
def test_a_run_of_ior_that_ended_early_is_not_complete(name):
    assert not ior.parse_ior(IOR[name]).complete


test_a_damage_of_ior_is_a_problem = problems(
    ior.parse_ior,
    EASY,
    [
        ("Stat() of aggregate file size      = 9646", "Stat() of aggregate file size      = 1646",
         "the files have 164689920 B, 964689920 B were moved"),
        ("WARNING: Maybe caused", "WARNING: inconsistent file size\n#", "inconsistent file size"),
        ("0.000501   2.47", "0.000501   4.47", "372.46 MiB/s for 4.47000 s are not 964689920 B"),
        ("POSIX      0\nread", "POSIX\nread", "line 78: cut short: write"),
        (WROTE + "\n", "", "2 results, the summary has 1"),
        (RESULT + "\n", "", "1 results, the summary has 2"),
        ("Finished  ", "Finish  ", "IOR did not come to its end"),
        ("Finished", "ior: line 3: 12 Segmentation fault\nFinished", "Segmentation fault"),
    ],
)  # fmt: skip

test_ior_is_refused = refused(
    ior.parse_ior,
    EASY,
    [
        ("IOR-4.0.0: MPI", "IOR: MPI", "title of IOR not found"),
        (RESULT, RESULT.replace("372.46", "fast  "), "'fast' is not a number"),
    ],
)


@pytest.mark.parametrize(
    ("name", "operations", "repetitions"),
    [
        ("3.0.1.checked", ["write", "read"], [0, 0]),
        ("3.2.1.three_repetitions", ["write", "read"] * 3, [0, 0, 1, 1, 2, 2]),
        ("3.3.0.json", ["write", "read"] * 2, [0, 0, 1, 1]),
        ("4.1.verbose", ["write", "read"], [0, 0]),
        ("4.1.script.json", ["write", "read"] * 4, [0, 0, 1, 1] * 2),
    ],
)
def test_each_version_and_form(name, operations, repetitions):
    parsed = ior.parse_ior(IOR[name])

    assert parsed.sound
    assert name.startswith(parsed.version[:3]) and "read_as" not in parsed.facts
    assert parsed.column("operation") == operations
    assert parsed.column("repetition") == repetitions
    assert {row["ranks"] for row in parsed.rows} == {parsed.facts["ranks"]} == {2}
    for row in parsed.rows:
        assert row["moved"] == 2 * row["segments"] * row["block"]
        assert row["moved"] / 2**20 == pytest.approx(row["bandwidth"] * row["time"], rel=0.5)


def test_the_phases_of_a_script_in_json():
    parsed = ior.parse_ior(IOR["4.1.script.json"])

    assert parsed.column("phase") == [0] * 4 + [1] * 4
    assert [row["block"] >> 20 for row in parsed.rows] == [1] * 4 + [2] * 4


def test_json_that_was_cut_is_not_complete():
    text = IOR["3.3.0.json"]

    assert not ior.parse_ior(text.rpartition("}")[0]).complete
    assert not ior.parse_ior(text.rpartition('"operation": "read"')[0]).complete


#: IO500 has IOR as a library, which prints no summary; this is an output of the program without it.
AS_IO500 = re.sub("ior -a POSIX", "./ior -C -Q 1 -k -e -o x -a POSIX", IOR["4.1.verbose"])
AS_IO500 = re.sub(r"remove .*", "", AS_IO500, flags=re.DOTALL)


def test_the_last_line_of_io500_is_the_last_result():
    parsed = ior.parse_ior(re.sub("write  .*\n", "", AS_IO500))

    (row,) = parsed.rows
    assert parsed.sound
    assert (row["operation"], row["bandwidth"], row["block"]) == ("read", 500.13, 1 << 20)
    assert (row["api"], row["transfer"], row["ranks_per_node"]) == ("POSIX", 1 << 18, 2)


def test_io500_that_was_cut_or_is_another_program_is_not_complete():
    one = re.sub("write  .*\n", "", AS_IO500)

    assert not ior.parse_ior(one.rstrip("\n")).complete
    assert not ior.parse_ior(one.replace("./ior", "/opt/ior")).complete
    assert not ior.parse_ior(re.sub(r"\nread  .*", "\n", one)).complete
    assert not ior.parse_ior(
        one.replace("repetitions         : 1", "repetitions         : 2")
    ).complete


def test_what_an_interface_cannot_do_is_no_problem_and_wrong_data_are():
    text = IOR["3.0.1.checked"]
    head = text.index("Began")
    reset = "ior WARNING: fsync() only available in POSIX/MMAP.  Using value of 0.\n"
    wrong = "[1] FAILED comparison of buffer containing 8-byte ints:\n"

    assert ior.parse_ior(text[:head] + reset + text[head:]).sound
    (problem,) = ior.parse_ior(text[:head] + wrong + text[head:]).problems
    assert "FAILED comparison" in problem


@pytest.mark.parametrize("parse", [ior.parse_ior, mdtest.parse_mdtest])
def test_a_version_that_is_not_known_is_named(parse):
    text = EASY if parse is ior.parse_ior else MDTEST["easy"]
    parsed = parse(text.replace("-4.0.0", "-5.2.0", 1))

    assert parsed.sound
    assert (parsed.version, parsed.facts["read_as"]) == ("5.2.0", "4.1")


def test_ranks_that_ran_alone_are_several_runs():
    for parse, text in (
        (ior.parse_ior, IOR["singletons"]),
        (mdtest.parse_mdtest, MDTEST["singletons"]),
    ):
        with pytest.raises(Exception, match="2 runs in one text"):
            parse(text)


def test_the_last_line_of_each_program_has_its_end():
    assert not ior.parse_ior(EASY.rstrip("\n")).complete
    assert not mdtest.parse_mdtest(MDTEST["easy"].rstrip("\n")).complete


def test_the_operations_of_mdtest():
    easy, hard = mdtest.parse_mdtest(MDTEST["easy"]), mdtest.parse_mdtest(MDTEST["hard"])

    assert easy.sound and hard.sound
    assert easy.column("operation") == ["create", "stat", "remove"]
    assert hard.column("operation") == ["create", "stat", "read", "remove"]
    assert (hard.facts["ranks"], hard.facts["nodes"]) == (2, 1)
    assert (hard.facts["files"], hard.facts["limited"]) == (2 * 5941, True)


def test_mdtest_that_the_time_limit_did_not_stop():
    facts = mdtest.parse_mdtest(MDTEST["short"]).facts

    assert (facts["files"], facts["limited"]) == (1000, False)


def test_wrong_data_are_a_problem_although_mdtest_ended_with_exit_code_0():
    (problem,) = mdtest.parse_mdtest(MDTEST["wrong_data"]).problems

    assert "verifying the data on read (1 errors)" in problem


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("missing_file", "WARNING: unable to stat file"),
        ("full_disk", "failed No space left on device"),
        ("killed", "mdtest did not come to its end"),
    ],
)
def test_a_broken_run_of_mdtest_is_a_problem(name, problem):
    parsed = mdtest.parse_mdtest(MDTEST[name])

    assert not parsed.complete
    assert any(problem in said for said in parsed.problems), parsed.problems


test_a_damage_of_mdtest_is_a_problem = problems(
    mdtest.parse_mdtest,
    MDTEST["easy"],
    [
        (CREATED, CREATED.replace(CREATED.split()[4], "1.0"), "create: 1 op/s for 2.260 s are not"),
        (CREATED, CREATED.replace(CREATED.split()[4], "nan"), "create: nan is not a rate"),
        (CREATED, CREATED[:40], "line 16: cut short: File creation"),
        ("-- finished", "-- paused", "mdtest did not come to its end"),
    ],
)

test_an_incomplete_mdtest = incomplete(
    mdtest.parse_mdtest,
    MDTEST["easy"],
    [
        (CREATED + "\n", ""),
        ("SUMMARY time:", "SUMMARY of time:"),
        ("-- finished", "-- paused"),
    ],
)

test_mdtest_is_refused = refused(
    mdtest.parse_mdtest,
    MDTEST["easy"],
    [
        ("SUMMARY time:", "SUMMARY rate:", "a second table: several numbers of ranks"),
        ("mdtest-4.0.0 was", "mdtest was", "title of mdtest not found"),
    ],
)


def test_a_run_that_asked_for_two_tables_and_has_one_is_incomplete():
    text = edited(MDTEST["easy"], "SUMMARY time: (of 1 iterations)", "")

    assert not mdtest.parse_mdtest(text).complete
    alone = re.sub("SUMMARY time.*?(?=-- fin)", "", MDTEST["easy"], flags=re.DOTALL)
    assert not mdtest.parse_mdtest(alone).complete
    assert mdtest.parse_mdtest(alone.replace(" '-P'", "")).sound


@pytest.mark.parametrize(
    ("name", "operations", "iterations"),
    [
        ("1.9.3.plain", 7, 1),
        ("3.3.0.both", 4, 1),
        ("4.1.three_iterations", 4, 3),
    ],
)
def test_each_version_of_mdtest(name, operations, iterations):
    parsed = mdtest.parse_mdtest(MDTEST[name])

    assert parsed.sound
    assert name.startswith(parsed.version[:3]) and "read_as" not in parsed.facts
    assert len(parsed.rows) == operations
    assert parsed.facts["iterations"] == iterations
    assert all(row["least"] <= row["rate"] <= row["most"] for row in parsed.rows)
    assert ("create_directory" in parsed.column("operation")) == (name == "1.9.3.plain")


def test_the_title_of_mdtest_1_8():
    text = MDTEST["1.9.3.plain"].replace("-1.9.3", "-1.8.3").replace("node(s)", "nodes")

    assert mdtest.parse_mdtest(text).sound


def test_times_without_rates():
    text = MDTEST["4.1.three_iterations"].replace("SUMMARY rate (in ops/sec)", "SUMMARY time")
    parsed = mdtest.parse_mdtest(text.replace("mdtest '-n'", "mdtest '-Z' '-n'"))

    assert parsed.complete
    assert set(parsed.rows[0]) == {"operation", "time"}


def test_files_that_another_run_created_are_not_counted():
    text = MDTEST["easy"].replace("Continue stonewall", "#").replace("'-W' '2'", "'-x' 'made'")
    facts = mdtest.parse_mdtest(text).facts

    assert (facts["files"], facts["limited"]) == (None, False)


def test_an_old_version_of_another_form_is_refused_by_name():
    with pytest.raises(ParseError, match=r"IOR 2\.10\.3 has another form; 3.0 and later are read"):
        ior.parse_ior("IOR-2.10.3: MPI Coordinated Test of Parallel I/O\n\nRun finished: Wed\n")
