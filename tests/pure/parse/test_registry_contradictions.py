"""Real outputs with one number changed: the other numbers of the same output contradict it."""

from pathlib import Path

import pytest

from assay.parse import registry

DATA = Path(__file__).parents[2] / "data"

HPL, HPCC = "replay/hpl/stdout", "hpcc/np2.txt"
BTIO = "npb/bt.S.x.mpi_io_full.np4.txt"

CONTRADICT = "order, time and performance contradict each other"

CHANGES = [
    (HPL, "3.3957e+01", "4.7540e+01", CONTRADICT),
    (HPL, "   1.11 ", " 111.00 ", CONTRADICT),
    (HPL, "   1.11 ", "   0.00 ", CONTRADICT),
    (HPL, "WR11C2R4        3840", "WR11C2R4        7680", CONTRADICT),
    (HPCC, "HPL_Tflops=0.032617", "HPL_Tflops=0.132617", "HPL_Tflops=0.132617, but HPL's own"),
    (HPCC, "HPL_time=0.0204852", "HPL_time=0.204852", "HPL_time=0.204852, but HPL's own row"),
    (HPCC, "HPL_N=1000", "HPL_N=1", "HPL_N=1, but HPL's own row has n 1000"),
    (HPCC, "StarDGEMM_Gflops=30.3273", "StarDGEMM_Gflops=90.3273", "but its section has 30.3273"),
    (HPCC, "SingleSTREAM_Copy=117.868", "SingleSTREAM_Copy=217.868", "section has 117.868"),
    (HPCC, "StarRandomAccess_GUPs=0.958218", "StarRandomAccess_GUPs=1.95", "section has 0.958218"),
    (HPCC, "SingleFFT_Gflops=12.4546", "SingleFFT_Gflops=2.4546", "but its section has 12.4546"),
    (HPCC, "STREAM_VectorSize=166666", "STREAM_VectorSize=100", "=100 is too small for HPL_N=1000"),
    (
        HPCC,
        "PTRANS_GBs=3.21224",
        "PTRANS_GBs=321.224",
        "PTRANS_GBs=321.224, but its section has 3.2",
    ),
    (HPCC, "MPIRandomAccess_GUPs=0.003811", "MPIRandomAccess_GUPs=0.3811", "section has 0.003811"),
    (HPCC, "MPIRandomAccess_time=0.550289", "MPIRandomAccess_time=0.0055", "updates took 0.0055 s"),
    (HPCC, "MPIRandomAccess_Errors=0", "MPIRandomAccess_Errors=99", "=99, but its section has 0"),
    (HPCC, "MPIFFT_Gflops=7.72656", "MPIFFT_Gflops=772.656", "but its section has 7.727"),
    (HPCC, "MPIFFT_time1=0.000149093", "MPIFFT_time1=0.0149093", "but its parts took 0.0154"),
    (HPCC, "MPIFFT_maxErr=1.24754e-15", "MPIFFT_maxErr=1", "an FFT is wrong by 1, at most 1e-08"),
    (HPCC, "max(|x-x0|): 1.248e-15", "max(|x-x0|): 5.0e-01", "an FFT is wrong by 5.0e-01"),
    (
        HPCC,
        "RandomlyOrderedRingBandwidth_GBytes=14.0555",
        "RandomlyOrderedRingBandwidth_GBytes=1405.55",
        "but its section has 14.0555",
    ),
    (
        HPCC,
        "RandomlyOrderedRingLatency_usec=0.242794",
        "RandomlyOrderedRingLatency_usec=0.0242794",
        "but its section has 0.243",
    ),
    (HPCC, "AvgPingPongBandwidth_GBytes=12.5462", "AvgPingPongBandwidth_GBytes=125.4", "not in or"),
    (HPCC, "HPL_nprow=1", "HPL_nprow=2", "HPL_nprow=2, but HPL's own row has p 1"),
    (HPCC, "PTRANS_n=500", "PTRANS_n=2", "PTRANS_n=2 is too small for HPL_N=1000: 500 fits"),
    (HPCC, "MPIRandomAccess_N=524288", "MPIRandomAccess_N=16", "=16 is too small for HPL_N=1000"),
    (HPCC, "DGEMM_N=407", "DGEMM_N=10", "DGEMM_N=10 is too small for HPL_N=1000: 408 fits"),
    (HPCC, "PTRANS_time=0.00045593", "PTRANS_time=0.045593", "a matrix of order 500 took 0.045593"),
    (HPCC, "PTRANS_residual=0", "PTRANS_residual=5", "PTRANS_residual=5, at most 5e-11"),
    (HPCC, "MPIFFT_Procs=2", "MPIFFT_Procs=1", "MPIFFT_Procs=1, but 2 ranks ran"),
    (HPCC, "MPIFFT_Procs=2", "MPIFFT_Procs=4", "MPIFFT_Procs=4, but 2 ranks ran"),
    (HPCC, "sizeof_double=8", "sizeof_double=4", "sizeof_double=4, but a C compiler has 8"),
    (BTIO, "  122.47", "122470.00", "io_time 0.01, io_rate 122470, io_written 0.83 contradict"),
    (BTIO, "  10.81", " 387.00", "io_time 0.01, io_share 387, time 0.06 contradict"),
    (BTIO, "seconds   :           0.01", "seconds   :           0.23", "io_time <= 1.05 * time"),
    (
        BTIO,
        "(MB) :           0.83",
        "(MB) :           8.30",
        "io_written 8.3, planned 0.82944 contradict",
    ),
    (
        BTIO,
        "Time in seconds =                     0.06",
        "Time in seconds = 6.00",
        "time 6, mops_total 3644.71, counted ",
    ),
    (BTIO, "Iterations      =                       60", "Iterations = 1", "class S has 60"),
    (BTIO, "911.18", "191.18", "mops_total 3644.71, processes 4, mops_per_process 191.18 "),
]


@pytest.mark.parametrize(("name", "old", "new", "said"), CHANGES)
def test_a_changed_number_is_a_problem(name, old, new, said):
    text = (DATA / name).read_text()
    assert registry.parse_output(text).sound
    assert text.count(old) == 1
    problems = registry.parse_output(text.replace(old, new)).problems
    assert any(said in problem for problem in problems), problems


def test_a_residual_of_zero_is_not_believed():
    text = (DATA / HPL).read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("||Ax-b||")]
    residual = line.split("=")[1].split()[0]
    problems = registry.parse_output(text.replace(residual, "0.00000000e+00")).problems
    assert any("PASSED with a residual of 0" in problem for problem in problems)


@pytest.mark.parametrize("rate", [0.51, 1.004, 2.006, 3.3, 47.3, 1234.5])
def test_a_healthy_run_on_storage_of_any_speed_agrees(rate):
    """Time and rate are printed with two decimals, so a slow rate is known to few digits only."""
    text = (DATA / BTIO).read_text()
    io_time, time = 0.82944 / rate, 0.82944 / rate + 0.05
    operations = 3644.71 * 0.0626
    for old, new in (
        ("seconds   :           0.01", f"seconds   : {io_time:.2f}"),
        ("percentage   :          10.81", f"percentage   : {100 * io_time / time:.2f}"),
        ("(MB/sec) :         122.47", f"(MB/sec) : {rate:.2f}"),
        ("Time in seconds =                     0.06", f"Time in seconds = {time:.2f}"),
        ("total     =                  3644.71", f"total     = {operations / time:.2f}"),
        ("process   =                   911.18", f"process   = {operations / time / 4:.2f}"),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    assert registry.parse_output(text).problems == ()


def test_rates_and_times_of_a_rank_that_no_machine_has():
    text = (DATA / HPCC).read_text()
    for section, summary, said in (
        ("117.868", "SingleSTREAM_Copy=117.868", "no memory carries more than 10000"),
        ("14055", "RandomlyOrderedRingBandwidth_GBytes=14.0555", "no memory carries more than 1"),
    ):
        changed = text.replace(summary, summary + "e3").replace(section, section + "000")
        changed = changed.replace(f"{summary}000e3", f"{summary}e3")
        problems = registry.parse_output(changed).problems
        assert [problem for problem in problems if said in problem], problems
    changed = text.replace(
        "RandomlyOrderedRingLatency_usec=0.2", "RandomlyOrderedRingLatency_usec=0.002"
    )
    problems = registry.parse_output(changed).problems
    assert any("no message takes less than 0.005" in problem for problem in problems)


def test_a_rate_of_ptrans_that_was_changed_in_both_places_contradicts_its_time():
    text = (DATA / HPCC).read_text()
    changed = text.replace("PTRANS_GBs=3.21224", "PTRANS_GBs=321.224").replace("  3.212", "321.224")
    problems = registry.parse_output(changed).problems
    said = "PTRANS_GBs=321.224, but a matrix of order 500 took 0.00045593 s"
    assert [problem.split(": ")[1] for problem in problems] == [said]


def test_a_long_run_of_hpcc_and_a_large_memory_agree():
    text = (DATA / HPCC).read_text()
    (row,) = [line for line in text.splitlines() if line.startswith("WR11C2R4        1000")]
    n, seconds = 160000, 12345.678
    rate = (2 / 3 * n**3 + 3 / 2 * n**2) / seconds / 1e9
    changed = f"WR11C2R4 {n} 80 1 2 {seconds:.2f} {rate:.3e}"
    for old, new in (
        (row, changed),
        ("HPL_N=1000", f"HPL_N={n}"),
        ("HPL_time=0.0204852", f"HPL_time={seconds:g}"),
        ("HPL_Tflops=0.032617", f"HPL_Tflops={rate / 1000:g}"),
        ("STREAM_VectorSize=166666", f"STREAM_VectorSize={2**30}"),
        ("DGEMM_N=407", "DGEMM_N=65319"),
        ("PTRANS_n=500", f"PTRANS_n={n // 2}"),
        ("\nRandomAccess_N=262144", f"\nRandomAccess_N={2**33}"),
        ("MPIRandomAccess_N=524288", f"MPIRandomAccess_N={2**34}"),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    assert registry.parse_output(text).problems == ()


PERFTEST = "ucx-perftest/ucx_perftest.1.13.1.tag_lat.txt"
ROW = "0.471     0.857     0.857        8.90       8.90     1166694     1166694"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("0.471 ", "0.000 ", "a median of 0 us, which no message between processes takes"),
        ("0.471 ", "9.471 ", "p50 9.471, latency 0.857 contradict each other: p50 <= 10 * lat"),
        ("1166694", "9166694", "latency 0.857 us and 9.16669e+06 messages/s contradict each other"),
    ],
)
def test_a_row_of_ucx_perftest_contradicts_itself(old, new, said):
    text = (DATA / PERFTEST).read_text()
    assert text.count(ROW) == 1
    problems = registry.parse_output(text.replace(ROW, ROW.replace(old, new))).problems
    assert any(said in problem for problem in problems), problems
