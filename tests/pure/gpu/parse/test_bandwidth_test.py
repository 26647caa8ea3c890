"""bandwidthTest: outputs of the program of CUDA 12.5 on the emulated GPU, and damaged ones."""

import pytest
from real_outputs import edited, incomplete, problems, refused, texts

from assay.gpu.parse import bandwidth_test
from assay.parse.registry import recognise

TEXTS = texts("bandwidth-test")
QUICK, SHMOO = TEXTS["quick"], TEXTS["shmoo-csv"]
END = QUICK[QUICK.index("Result") :]


def test_each_copy_is_a_row():
    parsed = bandwidth_test.parse_bandwidth_test(QUICK)

    assert recognise(QUICK) == "bandwidth-test"
    assert parsed.sound
    assert parsed.rows == (
        {"way": "H2D", "memory": "pinned", "size": 32000000, "bandwidth": 4100},
        {"way": "D2H", "memory": "pinned", "size": 32000000, "bandwidth": 4300},
        {"way": "D2D", "memory": "", "size": 32000000, "bandwidth": 11100},
    )
    assert parsed.facts == {"devices": ["EMULATED GPU"], "gpus": 1}


def test_many_sizes_over_two_gpus_as_csv():
    parsed = bandwidth_test.parse_bandwidth_test(SHMOO)

    assert parsed.sound, parsed.problems
    assert len(parsed.rows) == 81
    assert parsed.at("bandwidth", size=3000) == 300
    assert {(row["way"], row["memory"]) for row in parsed.rows} == {("H2D", "pageable")}
    assert parsed.facts["gpus"] == 2


def test_the_megabyte_of_the_demo_suite_has_2_to_the_20_bytes():
    old = edited(QUICK, "(GB/s)\n   32000000\t\t\t4.1", "(MB/s)\n   33554432\t\t\t3076.7")
    parsed = bandwidth_test.parse_bandwidth_test(old)

    assert parsed.rows[0]["bandwidth"] == pytest.approx(3226.15, abs=0.01)
    assert parsed.rows[1]["bandwidth"] == 4300


def test_memory_that_the_processor_writes_in_bursts_is_named():
    combined = " Write-Combined Memory Writes are Enabled   Transfer"
    text = edited(QUICK, "   Transfer", combined)

    assert bandwidth_test.parse_bandwidth_test(text).rows[0]["memory"] == "pinned write-combined"
    assert bandwidth_test.parse_bandwidth_test(text).rows[1]["memory"] == "pinned"


test_a_bad_line_is_a_problem = problems(
    bandwidth_test.parse_bandwidth_test,
    QUICK,
    [
        ("\t4.3", "\tnan", "line 15: bandwidth is nan"),
        ("\t4.3", "\t0.0", "bandwidth is 0.0, which is not a measured value"),
        ("\t4.3", "\t4.3 1", "3 values for 2 columns"),
        ("PASS", "FAIL", "the result is FAIL"),
        ("Running", "!!!!!Invalid GPU number 9 given hence default gpu 0\nRunning", "number 9"),
        ("Result", "CUDA error at x.cu:1 code=700\nResult", "CUDA error at x.cu:1"),
        ("Device to Host", "Host to Device", "a size has more than one rate"),
        (QUICK, QUICK + QUICK, "a size has more than one rate"),
        (END, "", "the result is missing: the output was cut"),
        ("   32000000\t\t\t4.3\n", "", "line 12: a heading without a rate below it"),
        ("   32000000\t\t\t11.1\n", "", "line 17: a heading without a rate below it"),
        ("   32000000\t\t\t4.3", "x", "line 12: a heading without a rate below it"),
    ],
)

test_a_torn_row_of_csv_is_a_problem = problems(
    bandwidth_test.parse_bandwidth_test,
    SHMOO,
    [("Time = 0.00001 s, Size = 1000 ", "Size = 1000 ", "line 12: not a row of bandwidthTest")],
)

test_an_output_that_was_cut_is_not_complete = incomplete(
    bandwidth_test.parse_bandwidth_test, QUICK, [(END, ""), (END, "Result = PAS")]
)

test_a_size_that_is_missing_is_seen = incomplete(
    bandwidth_test.parse_bandwidth_test,
    SHMOO,
    [(SHMOO[SHMOO.index("bandwidthTest-H2D") :][:104], "")],
)

test_what_measured_nothing_is_refused = refused(
    bandwidth_test.parse_bandwidth_test,
    QUICK,
    [
        (QUICK, "[CUDA Bandwidth Test] - Starting...\n", "no rate of bandwidthTest"),
        (QUICK, "cudaGetDeviceProperties returned 803\n", "no rate .* returned 803"),
    ],
)
