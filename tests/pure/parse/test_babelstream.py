"""BabelStream: a real output, its other forms, and damaged ones.

`6.0-rc.omp.txt` is `omp-stream -s 33554432 -n 10`, built with gcc 12.2.0 and two threads, recorded
on 2026-11-26 on a busy virtual machine with 2 cores: use the format, never the numbers. The other
forms are made from it as src/main.cpp of their version prints them.
"""

import re

import pytest
from real_outputs import edited, incomplete, problems, refused, texts

from assay.parse import babelstream

TEXT = texts("babelstream")["6.0-rc.omp"]
ROWS = re.findall(r"(?m)^(\w+) +(\d\S+) +(\S+) +(\S+) +(\S+) *$", TEXT)
COPY = TEXT[TEXT.index("Copy ") :].split("\n")[0]

#: How other versions, other implementations and other options print the same numbers.
FORMS = {
    "cuda": TEXT.replace("OpenMP", "CUDA").replace("Function ", "CUDA Driver: 12040\nFunction "),
    "hip": TEXT.replace("OpenMP", "HIP").replace("Function ", "Using HIP device gfx90a\nFunction "),
    "5.0": TEXT.replace("Function ", "Init: 0.01 s (=1726.2 MBytes/sec)\nFunction "),
}


@pytest.mark.parametrize("form", FORMS)
def test_other_forms_have_the_same_rows(form):
    parsed = babelstream.parse_babelstream(FORMS[form])

    assert parsed.sound, parsed.problems
    assert parsed.rows == babelstream.parse_babelstream(TEXT).rows
    assert parsed.facts["repetitions"] == 10


@pytest.mark.parametrize(
    ("unit", "factor"), [("GB", 1e3), ("GiB", 1.024**3 * 1e3), ("MiB", 1.024**2)]
)
def test_all_units_become_one(unit, factor):
    text = re.sub(r"(?m)^Array.*\n|^Total.*\n", "", TEXT).replace("MB/s", f"{unit}/s")

    parsed = babelstream.parse_babelstream(text)

    assert parsed.at("bandwidth", kernel="Copy") == pytest.approx(float(ROWS[0][1]) * factor)


def test_one_kernel_alone_is_whole_where_the_program_says_so():
    only = TEXT.replace(" Classic kernels", "Running Triad")
    only = "".join(line for line in only.splitlines(True) if not re.match("Copy|Mul|Add|Dot", line))

    assert babelstream.parse_babelstream(only).sound
    assert not babelstream.parse_babelstream(
        edited(only, "Running Triad", " Classic kernels")
    ).complete


test_a_bad_line_is_a_problem = problems(
    babelstream.parse_babelstream,
    TEXT,
    [
        (
            COPY,
            COPY.replace(ROWS[0][1], f"1{ROWS[0][1]}"),
            "contradict each other: bandwidth * time",
        ),
        (COPY, COPY.replace(ROWS[0][3], "0.00001"), "contradict each other: time_min <= time_avg"),
        (COPY, COPY.replace(ROWS[0][1], "nan"), "bandwidth is nan"),
        (COPY, COPY.replace(ROWS[0][1], "0.000"), "bandwidth is 0.000, which is not a measured"),
        (COPY, f"{COPY}\nout of memory", "not a row of babelstream: 'out of memory'"),
        (
            "Running",
            "FAILED validation of a[3]: 1 (is) != 2 (should)\nRunning",
            "FAILED validation",
        ),
        ("Running", "Validation failed on sum. Error 1e-5\nRunning", "Validation failed on sum"),
        (TEXT, TEXT + TEXT, "a second run"),
    ],
)

test_an_output_that_was_cut_is_not_complete = incomplete(
    babelstream.parse_babelstream,
    TEXT,
    [(TEXT[TEXT.index("Dot ") :], ""), (TEXT[TEXT.index("Mul ") :], "")],
)

test_what_has_no_table_is_refused_with_its_reason = refused(
    babelstream.parse_babelstream,
    TEXT,
    [
        ("Function ", "Functions ", "no table of BabelStream"),
        (TEXT, "function,num_times,n_elements,sizeof\n", "no table of BabelStream"),
        (
            TEXT[TEXT.index("Function") :],
            "FAILED validation of b[0]: x",
            "the program refused.*b.0",
        ),
        (COPY, "Runtime (seconds): 0.12400", "--triad-only states one time"),
    ],
)
