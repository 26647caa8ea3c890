"""A stack with an MPI whose reports the suite cannot read: its cases are refused."""

import pytest
from bench import HPL

pytestmark = pytest.mark.slow


def test_a_case_on_another_mpi_is_refused_before_it_runs(bench):
    bench.partition(launcher="local")
    bench.replayed("xhpl", ["hpl"], HPL, mpi="cray-mpich")
    outcome = bench.run("-n", "^Hpl$", "--mode", "smoke", path="reframe/compute/hpl.py").case("Hpl")
    assert outcome.result == "fail"
    assert (
        "the stack replayed has the MPI cray-mpich (extra `mpi`), whose reports the suite cannot "
        "read: use a stack with openmpi" in outcome.reason
    )
    assert not list(bench.results.glob("stage/**/rfm_job.sh"))
