"""What steered the ranks of a launch: variables, files, libraries and processors."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.evidence import steering
from assay.outputs import ucx_log
from assay.outputs.ucx_log import UcxLog

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
ee623d7357c9343428d259327b3615d0f4afae7d6676c71b333831454ac82c5b  /lib/x86_64-linux-gnu/libucm.so.0
6a67b7d899d9637f2012f9b216bf96d463f2d0b087c31b2f38c797eb40a6bff0  /lib/x86_64-linux-gnu/libucp.so.0
/sys/devices/system/cpu/cpu0/topology/thread_siblings_list:0
/sys/devices/system/cpu/cpu1/topology/thread_siblings_list:1
/sys/devices/system/node/node0/cpulist:0-1
"""
ASKED = {"UCX_TLS": "posix,self", "OMPI_MCA_pml": "ucx"}


def ranks(*cpus, host="vm"):
    return [replace(steering.rank(RANK), host=host, cpus=steering.numbers(text)) for text in cpus]


def test_a_rank_and_its_job_are_read():
    rank, node = steering.rank(RANK), steering.node(JOB)
    assert (rank.host, rank.nonce, rank.cpus, rank.memories) == ("vm", "c0ffee", {0}, {0})
    assert rank.variables["UCX_TLS"] == "posix,self"
    assert node.job.cpus == {0, 1}
    assert node.programs == ("/usr/bin/orterun", "/usr/bin/ucx_info")
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


def unasked(line, **allowed):
    return steering.unasked(steering.rank(RANK + line + "\n"), ASKED, allowed)


def test_what_was_requested_or_only_prints_is_no_steering():
    for line in (
        "",
        "UCX_LOG_LEVEL=debug",
        "LD_LIBRARY_PATH=/opt/x/lib",
        "OMPI_MCA_btl=self",
        "PRTE_MCA_x=1",
    ):
        assert unasked(line) == []  # Open MPI itself reports its settings
    assert unasked("UCX_MODULE_DIR=/opt/ucx", UCX_MODULE_DIR="/opt/ucx") == []


@pytest.mark.parametrize(
    "line",
    [
        "UCX_RNDV_THRESH=0",
        "LD_PRELOAD=/tmp/faster.so",
        "LD_AUDIT=/tmp/audit.so",
        "OMPI_MCA_rmaps_base_mapping_policy=seq",
        "PRTE_MCA_hwloc_default_binding_policy=none",
        "GLIBC_TUNABLES=glibc.malloc.tcache_count=0",
        "UCX_MODULE_DIR=/tmp/ucx",
    ],
)
def test_variables_that_nobody_requested_are_named(line):
    said = f"{line} was set outside of the test: unset it, or put it into the stack's env_vars"
    assert unasked(line, UCX_MODULE_DIR="/opt/ucx") == [said]


@pytest.mark.parametrize("where", ["/home/user", ".", "/tmp/given", "/etc/ucx"])
def test_a_setting_of_ucx_in_a_file_is_named_with_file_and_line(where):
    line = f"file {where}/ucx.conf:3:UCX_RNDV_THRESH = 0"
    assert unasked(line) == [
        f"UCX_RNDV_THRESH is set to 0 by {where}/ucx.conf:3: remove it there, or put it into the "
        "stack's extra ucx"
    ]
    assert unasked(line, UCX_RNDV_THRESH="0") == []
    assert len(unasked(line, UCX_RNDV_THRESH="1k")) == 1


def test_sections_for_some_processors_are_accepted_only_in_files_of_the_system():
    lines = "file {0}:1:[AMD]\nfile {0}:2:CPU model=Naples\nfile {0}:3:UCX_DISTANCE_BW=auto"
    assert unasked(lines.format("/etc/ucx/ucx.conf")) == []
    assert "UCX_DISTANCE_BW is set to auto" in unasked(lines.format("/home/user/ucx.conf"))[-1]


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
    return UcxLog(env={("vm", 1): {"UCX_TLS": "tcp", "UCX_LOG_LEVEL": "info", **variables}})


def test_variables_that_ucx_read_are_the_requested_ones():
    assert steering.of_ucx(log(), {}, {}) == []
    assert steering.of_ucx(log(UCX_NET_DEVICES="lo"), {"UCX_NET_DEVICES": "lo"}, {}) == []
    assert steering.of_ucx(log(UCX_NET_DEVICES="eth0"), {"UCX_NET_DEVICES": "lo"}, {}) == [
        "UCX_NET_DEVICES was eth0 where the program ran, lo was asked for"
    ]
    both = {"UCX_NET_DEVICES": "rxe0:1,rxe1:1", "UCX_MAX_RNDV_RAILS": "1"}
    assert steering.of_ucx(log(UCX_NET_DEVICES="rxe1:1"), both, {}) == []  # of its socket
    assert len(steering.of_ucx(log(UCX_NET_DEVICES="rxe1:1,lo"), both, {})) == 1
    assert len(steering.of_ucx(log(UCX_NET_DEVICES=""), {}, {})) == 1
    two = {**both, "UCX_MAX_RNDV_RAILS": "2"}
    assert len(steering.of_ucx(log(UCX_NET_DEVICES="rxe1:1"), two, {})) == 1
    rank = steering.Steering("n", "", variables={"UCX_NET_DEVICES": "rxe1:1"})
    assert steering.unasked(rank, both, {}) == []
    assert len(steering.unasked(rank, two, {})) == 1
    assert steering.of_ucx(log(UCX_RNDV_THRESH="0"), {}, {}) == [
        "UCX_RNDV_THRESH was 0 where the program ran, and nobody asked for it"
    ]
    assert steering.of_ucx(log(UCX_RNDV_THRESH="0"), {}, {"UCX_RNDV_THRESH": "0"}) == []


def test_a_variable_in_a_recorded_log_of_ucx(tmp_path):
    from real_outputs import texts

    said = ucx_log.parse(texts("ucx")["1.13.1/fault.cma.UCX_PROTO_ENABLE=y"])
    assert steering.of_ucx(said, {}, {}) == [
        "UCX_PROTO_ENABLE was y where the program ran, and nobody asked for it"
    ]


def test_a_requested_variable_with_another_value_is_steering():
    asked = {**ASKED, "UCX_TLS": "posix,self,cma"}
    assert steering.unasked(steering.rank(RANK), asked, {}) == [
        "UCX_TLS was posix,self where the program ran, posix,self,cma was asked for"
    ]
    assert steering.unasked(steering.rank(RANK), {**ASKED, "UCX_TLS": "$LIST"}, {}) == []


def test_a_requested_variable_that_ucx_did_not_read_is_named_with_its_process():
    log = UcxLog(env={("vm", 1): {"UCX_RNDV_THRESH": "8k"}, ("vm", 2): {}})
    asked = {"UCX_RNDV_THRESH": "8k", "UCX_LOG_FILE": "x", "PATH": "/bin"}
    assert steering.of_ucx(log, asked, {}) == [
        "UCX_RNDV_THRESH did not reach vm:2, 8k was asked for"
    ]
    assert steering.of_ucx(replace(log, env={("vm", 2): {}}), asked, {}) == []


def test_variables_of_a_blas_steer_only_what_computes():
    rank = steering.rank(RANK + "OPENBLAS_CORETYPE=Prescott\nOMP_NUM_THREADS=16\n")
    assert steering.unasked(steering.without_computing(rank), ASKED, {}) == []
    assert steering.unasked(rank, {**ASKED, "OMP_NUM_THREADS": "1"}, {}) == [
        "OPENBLAS_CORETYPE=Prescott was set outside of the test: unset it, or put it into the "
        "stack's env_vars",
        "OMP_NUM_THREADS was 16 where the program ran, 1 was asked for",
    ]


def test_a_library_in_ld_so_preload_is_steering_in_each_program():
    job = steering.of_linker(steering.rank(RANK + "preload 3:/tmp/fast.so\n"))
    assert steering.unasked(job, ASKED, {}) == [
        "/tmp/fast.so is loaded into each program by /etc/ld.so.preload:3: remove it there, or put "
        "it into the stack's env_vars (LD_PRELOAD)"
    ]
    assert steering.unasked(job, {"LD_PRELOAD": "/tmp/fast.so"}, {}) == []


def test_a_library_by_a_path_that_leads_out_of_the_distribution_is_foreign():
    (said,) = steering.foreign(["/usr/lib/../../tmp/libucp.so.0"], ["/usr/bin/mpirun"], [])
    assert said.startswith("/usr/lib/../../tmp/libucp.so.0 was loaded, which is not of this stack")


def test_a_variable_of_the_start_is_judged_in_the_job():
    job = steering.of_start(steering.rank(RANK + "PMIX_MCA_gds=hash\nOPAL_PREFIX=/opt/hpcx\n"))
    asked = {"OPAL_PREFIX": "/opt/hpcx"}
    assert steering.unasked(job, asked, {}) == [
        "PMIX_MCA_gds=hash was set outside of the test: unset it, or put it into the "
        "stack's env_vars"
    ]


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
    assert steering.lost(rank, {**ASKED, "UCX_LOG_FILE": "x", "PATH": "/bin"}) == []
    assert steering.lost(rank, {"UCX_RNDV_THRESH": "8k"}) == [
        "UCX_RNDV_THRESH did not reach the ranks on vm, 8k was asked for"
    ]
