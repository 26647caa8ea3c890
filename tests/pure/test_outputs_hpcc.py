"""HPCC: the summary, and the checks that each part of HPCC does on its own result."""

from pathlib import Path

import pytest

from assay.outputs import ParseError, hpcc

DATA = Path(__file__).parents[1] / "data" / "hpcc"


def output(name):
    return (DATA / f"{name}.txt").read_text()


def edited(old, new):
    """The real output of two ranks in which `new` replaces the first `old`."""
    text = output("np2")
    assert old in text
    return text.replace(old, new, 1)


def test_metrics_and_parameters():
    parsed = hpcc.parse(output("np2"))

    assert parsed.sound
    assert (parsed.family, parsed.program, parsed.version) == ("hpcc", "hpcc", "1.5.0")
    assert parsed.rows[0] == {"metric": "HPL_Tflops", "value": 0.032617, "unit": "TFLOP/s"}
    assert parsed.at("value", metric="StarSTREAM_Triad") == 107.339
    assert parsed.at("unit", metric="RandomlyOrderedRingLatency_usec") == "us"
    assert parsed.facts["CommWorldProcs"] == 2
    assert (parsed.facts["HPL_N"], parsed.facts["HPL_NB"]) == (1000, 80)
    assert parsed.facts["hpl"][0]["residual"] == 0.0039687


def test_every_rate_and_latency_of_the_summary_is_a_metric():
    # The names come from the file and not from the table of the parser.
    endings = ("flops", "GUPs", "_GBs", "_usec", "_GBytes", "_Copy", "_Scale", "_Add", "_Triad")
    summary = output("np2").split("Begin of Summary section.\n")[1]
    keys = [line.split("=")[0] for line in summary.split("\n") if "=" in line]

    assert {key for key in keys if key.endswith(endings)} == set(
        hpcc.parse(output("np2")).column("metric")
    )


def test_one_rank_has_no_network():
    # HPCC still prints Success=1. So do N ranks that are N worlds of one rank.
    parsed = hpcc.parse(output("np1"))

    assert parsed.complete
    (problem,) = parsed.problems
    assert problem.startswith("not measured: MaxPingPongLatency_usec=-1 (line 496)")
    assert problem.count("=-1") == 10
    assert "MaxPingPongLatency_usec" not in parsed.column("metric")


def test_a_rank_too_many_for_the_fft_is_told():
    parsed = hpcc.parse(output("np3"))

    assert parsed.sound
    assert (parsed.facts["CommWorldProcs"], parsed.facts["MPIFFT_Procs"]) == (3, 2)


def test_other_parameters_than_asked_for_can_be_seen():
    # The test asked for N=400 on a grid of 2x2. HPCC used its defaults, with exit code 0.
    facts = hpcc.parse(output("other_parameters.np2")).facts

    assert (facts["HPL_N"], facts["HPL_nprow"], facts["HPL_npcol"]) == (3520, 1, 2)


def test_several_sizes_are_all_checked():
    parsed = hpcc.parse(output("two_sizes.np2"))

    assert parsed.sound
    assert [row["n"] for row in parsed.facts["hpl"]] == [400, 200]


def test_a_failed_residual_of_a_real_run():
    parsed = hpcc.parse(output("failed.np2"))

    assert parsed.complete
    assert set(parsed.problems) == {
        "line 416: residual check FAILED: 0.0045744",
        "line 427: 1 tests completed and failed residual checks",
        "line 442: Success=0: HPCC says that a part of it failed",
    }
    assert len(parsed.problems) == 3


def test_a_second_run_in_the_same_file_is_refused():
    with pytest.raises(ParseError, match="2 runs in one text") as error:
        hpcc.parse(output("appended.np2"))
    assert error.value.line > 500


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("Success=1", "Success=0", "Success=0"),
        ("StarDGEMM_Gflops=30.3273", "StarDGEMM_Gflops=-1", "StarDGEMM_Gflops=-1"),
        ("StarDGEMM_Gflops=30.3273", "StarDGEMM_Gflops=nan", "StarDGEMM_Gflops=nan"),
        ("HPL_Tflops=0.032617", "HPL_Tflops=inf", "HPL_Tflops=inf"),
        ("HPL_Tflops=0.032617", "HPL_Tflops=1e999", "HPL_Tflops=1e999"),
        ("StarDGEMM_Gflops=30.3273\n", "", "missing from the summary: StarDGEMM_Gflops"),
        (
            "Found 0 errors in 524288 locations (passed).",
            "Found 9999 errors in 524288 locations (failed).",
            "(failed)",
        ),
        ("Found 0 errors in 524288 locations (passed).\n", "", "section MPIRandomAccess does not"),
        ("    0 tests completed and failed", "   10 tests completed and failed", "10 tests"),
        ("    0 tests skipped because", "   10 tests skipped because", "10 tests"),
        ("    5 tests completed and passed residual checks.\n", "", "section PTRANS does not"),
        ("0.00 PASSED    3.212", "0.00 FAILED    3.212", "FAILED"),
        ("Node(s) with error 0", "Node(s) with error 10", "Node(s) with error 10"),
        ("Solution Validates: avg", "Failed Validation on array a[], Avg", "Failed Validation"),
        ("Solution Validates: avg", "avg", "section StarSTREAM does not"),
        ("0.0039687 ...... PASSED", "0.0039687 ...... FAILED", "residual check FAILED"),
        ("              0 tests completed and failed", "             10 tests completed and failed",
         "10 tests"),
        ("Hostname:", "HPL WARNING from process # 0, on line 313\nHostname:", "HPL WARNING"),
    ],
)  # fmt: skip
def test_what_a_part_of_hpcc_says_of_itself_is_heard(old, new, word):
    parsed = hpcc.parse(edited(old, new))

    assert not parsed.sound
    assert any(word in problem for problem in parsed.problems)


def test_problems_of_the_hpl_section_name_lines_of_the_file():
    text = edited("0.0039687 ...... PASSED", "0.0039687 ...... FAILED")

    (problem,) = [p for p in hpcc.parse(text).problems if "residual check FAILED" in p]

    number = int(problem.split(":")[0].removeprefix("line "))
    assert text.split("\n")[number - 1].endswith("FAILED")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("End of MPIFFT section.\n", ""),
        ("Begin of HPL section.\n", ""),
        ("HPL_N=1000\n", ""),
        ("HPL_Tflops=0.032617\n", ""),
        ("Success=1\n", ""),
        ("End of HPC Challenge tests.\n", ""),
        ("||Ax-b||_oo/(eps*(||A||", "||Ax-b||_oo/(eps*(A"),
    ],
)
def test_a_part_that_is_missing_is_not_complete(old, new):
    assert not hpcc.parse(edited(old, new)).complete


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("Benchmark version 1.5.0", "Benchmark version 1.6.0", 2),
        ("Benchmark version 1.5.0", "Benchmark version 11.5.0", 2),
    ],
)
def test_an_unknown_version_is_named(old, new, line):
    with pytest.raises(ParseError, match="only HPCC") as error:
        hpcc.parse(edited(old, new))
    assert error.value.line == line
    assert new in error.value.text


@pytest.mark.parametrize("line", ["Begin of MPIFFT section.\n", "HPL_Tflops=0.032617\n"])
def test_what_comes_twice_is_refused(line):
    with pytest.raises(ParseError, match="twice"):
        hpcc.parse(edited(line, 2 * line))


def test_an_unknown_hpl_inside_is_named():
    head, tail = output("np2").split("Begin of HPL section.")
    text = head + "Begin of HPL section." + tail.replace("HPLinpack 2.0", "HPLinpack 3.0")

    with pytest.raises(ParseError, match="only HPLinpack") as error:
        hpcc.parse(text)
    assert "HPLinpack 3.0" in text.split("\n")[error.value.line - 1]
