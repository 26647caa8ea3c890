"""mpiGraph: a real output, and damaged forms of it.

`1.5.np3.txt` is `mpirun -np 3 mpiGraph 16384 10 10` of commit 5f6cbd9 and Open MPI 4.1.4, recorded
on 2026-11-26 on a busy virtual machine with 2 cores: use the format, never the numbers.
"""

import pytest
from real_outputs import incomplete, problems, refused, texts

from assay.opinions.parse import mpigraph

TEXT = texts("mpigraph")["1.5.np3"]
LAST = TEXT.split("\n")[-3]

test_a_bad_line_is_a_problem = problems(
    mpigraph.parse_mpigraph,
    TEXT,
    [
        ("3174.381", "3074.381", "Send max is 3174.380666, the table gives 3074.38"),
        ("Recv avg\t1669", "Recv avg\t1769", "Recv avg is 1769.423813, the table gives 1669.42"),
        ("Send max\t", "Send most\t", "'nothing' is not a number"),
        ("1093.691", "0.000", "bandwidth is 0.000, which is not a measured value"),
        ("1093.691", "nan", "bandwidth is nan"),
        ("vm:1 to\t1593.458\t0.000", "vm:1 to\t1593.458\t1.000", "that of the rank itself 0"),
        ("vm:1 to", "vm:2 to", "a row of 'vm:2', not of vm:1"),
        (f"{LAST}\n", "", "10 pairs of 3 ranks were measured"),
        ("END mpiGraph\n", "", "0 runs came to their end, not 1"),
        (TEXT, TEXT + TEXT, "2 runs came to their end, not 1"),
        ("Gathering", "vm: a fabric error\nGathering", "not a line of mpiGraph: 'vm: a fabric"),
    ],
)

test_an_output_without_an_end_or_a_row_is_not_complete = incomplete(
    mpigraph.parse_mpigraph, TEXT, [("END mpiGraph", ""), (LAST, ""), ("Procs\t3", "Procs\t4")]
)

test_another_output_is_refused = refused(
    mpigraph.parse_mpigraph, TEXT, [("START mpiGraph", "START", "no first line of mpiGraph")]
)


def test_the_rates_are_of_both_ways_in_units_of_a_million():
    parsed = mpigraph.parse_mpigraph(TEXT)

    assert parsed.facts == {"message": 16384, "repetitions": 10, "window": 10, "ranks": 3}
    assert parsed.at("bandwidth", way="send", rank=2, peer=1) == pytest.approx(3174.381 * 1.048576)
    assert parsed.at("host", way="recv", rank=1, peer=0) == "vm"
    assert len(parsed.rows) == 12


def test_another_version_and_more_settings_are_read():
    text = TEXT.replace("v1.5", "v1.6").replace("Procs", "Warmup\t5\nProcs")

    parsed = mpigraph.parse_mpigraph(text)

    assert parsed.sound
    assert parsed.facts["read_as"] == "1.5"
