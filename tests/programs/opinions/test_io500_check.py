"""IOR and mdtest under ReFrame: the real programs, and recorded runs with a fault in them."""

import pytest
from bench import Recorded, live_program, processor
from few_messages import problems

pytestmark = pytest.mark.slow

#: More ranks than this machine may have cores.
TWO = {
    "processor": processor(2),
    "env_vars": [
        ["OMPI_ALLOW_RUN_AS_ROOT", "1"],
        ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"],
        ["OMPI_MCA_rmaps_base_oversubscribe", "1"],
    ],
}

CASES = ["Ior %pattern=easy", "Ior %pattern=hard", "MdtestEasy", "MdtestHard"]


@pytest.fixture
def live(bench, tmp_path):
    for program in ("ior", "mdtest"):
        live_program(program)
    bench.storage(tmp_path, **TWO)
    bench.stack("system", ["ior"])
    return bench.run("-n", "Ior|Mdtest", "--mode", "smoke", path="reframe/storage")


def test_the_real_programs_write_read_and_compare(live, tmp_path):
    for case in CASES:
        outcome = live.case(case)
        record = outcome.record
        assert problems(outcome) == []
        assert record["proof"]["ranks"]["seen"] == 2
        assert record["proof"]["rule"]["seconds"] == 2
        assert record["parsed"]["rows"]
        if not record["problems"]:
            assert outcome.result == "pass", outcome.reason
            assert all(metric["value"] > 0 for metric in record["metrics"].values())
    assert not list(tmp_path.glob("assay.*"))


def replayed(bench, directory, program, name, faults, *arguments, **extras):
    """Runs the test of `program` on a recorded run, and with each fault of stdout in it."""
    healthy = Recorded.load(name)
    runs = {"healthy": healthy}
    for fault, (old, new, _) in faults.items():
        assert old in healthy.stdout, old
        runs[fault] = healthy.but(stdout=healthy.stdout.replace(old, new))
    bench.storage(directory, launcher="replay", extras=extras, **TWO)
    bench.replays(program, ["ior"], runs)
    return bench.run(*arguments, path=f"reframe/storage/{program}.py")


#: Name of a fault -> what it changes in the output, and the cause that must be named.
IN_IOR = {
    "other-transfers": (
        " 2097152 ",
        " 1048576 ",
        "write: transfer was 1048576, 2097152 was asked for",
    ),
    "one-file": ("  1   1     1 ", "  1   0     1 ", "write: file_per_rank was 0, 1 was asked for"),
    "no-shift": (
        "  1     1        1 ",
        "  1     0        0 ",
        "read: shifted was 0, 1 was asked for",
    ),
    "two-nodes": ("nodes               : 1", "nodes               : 2", "the nodes was 2, 1 was"),
    "wrong-data": (
        "read      6597 ",
        "WARNING: Incorrect data on read (128 errors found).\nread      6597 ",
        "Incorrect data on read (128 errors found)",
    ),
    "other-api": (" POSIX ", " MPIIO ", "write: api was MPIIO, POSIX was asked for"),
    "only-written": ("\nread ", "\nwrite", "IOR did write, write, not write and read"),
}


def test_ior_that_ran_otherwise_than_it_was_asked_to(bench, tmp_path):
    run = replayed(bench, tmp_path, "ior", "ior-easy", IN_IOR, "-n", "Ior.*easy", "--mode", "smoke")

    run.says("Ior", environ="healthy")
    for name, (_, _, cause) in IN_IOR.items():
        run.says("Ior", cause, environ=name)


def test_ranks_that_were_done_before_the_time_of_the_rule(bench, tmp_path):
    run = replayed(
        bench, tmp_path, "ior", "ior-easy", {}, "-n", "Ior.*easy", options={"Ior.bytes": 2**28}
    )

    cause = "wrote all 268.4 MB in 1.5 s, and the rule is 300 s: set the option Ior.bytes to"
    assert run.case("Ior").record["proof"]["storage"]["memory_copy_bytes_per_s"] == 3e10
    is_not_judged(run.case("Ior"), cause)


IN_MDTEST = {
    "wrong-data": (
        "-- finished",
        "ERROR: verifying the data on read (1 errors)! Take care!\n-- finished",
        "verifying the data on read (1 errors)",
    ),
    "other-options": ("'-w' '3901'", "'-w' '1'", "mdtest ran with '-a' 'POSIX'"),
    "two-nodes": ("on 1 node(s)", "on 2 node(s)", "the nodes was 2, 1 was asked for"),
    "alone": ("with 2 total", "with 1 total", "create: 1420 op/s for 2.333 s are not 1656 files"),
}


def test_mdtest_that_ran_otherwise_than_it_was_asked_to(bench, tmp_path):
    words = ("-n", "MdtestHard", "--mode", "smoke")

    run = replayed(bench, tmp_path, "mdtest", "mdtest-hard", IN_MDTEST, *words)

    run.says("MdtestHard", environ="healthy")
    for name, (_, _, cause) in IN_MDTEST.items():
        run.says("MdtestHard", cause, environ=name)


def test_files_that_were_all_created_before_the_time_of_the_rule(bench, tmp_path):
    said = Recorded.load("mdtest-hard").stdout
    # As if each rank had been asked for the files that it created, and had 300 s.
    for old, new in (("'20000'", "'1656'"), ("'-W' '2'", "'-W' '300'"), (" 40000 ", " 3312 ")):
        assert old in said
        said = said.replace(old, new)
    said = "".join(line for line in said.splitlines(True) if not line.startswith("Continue"))
    bench.storage(
        tmp_path, launcher="replay", **TWO, extras={"options": {"MdtestBase.files": 1656}}
    )
    bench.replays("mdtest", ["ior"], {"all": Recorded.load("mdtest-hard").but(stdout=said)})
    run = bench.run("-n", "MdtestHard", path="reframe/storage/mdtest.py")
    cause = "all 3312 files before 300 s, the rule of IO500, had passed: set the option"
    is_not_judged(run.case("MdtestHard"), cause)


def is_not_judged(case, cause):
    """The launch is sound, and none of its numbers says anything."""
    assert not case.record["problems"]
    metrics = case.record["metrics"].values()
    assert {each["verdict"] for each in metrics} == {"RECORDED"}
    assert all(cause in each["why"] for each in metrics), metrics


@pytest.mark.parametrize(("program", "test"), [("ior", "Ior.*easy"), ("mdtest", "MdtestEasy")])
def test_no_memory_is_filled_for_the_time_of_the_rule(bench, tmp_path, program, test):
    bench.storage(tmp_path, launcher="replay", extras={"file_system": "tmpfs"}, **TWO)
    bench.stack("system", ["ior"])

    run = bench.run("-n", test, path=f"reframe/storage/{program}.py")

    (case,) = run.cases.values()
    assert case.result == "skip"
    assert "is in memory, which 300 s of writing would fill" in run.output
