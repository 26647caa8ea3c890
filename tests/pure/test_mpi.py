"""MPI libraries: what Open MPI is asked for, and that any other MPI is refused in one line."""

import pytest
from real_outputs import DATA

from assay.evidence import mpi
from assay.outputs import openmpi

OPEN_MPI = mpi.LIBRARIES["openmpi"]


def settings(version):
    return openmpi.parse((DATA / "openmpi" / version / "world.np2.txt").read_text()).settings


def test_settings_of_open_mpi_are_those_of_the_runs_that_are_kept_here():
    """The recorded real run lists the settings that it read from its environment."""
    said = settings("4.1.4")
    for name, value in {**OPEN_MPI.only_ucx, **OPEN_MPI.report}.items():
        setting = name[len("OMPI_MCA_") :]
        if setting != "coll":  # the recordings are older than this setting
            assert said[setting] == {"10": "component"}.get(value, value)


@pytest.mark.parametrize("version", ["4.1.4", "5.0.11"])
def test_what_is_asked_of_open_mpi_is_not_taken_for_somebody_elses(version):
    """Open MPI lists each setting under all its names. Version 5.0 has more names."""
    said = settings(version)
    assert said["pml"] == "ucx"
    here = "OMPI_MCA_btl_tcp_if_include"  # set during the recording
    asked = [*OPEN_MPI.report, *OPEN_MPI.only_ucx, here]
    assert OPEN_MPI.unasked(said, asked) == {}
    others = OPEN_MPI.unasked({**said, "btl": "tcp,self"}, asked)
    assert others == {"OMPI_MCA_btl": "tcp,self"}
    assert OPEN_MPI.unasked(said, [*OPEN_MPI.report, here]) == {"OMPI_MCA_pml": "ucx"}


def test_variables_are_passed_to_other_nodes_by_the_launcher_that_needs_it():
    assert OPEN_MPI.passing_on("mpirun", ["UCX_TLS"]) == ["-x", "UCX_TLS"]
    assert OPEN_MPI.passing_on("srun", ["UCX_TLS"]) == []


def test_a_stack_has_open_mpi_and_another_mpi_is_refused_with_what_to_do():
    assert mpi.of_stack("spack", {}) is OPEN_MPI
    assert mpi.of_stack("spack", {"mpi": "openmpi"}) is OPEN_MPI
    with pytest.raises(ValueError, match="the stack cray has the MPI cray-mpich") as refused:
        mpi.of_stack("cray", {"mpi": "cray-mpich"})
    (said,) = str(refused.value).splitlines()
    assert "use a stack with openmpi, or add cray-mpich to src/assay/evidence/mpi.py" in said
