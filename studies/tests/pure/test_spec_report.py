"""Reports of SPEC's tools. All of them are made: data/spec/README.md says after what."""

from pathlib import Path

import pytest
from real_outputs import edited, has, incomplete, problems, refused, texts

from studies.doc002 import spec_report as spec

DATA = Path(__file__).parents[1] / "data"
MADE = texts("spec", data=DATA)
MPI = MADE["made.mpi2007.medium"]
FIRST = "104.milc,64,101.250000,9.876543,1,S,,,,,,mref iteration #1\n"
SELECTED = "104.milc,64,101.250000,9.876543,1,S,,,,,NR,"


def test_no_output_claims_to_be_real():
    assert all(name.startswith("made.") for name in MADE)
    assert all("this report is made" in text for text in MADE.values())
    assert "None of these files is an output of a program" in (DATA / "spec/README.md").read_text()


@pytest.mark.parametrize(
    ("name", "suite", "version", "benchmarks"),
    [
        ("made.mpi2007.medium", "MPI2007", "2.0.1", 13),
        ("made.hpc2021.tiny", "SPEChpc2021", "1.1.9", 9),
    ],
)
def test_a_valid_run(name, suite, version, benchmarks):
    parsed = spec.parse(MADE[name])
    assert parsed.sound, parsed.problems
    assert (parsed.program, parsed.version) == (suite, version)
    assert parsed.facts["iterations"] == 3
    assert len(parsed.rows) == 3 * benchmarks
    assert sum(row["selected"] for row in parsed.rows) == benchmarks
    assert {row["ranks"] for row in parsed.rows} == {64}


def test_an_invalid_run_is_read_with_its_reason():
    parsed = spec.parse(MADE["made.mpi2007.invalid"])
    assert parsed.complete
    assert has(parsed.problems, "SPEC's tools call the run invalid")
    assert has(parsed.problems, "Run not reportable")


test_what_is_wrong_with_the_numbers = problems(
    spec.parse,
    MPI,
    [
        ("valid,1", "valid,0", "SPEC's tools call the run invalid"),
        (FIRST, FIRST.replace(",S,", ",RE,"), "104.milc, iteration 1: base status RE"),
        (FIRST, FIRST.replace(",S,", ",,"), "104.milc, iteration 1: base status is missing"),
        (FIRST, FIRST.replace("9.876543", "nan"), "ratio nan: not a measurement"),
        (FIRST, FIRST.replace("9.876543", "4.938272"), "selected iteration is none of its own"),
        (SELECTED, SELECTED.replace("101.25", "102.25"), "selected iteration is none of its own"),
        ("9.950249", "12.950249", "104.milc: its times and ratios are not those of one reference"),
        ("64,100.500000", "32,100.500000", "its iterations had different numbers of ranks"),
        ("base2007,12,", "base2007,13,", "the metric is 13, the geometric mean of the ratios is"),
    ],
)


def test_the_selected_iteration_is_the_median():
    fast = "100.500000,9.950249"
    damaged = edited(MPI, SELECTED, SELECTED.replace("101.250000,9.876543", fast))
    assert has(
        spec.parse(damaged).problems, "the ratio 9.95025 was selected, the median is 9.87654"
    )
    # Of two iterations the slower one counts.
    two = "".join(line for line in MPI.splitlines(keepends=True) if "#3" not in line)
    assert spec.parse(two).sound
    assert spec.parse(two).facts["iterations"] == 2
    wrong = edited(two, SELECTED, SELECTED.replace("101.250000,9.876543", fast))
    assert has(spec.parse(wrong).problems, "the median is 9.87654")


test_a_part_that_is_missing_is_not_complete = incomplete(
    spec.parse,
    MPI,
    [
        ("SPECmpiM_base2007,", "SPECmpiM_peak2007,"),
        ("SPECmpiM_base2007,12,,12", "SPECmpiM_base2007,,,"),
        (SELECTED, "not a benchmark,"),
        ('"formatter v6364."', ""),
        ('"formatter v6364."', '"formatter v6364.'),
    ],
)

test_another_report_is_refused = refused(
    spec.parse,
    MPI,
    [
        ("valid,1\n", "", "does not say whether the run is valid"),
        ("Tested with SPEC MPI2007", "Tested with SPEC CPU2006", "only MPI2007 and SPEChpc 2021"),
        ("Tested with SPEC MPI2007", "Written by hand", "'Tested with SPEC ...', is not there"),
        ("Full Results Table", "Results", "0 times 'Full Results Table'"),
        ("Base # Ranks", "Base # Copies", "Full Results Table: 0 columns of ranks"),
        ("Base Status", "Base Ratio", "2 columns of ratio"),
        (FIRST, FIRST.replace("64", "many"), "'many' is not a whole number"),
        ("\nBenchmark,", "\nProgram,", "no line of headings"),
    ],
)


def test_only_these_reports_are_recognised():
    assert all(map(spec.recognise, MADE.values()))
    assert not spec.recognise(MPI.replace("valid,1", "invalid"))
    assert not spec.recognise("valid,1\n")
