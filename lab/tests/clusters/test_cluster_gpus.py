"""Emulated GPUs of the emulated cluster: Slurm allocates them, and tests between GPUs run there."""

import json
import re
import subprocess
import sys

import gpu_runs
import pytest
from bench import ROOT
from emulated import COMMAND, UNJUDGED, reason_to_skip, up
from test_vcluster import traces
from test_vgpu_site import ways

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(reason_to_skip() is not None, reason=str(reason_to_skip())),
]

EMULATED = ROOT / "build/vgpu"
PROCESS = ROOT / "lab/tests/programs/vgpu_process.py"
SMALL = "operation=tag_lat%gpus=2%configuration=no-gdrcopy"


@pytest.fixture(scope="module")
def cluster():
    if not (ROOT / ".cache/vgpu/1.22.0/pin.txt").exists():
        pytest.skip("needs UCX for the emulated GPU: make vgpu")
    with up("--nodes", "2", "--gpus", "2", "--delay", "0") as made:
        yield made
        made("down")
        assert traces(made.state) == []


@pytest.fixture
def healthy(cluster):
    yield cluster
    cluster("clear")


def srun(cluster, *words, check=True):
    done = cluster("run", "login", "--", "srun", "--partition=gpu", *words, check=check)
    return done if not check else done.stdout.split()


SHOWN = ("sh", "-c", "echo ${CUDA_VISIBLE_DEVICES:-none}")


@pytest.mark.parametrize(
    ("asked", "seen"), [((), "none"), (("--gres=gpu:1",), "0"), (("--gres=gpu:2",), "0,1")]
)
def test_a_job_sees_the_gpus_that_it_asked_for(cluster, asked, seen):
    assert srun(cluster, *asked, *SHOWN) == [seen]


def test_a_job_that_asks_for_more_gpus_than_a_node_has_is_refused(cluster):
    done = srun(cluster, "--gres=gpu:3", "true", check=False)
    assert done.returncode != 0
    assert "Requested node configuration is not available" in done.stderr


def stays(cluster, gpus):
    """Starts a job that keeps GPUs of node01 until its standard input ends."""
    return subprocess.Popen(
        [
            *(str(COMMAND), "run", "login", "--", "srun", "--partition=gpu", "--nodelist=node01"),
            *(f"--gres=gpu:{gpus}", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; cat"),
        ],
        env=cluster.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_two_jobs_at_once_have_different_gpus_and_a_third_waits(cluster):
    first = stays(cluster, 1)
    second = stays(cluster, 1)
    try:
        seen = {first.stdout.readline().strip(), second.stdout.readline().strip()}
        assert seen == {"0", "1"}
        second.communicate()
        # There is a free processor, and one free GPU.
        here = "--nodelist=node01"
        assert srun(cluster, here, "--gres=gpu:1", "echo", "runs") == ["runs"]
        # Two are not free at any time, so it does not matter how long is waited.
        refused = srun(cluster, here, "--gres=gpu:2", "--immediate=1", "true", check=False)
        assert refused.returncode != 0
    finally:
        for job in (first, second):
            job.communicate()


def test_each_node_has_devices_of_its_own(cluster):
    query = ("--query-gpu=uuid", "--format=csv,noheader")
    words = ("-N", "2", "--gres=gpu:2", str(EMULATED / "bin/nvidia-smi"), *query)
    uuids = srun(cluster, *words)
    assert len(uuids) == len(set(uuids)) == 4


def process(cluster, node, number):
    """A process on an emulated GPU of a node."""
    library = EMULATED / "lib/libcuda.so.1"
    words = (sys.executable, str(PROCESS), str(library), str(number))
    return subprocess.Popen(
        [str(COMMAND), "run", node, "--", *words],
        env=cluster.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )


def test_a_handle_of_cuda_ipc_opens_within_its_node_only(cluster):
    owner = process(cluster, "node01", 0)
    try:
        handle = ""
        for word in ("alloc", "fill", "export"):
            owner.stdin.write(f"{word}\n")
            handle = owner.stdout.readline().strip()
        answers = {}
        for node in cluster.states():
            if node == "login":
                continue
            other = process(cluster, node, 1)
            # The first of them could have the same number as the owner.
            said, _ = other.communicate(f"alloc\nopen {handle}\n")
            answers[node] = said.splitlines()[1]
    finally:
        owner.communicate()
    assert answers == {"node01": "done", "node02": "cuIpcOpenMemHandle_v2: 205"}


def test_nodes_with_healthy_gpus_pass_before_anything_is_measured(cluster):
    where = "--system=vcluster:gpu-inter-node"
    results = cluster.state / "home/results"
    site = cluster.site()
    done, cases = cluster.suite("Census|NodeHealth", where, results=results, site=site)
    assert {case: result for (case, _), (result, _) in cases.items()} == {
        "Census": "pass",
        "NodeHealth": "pass",
    }
    assert done.returncode == 0


def run(cluster, parameters, *arguments, test="UcxGpu", **variables):
    """Runs cases; returns the run, by node (if named) result and reason, and the ways."""
    results = cluster.state / "home/results"
    trace = cluster.state / "home/trace"
    cluster("run", "login", "--", "rm", "-rf", str(trace))
    cluster("run", "login", "--", "mkdir", str(trace))
    chosen = f"{test}%{parameters}"
    # A busy host copies later than the model of the GPUs says, so no rate is judged.
    words, site = (chosen, *UNJUDGED, *arguments), cluster.site()
    done, _ = cluster.suite(
        *words, results=results, site=site, GPUEMU_TRACE=str(trace), **variables
    )
    newest = max(results.glob("reports/run-report-*.json"), key=lambda path: path.stat().st_mtime)
    found = {}
    for part in json.loads(newest.read_text())["runs"]:  # with those that were launched again
        for case in part["testcases"]:
            node = re.search(r"\.nid=(\S+)", case["display_name"])
            found[node[1] if node else ""] = case["result"], case["fail_reason"] or ""
    return done, found, ways(trace)


@pytest.mark.parametrize(
    ("parameters", "way"),
    [
        (SMALL, {"nvlink ipc"}),
        ("operation=tag_bw%gpus=2%configuration=no-gdrcopy", {"nvlink ipc"}),
        ("operation=tag_bw%gpus=1%configuration=no-gdrcopy", {"d2d ipc"}),
        ("operation=tag_lat%gpus=2%configuration=no-ipc-no-gdrcopy", {"d2h", "h2d"}),
    ],
)
def test_the_tests_between_gpus_pass_and_their_bytes_took_the_way(cluster, parameters, way):
    done, cases, took = run(cluster, parameters)
    assert cases[""][0] == "pass", cases
    assert "FAIL" not in done.stdout
    assert {name for name, count in took.items() if count > 1000} == way


def test_broken_gpus_of_one_node_are_red_there_and_green_elsewhere(healthy):
    healthy("fault", "gpu", "node02", "ipc-open")
    assert "fault: gpu node02 ipc-open" in healthy("status").stdout
    done, cases, _ = run(healthy, SMALL, "--distribute=all")
    assert done.returncode != 0
    assert cases["node01"][0] == "pass", cases
    result, reason = cases["node02"]
    assert result == "fail"
    assert "cuda_ipc carried nothing" in reason


@pytest.mark.parametrize("operation", ["tag_lat", "tag_bw"])
def test_between_nodes_the_host_and_tcp_carry_the_bytes(cluster, operation):
    done, cases, took = run(
        cluster, f"operation={operation}%gpus=1%configuration=no-gdrcopy", test="UcxGpuBetween"
    )
    assert cases[""][0] == "pass", cases
    assert "FAIL" not in done.stdout
    assert set(took) == {"d2h", "h2d"}
    assert took["d2h"] == took["h2d"], "each byte left one GPU and reached another"


def osu(cluster, parameters, *arguments):
    """Runs cases of OsuGpu with the stack that GPUEMU_STACK names."""
    if not gpu_runs.osu_of_stack():
        pytest.skip("needs OSU with CUDA: GPUEMU_STACK names its prefix")
    asked = {"ASSAY_STACK": "vgpu-stack", "GPUEMU_STACK": gpu_runs.STACK}
    chosen = f"{parameters}%configuration=no-gdrcopy"
    return run(cluster, chosen, "--mode", "full", *arguments, test="OsuGpu", **asked)


@pytest.mark.parametrize("benchmark", ["latency", "bw"])
def test_osu_between_the_gpus_of_a_node_takes_cuda_ipc(cluster, benchmark):
    where = "--system=vcluster:gpu"
    _, cases, took = osu(cluster, f"benchmark={benchmark}%buffers=DD", where)
    assert cases[""][0] == "pass", cases
    assert took["nvlink ipc"] > 10 * took.get("d2h", 0)


def test_osu_is_red_on_the_node_whose_gpus_are_broken_and_green_elsewhere(healthy):
    healthy("fault", "gpu", "node02", "ipc-open")
    where = ("--system=vcluster:gpu", "--distribute=all")
    done, cases, _ = osu(healthy, "benchmark=latency%buffers=DD", *where)
    assert done.returncode != 0
    assert cases["node01"][0] == "pass", cases
    result, reason = cases["node02"]
    assert result == "fail"
    assert "cuda_ipc carried nothing" in reason


def test_osu_between_gpus_of_two_nodes_goes_through_the_hosts(cluster):
    where = "--system=vcluster:gpu-inter-node"
    _, cases, took = osu(cluster, "benchmark=latency%buffers=DD", where)
    assert cases[""][0] == "pass", cases
    assert not any("ipc" in way or "gdr" in way for way in took), took
    assert took["d2h"] > 1000, took
    assert took["h2d"] > 1000, took
