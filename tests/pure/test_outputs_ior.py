"""IOR and mdtest: real outputs of 4.0.0, and damaged forms of them."""

import pytest
from real_outputs import edited, incomplete, problems, refused, texts

from assay.parse import ior, mdtest

IOR, MDTEST = texts("ior"), texts("mdtest")
EASY, HARD = IOR["easy"], IOR["hard"]
WROTE = next(line for line in EASY.split("\n") if line.startswith("write  ") and "POSIX" in line)
CREATED = next(line for line in MDTEST["easy"].split("\n") if line.startswith("   File creation"))


def test_the_phases_of_an_easy_run():
    parsed = ior.parse(EASY)

    write, read = parsed.rows
    assert parsed.sound
    assert (write["operation"], read["operation"]) == ("write", "read")
    assert write["moved"] == read["moved"] == 964689920
    assert parsed.quantity("bandwidth", operation="write").unit == "MiB/s"
    assert write["limited_after"] > 2 and read["limited_after"] == 0
    assert parsed.facts == {"command_line": "ior -f easy.ior", "nodes": 1, "ranks": 2}


def test_the_bytes_are_those_of_all_blocks_where_no_time_limit_cut_them():
    assert [row["moved"] for row in ior.parse(HARD).rows] == [2 * 20000 * 47008] * 2


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
    parsed = ior.parse(IOR[name])

    assert any(problem in said for said in parsed.problems), parsed.problems


@pytest.mark.parametrize("name", ["truncated", "missing", "full_disk", "killed"])
def test_a_run_of_ior_that_ended_early_is_not_complete(name):
    assert not ior.parse(IOR[name]).complete


test_a_damage_of_ior_is_a_problem = problems(
    ior.parse,
    EASY,
    [
        ("Stat() of aggregate file size      = 9646", "Stat() of aggregate file size      = 1646",
         "the files have 164689920 B, 964689920 B were moved"),
        ("WARNING: Maybe caused", "WARNING: inconsistent file size\n#", "inconsistent file size"),
        ("  2.47008 ", "  4.47008 ", "write: 372.46 MiB/s for 4.47008 s are not 964689920 B"),
        ("Summary of all tests:", "Summary of some tests:", "2 phases began, the summary has 0"),
        (WROTE + "\n", "", "2 phases began, the summary has 1"),
        ("Finished  ", "Finish  ", "IOR did not come to its end"),
        ("Finished", "ior: line 3: 12 Segmentation fault\nFinished", "Segmentation fault"),
    ],
)  # fmt: skip

test_ior_is_refused = refused(
    ior.parse,
    EASY,
    [
        ("IOR-4.0.0", "IOR-3.3.0", "unknown version 3.3.0; known is 4.0"),
        ("IOR-4.0.0: MPI", "IOR: MPI", "title of IOR not found"),
        (" tPN ", " XXX ", "the summary has no column tPN"),
        (WROTE, WROTE.replace("372.46", "fast"), "'fast' is not a number"),
    ],
)


def test_ranks_that_ran_alone_are_several_runs():
    for parse, text in ((ior.parse, IOR["singletons"]), (mdtest.parse, MDTEST["singletons"])):
        with pytest.raises(Exception, match="2 runs in one text"):
            parse(text)


def test_the_last_line_of_each_program_has_its_end():
    assert not ior.parse(EASY.rstrip("\n")).complete
    assert not mdtest.parse(MDTEST["easy"].rstrip("\n")).complete


def test_the_operations_of_mdtest():
    easy, hard = mdtest.parse(MDTEST["easy"]), mdtest.parse(MDTEST["hard"])

    assert easy.sound and hard.sound
    assert easy.column("operation") == ["create", "stat", "remove"]
    assert hard.column("operation") == ["create", "stat", "read", "remove"]
    assert (hard.facts["ranks"], hard.facts["nodes"]) == (2, 1)
    assert (hard.facts["files"], hard.facts["limited"]) == (2 * 5941, True)


def test_mdtest_that_the_time_limit_did_not_stop():
    facts = mdtest.parse(MDTEST["short"]).facts

    assert (facts["files"], facts["limited"]) == (1000, False)


def test_wrong_data_are_a_problem_although_mdtest_ended_with_exit_code_0():
    (problem,) = mdtest.parse(MDTEST["wrong_data"]).problems

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
    parsed = mdtest.parse(MDTEST[name])

    assert not parsed.complete
    assert any(problem in said for said in parsed.problems), parsed.problems


test_a_damage_of_mdtest_is_a_problem = problems(
    mdtest.parse,
    MDTEST["easy"],
    [
        (CREATED, CREATED.replace(CREATED.split()[4], "1.0"), "create: 1 op/s for 2.260 s are not"),
        (CREATED, CREATED.replace(CREATED.split()[4], "nan"), "create: nan is not a rate"),
        ("-- finished", "-- paused", "mdtest did not come to its end"),
    ],
)

test_an_incomplete_mdtest = incomplete(
    mdtest.parse,
    MDTEST["easy"],
    [
        (CREATED + "\n", ""),
        ("SUMMARY time:", "SUMMARY of time:"),
        ("-- finished", "-- paused"),
    ],
)

test_mdtest_is_refused = refused(
    mdtest.parse,
    MDTEST["easy"],
    [
        ("mdtest-4.0.0", "mdtest-3.3.0", "unknown version 3.3.0; known is 4.0"),
        ("rate: (of 1 iterations)", "rate: (of 3 iterations)", "only one table of one iteration"),
        ("mdtest-4.0.0 was", "mdtest was", "title of mdtest not found"),
    ],
)


def test_a_rate_of_which_only_one_table_tells_is_incomplete():
    text = edited(MDTEST["easy"], "SUMMARY time: (of 1 iterations)", "")

    assert not mdtest.parse(text).rows
