"""NPB BT and BT-IO: results, I/O statistics, and runs that exit with 0 although they failed."""

import math
from pathlib import Path

import pytest

from assay.outputs import ParseError, npb

DATA = Path(__file__).parents[1] / "data" / "npb"


def output(name):
    return (DATA / f"bt.S.x.{name}.txt").read_text()


def edited(old, new, name="mpi_io_full.np4"):
    """A real output in which `new` replaces the first `old`."""
    text = output(name)
    assert old in text
    return text.replace(old, new, 1)


def test_results_and_statistics_of_bt_io():
    parsed = npb.parse(output("mpi_io_full.np4"))

    assert parsed.sound
    assert (parsed.family, parsed.program, parsed.version) == (
        "npb",
        "bt.S.x.mpi_io_full",
        "3.4.3",
    )
    assert parsed.rows == (
        {
            "class": "S",
            "size": "12x12x12",
            "iterations": 60,
            "processes": 4,
            "time": 0.06,
            "mops_total": 3644.71,
            "mops_per_process": 911.18,
            "io_time": 0.01,
            "io_share": 10.81,
            "io_verify_time": 0.01,
            "io_written": 0.83,
            "io_rate": 122.47,
        },
    )
    assert set(parsed.units) == set(parsed.rows[0]) - {"class", "size"}
    assert parsed.facts == {
        "class": "S",
        "size": "12x12x12",
        "processes": 4,
        "mode": "FULL MPI-IO",
        "write_interval": 5,
    }


def test_bt_without_io_has_no_io_columns():
    parsed = npb.parse(output("np1"))

    assert parsed.sound
    assert parsed.program == "bt.S.x"
    assert not [name for name in (*parsed.rows[0], *parsed.units) if name.startswith("io_")]


@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("ep_io.np4", "bt.S.x.ep_io"),
        ("fortran_io.np4", "bt.S.x.fortran_io"),
        ("mpi_io_simple.np4", "bt.S.x.mpi_io_simple"),
        ("mpi_io_full.np4.timers", "bt.S.x.mpi_io_full"),
    ],
)
def test_ways_of_writing(name, program):
    parsed = npb.parse(output(name))

    assert parsed.sound
    assert parsed.program == program


def test_a_full_file_system_with_exit_code_0():
    parsed = npb.parse(output("mpi_io_full.np4.enospc"))

    assert parsed.complete
    assert not parsed.sound
    assert "No space left on device (12 times)" in parsed.problems[0]
    assert "line 98: Verification = UNSUCCESSFUL" in parsed.problems


def test_a_full_file_system_under_fortran_io():
    parsed = npb.parse(output("fortran_io.np4.enospc"))

    assert not parsed.complete
    assert parsed.rows == ()
    assert "Fortran runtime error: Non-existing record number (4 times)" in parsed.problems[0]


def test_unsuccessful_is_not_successful():
    # UNSUCCESSFUL contains the word SUCCESSFUL.
    text = edited("               SUCCESSFUL", "             UNSUCCESSFUL")

    parsed = npb.parse(text)

    assert parsed.complete
    assert len(parsed.problems) == 1
    assert parsed.problems[0].endswith("Verification = UNSUCCESSFUL")


def test_no_reference_means_no_verification():
    parsed = npb.parse(output("mpi_io_full.np4.input"))

    assert parsed.complete
    assert any("No verification performed" in problem for problem in parsed.problems)


def test_idle_ranks_are_a_problem():
    parsed = npb.parse(output("mpi_io_simple.np3.idle"))

    assert parsed.complete
    (problem,) = parsed.problems
    assert problem == "line 9: WARNING: Number of processes is not a square number (1 active)"


def test_a_problem_too_big_for_the_program_exits_0_without_a_result():
    parsed = npb.parse(output("mpi_io_full.np4.too_big"))

    assert not parsed.complete
    assert "Problem size too big for compiled array sizes" in parsed.problems[0]


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("        3644.71", "            NaN", "Mop/s total = NaN"),
        ("        3644.71", "           0.00", "Mop/s total = 0.00"),
        ("        3644.71", "   ************", "Mop/s total = ************"),
        ("         122.47", "            NaN", "I/O data rate  (MB/sec) = NaN"),
        ("Total number of processes:      4", "Total number of processes:      1", "processes 1"),
        ("(class S)", "(class W)", "class W"),
    ],
)
def test_what_is_wrong_with_the_numbers(old, new, word):
    parsed = npb.parse(edited(old, new))

    assert not parsed.sound
    assert any(word in problem for problem in parsed.problems)


def test_a_field_too_narrow_for_its_number_is_not_a_number():
    parsed = npb.parse(edited("        3644.71", "   ************"))

    assert math.isnan(parsed.rows[0]["mops_total"])


@pytest.mark.parametrize(
    ("old", "new"),
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
def test_a_part_that_is_missing_or_misplaced_is_not_complete(old, new):
    assert not npb.parse(edited(old, new)).complete


@pytest.mark.parametrize(
    "banner",
    [
        " NAS Parallel Benchmarks 3.3 -- BT Benchmark",
        " NAS Parallel Benchmarks 13.4 -- BT Benchmark",
        " NAS Parallel Benchmarks 3.4 -- LU Benchmark",
        " NAS Parallel Benchmarks (NPB3.4-OMP) - BT Benchmark",
    ],
)
def test_another_version_or_program_is_named(banner):
    text = edited(" NAS Parallel Benchmarks 3.4 -- BT Benchmark", banner)

    assert npb.recognise(text)
    with pytest.raises(ParseError, match="only BT of NPB") as error:
        npb.parse(text)
    assert (error.value.line, error.value.text) == (3, banner)


def test_an_unknown_way_of_writing_is_named():
    with pytest.raises(ParseError, match="way of writing"):
        npb.parse(edited("FULL MPI-IO", "HDF5"))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("mpi_io_simple.np2", "Expecting a square number of processes"),
        ("ep_io.singletons", "2 runs in one text"),
    ],
)
def test_no_run_at_all_says_why(name, reason):
    assert npb.recognise(output(name))
    with pytest.raises(ParseError, match=reason):
        npb.parse(output(name))
