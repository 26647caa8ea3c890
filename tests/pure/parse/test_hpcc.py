"""HPCC: the summary, and the checks that each part of HPCC does on its own result."""

from functools import partial

import pytest
import real_outputs
from real_outputs import incomplete, problems, refused, texts

from assay.parse import ParseError, hpcc

NP1, NP2 = (texts("hpcc")[name] for name in ("np1", "np2"))
edited = partial(real_outputs.edited, NP2)


def test_every_rate_and_latency_of_the_summary_is_a_metric():
    # The names come from the file and not from the table of the parser.
    endings = ("flops", "GUPs", "_GBs", "_usec", "_GBytes", "_Copy", "_Scale", "_Add", "_Triad")
    summary = NP2.split("Begin of Summary section.\n")[1]
    keys = [line.split("=")[0] for line in summary.split("\n") if "=" in line]

    assert {key for key in keys if key.endswith(endings)} == set(
        hpcc.parse_hpcc(NP2).column("metric")
    )


test_what_a_part_of_hpcc_says_of_itself_is_heard = problems(
    hpcc.parse_hpcc,
    NP2,
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


def test_problems_of_the_hpl_section_name_lines_of_the_file():
    text = edited("0.0039687 ...... PASSED", "0.0039687 ...... FAILED")

    (problem,) = [p for p in hpcc.parse_hpcc(text).problems if "residual check FAILED" in p]

    number = int(problem.split(":")[0].removeprefix("line "))
    assert text.split("\n")[number - 1].endswith("FAILED")


test_a_part_that_is_missing_is_not_complete = incomplete(
    hpcc.parse_hpcc,
    NP2,
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


def test_a_version_that_is_not_known_is_named():
    parsed = hpcc.parse_hpcc(edited("version 1.5.0", "version 11.5.0"))
    assert parsed.sound
    assert (parsed.version, parsed.facts["read_as"]) == ("11.5.0", "1.5")
    assert "read_as" not in hpcc.parse_hpcc(NP2).facts


def test_one_rank_sends_no_messages():
    parsed = hpcc.parse_hpcc(NP1)
    assert parsed.sound
    assert not [name for name in parsed.column("metric") if "Ring" in name or "PingPong" in name]
    several = hpcc.parse_hpcc(NP1.replace("CommWorldProcs=1", "CommWorldProcs=2"))
    assert any("not measured: MaxPingPongLatency_usec=-1" in said for said in several.problems)


test_what_comes_twice_is_refused = refused(
    hpcc.parse_hpcc,
    NP2,
    [
        ("Begin of MPIFFT section.\n", 2 * "Begin of MPIFFT section.\n", "twice"),
        ("HPL_Tflops=0.032617\n", 2 * "HPL_Tflops=0.032617\n", "twice"),
    ],
)


def test_an_unknown_hpl_inside_is_named():
    head, tail = NP2.split("Begin of HPL section.")
    text = head + "Begin of HPL section." + tail.replace("HPLinpack 2.0", "HPLinpack 3.0")

    with pytest.raises(ParseError, match="only HPLinpack") as error:
        hpcc.parse_hpcc(text)
    assert "HPLinpack 3.0" in text.split("\n")[error.value.line - 1]
