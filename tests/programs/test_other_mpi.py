"""A stack with an MPI whose reports the suite cannot read: its cases are refused."""

import pytest
from bench import HPL

pytestmark = pytest.mark.slow


def test_a_case_on_another_mpi_is_refused_before_it_runs(bench):
    bench.partition(launcher="local")
    bench.replays("xhpl", ["hpl"], {"cray": HPL}, mpi="cray-mpich")
    run = bench.run("-n", "^Hpl$", "--mode", "smoke", path="reframe/compute/hpl.py")
    said = (
        "the stack cray has the MPI cray-mpich (extra `mpi`), whose reports the suite cannot read"
    )
    run.says("Hpl", f"{said}: use a stack with openmpi")
    assert not list(bench.results.glob("stage/**/rfm_job.sh"))
