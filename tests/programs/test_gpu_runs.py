"""Tests between GPUs and on GPUs, without a GPU: the faults that turn them red.

No GPU run is recorded yet. The outputs are recorded on a host without a GPU. The lines that the
programs print on a GPU are added from the source of the programs.
"""

import re
import shutil
import subprocess

import pytest
from bench import DATA, ROOT, STUDY, Recorded, run_reframe

from assay.evidence.accelerator import CUDA, ROCM

pytestmark = pytest.mark.slow

POSIX = Recorded.load("osu-latency-posix")
OSU_7_4 = (DATA / "osu/osu_latency.7.4.np2.txt").read_text()
TITLE = "# OSU MPI-CUDA Latency Test v5.7\n"
BUFFERS = "# Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)\n"
NO_IPC = "sm,self,cuda_copy,gdr_copy"
ALL = "sm,self,cuda_copy,cuda_ipc,gdr_copy"
IPC = "posix/memory cuda_ipc/cuda"
WARNING = "[1.0] [vm:12871:0] ucp_context.c:1071 UCX  WARN  transport 'gdr_copy' is not available\n"


def logs(tls=ALL, lanes=IPC, more=""):
    """The log of UCX 1.13.1 over shared memory, with other lanes."""
    return {
        name: text.replace("UCX_TLS=posix,self", f"UCX_TLS={tls}").replace(
            "tag(posix/memory)", f"tag({lanes})"
        )
        + more
        for name, text in POSIX.files.items()
    }


def gpus(*numbers):
    """The files of rank-gpu.sh. ReFrame's local launcher starts no ranks that could write them."""
    return {f"gpu.vm.{rank}": f"vm {rank} all GPU-{gpu}\n" for rank, gpu in enumerate(numbers)}


def latency(ucx=None, took=(0, 1), title=TITLE + BUFFERS, factor=1.0, **change):
    first, rest = POSIX.stdout.split("\n", 1)
    assert first == "# OSU MPI Latency Test v5.7"
    if factor != 1.0:
        lines = (line.split() for line in rest.splitlines())
        rest = "".join(
            " ".join(words if words[0] == "#" else [words[0], f"{float(words[1]) * factor:.2f}"])
            + "\n"
            for words in lines
        )
    files = {**(ucx or logs()), **gpus(*took)}
    return POSIX.but(stdout=title + rest, files=files).but(**change)


def on_two_gpus(bench, *vendor, **more):
    bench.partition(
        launcher="local",
        features=["intra-node", "gpu", *vendor],
        devices=[{"type": "gpu", "num_devices": 2}],
        **more,
    )
    bench.record_all()


def stack(bench, recorded):
    extras = {"ucx_version": "1.13.1", "osu_version": "5.7"}
    path = bench.replay("gpus", "osu_latency", recorded)
    bench.stack("gpus", ["osu-cuda", "ucx", "mpi"], path, **extras)


def point_to_point(bench, recorded, configuration="all"):
    on_two_gpus(bench)
    stack(bench, recorded)
    name = f"OsuGpu%benchmark=latency%buffers=DD%configuration={configuration}$"
    return bench.run("-n", name, path="reframe/network/osu_gpu.py").case("OsuGpu ")


def test_a_healthy_run_passes_with_what_proves_it(bench):
    outcome = point_to_point(bench, latency())
    assert outcome.result == "pass", outcome.reason
    proof = outcome.record["proof"]
    assert proof["gpus"] == [["vm", "0", "all", "GPU-0"], ["vm", "1", "all", "GPU-1"]]
    assert (proof["means"], set(proof["lanes"])) == ("open lane", {"posix/memory", "cuda_ipc/cuda"})


def test_cuda_ipc_off_passes_without_its_lane(bench):
    outcome = point_to_point(bench, latency(logs(NO_IPC, "posix/memory")), "no-ipc")
    assert outcome.result == "pass", outcome.reason
    assert outcome.record["proof"]["means"] == "no lane"


@pytest.mark.parametrize(
    ("recorded", "cause", "configuration"),
    [
        (latency(took=(0,)), "1 ranks took a GPU of their own, 2 started", "all"),
        (latency(took=(0, 0)), "2 ranks of vm took GPU-0", "all"),
        (
            latency(files={**logs(), **gpus(0), "gpu.vm.1": ""}),
            "1 ranks took a GPU of their own, 2 started",
            "all",
        ),
        (
            latency(stdout=OSU_7_4.replace("OSU MPI ", "OSU MPI-CUDA ")),
            "neither OSU nor this UCX says where the buffers were",
            "all",
        ),
        (
            latency(files={**logs(), "gpu.vm.0": "vm 0 all unknown\n", "gpu.vm.1": "vm 1 all x\n"}),
            "which GPU a rank took is not known",
            "all",
        ),
        (
            latency(title="# OSU MPI Latency Test v5.7\n"),
            "the accelerator was None, cuda was asked for",
            "all",
        ),
        (
            latency(title=TITLE + BUFFERS.replace("DEVICE (D)", "HOST (H)", 1)),
            "the buffers were {'send': 'host', 'receive': 'device'}",
            "all",
        ),
        (
            latency(stderr=POSIX.stderr.replace("component ucx", "component ob1")),
            "Open MPI chose the pml ob1",
            "all",
        ),
        (latency(logs(lanes="posix/memory")), "no lane of cuda_ipc", "all"),
        (latency(logs(NO_IPC)), "cuda_ipc/cuda is open between the processes", "no-ipc"),
        (latency(logs(ALL)), f"UCX_TLS was {ALL} where the program ran", "no-ipc"),
        (latency(logs(more=WARNING)), "transport 'gdr_copy' is not available", "all"),
    ],
    ids=[
        "a rank without", "one GPU for both", "torn", "buffers unknown", "unknown GPU",
        "built without CUDA", "other buffers", "another pml", "IPC missing", "IPC not off",
        "another list", "gdrcopy missing",
    ],
)  # fmt: skip
def test_what_a_run_must_not_hide(bench, recorded, cause, configuration):
    outcome = point_to_point(bench, recorded, configuration)
    assert outcome.result == "fail"
    assert cause in outcome.reason


def test_a_partition_that_does_not_say_how_many_gpus_it_has(bench):
    bench.partition(launcher="local", features=["intra-node", "gpu"])
    bench.record_all()
    stack(bench, latency())
    name = "OsuGpu%benchmark=latency%buffers=DD%configuration=all$"
    outcome = bench.run("-n", name, path="reframe/network/osu_gpu.py").case("OsuGpu ")
    assert outcome.result == "fail"
    assert "devices: the number of GPUs (type gpu) is missing" in outcome.reason


#: The same program with and without gdrcopy. UCX_TLS selects the recorded run.
BOTH = """#!/bin/sh
here={here}
case "$UCX_TLS" in
*gdr_copy*) run=with ;;
*) run=without ;;
esac
exec "$here/$run/osu_latency"
"""


@pytest.mark.parametrize(("factor", "result"), [(3.0, "pass"), (1.0, "fail")])
def test_gdrcopy_that_does_not_help_small_messages(bench, factor, result):
    on_two_gpus(bench)
    without = latency(logs("sm,self,cuda_copy,cuda_ipc"), factor=factor)
    for name, recorded in (("with", latency()), ("without", without)):
        bench.replay(name, "osu_latency", recorded)
    path = bench.program("gpus", "osu_latency", BOTH.format(here=bench.folder / "programs"))
    extras = {"ucx_version": "1.13.1", "osu_version": "5.7"}
    bench.stack("gpus", ["osu-cuda", "ucx", "mpi"], path, **extras)
    bench.expect(
        "OsuGpuRelation",
        {"ratio": {"value": 1.5, "unit": "1", "lower": 0, "upper": None}},
        relation="gdrcopy-small-intra",
    )
    run = bench.run(
        "-n", "OsuGpuRelation%relation=gdrcopy-small-intra", path="reframe/network/osu_gpu.py"
    )
    outcome = run.case("OsuGpuRelation")
    assert outcome.result == result, outcome.reason
    assert outcome.record["metrics"]["ratio"]["value"] == pytest.approx(factor, rel=0.05)


#: Server and client are the same program, with one output each.
PERFTEST = """#!/bin/sh
here={here}
case "$*" in
-h) exit ;;
127.0.0.1*) cat "$here/client"; cat "$here/gdrcopy" >&2; cp "$here"/ucx.* . ;;
*) cat "$here/server" ;;
esac
"""


def perftest(bench, ucx, configuration="all", **said):
    """Runs UcxGpu on a recorded run of UCX 1.13.1 in host memory, with other lanes and memory."""
    said = {"memory": "cuda", "gdrcopy": "", "visible": 2, "iterations": 2000, **said}
    here = bench.folder / "perftest"
    here.mkdir()
    data = DATA / "ucx-perftest"
    server = (data / "ucx_perftest.1.13.1.tag_lat.server.txt").read_text()
    assert "memory:  host" in server
    (here / "server").write_text(server.replace("memory:  host", f"memory:  {said['memory']}"))
    client = (data / "ucx_perftest.1.13.1.tag_lat.txt").read_text()
    (here / "client").write_text(client.replace("200000", str(said["iterations"])))
    (here / "gdrcopy").write_text(said["gdrcopy"])
    for name, text in ucx.items():
        (here / name).write_text(text)
    on_two_gpus(bench)
    path = bench.program("gpus", "ucx_perftest", PERFTEST.format(here=here))
    listed = "".join(f"echo GPU-{gpu}\n" for gpu in range(said["visible"]))
    bench.program("gpus", "nvidia-smi", f"#!/bin/sh\n{listed}")
    bench.stack("gpus", ["ucx", "ucx-perftest", "ucx-cuda"], path, ucx_version="1.13.1")
    name = f"UcxGpu%operation=tag_lat%gpus=2%configuration={configuration}$"
    return bench.run("-n", name, path="reframe/network/ucx_gpu.py").case("UcxGpu ")


COPIED = "DBG:  using AVX implementation of gdr_copy_to_mapping\n"


def test_ucx_alone_between_gpus(bench):
    outcome = perftest(bench, logs(), gdrcopy=COPIED)
    assert outcome.result == "pass", outcome.reason
    assert outcome.record["proof"]["gdrcopy"] == "copied"


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"memory": "host"}, "the buffers were in host memory"),
        ({"visible": 1}, "2 GPUs are needed, the job sees: GPU-0"),
        ({"iterations": 2}, "2 iterations were run, 2000 were asked for"),
        ({"ucx": logs(lanes="posix/memory")}, "no lane of cuda_ipc between the processes"),
        (
            {
                "ucx": logs("sm,self,cuda_copy,cuda_ipc"),
                "gdrcopy": COPIED,
                "configuration": "no-gdrcopy",
            },
            "gdrcopy copied: it should be off",
        ),
    ],
    ids=["host memory", "one GPU to see", "iterations", "IPC missing", "gdrcopy not off"],
)
def test_what_ucx_alone_must_not_hide(bench, change, cause):
    outcome = perftest(bench, **{"ucx": logs(), **change})
    assert outcome.result == "fail"
    assert cause in outcome.reason


def on_rocm(bench, recorded, vendor="rocm"):
    """Runs OsuGpu on a stack for GPUs of AMD, with the log of UCX 1.13.1 as one of 1.14.0."""
    on_two_gpus(bench, vendor)
    path = bench.replay("gpus", "osu_latency", recorded)
    extras = {"ucx_version": "1.14.0", "osu_version": "5.7"}
    bench.stack("gpus", ["osu-rocm", "ucx", "mpi"], path, **extras)
    name = "OsuGpu%benchmark=latency%buffers=DD%configuration=all$"
    return bench.run("-n", name, path="reframe/network/osu_gpu.py")


def of_amd(title="# OSU MPI-ROCM Latency Test v5.7\n"):
    said = logs("sm,self,rocm_copy,rocm_ipc", "posix/memory rocm_ipc/rocm_ipc")
    ucx = {name: text.replace("1.13.1", "1.14.0") for name, text in said.items()}
    return latency(ucx, title=title + BUFFERS)


def test_a_healthy_run_on_gpus_of_amd_fails_for_want_of_a_proof_alone(bench):
    outcome = on_rocm(bench, of_amd()).case("OsuGpu ")
    assert outcome.result == "fail"
    assert outcome.record["problems"] == [ROCM.unproven]
    assert "rocm_ipc/rocm_ipc" in outcome.record["proof"]["lanes"]


def test_what_a_run_on_gpus_of_amd_must_not_hide(bench):
    outcome = on_rocm(bench, of_amd(TITLE)).case("OsuGpu ")
    assert "the accelerator was cuda, rocm was asked for" in outcome.reason


def test_a_stack_for_the_gpus_of_another_vendor_is_skipped_with_that_reason(bench):
    run = on_rocm(bench, of_amd(), "cuda")
    assert run.case("OsuGpu ").result == "skip"
    why = "the stack gpus is built for GPUs of AMD; bench:here has those of NVIDIA"
    assert why in run.output


def test_mpirun_passes_the_switches_of_ucx_and_gdrcopy_to_other_nodes(bench):
    """mpirun passes only OMPI_* by itself; ranks of other nodes would lack the switches."""
    bench.partition(
        features=["inter-node", "infiniband", "gpu"],
        devices=[{"type": "gpu", "num_devices": 2}],
        extras={"network_device": "mlx5_0:1", "nodes": 2},
    )
    bench.record_all()
    stack(bench, latency())
    name = "OsuGpu%benchmark=latency%buffers=DD%configuration=all$"
    run_reframe(
        *(bench.write(), bench.results, "--dry-run"),
        *("-c", "reframe/network/osu_gpu.py", "-n", name),
    )
    (script,) = bench.results.glob("stage/**/rfm_job.sh")
    text = script.read_text()
    exported = set(re.findall(r"^export ((?:UCX|GDRCOPY)_\w+)=", text, re.MULTILINE))
    assert {"UCX_TLS", "UCX_LOG_FILE", "UCX_IB_GPU_DIRECT_RDMA", "GDRCOPY_LOG_LEVEL"} <= exported
    (launch,) = re.findall(r"^mpirun .*", text, re.MULTILINE)
    assert set(re.findall(r"-x (\S+)", launch)) == exported


def of_nvidia(recorded):
    """Adds the banner that HPL-NVIDIA prints above the output of HPL."""
    banner = "HPL-NVIDIA 1.0.0  -- NVIDIA accelerated HPL benchmark -- NVIDIA\n" + "=" * 80 + "\n"
    return recorded.but(
        stdout=recorded.stdout.replace("HPLinpack 2.3", f"{banner}HPLinpack 2.1", 1)
    )


@pytest.mark.parametrize(
    ("recorded", "cause"),
    [
        (of_nvidia(STUDY), ""),
        (STUDY, "xhpl ran, which computes on the host's cores"),
        (of_nvidia(STUDY).but(rc=1), "exit code 1"),
    ],
    ids=["healthy", "the host's HPL", "exit code"],
)
def test_hpl_on_gpus(bench, recorded, cause):
    hardware = {"hardware": {"gpu": "v100-sxm2-32gb"}}
    on_two_gpus(bench, extras={"memory_bytes": 2**33, "memory_fraction": 0.02, **hardware})
    path = bench.replay("gpus", "hpl.sh", recorded)
    extras = {"hpl_gpu_command": "hpl.sh", "hpl_gpu_block": 192}
    bench.stack("gpus", ["mpi", "hpl-gpu"], path, **extras)
    run = bench.run(
        "-n", "GpuHplStudy%nodes=1$", "--mode", "paper-smoke", path="reframe/compute/hpl_study.py"
    )
    outcome = run.case("GpuHplStudy")
    assert outcome.result == ("fail" if cause else "pass"), outcome.reason
    assert cause in outcome.reason


@pytest.mark.parametrize(
    ("vendors", "built", "result", "reason"),
    [
        (["rocm"], [], "fail", "bench:here: no HPL for GPUs of AMD is known: take hpl-gpu out of"),
        (["rocm"], ["ucx-rocm"], "fail", "no HPL for GPUs of AMD is known"),
        (["rocm"], ["ucx-cuda"], "skip", "gpus is built for GPUs of NVIDIA; bench:here has those"),
        (["cuda", "rocm"], ["ucx-cuda"], "pass", ""),
        (["cuda", "rocm"], [], "fail", "the HPL of the stack gpus may be for GPUs of NVIDIA and"),
        ([], ["ucx-cuda", "osu-rocm"], "fail", "may be for GPUs of NVIDIA and AMD: describe the"),
    ],
)
def test_the_vendor_of_hpl_on_gpus_follows_from_stack_and_partition(
    bench, vendors, built, result, reason
):
    hardware = {"hardware": {"gpu": "v100-sxm2-32gb"}}
    on_two_gpus(
        bench, *vendors, extras={"memory_bytes": 2**33, "memory_fraction": 0.02, **hardware}
    )
    path = bench.replay("gpus", "hpl.sh", of_nvidia(STUDY))
    extras = {"hpl_gpu_command": "hpl.sh", "hpl_gpu_block": 192, "ucx_version": "1.14.0"}
    bench.stack("gpus", ["mpi", "hpl-gpu", *built], path, **extras)
    run = bench.run(
        "-n", "GpuHplStudy%nodes=1$", "--mode", "paper-smoke", path="reframe/compute/hpl_study.py"
    )
    outcome = run.case("GpuHplStudy")
    assert outcome.result == result, outcome.reason
    assert reason in (run.output if result == "skip" else outcome.reason)


@pytest.mark.parametrize(
    ("launcher", "variable"),
    [
        ("mpirun", "OMPI_COMM_WORLD_LOCAL_RANK"),
        ("srun", "SLURM_LOCALID"),
        ("PMI", "PMI_LOCAL_RANK"),
    ],
)
def test_a_rank_takes_the_gpu_of_its_number(tmp_path, launcher, variable):
    done = rank_gpu(tmp_path, {variable: "3"})
    assert (done.returncode, done.stdout) == (0, "3\n")
    (file,) = tmp_path.glob("gpu.*.3")
    assert file.read_text().split()[1:] == ["3", "all", "unknown"]


@pytest.mark.parametrize(
    ("visible", "rank", "taken"),
    [
        (None, 1, "GPU-b"),
        (None, 5, "GPU-b"),
        ("2,3", 1, "GPU-d"),
        ("GPU-b,GPU-a", 0, "GPU-b"),
        ("1", 3, "GPU-b"),
    ],
)
def test_the_gpu_of_a_rank_is_known_by_its_uuid(tmp_path, visible, rank, taken):
    smi = tmp_path / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text("#!/bin/sh\nprintf 'GPU-a\\nGPU-b\\nGPU-c\\nGPU-d\\n'\n")
    smi.chmod(0o755)
    variables = {"SLURM_LOCALID": str(rank), "PATH": f"{smi.parent}:/usr/bin:/bin"}
    if visible:
        variables["CUDA_VISIBLE_DEVICES"] = visible
    assert rank_gpu(tmp_path, variables).returncode == 0
    (file,) = tmp_path.glob("gpu.*")
    assert file.read_text().split()[-1] == taken


@pytest.mark.parametrize(
    ("variables", "rank", "taken"),
    [
        ({}, 1, "GPU-b2"),
        ({"ROCR_VISIBLE_DEVICES": "1,0"}, 0, "GPU-b2"),
        ({"ROCR_VISIBLE_DEVICES": "GPU-b2,GPU-a1"}, 1, "GPU-a1"),
        # HIP numbers the GPUs once more, which UCX does not see.
        ({"HIP_VISIBLE_DEVICES": "1"}, 0, "unknown"),
        ({"ROCR_VISIBLE_DEVICES": "0,1", "CUDA_VISIBLE_DEVICES": "0,1"}, 0, "unknown"),
    ],
)
def test_the_gpu_of_a_rank_on_gpus_of_amd(tmp_path, variables, rank, taken):
    info = tmp_path / "bin" / "rocminfo"
    info.parent.mkdir()
    info.write_text(
        '#!/bin/sh\n[ -z "${ROCR_VISIBLE_DEVICES:-}" ] || exit 1\n'
        "printf '  Uuid:      CPU-XX \\n  Uuid:      GPU-a1  \\n  Uuid:      GPU-b2  \\n'\n"
    )
    info.chmod(0o755)
    given = {"SLURM_LOCALID": str(rank), "PATH": f"{info.parent}:/usr/bin:/bin", **variables}
    assert rank_gpu(tmp_path, given, ROCM).returncode == 0
    (file,) = tmp_path.glob("gpu.*")
    assert file.read_text().split()[-1] == taken


def test_a_launcher_that_does_not_number_its_ranks(tmp_path):
    done = rank_gpu(tmp_path, {})
    assert done.returncode == 1
    assert done.stderr.startswith("rank-gpu.sh: the launcher does not say the number of this rank")
    assert not list(tmp_path.glob("gpu.*"))


def rank_gpu(folder, variables, gpu=CUDA):
    """Starts the script where a test puts it, with the file of the vendor beside it."""
    stage = folder / "stage"
    stage.mkdir()
    shutil.copy(ROOT / "src/assay/onnode/rank-gpu.sh", stage)
    (stage / "gpus.sh").write_text(gpu.for_ranks())
    return subprocess.run(
        ["sh", str(stage / "rank-gpu.sh"), "sh", "-c", "echo $LOCAL_RANK"],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", **variables},
        capture_output=True,
        text=True,
        check=False,
    )
