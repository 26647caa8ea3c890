"""NPB BT and BT-IO: results, I/O statistics, and runs that exit with 0 although they failed."""

import math
import re
from functools import partial

import real_outputs
from real_outputs import incomplete, problems, refused, texts

from assay.parse import npb

FULL = texts("npb")["bt.S.x.mpi_io_full.np4"]
edited = partial(real_outputs.edited, FULL)


def test_unsuccessful_is_not_successful():
    # UNSUCCESSFUL contains the word SUCCESSFUL.
    text = edited("               SUCCESSFUL", "             UNSUCCESSFUL")

    parsed = npb.parse_npb(text)

    assert parsed.complete
    assert len(parsed.problems) == 1
    assert parsed.problems[0].endswith("Verification = UNSUCCESSFUL")


test_what_is_wrong_with_the_numbers = problems(
    npb.parse_npb,
    FULL,
    [
        ("        3644.71", "            NaN", "Mop/s total = NaN"),
        ("        3644.71", "           0.00", "Mop/s total = 0.00"),
        ("        3644.71", "   ************", "Mop/s total = ************"),
        ("         122.47", "            NaN", "I/O data rate  (MB/sec) = NaN"),
        ("Total number of processes:      4", "Total number of processes:      1", "processes 1"),
        ("(class S)", "(class W)", "class W"),
    ],
)


def test_a_field_too_narrow_for_its_number_is_not_a_number():
    parsed = npb.parse_npb(edited("        3644.71", "   ************"))

    assert math.isnan(parsed.rows[0]["mops_total"])


test_a_part_that_is_missing_or_misplaced_is_not_complete = incomplete(
    npb.parse_npb,
    FULL,
    [
        (" Total number of processes:      4\n", ""),
        (" BTIO -- FULL MPI-IO write interval:   5\n", ""),
        (" BTIO -- statistics:\n", ""),
        ("   I/O data rate  (MB/sec) :         122.47\n", ""),
        (" BT Benchmark Completed.\n", ""),
        (" Verification    =               SUCCESSFUL\n", ""),
        (" Please send feedbacks", " Please"),
        (" Internet: npb@nas.nasa.gov", ""),
        (
            " NPB Development Team \n Internet: npb@nas.nasa.gov",
            " Internet: npb@nas.nasa.gov\n NPB Development Team",
        ),
    ],
)


BANNER = " NAS Parallel Benchmarks 3.4 -- BT Benchmark"
OTHERS = [
    " NAS Parallel Benchmarks 3.3 -- BT Benchmark",
    " NAS Parallel Benchmarks 13.4 -- BT Benchmark",
    " NAS Parallel Benchmarks 3.4 -- DT Benchmark",
    " NAS Parallel Benchmarks (NPB3.4-OMP) - BT Benchmark",
]

test_another_version_program_or_way_of_writing_is_named = refused(
    npb.parse_npb,
    FULL,
    [
        *((BANNER, other, f"line 3: only BT, CG, .*{re.escape(other[1:])}") for other in OTHERS),
        ("FULL MPI-IO", "HDF5", "way of writing"),
    ],
)


def test_another_version_or_program_is_recognised():
    assert all(npb.recognise(edited(BANNER, other)) for other in OTHERS)
