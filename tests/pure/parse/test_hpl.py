"""HPL: rows, residuals, the counts of the summary, and outputs that must not pass."""

import math
from functools import partial

import pytest
import real_outputs
from real_outputs import has, incomplete, problems, refused, texts

from assay.parse import ParseError, hpl
from assay.workloads import hpl_input

TEXTS = texts("hpl")
edited = partial(real_outputs.edited, TEXTS["progress_and_timing.np2"])


def test_fixed_and_scientific_residuals_are_the_same_number():
    fixed = hpl.parse_hpl(edited("   3.47532332e-03 ......", "        0.0034753 ......"))

    assert fixed.sound
    assert fixed.rows[0]["residual"] == pytest.approx(3.47532332e-03, rel=1e-4)


def test_columns_are_read_by_header():
    text = TEXTS["plain.np2"]
    header = "T/V                N    NB     P     Q               Time                 Gflops"
    row = "WR11C2R4         300    32     1     2               0.00             6.5783e+00"
    assert header in text
    assert row in text
    turned = text.replace(header, "T/V N NB P Q Gflops Time").replace(
        row, "WR11C2R4 300 32 1 2 6.5783e+00 0.00"
    )

    assert hpl.parse_hpl(turned).rows == hpl.parse_hpl(text).rows


test_what_the_checks_of_hpl_say_is_heard = problems(
    hpl.parse_hpl,
    TEXTS["progress_and_timing.np2"],
    [
        ("e-03 ...... PASSED", "e-03 ...... FAILED", "FAILED"),
        ("3.47532332e-03 ...... PASSED", "3.47532332e+03 ...... PASSED", "3.47532332e+03"),
        ("3.47532332e-03 ...... PASSED", "nan ...... PASSED", "nan"),
        (" 0 tests completed and failed", "10 tests completed and failed", "10 tests"),
        (" 0 tests skipped because", "10 tests skipped because", "10 tests"),
        (" 2 tests completed and passed", "12 tests completed and passed", "2 residuals PASSED"),
        ("5.6931e+00", "nan", "not a measurement"),
        ("5.6931e+00", "0.0000e+00", "not a measurement"),
        (" 0.12  ", "  nan  ", "not a measurement"),
        ("Finished      2 tests", "Finished     12 tests", "the header asks for 2 problems"),
        ("less than                16.0", "less than              1600.0", "1600.0"),
    ],
)


test_less_than_the_header_asks_for_is_not_complete = incomplete(
    hpl.parse_hpl,
    TEXTS["progress_and_timing.np2"],
    [
        ("N      :    1000     2000 ", "N      :    1000     2000     3000 "),
        ("NB     :     128 ", "NB     :     128      256 "),
        ("PFACT  :   Right ", "PFACT  :   Right    Crout "),
        ("Q      :       2 \n", ""),
        ("WR11C2R4        1000", "# WR11C2R4        1000"),
        ("||Ax-b||_oo/(eps", "# ||Ax-b||_oo/(eps"),
        ("Finished      2 tests", "Finished      1 tests"),
        (" 2 tests completed and passed", " 1 tests completed and passed"),
        ("              0 tests completed and failed residual checks,\n", ""),
        ("End of Tests.\n", ""),
    ],
)


def test_killed_between_two_problems():
    text = TEXTS["progress_and_timing.np2"]
    cut = text[: text.index("Column=000001024")]

    parsed = hpl.parse_hpl(cut)

    assert not parsed.complete
    assert parsed.column("n") == [1000]


def test_a_result_without_its_residual_has_not_passed():
    text = TEXTS["plain.np2"]
    cut = text[: text.index("||Ax-b||_oo/(eps")]

    row = hpl.parse_hpl(cut).rows[0]

    assert row["passed"] is False
    assert math.isnan(row["residual"])


KNOWN = "HPLinpack 2.3  --"
UNKNOWN = ["HPLinpack 2.4  --", "HPLinpack 12.3  --", "HPL-NG 2.3  --"]

test_an_unknown_version_name_or_column_is_named = refused(
    hpl.parse_hpl,
    TEXTS["progress_and_timing.np2"],
    [
        *((KNOWN, banner, f"^line 2: .*'{banner} ") for banner in UNKNOWN),
        ("Time                 Gflops", "Time  Gflops  GPUs", "unknown columns .*'T/V"),
    ],
)


def test_an_unknown_version_or_name_is_recognised():
    assert all(hpl.recognise(edited(KNOWN, banner)) for banner in UNKNOWN)


# --- HPL-NVIDIA ---------------------------------------------------------------------------------

BANNER = "HPL-NVIDIA {}  -- NVIDIA accelerated HPL benchmark -- NVIDIA\n"
RULE = "=" * 80 + "\n"


def of_nvidia(version="24.3.0", per_gpu=True):
    """A real output of HPL with the additions of published outputs of HPL-NVIDIA."""
    text = TEXTS["plain.np2"]
    text = text.replace("HPLinpack 2.3", f"{BANNER.format(version)}{RULE}HPLinpack 2.1", 1)
    text = text.replace("16.0\n", "16.0\n\n!!!! WARNING: RANK: 1 \tGPU_FP \t 935\n", 1)
    if per_gpu:
        heading = "               Time                 Gflops"
        text = text.replace(heading, "   Time   Gflops (   per GPU)")
        text = text.replace(" 6.5783e+00", " 6.578e+00 ( 3.289e+00)")
    return text


@pytest.mark.parametrize(("version", "per_gpu"), [("1.0.0", False), ("24.3.0", True)])
def test_the_rate_of_all_gpus_is_read_and_not_that_of_one(version, per_gpu):
    parsed = hpl.parse_hpl(of_nvidia(version, per_gpu))

    assert parsed.sound
    assert (parsed.program, parsed.version) == ("xhpl (HPL-NVIDIA)", version)
    (row,) = parsed.rows
    assert row["performance"] == pytest.approx(6.578, rel=1e-3)
    assert (row["n"], row["passed"]) == (300, True)
    assert parsed.facts["gpu_warnings"] == ["RANK: 1 GPU_FP 935"]


def test_gpu_hpl_that_failed_is_no_result():
    text = of_nvidia()
    begun = text[: text.index("T/V                N")]
    parsed = hpl.parse_hpl(begun + "HPL ERROR: CUBLAS initialization failed\n")
    assert not parsed.complete
    assert has(parsed.problems, "CUBLAS initialization failed")


def test_a_rate_per_gpu_without_the_banner_of_nvidia_is_refused():
    text = of_nvidia().replace(BANNER.format("24.3.0") + RULE, "")
    with pytest.raises(ParseError, match="unknown columns in the table of HPL"):
        hpl.parse_hpl(text)


@pytest.mark.parametrize("other", ["WC11C2R4", "WR01C2R4", "WR10C2R4", "WR11L2R4", "WR11C2C4"])
def test_rows_show_how_hpl_factored(other):
    text = TEXTS["plain.np2"]
    assert hpl_input.otherwise(hpl.parse_hpl(text).rows) == []
    rows = hpl.parse_hpl(text.replace("WR11C2R4", other)).rows
    assert hpl_input.otherwise(rows) == [
        f"HPL ran {other} (column T/V), its input file asks for WR11C2R4"
    ]
