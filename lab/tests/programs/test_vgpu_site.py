"""UCX between emulated GPUs: the site vgpu is green, and each fault turns the right cases red."""

import emulation
import gpu_runs
import pytest
import shell
from bench import ROOT, live_program, run_reframe
from reframe.core.exceptions import ConfigError

pytestmark = pytest.mark.slow

SITE = ROOT / "lab/sites/vgpu/reframe.py"


@pytest.fixture
def ucx(tmp_path):
    """Runs cases of UcxGpu on the site vgpu, with other variables of the emulated GPU."""
    live_program("gcc")

    def run(parameters, version=gpu_runs.VERSIONS[-1], more=(), **variables):
        if not gpu_runs.installed(version):
            pytest.skip("needs UCX for the emulated GPU: make vgpu")
        trace = tmp_path / "trace"
        trace.mkdir(exist_ok=True)
        results = tmp_path / "results"
        done = run_reframe(
            SITE, results, "-c", str(ROOT / "reframe/network/ucx_gpu.py"), "-r", "--mode", "smoke",
            "-n", f"UcxGpu%{parameters}$", *more, **variables, GPUEMU_TRACE=str(trace),
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


#: Records every rate of a run with a fault, too. Evidence is demanded all the same.
UNJUDGED = ("-S", "purpose=calibration")

LARGE = "operation=tag_bw%gpus=2%configuration=no-gdrcopy"
SMALL = "operation=tag_lat%gpus=2%configuration=no-gdrcopy"


def test_two_emulated_gpus_pass_and_the_bytes_went_by_ipc(ucx):
    outcome = ucx(SMALL)
    assert outcome.result == "pass", outcome.reason
    assert outcome.record["proof"]["means"] == "count"
    assert set(ways(ucx.trace)) == {"nvlink ipc"}


def test_no_rate_is_judged_but_where_a_fault_must_be_named(ucx):
    """A busy machine copies later than the model says: only a fault that was put in judges."""
    (rate,) = ucx(LARGE).says("").record["metrics"].values()
    assert rate["verdict"] == "RECORDED"
    slow = ucx(LARGE, more=("--max-retries=0",), GPUEMU_FAULT="slow")
    assert slow.result == "fail"
    assert "is below the lower bound 700 MB/s" in slow.reason


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
    healthy = ucx(parameters, version, UNJUDGED)
    broken = ucx(parameters, version, UNJUDGED, GPUEMU_FAULT="ipc-open")
    assert healthy.result == "pass", healthy.reason
    assert healthy.record["proof"]["means"] == "protocol table"
    assert broken.result == "fail"
    assert "cuda_ipc carried nothing: UCX did not choose it" in broken.reason


def test_a_pair_without_access_to_each_other_is_red(ucx):
    outcome = ucx(SMALL, GPUEMU_FAULT="p2p:0-1")
    assert outcome.result == "fail"
    assert "cuda_ipc carried nothing" in outcome.reason


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("driver", "libcuda.so.1 does not start on this node, cuInit says: 803"),
        ("one-gpu", "2 processes used GPU0: 2 GPUs were to be used"),
        ("ecc-rises:1", "uncorrected memory errors since the driver was loaded: "),
    ],
)
def test_a_fault_of_the_gpus_is_red_and_named(ucx, fault, said):
    outcome = ucx(SMALL, GPUEMU_FAULT=fault)
    assert outcome.result == "fail"
    assert said in outcome.reason
    assert ("GPU 1 (GPU-67707565-" in outcome.reason) == fault.startswith("ecc")


def test_a_node_with_one_gpu_is_red_where_two_are_needed(ucx):
    assert ucx(SMALL, GPUEMU_DEVICES="1").result == "skip"
    assert "not accepted: skip not allowed: too-small: 2 GPUs are needed on a node" in ucx.said


def test_a_job_that_sees_one_gpu_is_red_where_two_are_needed(ucx):
    outcome = ucx(SMALL, CUDA_VISIBLE_DEVICES="0")
    assert outcome.result == "fail"
    assert "2 GPUs are needed, the job sees: 0" in outcome.reason


def test_a_gpu_with_itself_passes(ucx):
    outcome = ucx("operation=tag_lat%gpus=1%configuration=no-gdrcopy", GPUEMU_DEVICES="1")
    assert outcome.result == "pass", outcome.reason
    assert set(ways(ucx.trace)) == {"d2d ipc"}


#: Programs of a stack with OSU, and what each of them says of its version.
PROGRAMS = {
    "bin/mpirun": "mpirun (Open MPI) 5.0.7",
    "bin/ucx_info": "# Library version: 1.18.1",
    "bin/ucx_perftest": "",
    "libexec/osu-micro-benchmarks/mpi/pt2pt/osu_latency": "OSU MPI-CUDA Latency Test v7.4",
}


@pytest.fixture
def named(tmp_path, monkeypatch):
    """The stack of a prefix with these programs, which GPUEMU_STACK names."""
    live_program("gcc")
    shell.run(ROOT / "lab/vgpu/build.sh")

    def stack(programs):
        monkeypatch.setenv("GPUEMU_STACK", str(tmp_path))
        for name, said in programs.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            shell.program(file.parent, file.name, f"echo '{said}'")
        return emulation.prefix(SITE)

    return stack


def test_a_named_prefix_is_a_stack_with_its_versions(named, tmp_path):
    stack = named(PROGRAMS)
    said = {name: text for name, text in stack["extras"].items() if name != "provenance"}
    assert said == {"openmpi_version": "5.0.7", "ucx_version": "1.18.1", "osu_version": "7.4"}
    assert stack["prepare_cmds"] == []
    path = dict(stack["env_vars"])["PATH"].split(":")
    folders = ("bin", "libexec/osu-micro-benchmarks/mpi/pt2pt")
    assert path[1:3] == [str(tmp_path / folder) for folder in folders]


#: What ucx_info lists on emulated GPUs, shortened: with gdrcopy, and without it.
LISTED = {
    "# Transport: cuda_copy # Transport: cuda_ipc # Transport: gdr_copy": None,
    "# Transport: cuda_copy # Transport: cuda_ipc": ["gdr_copy"],
    "# Transport: posix": None,  # no GPU was found, so nothing is known
}


@pytest.mark.parametrize("listed", LISTED)
def test_a_ucx_that_was_built_without_gdrcopy_says_so(named, listed):
    programs = {**PROGRAMS, "bin/ucx_info": f"{PROGRAMS['bin/ucx_info']} {listed}"}
    assert named(programs)["extras"].get("ucx_lacks") == LISTED[listed]


def test_a_driver_of_gdrcopy_that_a_fault_takes_away_is_not_left_out(named, monkeypatch):
    monkeypatch.setenv("GPUEMU_FAULT", "gdrdrv")
    # Of the program itself: without a fault it lists gdr_copy.
    listed = "# Transport: cuda_copy # Transport: '${GPUEMU_FAULT:-gdr_copy}'"
    assert "ucx_lacks" not in named({**PROGRAMS, "bin/ucx_info": listed})["extras"]


def test_a_prefix_that_lacks_a_program_is_named(named, tmp_path):
    *others, _ = PROGRAMS
    (said, end) = named({name: PROGRAMS[name] for name in others})["prepare_cmds"]
    assert f"GPUEMU_STACK={tmp_path} has no osu_latency in bin or libexec: name a prefix" in said
    assert end == "exit 1"


def test_a_stack_that_nobody_named_is_refused(monkeypatch):
    monkeypatch.delenv("GPUEMU_STACK", raising=False)
    assert emulation.prefix(SITE) is None
    monkeypatch.setenv("ASSAY_STACK", "vgpu-stack")
    with pytest.raises(ConfigError, match="name its prefix by GPUEMU_STACK"):
        emulation.prefix(SITE)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "fault", "said"),
    [
        ("benchmark=bw%buffers=DD", "", ""),
        ("benchmark=bw%buffers=DD", "ipc-open", "cuda_ipc carried nothing: UCX did not "),
        ("benchmark=latency%buffers=DH", "ipc-open", ""),
        ("benchmark=latency%buffers=DD", "gdrdrv", "transport 'gdr_copy' is not available"),
    ],
)
def test_osu_between_emulated_gpus(tmp_path, name, fault, said):
    live_program("gcc")
    if not gpu_runs.osu_of_stack():
        pytest.skip("needs OSU with CUDA: GPUEMU_STACK names its prefix")
    gdrcopy = bool(gpu_runs.stack_with_gdrcopy())
    if fault == "gdrdrv" and not gdrcopy:
        pytest.skip("needs a UCX with gdrcopy: GPUEMU_STACK names its prefix")
    configuration = "all" if gdrcopy else "no-gdrcopy"
    done = run_reframe(
        SITE, tmp_path / "results", "-c", str(ROOT / "reframe/network/osu_gpu.py"), "-r",
        "-n", f"OsuGpu%{name}%configuration={configuration}$", *UNJUDGED,
        ASSAY_STACK="vgpu-stack", GPUEMU_FAULT=fault,
    )  # fmt: skip
    outcome = done.case("OsuGpu ")
    assert outcome.result == ("fail" if said else "pass"), outcome.reason
    assert said in outcome.reason


@pytest.mark.long
@pytest.mark.parametrize(
    ("broken", "verdict", "said"),
    [
        # One ratio decides nothing.
        ({}, "INCONCLUSIVE", "5 pairs are needed to decide"),
        ({"GPUEMU_FAULT": "ipc-open"}, "FAIL", "round 0: cuda_ipc carried nothing: UCX did not"),
        ({"GPUEMU_FAULT": "one-gpu"}, "FAIL", "used GPU0 of those that it sees (all), it was to"),
        ({"CUDA_VISIBLE_DEVICES": "0"}, "FAIL", "round 0: 2 ranks of "),
    ],
    ids=["healthy", "ipc", "one GPU used", "one GPU seen"],
)
def test_what_the_proof_costs_is_measured_between_two_gpus_on_the_path_under_test(
    tmp_path, broken, verdict, said
):
    live_program("gcc")
    if not gpu_runs.osu_of_stack():
        pytest.skip("needs OSU with CUDA: GPUEMU_STACK names its prefix")
    done = run_reframe(
        SITE, tmp_path / "results", "-c", str(ROOT / "studies/proof"), "-R", "-r",
        "-n", "ProofCostGpu%benchmark=latency%configuration=no-gdrcopy$", "-S", "rounds=1",
        ASSAY_STACK="vgpu-stack", **broken,
    )  # fmt: skip
    outcome = done.case("ProofCostGpu ")
    assert outcome.record["verdict"] == verdict, outcome.reason
    assert said in outcome.reason
