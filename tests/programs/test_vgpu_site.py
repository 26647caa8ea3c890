"""UCX between emulated GPUs: the site vgpu is green, and each fault turns the right cases red."""

import gpu_runs
import pytest
from bench import ROOT, live_program, run_reframe

pytestmark = pytest.mark.slow

SITE = ROOT / "site-config/vgpu/reframe.py"


@pytest.fixture
def ucx(tmp_path):
    """Runs cases of UcxGpu on the site vgpu, with other variables of the emulated GPU."""
    live_program("gcc")

    def run(parameters, version=gpu_runs.VERSIONS[-1], **variables):
        if not gpu_runs.installed(version):
            pytest.skip("needs UCX for the emulated GPU: make vgpu")
        trace = tmp_path / "trace"
        trace.mkdir(exist_ok=True)
        results = tmp_path / "results"
        done = run_reframe(
            SITE, results, "-c", str(ROOT / "reframe/network/ucx_gpu.py"), "-r", "--mode", "smoke",
            "-n", f"UcxGpu%{parameters}$", **variables, GPUEMU_TRACE=str(trace),
            ASSAY_STACK=f"ucx-{version}".replace(".", "-"),
        )  # fmt: skip
        run.said = done.output
        return done.case("UcxGpu ")

    run.trace = tmp_path / "trace"
    return run


def ways(folder):
    """Bytes by way, of all processes."""
    found = {}
    for file in folder.glob("*.trace"):
        for line in file.read_text().splitlines()[1:]:
            way, _, size = line.split("\t")
            if int(size):
                found[way] = found.get(way, 0) + int(size)
    return found


LARGE = "operation=tag_bw%gpus=2%configuration=no-gdrcopy"
SMALL = "operation=tag_lat%gpus=2%configuration=no-gdrcopy"


def test_two_emulated_gpus_pass_and_the_bytes_went_by_ipc(ucx):
    outcome = ucx(SMALL)
    assert outcome.result == "pass", outcome.reason
    assert outcome.record["proof"]["means"] == "count"
    assert set(ways(ucx.trace)) == {"nvlink ipc"}


def test_a_node_whose_ipc_is_broken_is_red(ucx):
    outcome = ucx(SMALL, GPUEMU_FAULT="ipc-open")
    assert outcome.result == "fail"
    assert "cuda_ipc carried nothing: UCX did not count messages of 8 B" in outcome.reason
    assert "nvlink ipc" not in ways(ucx.trace)


@pytest.mark.long
@pytest.mark.parametrize("version", gpu_runs.VERSIONS[:-1])
def test_older_versions_are_green_and_red_where_ipc_is_broken(ucx, version):
    # UCX 1.16 sends 8 B through the host in either case.
    parameters = LARGE if version.startswith("1.16.") else SMALL
    healthy = ucx(parameters, version)
    broken = ucx(parameters, version, GPUEMU_FAULT="ipc-open")
    assert healthy.result == "pass", healthy.reason
    assert healthy.record["proof"]["means"] == "protocol table"
    assert broken.result == "fail"
    assert "cuda_ipc carried nothing: UCX did not choose it" in broken.reason


def test_a_pair_without_access_to_each_other_is_red(ucx):
    outcome = ucx(SMALL, GPUEMU_FAULT="p2p:0-1")
    assert outcome.result == "fail"
    assert "cuda_ipc carried nothing" in outcome.reason


def test_a_driver_that_does_not_start_is_red(ucx):
    assert ucx(SMALL, GPUEMU_FAULT="driver").result == "fail"


def test_a_node_with_one_gpu_is_red_where_two_are_needed(ucx):
    assert ucx(SMALL, GPUEMU_DEVICES="1").result == "skip"
    assert "not accepted: skip not allowed: 2 GPUs are needed on a node" in ucx.said


def test_a_gpu_with_itself_passes(ucx):
    outcome = ucx("operation=tag_lat%gpus=1%configuration=no-gdrcopy", GPUEMU_DEVICES="1")
    assert outcome.result == "pass", outcome.reason
    assert set(ways(ucx.trace)) == {"d2d ipc"}
