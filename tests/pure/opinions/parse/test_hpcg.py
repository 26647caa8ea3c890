"""HPCG: a real report of 3.1, the same as YAML, as 3.0 wrote it, and damaged forms."""

import pytest
from real_outputs import incomplete, problems, refused, texts

from assay.opinions.parse import hpcg

HEALTHY = texts("hpcg")["healthy"]


def as_yaml(text):
    """The report in the form of HPCG 3.0."""
    lines = []
    for line in text.splitlines():
        *sections, last = line.split("::")
        key, _, value = last.rpartition("=") if "=" in last else (last, "", None)
        if key == "version":
            lines.append("3.0")
        else:
            said = key if value is None else f"{key}: {value}"
            lines.append("  " * len(sections) + said)
    return "\n".join(lines).replace("Final Summary:", "_____ Final Summary _____:") + "\n"


def test_the_parts_of_the_work():
    parsed = hpcg.parse_hpcg(HEALTHY)

    assert parsed.sound
    assert parsed.column("part") == ["DDOT", "WAXPBY", "SpMV", "MG", "raw", "converged"]
    assert parsed.quantity("rate", part="MG").unit == "GFLOP/s"
    assert (parsed.facts["ranks"], parsed.facts["threads"]) == (2, 1)
    assert parsed.facts["size"] == [32, 16, 16]
    assert 0 < parsed.facts["rating"] < parsed.at("rate", part="raw")


@pytest.mark.parametrize("first", ["HPCG-Benchmark\n3.0\n", "HPCG-Benchmark version: 3.0\n"])
def test_the_report_as_yaml_says_the_same(first):
    text = as_yaml(HEALTHY).replace("HPCG-Benchmark\n3.0\n", first)
    parsed, wanted = hpcg.parse_hpcg(text), hpcg.parse_hpcg(HEALTHY)

    assert (parsed.version, parsed.sound) == ("3.0", True)
    assert (parsed.rows, parsed.facts) == (wanted.rows, wanted.facts)


TESTS = ["Spectral Convergence Tests", "Iteration Count Information", "Reproducibility Information"]

test_a_damage_is_a_problem = problems(
    hpcg.parse_hpcg,
    HEALTHY,
    [
        *(
            (f"{test}::Result=PASSED", f"{test}::Result=FAILED", f"{test}: FAILED")
            for test in TESTS
        ),
        ("epsilon::Result=PASSED", "epsilon::Result=FAILED", "Departure from Symmetry: FAILED"),
        ("epsilon::Result=", "epsilon::Said=", "Departure from Symmetry: no result"),
        ("result is VALID with a GFLOP/s rating of=", "result is=INVALID.", "not call the result"),
        ("rating of=0", "rating of=1", "is not the rate with all overheads"),
        ("GFLOP/s Summary::Raw MG=0", "GFLOP/s Summary::Raw MG=1", "MG: "),
        ("Benchmark Time Summary::Total=", "Benchmark Time Summary::Total=1", "raw: "),
        ("Benchmark Time Summary::SpMV=", "Benchmark Time Summary::Other=", "SpMV: "),
    ],
)
test_an_end_that_is_missing = incomplete(
    hpcg.parse_hpcg, HEALTHY, [("Summary::Official", "Summary::")]
)
test_what_is_no_report_is_refused = refused(
    hpcg.parse_hpcg,
    HEALTHY,
    [
        ("HPCG-Benchmark\n", HEALTHY + "HPCG-Benchmark\n", "2 runs in one text"),
        ("version=3.1\n", "", "no version of HPCG"),
        ("Summary::Raw DDOT=", "Summary::Raw DDOT=x", "is not a number"),
    ],
)
