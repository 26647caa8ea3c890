"""What steered the ranks of a launch: variables, files, libraries and processors."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.node.recorded import HIDDEN
from assay.parse import ucx_log
from assay.parse.ucx_log import UcxLog
from assay.prove import plan, steering
from assay.prove.plan import Doubt, Machine, Note

#: The files of a real rank and of its job, on a machine with two cores.
RANK = """\
rank vm 8125 c0ffee
Cpus_allowed_list 0
Mems_allowed_list 0
UCX_TLS=posix,self
UCX_LOG_LEVEL=info
OMPI_MCA_pml=ucx
"""
JOB = """\
rank vm - c0ffee
Cpus_allowed_list 0-1
Mems_allowed_list 0
program /usr/bin/orterun
program /usr/bin/ucx_info
function module
file /etc/openmpi/openmpi-mca-params.conf:71:btl_tcp_if_include = lo
ee623d7357c9343428d259327b3615d0f4afae7d6676c71b333831454ac82c5b  /lib/x86_64-linux-gnu/libucm.so.0
6a67b7d899d9637f2012f9b216bf96d463f2d0b087c31b2f38c797eb40a6bff0  /lib/x86_64-linux-gnu/libucp.so.0
/sys/devices/system/cpu/cpu0/topology/thread_siblings_list:0
/sys/devices/system/cpu/cpu1/topology/thread_siblings_list:1
/sys/devices/system/node/node0/cpulist:0-1
"""
ASKED = {"UCX_TLS": "posix,self", "UCX_LOG_LEVEL": "info", "OMPI_MCA_pml": "ucx"}


def ranks(*cpus, host="vm"):
    return [replace(steering.rank(RANK), host=host, cpus=steering.numbers(text)) for text in cpus]


def test_a_rank_and_its_job_are_read():
    rank, node = steering.rank(RANK), steering.node(JOB)
    assert (rank.host, rank.nonce, rank.cpus, rank.memories) == ("vm", "c0ffee", {0}, {0})
    assert rank.variables["UCX_TLS"] == "posix,self"
    assert node.job.cpus == {0, 1}
    assert node.programs == ("/usr/bin/orterun", "/usr/bin/ucx_info")
    assert node.functions == ("module",)
    assert set(node.libraries) == {f"/lib/x86_64-linux-gnu/libuc{x}.so.0" for x in "mp"}
    assert (node.cores, node.numa) == ({0: {0}, 1: {1}}, {0: 0, 1: 0})


@pytest.mark.parametrize("text", ["", "Cpus_allowed_list 0\n", "rank\n"])
def test_a_torn_file_is_no_rank(text):
    for parse in (steering.rank, steering.node):
        with pytest.raises(ValueError, match="its first line is not that of a rank"):
            parse(text)


@given(st.text())
def test_any_text_behind_the_first_line_is_read(text):
    assert steering.node(f"rank vm 1 c0ffee\n{text}").job.host == "vm"


def test_processes_are_named_by_their_files():
    names = ["rank.node1.cluster.12", "loaded.vm.7", "rank.vm.x"]
    assert steering.processes(names) == {("node1.cluster", 12), ("vm", 7)}


MACHINE = Machine()


def unasked(line, machine=MACHINE):
    return steering.unasked(steering.rank(RANK + line + "\n"), ASKED, machine)


def test_what_is_asked_for_and_what_others_judge_is_no_steering():
    for line in (
        "",
        "LD_LIBRARY_PATH=/opt/x/lib",  # by the libraries that are loaded
        "OMPI_MCA_btl=self",  # Open MPI itself reports its settings
        "PRTE_MCA_x=1",
        "UCX_LOG_LEVEL=debug",  # asked for with another value, and only printed
    ):
        assert unasked(line) == []


@pytest.mark.parametrize(
    "line",
    [
        "UCX_HANDLE_ERRORS=bt",
        "UCX_VFS_ENABLE=n",
        "UCX_LOG_PRINT_ENABLE=y",
        "LD_BIND_NOW=1",
        "HWLOC_HIDE_ERRORS=2",
    ],
)
def test_a_variable_that_only_prints_or_crashes_is_stated_and_nothing_more(line):
    (said,) = unasked(line)
    assert type(said) is Note
    assert said == f"{line} was set outside of the test; it changes no measurement"


@pytest.mark.parametrize(
    "line",
    [
        "UCX_RNDV_THRESH=0",
        "LD_PRELOAD=/tmp/faster.so",
        "LD_AUDIT=/tmp/audit.so",
        "MALLOC_ARENA_MAX=1",
        "OMPI_MCA_rmaps_base_mapping_policy=seq",
        "PRTE_MCA_hwloc_default_binding_policy=none",
        "GLIBC_TUNABLES=glibc.malloc.tcache_count=0",
        "UCX_MODULE_DIR=/tmp/ucx",
    ],
)
def test_a_variable_that_may_change_the_measurement_is_a_doubt(line):
    (said,) = unasked(line)
    assert type(said) is Doubt
    assert said == (
        f"{line} was set outside of the test and may change what is measured: unset it, or put it "
        "into the stack's env_vars"
    )


@pytest.mark.parametrize("line", ["FI_PROVIDER=tcp", "UCX_TLS=tcp,self"])
def test_a_setting_that_chooses_another_transport_is_a_fault(line):
    process = steering.rank(f"rank vm 1 c0ffee\n{line}\n")
    (said,) = steering.unasked(process, {}, MACHINE)
    assert type(said) is str
    assert "and chooses another transport: unset it" in said
    where = "/home/user/ucx.conf:1"
    (in_file,) = MACHINE.setting(where, *line.split("="))
    assert type(in_file) is str


@pytest.mark.parametrize("where", ["/home/user", ".", "/tmp/given"])
def test_a_setting_in_a_file_of_the_user_is_a_doubt_with_file_and_line(where):
    line = f"file {where}/ucx.conf:3:UCX_RNDV_THRESH = 0"
    (said,) = unasked(line)
    assert type(said) is Doubt
    assert said.startswith(f"UCX_RNDV_THRESH is set to 0 by {where}/ucx.conf:3, which is no file")
    assert said.endswith("remove it there, or put UCX_RNDV_THRESH into the stack's env_vars")
    assert unasked(line.replace("RNDV_THRESH = 0", "TLS = all")) == []  # the test asks for another


#: The job on a machine whose distribution and whose MPI come with settings.
OWNED = """\
rank node1 - c0ffee
UCX_NET_DEVICES=mlx5_0:1
UCX_TLS=posix
UCX_RNDV_THRESH=1k
BASH_ENV=/usr/share/lmod/init/bash
program /opt/ompi/bin/mpirun
file /etc/openmpi/openmpi-mca-params.conf:71:btl_tcp_if_include = lo
file /etc/ucx/ucx.conf:1:[AMD]
file /etc/ucx/ucx.conf:3:UCX_DISTANCE_BW=auto
file /opt/ompi/etc/prte-mca-params.conf:2:rmaps_default_mapping_policy = slot
file /home/user/.openmpi/mca-params.conf:1:rmaps_base_oversubscribe = 1
preload 3:/opt/xalt/lib.so
"""


def test_an_option_of_mpirun_over_a_variable_of_a_module_is_a_doubt():
    """Open MPI prints a switch in its own words, so the variable of the rank tells."""
    name = "OMPI_MCA_mpi_yield_when_idle"
    of_module = Machine(variables={name: "1"})
    assert unasked(f"{name}=1", of_module) == []
    (said,) = unasked(f"{name}=0", of_module)
    assert said.startswith(f"{name}=0 was set outside of the test")


def test_settings_of_the_machine_are_recorded_and_no_difference():
    node = steering.node(OWNED)
    given = {"UCX_RNDV_THRESH": "1k"}  # of the person who starts the run
    machine = steering.machine(node, {}, {"UCX_TLS": "posix"}, given)
    assert steering.settings(node, machine) == {
        "/etc/openmpi/openmpi-mca-params.conf:71": "btl_tcp_if_include = lo",
        "/etc/ucx/ucx.conf:3": "UCX_DISTANCE_BW = auto",
        "/opt/ompi/etc/prte-mca-params.conf:2": "rmaps_default_mapping_policy = slot",
        "/etc/ld.so.preload:3": "LD_PRELOAD = /opt/xalt/lib.so",
        "module:BASH_ENV": "/usr/share/lmod/init/bash",
        "module:UCX_NET_DEVICES": "mlx5_0:1",
    }
    found = steering.unasked(node.job, {"UCX_TLS": "posix"}, machine)
    assert [type(said) for said in found] == [Doubt, Doubt]
    assert found[0].startswith("UCX_RNDV_THRESH=1k was set outside of the test")
    assert "by /home/user/.openmpi/mca-params.conf:1" in found[1]
    own = steering.node(OWNED.replace("/usr/share/lmod/init/bash", "/home/user/env"))
    machine = steering.machine(own, {}, {}, {**given, "HOME": "/home/user"})
    assert machine.variables == {}, "a file of the user may have set them"
    both = {**given, "UCX_NET_DEVICES": "mlx5_0:1"}
    alone = steering.machine(node, {}, {"UCX_TLS": "posix"}, both)
    found = steering.unasked(node.job, {"UCX_TLS": "posix"}, alone)
    assert found[0].startswith("UCX_NET_DEVICES=mlx5_0:1 was set outside")


def test_a_variable_of_the_machine_that_only_some_nodes_have_is_a_doubt():
    machine = Machine(variables={"UCX_X": "1", "OPAL_PREFIX": "/opt", "LD_LIBRARY_PATH": "/x"})
    here, there = (steering.rank(f"rank {host} 1 c0ffee\n{{}}") for host in ("node1", "node2"))
    here = replace(here, variables={"UCX_X": "1"})
    (said,) = steering.partly([here, there], machine)
    assert type(said) is Doubt
    assert said.startswith("UCX_X=1 of the site did not reach the ranks on node2")
    assert steering.partly([here, here], machine) == steering.partly([there], machine) == []


@pytest.mark.parametrize("name", ["LD_LIBRARY_PATH", "UCX_LOG_LEVEL", "LD_BIND_NOW"])
def test_what_the_loaded_libraries_tell_or_only_prints_may_stay_on_one_node(name):
    """A daemon that ssh starts on the second node has no modules, and a program has an RPATH."""
    here, there = (replace(steering.rank(RANK), host=host) for host in ("node1", "node2"))
    here = replace(here, variables={name: "/apps"})
    there = replace(there, variables={})
    assert steering.partly([here, there], Machine((), {name: "/apps"})) == []


def test_of_the_search_path_only_what_the_modules_added_is_the_machines():
    job = steering.node("rank vm - c0ffee\nLD_LIBRARY_PATH=/apps/ucx/lib:/home/user/lib\n")
    machine = steering.machine(job, {}, {}, {"LD_LIBRARY_PATH": "/home/user/lib"})
    assert machine.variables == {"LD_LIBRARY_PATH": "/apps/ucx/lib"}


def test_a_library_that_no_search_path_names_is_stated_of_a_stack_of_modules():
    built, brought = "/apps/ucx/lib/libucp.so.0", "/home/user/lib/libucp.so.0"
    process = replace(
        steering.rank(RANK),
        variables={"LD_LIBRARY_PATH": "/home/user/lib:", "LD_PRELOAD": "/opt/x/y.so libz.so"},
    )
    directories = steering.searched([process])
    assert directories == ["/home/user/lib", "/opt/x"]
    found = steering.foreign([built, brought], PROGRAMS, [], directories)
    assert [type(line) for line in found] == [Note, str]
    assert found[0].startswith(f"{built} was loaded")
    assert steering.foreign([built], PROGRAMS, ["/apps/ucx/lib"], directories) == []


OF_HYDRA = "place PMI_RANK=0\nplace PMI_SIZE=2\n"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (OF_HYDRA, ""),
        ("place OMPI_COMM_WORLD_RANK=0\nplace PMIX_RANK=0\n", "the launcher of Open MPI started"),
        ("", "no launcher gave the ranks of /opt/libmpi.so.12 a place in a world"),
    ],
)
def test_ranks_that_found_no_launcher_of_their_mpi(lines, said):
    ranks = [steering.rank(RANK + lines)] * 2
    found = steering.of_other_launcher(ranks, "/opt/libmpi.so.12")
    assert [line[: len(said)] for line in found] == ([said] if said else [])
    assert ranks[0].variables == steering.rank(RANK).variables


@pytest.mark.parametrize("name", ["MPICH_OFI_NIC_POLICY", "I_MPI_FABRICS", "MV2_USE_RDMA_CM"])
def test_a_setting_of_another_mpi_in_the_job_is_judged(name):
    """The launchers of these libraries set some for the ranks, which are not asked for them."""
    process = steering.steering_of_job(steering.rank(f"{RANK}{name}=x\n"))
    (said,) = steering.unasked(process, ASKED, MACHINE)
    assert type(said) is Doubt
    assert steering.unasked(process, ASKED, Machine(variables={name: "x"})) == []


def test_the_job_says_which_launcher_it_had():
    node = steering.node(f"{JOB}launcher HYDRA build details:\nlauncher     Version: 4.0.2\n")
    assert node.launcher == "HYDRA build details:\n    Version: 4.0.2\n"


@pytest.mark.parametrize(
    ("extras", "asked", "path", "owned"),
    [
        ({}, {}, "/opt/ompi/etc/x.conf", True),
        ({}, {}, "/opt/ompi-other/etc/x.conf", False),
        ({}, {}, "/etc/../home/user/ucx.conf", False),
        ({}, {}, "/home/user/ucx.conf", False),
        ({"libraries": ["/apps/ucx"]}, {}, "/apps/ucx/etc/ucx/ucx.conf", True),
        ({}, {"LD_LIBRARY_PATH": "/apps/ucx/lib"}, "/apps/ucx/etc/ucx.conf", True),
        ({}, {"UCX_CONFIG_DIR": "/apps/given"}, "/apps/given/ucx.conf", True),
        ({"image": "/x.sif"}, {}, "/opt/assay/etc/openmpi-mca-params.conf", True),
        ({}, {}, "/opt/assay/etc/openmpi-mca-params.conf", False),
    ],
)
def test_a_file_is_of_the_machine_or_not(extras, asked, path, owned):
    machine = steering.machine(steering.node(OWNED), extras, asked, {})
    assert machine.owns(f"{path}:3") is owned


def test_a_file_in_a_home_says_nothing_of_a_choice_that_open_mpi_reports():
    """A case without MPI is not steered by it; in others the report of Open MPI counts."""
    lines = "rank vm - c0ffee\nfile /home/user/.openmpi/mca-params.conf:1:{}\n"
    machine = steering.machine(steering.node(lines.format("pml=ucx")), {}, {}, {})

    def said(setting, **asked):
        return steering.unasked(steering.node(lines.format(setting)).job, asked, machine)

    assert said("pml=ucx") == []
    assert said("coll_tuned_priority=9", OMPI_MCA_coll_tuned_priority="9") == []
    assert [type(one) for one in said("coll_tuned_priority=9")] == [Doubt]
    assert [type(one) for one in said("btl_base_verbose=9")] == [Note]


def test_the_prefix_of_a_program_in_a_home_does_not_own_the_home():
    node = steering.node("rank vm - c0ffee\nprogram /home/user/bin/mpirun\n")
    machine = steering.machine(node, {}, {}, {})
    assert not machine.owns("/home/user/.openmpi/mca-params.conf:1")
    assert machine.owns("/home/user/etc/openmpi-mca-params.conf:1")


def test_the_hash_of_the_settings_of_a_machine_changes_with_a_value_and_not_with_a_comment():
    before = {"/etc/ucx/ucx.conf:3": "UCX_TLS = all", "module:UCX_X": "1"}
    moved = {"/etc/ucx/ucx.conf:9": "UCX_TLS = all", "module:UCX_X": "1"}
    assert plan.digest(before) == plan.digest(moved)
    for other in ({**before, "module:UCX_X": "2"}, {"/etc/ucx/ucx.conf:3": "UCX_TLS = all"}, {}):
        assert plan.digest(before) != plan.digest(other)


def test_a_function_that_hides_a_program_of_the_job_is_a_doubt():
    text = "rank vm - c0ffee\n{}function mpirun\nfunction module\nfunction which\n"
    script = "module load openmpi\nmpirun -np 2 ./program\n"
    by_env = steering.node(text.format("BASH_ENV=/home/user/env\n"))
    (said,) = steering.hidden(by_env, script, {})
    assert type(said) is Doubt
    assert said == (
        "the shell of the job has a function or an alias mpirun, which hides the program of this "
        "name: unset BASH_ENV, which is /home/user/env"
    )
    exported = {"BASH_FUNC_mpirun%%": "() { true; }"}
    (said,) = steering.hidden(steering.node(text.format("")), script, exported)
    assert said.endswith("unset it where it is exported")
    assert steering.hidden(steering.node(text.format("")), "srun ./program", exported) == []
    # A command of the site, such as Spack's set-up, may define functions.
    assert steering.hidden(steering.node(text.format("")), script, {}) == []
    # A function that the job script defines itself is its own.
    own = f"mpirun() {{\n}}\n{script}"
    assert steering.hidden(steering.node(text.format("")), own, exported) == []


def test_the_value_of_a_secret_is_compared_with_nothing():
    process = steering.rank(RANK + f"UCX_X_TOKEN={HIDDEN}\n")
    assert steering.unasked(process, {**ASKED, "UCX_X_TOKEN": "abc"}, MACHINE) == []


def test_a_variable_without_its_value_is_seen_and_is_not_taken_for_one_of_a_module():
    """Whoever set UCX_NEW in the shell that submitted the job, no module of the site did."""
    line = f"UCX_NEW={HIDDEN}\n"
    node, asked = steering.node(JOB + line), {}
    mine = steering.machine(node, {}, asked, {"UCX_NEW": "some value"})
    (said,) = steering.unasked(steering.rank("rank vm 1\n" + line), asked, mine)
    assert isinstance(said, Doubt)
    assert said.startswith("UCX_NEW (value not recorded) was set outside of the test and may")
    of_a_module = steering.machine(node, {}, asked, {})
    assert steering.unasked(steering.rank("rank vm 1\n" + line), asked, of_a_module) == []


PROGRAMS = ("/opt/ompi/bin/orterun", "/usr/bin/ucx_info", "")


@pytest.mark.parametrize(
    ("path", "own", "accepted"),
    [
        ("/lib/x86_64-linux-gnu/libucp.so.0", (), True),
        ("/opt/ompi/lib/libmpi.so.40", (), True),
        ("/tmp/libucp.so.0", (), False),
        ("/usr/local/lib/libucp.so.0", (), False),
        ("/opt/ompi-other/lib/libmpi.so.40", (), False),
        ("/opt/ucx/lib/libucp.so.0", (), False),
        ("/opt/ucx/lib/libucp.so.0", ("/opt/ucx",), True),
    ],
)
def test_libraries_of_another_stack_are_named(path, own, accepted):
    found = steering.foreign({path: "hash"}, PROGRAMS, own)
    assert found == [] if accepted else found[0].startswith(f"{path} was loaded, which is not of")


def test_a_stack_names_its_libraries_by_an_extra_or_by_a_variable():
    asked = {"LD_LIBRARY_PATH": "/opt/ucx/lib:$LD_LIBRARY_PATH:"}
    assert steering.own_libraries({"libraries": ["/opt/x"]}, asked) == ["/opt/x", "/opt/ucx/lib"]
    assert steering.own_libraries({}, {}) == []


CORES = {0: frozenset({0, 2}), 1: frozenset({1, 3}), 2: frozenset({0, 2}), 3: frozenset({1, 3})}


@pytest.mark.parametrize(
    ("cpus", "problem"),
    [
        (("0", "1"), ""),
        (("0-3", "0-3"), ""),  # not bound
        (("0,2", "1,3"), ""),
        (("0", "0"), "2 ranks on vm share 1 core (processors 0)"),
        (("0", "2"), "2 ranks on vm share 1 core (processors 0, 2)"),  # two threads of one core
        (("0", "0", "1"), "2 ranks on vm share 1 core (processors 0)"),
        (("0-3", "0-3", "0-3"), "3 ranks on vm share 2 core (processors 0, 1, 2, 3)"),
        (("", ""), ""),  # not known
    ],
)
def test_ranks_that_share_a_core(cpus, problem):
    found = steering.crowded(ranks(*cpus), CORES)
    assert problem in "".join(found)
    assert len(found) == bool(problem)


def test_ranks_of_two_nodes_share_no_core():
    assert steering.crowded([*ranks("0"), *ranks("0", host="other")], CORES) == []


def log(**variables):
    return UcxLog(env={("vm", 1): {"UCX_TLS": "tcp", **variables}})


def test_variables_that_ucx_read_are_the_requested_ones():
    assert steering.of_ucx(log(), {}, MACHINE) == []
    assert steering.of_ucx(log(UCX_NET_DEVICES="lo"), {"UCX_NET_DEVICES": "lo"}, MACHINE) == []
    assert steering.of_ucx(log(UCX_NET_DEVICES="eth0"), {"UCX_NET_DEVICES": "lo"}, MACHINE) == [
        "UCX_NET_DEVICES was eth0 where the program ran, lo was asked for"
    ]
    both = {"UCX_NET_DEVICES": "rxe0:1,rxe1:1", "UCX_MAX_RNDV_RAILS": "1"}
    assert steering.of_ucx(log(UCX_NET_DEVICES="rxe1:1"), both, MACHINE) == []  # of its socket
    assert len(steering.of_ucx(log(UCX_NET_DEVICES="rxe1:1,lo"), both, MACHINE)) == 1
    assert len(steering.of_ucx(log(UCX_NET_DEVICES=""), {}, MACHINE)) == 1
    two = {**both, "UCX_MAX_RNDV_RAILS": "2"}
    assert len(steering.of_ucx(log(UCX_NET_DEVICES="rxe1:1"), two, MACHINE)) == 1
    rank = steering.Steering("n", "", variables={"UCX_NET_DEVICES": "rxe1:1"})
    assert steering.unasked(rank, both, MACHINE) == []
    assert len(steering.unasked(rank, two, MACHINE)) == 1
    (said,) = steering.of_ucx(log(UCX_RNDV_THRESH="0"), {}, MACHINE)
    assert type(said) is Doubt
    assert said.startswith("UCX_RNDV_THRESH=0 was set outside of the test and may change")
    module = Machine(variables={"UCX_RNDV_THRESH": "0"})
    assert steering.of_ucx(log(UCX_RNDV_THRESH="0"), {}, module) == []


def test_a_variable_in_a_recorded_log_of_ucx(tmp_path):
    from real_outputs import texts

    said = ucx_log.parse_ucx_log(texts("ucx")["1.13.1/fault.cma.UCX_PROTO_ENABLE=y"])
    _, (doubt,), notes = plan.sorted_out(steering.of_ucx(said, {}, MACHINE))
    assert doubt.startswith("UCX_PROTO_ENABLE=y was set outside of the test")
    assert len(notes) == 3  # what is logged, and where


def test_a_requested_variable_with_another_value_is_steering():
    asked = {**ASKED, "UCX_TLS": "posix,self,cma"}
    assert steering.unasked(steering.rank(RANK), asked, MACHINE) == [
        "UCX_TLS was posix,self where the program ran, posix,self,cma was asked for"
    ]
    assert steering.unasked(steering.rank(RANK), {**ASKED, "UCX_TLS": "$LIST"}, MACHINE) == []


def test_a_requested_variable_that_ucx_did_not_read_is_named_with_its_process():
    log = UcxLog(env={("vm", 1): {"UCX_RNDV_THRESH": "8k"}, ("vm", 2): {}})
    asked = {"UCX_RNDV_THRESH": "8k", "UCX_LOG_FILE": "x", "PATH": "/bin"}
    assert steering.of_ucx(log, asked, MACHINE) == [
        "UCX_RNDV_THRESH did not reach vm:2, 8k was asked for"
    ]
    assert steering.of_ucx(replace(log, env={("vm", 2): {}}), asked, MACHINE) == []


def test_variables_of_a_blas_steer_only_what_computes():
    rank = steering.rank(RANK + "OPENBLAS_CORETYPE=Prescott\nOMP_NUM_THREADS=16\n")
    assert steering.unasked(steering.without_computing(rank), ASKED, MACHINE) == []
    doubt, fault = steering.unasked(rank, {**ASKED, "OMP_NUM_THREADS": "1"}, MACHINE)
    assert (type(doubt), type(fault)) == (Doubt, str)
    assert doubt.startswith("OPENBLAS_CORETYPE=Prescott was set outside of the test")
    assert fault == "OMP_NUM_THREADS was 16 where the program ran, 1 was asked for"


def test_a_library_by_a_path_that_leads_out_of_the_distribution_is_foreign():
    (said,) = steering.foreign(["/usr/lib/../../tmp/libucp.so.0"], ["/usr/bin/mpirun"], [])
    assert said.startswith("/usr/lib/../../tmp/libucp.so.0 was loaded, which is not of this stack")


def test_a_variable_of_the_start_is_judged_in_the_job():
    text = RANK + "PMIX_MCA_gds=hash\nOPAL_PREFIX=/opt/hpcx\nHWLOC_HIDE_ERRORS=1\nOMP_X=1\n"
    found = steering.unasked(
        steering.steering_of_job(steering.rank(text)), {"OPAL_PREFIX": "/opt/hpcx"}, MACHINE
    )
    assert [type(said) for said in found] == [Doubt, Note]
    assert found[0].startswith("PMIX_MCA_gds=hash was set outside of the test")


NUMA = {0: 0, 1: 1}


@pytest.mark.parametrize("lines", ["policy default", "policy bind:0", "policy prefer:0-1", ""])
def test_memory_beside_the_processors_is_near(lines):
    assert steering.far_memory([steering.rank(RANK + lines + "\n")], NUMA) == []


@pytest.mark.parametrize("mode", ["bind", "prefer", "interleave", "bind=static"])
def test_memory_of_another_numa_node_is_named_with_both(mode):
    rank = steering.rank(f"{RANK}policy {mode}:1\n")
    said = (
        "ranks on vm take their memory from NUMA node 1, their processors are on 0: is there a "
        "numactl, or an option of the launcher?"
    )
    assert steering.far_memory([rank, rank], NUMA) == [said]
    assert steering.far_memory([rank], {}) == []


def test_a_cpuset_without_the_near_memory_is_named():
    rank = steering.rank(RANK.replace("Mems_allowed_list 0", "Mems_allowed_list 1"))
    assert len(steering.far_memory([rank], NUMA)) == 1


def test_a_requested_variable_that_reached_no_rank_is_named():
    rank = steering.rank(RANK)
    assert steering.lost(rank, {**ASKED, "UCX_LOG_FILE": "x", "PATH": "/bin"}, ("UCX_",)) == []
    assert steering.lost(rank, {"UCX_RNDV_THRESH": "8k"}, ("UCX_",)) == [
        "UCX_RNDV_THRESH did not reach the ranks on vm, 8k was asked for"
    ]
