"""MPI libraries: what Open MPI is asked for, and how the run shows which MPI it was."""

from dataclasses import replace

import pytest
from real_outputs import DATA

from assay.describe import detect
from assay.gpu import accelerator
from assay.gpu.accelerator import ACCELERATORS
from assay.parse import openmpi
from assay.parse.openmpi import OpenMpi
from assay.prove import mpi
from assay.prove.plan import Doubt, Machine

OPEN_MPI = mpi.OPEN_MPI


def said_by(name):
    return openmpi.parse_openmpi((DATA / "openmpi" / name).read_text())


def settings(version):
    return said_by(f"{version}/world.np2.txt").settings


def unasked(world, asked=(), machine=Machine()):  # noqa: B008
    # A value that the shell of the job script replaces is compared with nothing.
    return OPEN_MPI.unasked(world, dict.fromkeys(asked, "$ANY"), machine)


def test_settings_of_open_mpi_are_those_of_the_runs_that_are_kept_here():
    """The recorded real run lists the settings that it read from its environment."""
    said = settings("4.1.4")
    for name, value in {**OPEN_MPI.only_ucx, **OPEN_MPI.report}.items():
        setting = name[len("OMPI_MCA_") :]
        if setting != "coll":  # the recordings are older than this setting
            recorded = {"10": "component", "enviro,file,api": "enviro"}  # older runs
            assert said[setting] == recorded.get(value, value)


@pytest.mark.parametrize("version", ["4.1.4", "5.0.11"])
def test_what_is_asked_of_open_mpi_is_not_taken_for_somebody_elses(version):
    """Open MPI lists each setting under all its names. Version 5.0 has more names."""
    world = said_by(f"{version}/world.np2.txt")
    assert world.settings["pml"] == "ucx"
    here = "OMPI_MCA_btl_tcp_if_include"  # set during the recording
    asked = [*OPEN_MPI.report, *OPEN_MPI.only_ucx, here]
    assert unasked(world, asked) == []
    others = unasked(replace(world, settings={**world.settings, "btl": "tcp,self"}), asked)
    assert others == [
        "OMPI_MCA_btl=tcp,self was set outside of the test and chooses another transport: unset "
        "it, or put it into the stack's env_vars"
    ]
    assert type(others[0]) is str  # a fault
    first, *_ = unasked(world, [*OPEN_MPI.report, here])
    assert first.startswith("OMPI_MCA_pml=ucx was set outside of the test")


def test_a_switch_that_a_module_sets_is_known_in_the_words_of_open_mpi():
    """Of a module Assay sees ``1``, and Open MPI prints ``true``; of other settings as it is."""
    of_module = Machine(variables={"OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_btl": "^uct"})
    printed = {"mpi_yield_when_idle": "true", "btl": "^uct"}
    assert unasked(OpenMpi(settings=printed), machine=of_module) == []
    (fault,) = unasked(OpenMpi(settings={**printed, "btl": "self"}), machine=of_module)
    assert fault.startswith("OMPI_MCA_btl=self was set outside of the test")
    assert isinstance(unasked(OpenMpi(settings=printed))[0], Doubt)
    other = Machine(variables={**of_module.variables, "OMPI_MCA_mpi_yield_when_idle": "0"})
    assert len(unasked(OpenMpi(settings=printed), machine=other)) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hwloc_base_binding_policy", "none"),
        ("mpi_yield_when_idle", "true"),
        ("mpi_oversubscribe", "true"),
        ("mca_base_param_files", "/tmp/other.conf"),
        ("opal_common_ucx_tls", "any"),
        ("mpi_leave_pinned", "0"),
    ],
)
def test_any_setting_that_nobody_requested_is_named(name, value):
    """Only settings of the run-time system, and those that only change the output, are not."""
    (said,) = unasked(OpenMpi(settings={"ess": "pmi", "btl_base_verbose": "9", name: value}))
    assert type(said) is Doubt
    assert said.startswith(f"OMPI_MCA_{name}={value} was set outside of the test and may change")


def test_a_requested_framework_with_another_component_is_named():
    world = OpenMpi(settings={"btl": "tcp,self", "mpi_show_mca_params": "environment"})
    asked = {"OMPI_MCA_btl": "vader,self", "OMPI_MCA_mpi_show_mca_params": "enviro"}
    assert OPEN_MPI.unasked(world, asked, Machine()) == [
        "OMPI_MCA_btl was tcp,self where the program ran, vader,self was asked for"
    ]


def test_a_site_may_allow_more_ranks_than_cores():
    shared = {"mpi_oversubscribe": "true", "mpi_yield_when_idle": "true"}
    world = OpenMpi(settings=shared)
    assert len(unasked(world)) == 2
    assert unasked(world, ["OMPI_MCA_rmaps_base_oversubscribe"]) == []


def test_settings_of_a_file_of_the_user_are_named_with_the_file():
    """Recorded with pml and btl in ~/.openmpi/mca-params.conf."""
    world = said_by("4.1.4/params-file.np2.txt")
    assert world.pml == {"ob1"}
    assert unasked(world, OPEN_MPI.report) == [
        f"{name} by /home/user/.openmpi/mca-params.conf:{line}, which is no file of the machine, "
        f"and chooses another transport: remove it there, or put {variable} into the stack's "
        "env_vars"
        for name, line, variable in (
            ("btl is set to tcp,self", 2, "OMPI_MCA_btl"), ("pml is set to ob1", 1, "OMPI_MCA_pml")
        )
    ]  # fmt: skip
    other = OpenMpi(settings={"coll_x": "1"}, files={"coll_x": "/home/user/x.conf:1"})
    assert [type(said) for said in unasked(other)] == [Doubt]


@pytest.mark.parametrize("name", ["btl_tcp_if_include", "btl", "coll_hcoll_enable"])
def test_settings_of_a_file_of_the_machine_are_the_machine(name):
    """Debian forky: /etc/openmpi/openmpi-mca-params.conf:71 has btl_tcp_if_include = lo."""
    where = {name: "/etc/openmpi/openmpi-mca-params.conf:71"}
    assert unasked(OpenMpi(settings={name: "lo"}, files=where)) == []
    assert unasked(said_by("4.1.4/packaged.np2.txt"), OPEN_MPI.report) == []
    of_spack = {name: "/apps/openmpi/etc/openmpi-mca-params.conf:1"}
    world = OpenMpi(settings={name: "lo"}, files=of_spack)
    assert len(unasked(world)) == 1
    assert unasked(world, machine=Machine(("/apps/openmpi/etc",))) == []


def test_a_file_that_overrules_what_the_case_asks_for_is_a_fault():
    """openmpi-mca-params-override.conf counts more than the environment."""
    where = {"btl": "/etc/openmpi/openmpi-mca-params-override.conf:1"}
    world = OpenMpi(settings={"btl": "tcp"}, files=where)
    assert OPEN_MPI.unasked(world, {"OMPI_MCA_btl": "self,vader"}, Machine()) == [
        "OMPI_MCA_btl was tcp where the program ran, self,vader was asked for: remove it from "
        "/etc/openmpi/openmpi-mca-params-override.conf:1"
    ]


def test_mpirun_of_debian_13_names_the_directory_of_its_components():
    for name in ("mca_base_component_path", "mca_component_path"):
        packaged = OpenMpi(settings={name: "/usr/lib/x86_64-linux-gnu/pmix2/lib/pmix"})
        assert unasked(packaged) == []
        for other in ("/tmp/pmix", "/usr/lib/x86_64-linux-gnu/pmix2/lib/pmix:/tmp", "/usr/local"):
            (problem,) = unasked(OpenMpi(settings={name: other}))
            assert problem.startswith(f"OMPI_MCA_{name}={other} was set outside of the test")


def test_a_machine_without_an_adapter_expects_pml_ob1():
    assert detect.pml({}) == {"pml": "ob1"}
    assert detect.pml({"mlx5_0:1": {}}) == {}


def test_variables_are_passed_to_other_nodes_by_the_launcher_that_needs_it():
    assert OPEN_MPI.passing_on("mpirun", ["UCX_TLS"]) == ["-x", "UCX_TLS"]
    assert OPEN_MPI.passing_on("srun", ["UCX_TLS"]) == []


def test_a_stack_has_open_mpi_unless_it_states_another():
    assert mpi.of_stack({}) is OPEN_MPI
    assert mpi.of_stack({"mpi": "openmpi"}) is OPEN_MPI
    other = mpi.of_stack({"mpi": "cray-mpich"})
    assert (other.word, other.reports) == ("cray-mpich", False)


HYDRA = "HYDRA build details:\n    Version:                                 4.0.2\n"
INTEL = "Intel(R) MPI Library for Linux* OS, Version 2021.11 Build 20231005\n"


@pytest.mark.parametrize(
    ("libraries", "launcher", "word"),
    [
        (["/usr/lib/libmpi.so.40", "/usr/lib/libopen-pal.so.40"], HYDRA, "openmpi"),
        (["/apps/ompi/lib/libopen-pal.so.80"], "", "openmpi"),
        (["/apps/mpich/lib/libmpi.so.12"], "", "/apps/mpich/lib/libmpi.so.12"),
        (["/lib/libmpich.so.12", "/lib/libmpichfort.so.12"], "", "/lib/libmpich.so.12"),
        (["/opt/cray/lib64/libmpi_gnu_123.so.12"], "", "/opt/cray/lib64/libmpi_gnu_123.so.12"),
        (["/opt/ibm/lib/libmpi_ibm.so.3", "/opt/ibm/lib/libopen-pal.so.3"], "", "spectrum-mpi"),
        (["/opt/hpe/lib/libmpi.so", "/opt/hpe/lib/libxmpi.so"], "", "/opt/hpe/lib/libmpi.so"),
        (["/usr/lib/libucp.so.0", "/usr/lib/libuct.so.0"], HYDRA, "mpich"),
        ([], INTEL, "intel-mpi"),
        ([], "mpirun (Open MPI) 5.0.8\n", None),
        ([], "", None),
    ],
)
def test_the_mpi_that_ran_is_that_of_its_library_or_of_its_launcher(libraries, launcher, word):
    seen = mpi.of_run(libraries, launcher)
    assert (seen and seen.word) == word
    assert seen is None or seen.reports is (word == "openmpi")


def test_a_stack_without_a_version_is_not_taken_for_open_mpi_0():
    amd, nvidia = ACCELERATORS["rocm"], ACCELERATORS["cuda"]
    assert accelerator.cannot_reduce(None, nvidia) == accelerator.cannot_reduce("6.0.0", amd) == ""
    assert accelerator.cannot_reduce("5.0.8", amd).startswith("Open MPI 5.0.8 cannot reduce")
    assert accelerator.cannot_reduce(None, amd).startswith(
        "this stack does not say which Open MPI it has"
    )
