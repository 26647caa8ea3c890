"""nvbandwidth: a made output, its other forms, and damaged ones.

No GPU printed `made.txt`. It has the form of output.cpp of 0.8, with numbers made by hand.
"""

import pytest
from real_outputs import incomplete, problems, refused, texts

from assay.gpu.parse import nvbandwidth

TEXT = texts("nvbandwidth")["made"]
NOTE = TEXT[TEXT.index("NOTE: ") :]
BOTH = "memcpy CE GPU(row) <-> GPU(column) Total bandwidth (GB/s)"


def test_each_copy_is_a_row_and_a_time_is_apart():
    parsed = nvbandwidth.parse_nvbandwidth(TEXT)

    assert parsed.sound
    assert (
        parsed.at("bandwidth", what="memcpy CE CPU(row) -> GPU(column) bandwidth", peer="1")
        == 49.75
    )
    assert parsed.at("bandwidth", what=BOTH.removesuffix(" (GB/s)"), row="1") == 600
    assert [row["latency"] for row in parsed.facts["latencies"]] == [610, 650]
    assert parsed.facts["waived"] == 1


@pytest.mark.parametrize("labels", [["0", "1"], ["0->1", "1->0"]])
def test_older_forms_and_those_of_several_nodes_are_read(labels):
    old = TEXT.replace("v0.8", "v0.4").replace(NOTE, "").replace("N/A", "0.00")
    old = old.replace("Waived: ", "Waiving device_to_device_memcpy_write_ce.")
    parsed = nvbandwidth.parse_nvbandwidth(old.replace("\n 1 ", f"\n{labels[1]} "))

    assert len(parsed.rows) == 8 + (labels[1] != "1") * 3
    assert nvbandwidth.parse_nvbandwidth(old).sound


test_a_bad_line_is_a_problem = problems(
    nvbandwidth.parse_nvbandwidth,
    TEXT,
    [
        ("101.00", "102.00", "the sum is 102.00, that of the rows 101.00"),
        ("49.75", "0.00", "bandwidth is 0.00, which is not a measured value"),
        ("49.75", "nan", "bandwidth is nan"),
        ("\nSUM host_to_device_memcpy_ce 101.00\n", "", "host_to_device_memcpy_ce has no end"),
        ("\nWaived", " Invalid value when checking the pattern at 0x7\nWaived", "Invalid value"),
        ("\nWaived", "[CUDA_ERROR_LAUNCH_FAILED] unspecified\nWaived", "CUDA_ERROR_LAUNCH_FAILED"),
        ("\nWaived", "ERROR: no such test\nWaived", "ERROR: no such test"),
        (" 1    301.50", " 1    301.50    4.00", "stands where a row would"),
        (TEXT, TEXT + TEXT, "a second run"),
        (NOTE, "", "the note at the end is missing"),
    ],
)

test_an_output_that_was_cut_is_not_complete = incomplete(
    nvbandwidth.parse_nvbandwidth, TEXT, [(NOTE, ""), (NOTE[-60:], ""), (TEXT, TEXT[:400])]
)

test_what_ran_no_test_is_refused = refused(
    nvbandwidth.parse_nvbandwidth, TEXT, [(TEXT, "Device 0: x\n", "no test of nvbandwidth")]
)
