"""Tests between GPUs and on GPUs, without a GPU: the faults that turn them red.

No GPU run is recorded yet. The outputs are recorded on a host without a GPU. The lines that the
programs print on a GPU are added from the source of the programs. The state of the GPUs is that of
the emulated ones of docs/vgpu.md.
"""

import os
import re
import shutil
import subprocess

import pytest
import shell
from bench import DATA, ROOT, STUDY, Recorded, live_program, run_reframe
from msgspec.structs import replace

from assay.gpu import gpu_health
from assay.gpu.accelerator import CUDA, ROCM
from assay.gpu.parse.nvidia_smi import Reading
from assay.prove import plan, steering

pytestmark = pytest.mark.slow

EMULATED = ROOT / "build/vgpu"
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
    return {
        f"gpu.vm.{rank}": f"vm {rank} all GPU-{gpu} 0 {gpu} unknown unknown unknown unknown\n"
        for rank, gpu in enumerate(numbers)
    }


def latency(ucx=None, took=(0, 1), title=TITLE + BUFFERS, factor=1.0, **change):
    first, rest = POSIX.stdout.split("\n", 1)
    assert first == "# OSU MPI Latency Test v5.7"
    # What was recorded is between processors, and faster than any GPU.
    slower = lambda row: f"{row[1]}{4 * float(row[2]) * factor:.2f}"  # noqa: E731
    rest = re.sub(r"(?m)^(\d+ +)(\S+)$", slower, rest)
    files = {**(ucx or logs()), **gpus(*took)}
    return POSIX.but(stdout=title + rest, files=files).but(**change)


def on_two_gpus(bench, *vendor, **more):
    bench.partition(
        launcher="replay",
        features=["intra-node", "gpu", *vendor],
        devices=[{"type": "gpu", "num_devices": 2}],
        **more,
    )
    bench.record_all()


@pytest.fixture(autouse=True)
def built():
    live_program("gcc")
    subprocess.run([str(ROOT / "lab/vgpu/build.sh")], check=True)


def on_emulated_gpus(bench, **variables):
    """The programs of the last stack see the emulated GPUs."""
    (name, path), *more = bench.environments[-1]["env_vars"]
    assert name == "PATH"
    bench.environments[-1]["env_vars"] = [
        ["PATH", f"{EMULATED}/bin:{path}"],
        ["LD_LIBRARY_PATH", f"{EMULATED}/lib"],
        *more,
        *([name, value] for name, value in variables.items()),
    ]


def stack(bench, recorded, name="gpus", word="cuda", ucx_version="1.13.1"):
    extras = {"ucx_version": ucx_version, "osu_version": "5.7"}
    bench.replays("osu_latency", [f"osu-{word}", "ucx", "mpi"], {name: recorded}, **extras)
    on_emulated_gpus(bench)


def point_to_point(bench, configuration="all"):
    """Runs OsuGpu on each stack."""
    name = f"OsuGpu%benchmark=latency%buffers=DD%configuration={configuration}$"
    return bench.run("-n", name, path="reframe/network/osu_gpu.py")


#: Configuration -> stack -> its recorded run, and why the run must not pass.
RUNS = {
    "all": {
        "healthy": (latency(), ""),
        "a-rank-without": (latency(took=(0,)), "1 of 2 ranks took a GPU of their own"),
        "one-gpu-for-both": (latency(took=(0, 0)), "2 ranks of vm took GPU-0"),
        "torn": (
            latency(files={**logs(), **gpus(0), "gpu.vm.1": ""}),
            "1 of 2 ranks took a GPU of their own",
        ),
        "buffers-unknown": (
            latency(stdout=OSU_7_4.replace("OSU MPI ", "OSU MPI-CUDA ")),
            "neither OSU nor this UCX says where the buffers were",
        ),
        "far": (
            latency(files={**logs(), **gpus(0), "gpu.vm.1": "vm 1 all GPU-1 0 1 8-9 0-3 0-3 no\n"}),
            "rank 1 of vm runs on processors 8-9, far from GPU-1, which is near 0-3: the job may",
        ),
        "unknown-gpu": (
            latency(
                files={
                    **logs(),
                    **gpus(0, 1),
                    "gpu.vm.0": "vm 0 all unknown 0 0 0 unknown unknown no\n",
                }
            ),
            "which GPU a rank took is not known",
        ),
        "built-without-cuda": (
            latency(title="# OSU MPI Latency Test v5.7\n"),
            "osu_latency was built without GPUs: build it for cuda, or take osu-cuda out of the "
            "features of the stack built-without-cuda (",
        ),
        "other-buffers": (
            latency(title=TITLE + BUFFERS.replace("DEVICE (D)", "HOST (H)", 1)),
            "the buffers were {'send': 'host', 'receive': 'device'}",
        ),
        "another-pml": (
            latency(stderr=POSIX.stderr.replace("component ucx", "component ob1")),
            "Open MPI chose the pml ob1",
        ),
        "ipc-missing": (latency(logs(lanes="posix/memory")), "no lane of cuda_ipc"),
        "gdrcopy-missing": (latency(logs(more=WARNING)), "transport 'gdr_copy' is not available"),
    },
    "no-ipc": {
        "healthy": (latency(logs(NO_IPC, "posix/memory")), ""),
        "ipc-not-off": (latency(logs(NO_IPC)), "cuda_ipc/cuda is open between the processes"),
        "another-list": (latency(), f"UCX_TLS was {ALL} where the program ran"),
    },
}


@pytest.mark.parametrize("configuration", RUNS)
def test_a_healthy_run_passes_and_what_a_run_must_not_hide_is_red(bench, configuration):
    on_two_gpus(bench)
    for name, (recorded, _) in RUNS[configuration].items():
        stack(bench, recorded, name)
    run = point_to_point(bench, configuration)
    for name, (_, cause) in RUNS[configuration].items():
        run.says("OsuGpu ", cause, environ=name)
    proof = run.case("OsuGpu ", "healthy").record["proof"]
    assert proof["gpus"] == [["vm", "0", "all", "GPU-0"], ["vm", "1", "all", "GPU-1"]]
    assert len(proof["state"]["read"]) == 4
    shown = (proof["means"], set(proof["lanes"]))
    assert (
        shown
        == {
            "all": ("open lane", {"posix/memory", "cuda_ipc/cuda"}),
            "no-ipc": ("no lane", {"posix/memory"}),
        }[configuration]
    )


@pytest.mark.parametrize("configuration", ["all", "no-rdma"])
def test_an_adapter_that_cannot_reach_the_memory_of_the_gpus(bench, configuration):
    """UCX opens the device all the same, and copies through the host."""
    extras = {"network_device": "mlx5_0:1", "nodes": 2}
    features = ["inter-node", "infiniband", "gpu", "cuda"]
    devices = [{"type": "gpu", "num_devices": 2}]
    bench.partition(launcher="replay", features=features, devices=devices, extras=extras)
    bench.record_all()
    places = {"gpu.vm.0": "vm 0 all GPU-0 0 0 0 0-3 0-3 no\n"}
    stack(bench, latency(files={**logs("rc,self,cuda_copy,cuda_ipc,gdr_copy"), **places}))
    record = point_to_point(bench, configuration).case("OsuGpu ").record
    named = [each for each in record["problems"] if "its adapters cannot reach their" in each]
    assert bool(named) == (configuration == "all"), record["problems"]
    assert record["proof"].get("rdma", {}) == ({"vm": "no"} if named else {})


def test_a_partition_that_does_not_say_how_many_gpus_it_has(bench):
    bench.partition(launcher="replay", features=["intra-node", "gpu"])
    stack(bench, latency())
    run = point_to_point(bench)
    assert run.case("OsuGpu ").result == "skip"
    assert "devices: the number of GPUs (type gpu) is missing" in run.output


#: The same program with and without gdrcopy. UCX_TLS selects the recorded run.
BOTH = """#!/bin/sh
here={here}
case "$UCX_TLS" in
*gdr_copy*) run=with ;;
*) run=without ;;
esac
exec "$here/$run/osu_latency"
"""


def test_gdrcopy_that_does_not_help_small_messages(bench):
    on_two_gpus(bench)
    factors = {"helps": 3.0, "useless": 1.0}
    for name, factor in factors.items():
        without = latency(logs("sm,self,cuda_copy,cuda_ipc"), factor=factor)
        for run, recorded in (("with", latency()), ("without", without)):
            bench.replay(f"{name}/{run}", "osu_latency", recorded)
        script = BOTH.format(here=bench.folder / "programs" / name)
        path = bench.program(name, "osu_latency", script)
        extras = {"ucx_version": "1.13.1", "osu_version": "5.7"}
        bench.stack(name, ["osu-cuda", "ucx", "mpi"], path, **extras)
        on_emulated_gpus(bench)
    relation = {"relation": "gdrcopy-small-intra"}
    ratio = {"value": 2.0, "unit": "1", "lower": 0, "upper": 1}
    bench.expect("OsuGpuRelation", {"ratio": ratio}, **relation)
    name = "OsuGpuRelation%relation=gdrcopy-small-intra"
    run = bench.run("-n", name, path="reframe/network/osu_gpu.py")
    for name, factor in factors.items():
        outcome = run.case("OsuGpuRelation", name)
        assert outcome.result == ("pass" if name == "helps" else "fail"), outcome.reason
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


def perftest(bench, name, **said):
    """A stack with a run of UCX 1.13.1 recorded in host memory, with other lanes and memory."""
    defaults = {
        "ucx": logs(),
        "memory": "cuda",
        "gdrcopy": "",
        "visible": 2,
        "iterations": 2000,
        "fault": "",
    }
    said = {**defaults, **said}
    here = bench.folder / "perftest" / name
    here.mkdir(parents=True)
    data = DATA / "ucx-perftest"
    server = (data / "ucx_perftest.1.13.1.tag_lat.server.txt").read_text()
    assert "memory:  host" in server
    (here / "server").write_text(server.replace("memory:  host", f"memory:  {said['memory']}"))
    client = (data / "ucx_perftest.1.13.1.tag_lat.txt").read_text()
    (here / "client").write_text(client.replace("200000", str(said["iterations"])))
    (here / "gdrcopy").write_text(said["gdrcopy"])
    for file, text in said["ucx"].items():
        (here / file).write_text(text)
    path = bench.program(name, "ucx_perftest", PERFTEST.format(here=here))
    bench.stack(name, ["ucx", "ucx-perftest", "ucx-cuda"], path, ucx_version="1.13.1")
    on_emulated_gpus(bench, GPUEMU_DEVICES=str(said["visible"]), GPUEMU_FAULT=said["fault"])


COPIED = "DBG:  using AVX implementation of gdr_copy_to_mapping\n"

#: Configuration -> stack -> what differs in its run, and why the run must not pass.
UCX_RUNS = {
    "all": {
        "healthy": ({"gdrcopy": COPIED}, ""),
        "host-memory": ({"memory": "host"}, "the buffers were in host memory"),
        "one-gpu-to-see": ({"visible": 1}, "2 GPUs are needed, the job sees: GPU-67707565"),
        "memory-errors": ({"fault": "ecc-rises:1"}, "uncorrected memory errors since the driver"),
        "link-errors": (
            {"fault": "nvlink-errors:1"},
            "NVLink 0: packets that the NVLink sent again",
        ),
        "iterations": ({"iterations": 2}, "2 iterations were run, 2000 were asked for"),
        "ipc-missing": (
            {"ucx": logs(lanes="posix/memory")},
            "no lane of cuda_ipc between the processes",
        ),
    },
    "no-gdrcopy": {
        "healthy": ({"ucx": logs("sm,self,cuda_copy,cuda_ipc")}, ""),
        "gdrcopy-not-off": (
            {"ucx": logs("sm,self,cuda_copy,cuda_ipc"), "gdrcopy": COPIED},
            "gdrcopy copied: it should be off",
        ),
    },
}


@pytest.mark.parametrize("configuration", UCX_RUNS)
def test_ucx_alone_between_gpus_and_what_it_must_not_hide(bench, configuration):
    on_two_gpus(bench)
    for name, (change, _) in UCX_RUNS[configuration].items():
        perftest(bench, name, **change)
    case = f"UcxGpu%operation=tag_lat%gpus=2%configuration={configuration}$"
    run = bench.run("-n", case, path="reframe/network/ucx_gpu.py")
    for name, (_, cause) in UCX_RUNS[configuration].items():
        run.says("UcxGpu ", cause, environ=name)
    copied = run.case("UcxGpu ", "healthy").record["proof"]["gdrcopy"]
    assert (copied == "copied") is (configuration == "all")


def of_amd(title="# OSU MPI-ROCM Latency Test v5.7\n"):
    """The log of UCX 1.13.1 as one of 1.14.0 on GPUs of AMD."""
    said = logs("sm,self,rocm_copy,rocm_ipc", "posix/memory rocm_ipc/rocm_ipc")
    ucx = {name: text.replace("1.13.1", "1.14.0") for name, text in said.items()}
    return latency(ucx, title=title + BUFFERS)


def test_no_run_on_gpus_of_amd_passes_before_its_proof_was_seen_in_a_real_log(bench):
    on_two_gpus(bench, "rocm")
    stack(bench, of_amd(), "healthy", "rocm", "1.14.0")
    stack(bench, of_amd(TITLE), "other-gpus", "rocm", "1.14.0")
    run = point_to_point(bench)
    said = "osu_latency was built for GPUs of cuda: build it for rocm, or take osu-rocm out of"
    run.says("OsuGpu ", said, environ="other-gpus")
    record = run.case("OsuGpu ", "healthy").record
    assert record["problems"] == [ROCM.unproven]
    assert "rocm_ipc/rocm_ipc" in record["proof"]["lanes"]


def test_a_stack_for_the_gpus_of_another_vendor_is_skipped_with_that_reason(bench):
    on_two_gpus(bench, "cuda")
    stack(bench, of_amd(), word="rocm", ucx_version="1.14.0")
    run = point_to_point(bench)
    assert run.case("OsuGpu ").result == "skip"
    why = "the stack gpus is built for GPUs of AMD; bench:here has those of NVIDIA"
    assert why in run.output


def test_cases_with_a_transport_that_the_ucx_of_the_stack_lacks_are_skipped(bench):
    on_two_gpus(bench)
    stack(bench, latency())
    bench.environments[-1]["extras"]["ucx_lacks"] = ["gdr_copy"]
    run = point_to_point(bench)
    assert run.case("OsuGpu ").result == "skip"
    assert "the UCX of the stack gpus has no gdr_copy (ucx_lacks)" in run.output
    assert point_to_point(bench, "no-gdrcopy").case("OsuGpu ").result != "skip"


def test_mpirun_passes_the_switches_of_ucx_and_gdrcopy_to_other_nodes(bench):
    """mpirun passes only OMPI_* by itself; ranks of other nodes would lack the switches."""
    bench.partition(
        features=["inter-node", "infiniband", "gpu"],
        devices=[{"type": "gpu", "num_devices": 2}],
        extras={"network_device": "mlx5_0:1", "nodes": 2},
    )
    stack(bench, latency())
    name = "OsuGpu%benchmark=latency%buffers=DD%configuration=all$"
    options = ("--dry-run", "-c", "reframe/network/osu_gpu.py", "-n", name)
    run_reframe(bench.write(), bench.results, *options)
    (script,) = bench.results.glob("stage/**/rfm_job.sh")
    text = script.read_text()
    exported = set(re.findall(r"^export ((?:UCX|GDRCOPY)_\w+)=", text, re.MULTILINE))
    assert {"UCX_TLS", "UCX_LOG_FILE", "UCX_IB_GPU_DIRECT_RDMA", "GDRCOPY_LOG_LEVEL"} <= exported
    (launch,) = re.findall(r"^mpirun .*", text, re.MULTILINE)
    assert set(re.findall(r"-x (\S+)", launch)) == exported


#: Variables by which srun, mpirun of two generations and MVAPICH2 bind no rank.
BOUND_BY_NOBODY = {
    "SLURM_CPU_BIND=none",
    "OMPI_MCA_hwloc_base_binding_policy=none",
    "PRTE_MCA_hwloc_default_binding_policy=none",
    "MV2_ENABLE_AFFINITY=0",
}


@pytest.mark.parametrize(
    ("launcher", "binding"),
    [("srun", ""), ("mpirun", ""), ("srun", "launcher"), ("srun", "gpu")],
)
def test_the_launcher_binds_no_rank_unless_the_site_leaves_it_to_it(bench, launcher, binding):
    bench.partition(
        features=["intra-node", "gpu"], devices=[{"type": "gpu", "num_devices": 2}],
        launcher=launcher, extras={"binding": binding} if binding else {},
    )  # fmt: skip
    stack(bench, latency())
    name = "OsuGpu%benchmark=latency%buffers=DD%configuration=all$"
    done = run_reframe(
        bench.write(), bench.results, "--dry-run", "-c", "reframe/network/osu_gpu.py", "-n", name
    )
    if binding == "gpu":
        assert "extras: binding is 'gpu'; write launcher, or leave it out" in done.output
        return
    (script,) = bench.results.glob("stage/**/rfm_job.sh")
    exported = {line.removeprefix("export ") for line in script.read_text().splitlines()}
    assert exported & BOUND_BY_NOBODY == (set() if binding else BOUND_BY_NOBODY)
    assert f"\nbinding={binding or 'suite'}\n" in (script.parent / "gpus.sh").read_text()
    (launch,) = re.findall(rf"^{launcher} .*", script.read_text(), re.MULTILINE)
    assert "/rank-gpu.sh " in launch


def of_nvidia(recorded):
    """Adds the banner that HPL-NVIDIA prints above the output of HPL."""
    banner = "HPL-NVIDIA 1.0.0  -- NVIDIA accelerated HPL benchmark -- NVIDIA\n" + "=" * 80 + "\n"
    return recorded.but(
        stdout=recorded.stdout.replace("HPLinpack 2.3", f"{banner}HPLinpack 2.1", 1)
    )


def hpl_study(bench, vendors, stacks, **variables):
    """Runs HPL on GPUs of these vendors. `stacks`: its recorded run, and its further features."""
    memory = {"memory_bytes": 2**33, "memory_fraction": 0.02}
    on_two_gpus(bench, *vendors, extras={**memory, "hardware": {"gpu": "v100-sxm2-32gb"}})
    extras = {"hpl_gpu_command": "hpl.sh", "hpl_gpu_block": 192, "ucx_version": "1.14.0"}
    for name, (recorded, *built) in stacks.items():
        bench.replays("hpl.sh", ["mpi", "hpl-gpu", *built], {name: recorded}, **extras)
        on_emulated_gpus(bench, **variables)
    case = ("-n", "GpuHplStudy%nodes=1$", "--mode", "paper-smoke")
    return bench.run(*case, path="reframe/compute/hpl_study.py")


def test_hpl_on_gpus(bench):
    torn = of_nvidia(STUDY).but(rc=1)
    run = hpl_study(bench, [], {"gpus": (of_nvidia(STUDY),), "host": (STUDY,), "torn": (torn,)})
    run.says("GpuHplStudy", environ="gpus")
    run.says("GpuHplStudy", "xhpl ran, which computes on the host's cores", environ="host")
    run.says("GpuHplStudy", "exit code 1", environ="torn")


def test_hpl_on_gpus_that_fail_or_are_far_from_their_ranks(bench):
    far = {"gpu.vm.0": "vm 0 all GPU-0 0 0 8-9 0-3 unknown no\n"}
    recorded = of_nvidia(STUDY).but(files={**STUDY.files, **far})
    run = hpl_study(bench, [], {"gpus": (recorded,)}, GPUEMU_FAULT="ecc-rises:1")
    run.says("GpuHplStudy", "uncorrected memory errors since the driver", environ="gpus")
    problems = run.case("GpuHplStudy").record["problems"]
    assert any("rank 0 of vm runs on processors 8-9, far from GPU-0" in each for each in problems)
    assert "1 of 2 ranks took a GPU of their own" in problems
    assert len(run.case("GpuHplStudy").record["proof"]["state"]["read"]) == 4


EXEC, SIF = "apptainer exec --nv", "/opt/hpc-benchmarks-21.4-hpl.sif"


@pytest.mark.parametrize(
    ("extras", "said"),
    [
        ({"hpl_gpu_command": f"{EXEC} {SIF} hpl.sh", "image": SIF}, ""),
        ({"hpl_gpu_command": f"{EXEC} hpl.sif hpl.sh", "image": SIF}, "hpl.sif is no absolute"),
        ({"hpl_gpu_command": "hpl.sh", "image": "images/hpl"}, "images/hpl is no absolute path"),
        ({"hpl_gpu_command": f"{EXEC} {SIF} hpl.sh"}, "name it as the extra image, too"),
        (
            {"hpl_gpu_command": "hpl.sh", "hpl_gpu_release": "23.5"},
            "release 23.5 does not run on v100-sxm2-32gb: take 21.4",
        ),
        ({"hpl_gpu_command": "hpl.sh", "hpl_gpu_release": 25.1}, "write the version in quotes"),
    ],
)  # fmt: skip
def test_the_container_of_hpl_and_its_release(bench, extras, said):
    memory = {"memory_bytes": 2**33, "memory_fraction": 0.02}
    bench.partition(
        features=["intra-node", "gpu"], devices=[{"type": "gpu", "num_devices": 2}],
        launcher="srun", extras={**memory, "hardware": {"gpu": "v100-sxm2-32gb"}},
        env_vars=[["SLURM_MPI_TYPE", "pmix"]],
    )  # fmt: skip
    bench.stack("hpl", ["mpi", "hpl-gpu"], bench.folder, **extras)
    bench.environments[-1]["env_vars"].append(["SLURM_MPI_TYPE", "pmi2"])
    done = run_reframe(
        bench.write(), bench.results, "--dry-run", "-c", "reframe/compute/hpl_study.py",
        "-n", "GpuHplStudy%nodes=1$",
    )  # fmt: skip
    assert said in done.output
    scripts = [path.read_text() for path in bench.results.glob("stage/**/rfm_job.sh")]
    assert bool(scripts) == (not said), done.output
    for script in scripts:
        # The last one counts: Slurm starts the MPI of the container by what that knows.
        assert re.findall(r"SLURM_MPI_TYPE=(\w+)", script) == ["pmix", "pmi2"]
        (launch,) = re.findall("^srun .*", script, re.MULTILINE)
        assert f'/rank-gpu.sh "$assay_stage"/witness.sh inside apptainer exec --nv {SIF}' in launch
        assert "--gpu-affinity 0:1" in launch
        assert "/gpu-state.sh" in script


@pytest.mark.parametrize(
    ("vendors", "words", "result", "reason"),
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
    bench, vendors, words, result, reason
):
    run = hpl_study(bench, vendors, {"gpus": (of_nvidia(STUDY), *words)})
    outcome = run.case("GpuHplStudy")
    assert outcome.result == result, outcome.reason
    assert reason in (run.output if result == "skip" else outcome.reason)


@pytest.mark.parametrize(
    ("launcher", "variable"),
    [
        ("mpirun", "OMPI_COMM_WORLD_LOCAL_RANK"),
        ("srun", "SLURM_LOCALID"),
        ("PMI", "PMI_LOCAL_RANK"),
        ("hydra", "MPI_LOCALRANKID"),  # of MPICH 5.0.2 and of Intel MPI 2021.18
        ("mpirun_rsh", "MV2_COMM_WORLD_LOCAL_RANK"),
    ],
)
def test_a_rank_takes_the_gpu_of_its_number(tmp_path, launcher, variable):
    # The script of a job of Slurm has the number of its own process, 0.
    done = rank_gpu(tmp_path, {"SLURM_LOCALID": "0", variable: "3"})
    assert (done.returncode, done.stdout) == (0, "3\n")
    (file,) = tmp_path.glob("gpu.*.3")
    assert file.read_text().split()[1:4] == ["3", "all", "unknown"]


@pytest.mark.parametrize(
    ("gpu", "visible", "rank", "taken"),
    [
        (CUDA, {}, 1, "GPU-b2"),
        (CUDA, {}, 5, "GPU-b2"),
        (CUDA, {"CUDA_VISIBLE_DEVICES": "2,3"}, 1, "GPU-d4"),
        (CUDA, {"CUDA_VISIBLE_DEVICES": "GPU-b2,GPU-a1"}, 0, "GPU-b2"),
        (CUDA, {"CUDA_VISIBLE_DEVICES": "1"}, 3, "GPU-b2"),
        (ROCM, {}, 1, "GPU-b2"),
        (ROCM, {"ROCR_VISIBLE_DEVICES": "1,0"}, 0, "GPU-b2"),
        (ROCM, {"ROCR_VISIBLE_DEVICES": "GPU-b2,GPU-a1"}, 1, "GPU-a1"),
        # HIP numbers the GPUs once more, which UCX does not see.
        (ROCM, {"HIP_VISIBLE_DEVICES": "1"}, 0, "unknown"),
        (ROCM, {"ROCR_VISIBLE_DEVICES": "0,1", "CUDA_VISIBLE_DEVICES": "0,1"}, 0, "unknown"),
    ],
)
def test_the_gpu_of_a_rank_is_known_by_its_uuid(tmp_path, gpu, visible, rank, taken):
    programs = tmp_path / "bin"
    shell.program(programs, "nvidia-smi", "printf 'GPU-a1\\nGPU-b2\\nGPU-c3\\nGPU-d4\\n'")
    listing = "printf '  Uuid:      %s \\n  BDFID:     %s \\n' CPU-XX 0 GPU-a1 49408 GPU-b2 59648"
    shell.program(
        programs, "rocminfo", f'[ -z "${{ROCR_VISIBLE_DEVICES:-}}" ] || exit 1\n{listing}'
    )
    given = {"SLURM_LOCALID": str(rank), "PATH": f"{programs}:/usr/bin:/bin", **visible}
    assert rank_gpu(tmp_path, given, gpu).returncode == 0
    (file,) = tmp_path.glob("gpu.*")
    _, number, visible, uuid, pid, chosen, cpus, *places = file.read_text().split()
    assert places == ["unknown"] * 3
    assert (number, uuid) == (str(rank), taken)
    assert pid.isdigit() and steering.numbers(cpus) <= os.sched_getaffinity(0)
    seen = visible.count(",") + 1 if visible != "all" else 4 if gpu is CUDA else 2
    assert int(chosen) == rank % seen


#: UUID, address of the GPU as nvidia-smi prints it, and by which the kernel knows it.
PLACES = {
    "GPU-a1": ("00000000:1B:00.0", "0000:1b:00.0"),
    "GPU-b2": ("00000001:C1:00.0", "0001:c1:00.0"),
}


def made_node(folder, near):
    """A node with a network device near the last processor of this test, and two GPUs.

    :param near: UUID -> NUMA node and processors of the GPU, as the kernel writes them.
    """
    rows = [f"{uuid}, {bus}" for uuid, (bus, _) in PLACES.items()]
    listing = "\n".join(rows)
    shell.program(folder / "bin", "nvidia-smi", f"cat <<END\n{listing}\nEND")
    devices = {f"bus/pci/devices/{PLACES[uuid][1]}": its for uuid, its in near.items()}
    devices["class/infiniband/mlx5_0/device"] = ("1", str(LAST))
    for path, (node, cpus) in devices.items():
        (folder / "sys" / path).mkdir(parents=True)
        (folder / "sys" / path / "numa_node").write_text(f"{node}\n")
        (folder / "sys" / path / "local_cpulist").write_text(f"{cpus}\n")
    return {"ASSAY_SYSFS": str(folder / "sys"), "PATH": f"{folder}/bin:/usr/bin:/bin"}


#: Two processors that this process may use; a machine with one has it twice. No machine has NONE.
OVER_MLX = {"UCX_NET_DEVICES": "mlx5_0:1,mlx5_1:1"}
PEERMEM, DMABUF = "nvidia_peermem", "dma-buf"
FIRST, LAST, NONE = min(os.sched_getaffinity(0)), max(os.sched_getaffinity(0)), "900000-900001"


@pytest.mark.parametrize(
    ("rank", "near", "variables", "binding", "runs_on", "places"),
    [
        # Slurm gives each of two tasks a socket. Both GPUs are near the first one.
        ("1", {"GPU-b2": ("0", FIRST)}, {}, "suite", FIRST, (FIRST, "unknown")),
        ("1", {"GPU-b2": ("0", FIRST)}, {}, "launcher", LAST, (FIRST, "unknown")),
        ("0", {"GPU-a1": (0, FIRST), "GPU-b2": (1, LAST)}, {}, "suite", FIRST, (FIRST, "unknown")),
        # What the job may not use, and what the kernel does not know, changes nothing.
        ("1", {"GPU-b2": ("0", NONE)}, {}, "suite", LAST, (NONE, "unknown")),
        ("1", {"GPU-b2": ("-1", FIRST)}, {}, "suite", LAST, ("unknown", "unknown")),
        ("1", {}, {}, "suite", LAST, ("unknown", "unknown")),
        ("1", {"GPU-b2": (0, FIRST)}, OVER_MLX, "suite", FIRST, (FIRST, LAST)),
        ("1", {}, OVER_MLX, "suite", LAST, ("unknown", LAST)),
        ("1", {}, {"UCX_NET_DEVICES": "lo"}, "suite", LAST, ("unknown", "unknown")),
    ],
)  # fmt: skip
def test_a_rank_is_moved_to_the_processors_near_its_gpu(  # noqa: PLR0913
    tmp_path, *, rank, near, variables, binding, runs_on, places
):
    given = {"SLURM_LOCALID": rank, **variables, **made_node(tmp_path, near)}
    bound = ("taskset", "-c", str(LAST))  # as the launcher has bound this rank
    program = ("grep", "Cpus_allowed_list", "/proc/self/status")
    done = rank_gpu(tmp_path, given, program=program, bound=bound, binding=binding)
    assert (done.returncode, done.stdout.split()) == (0, ["Cpus_allowed_list:", str(runs_on)])
    (file,) = tmp_path.glob("gpu.*")
    assert file.read_text().split()[-4:-1] == [str(runs_on), *map(str, places)]
    problems = gpu_health.far(Reading(), [gpu_health.taken(file.read_text())], "", "")
    red = [problem for problem in problems if not isinstance(problem, plan.Note)]
    assert bool(red) == (places[0] not in ("unknown", runs_on))


@pytest.mark.parametrize(
    ("said", "kernel", "module", "rdma"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01", "5.14.0", "", "no"),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01", "4.18.0", PEERMEM, PEERMEM),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54",
            "5.14.0-4.el9",
            "",
            DMABUF,
        ),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54", "5.4.0-1", "", "open"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54", "6.8.0", "", DMABUF),
        (None, "6.8.0", "", "unknown"),
    ],
)
def test_by_what_an_adapter_reaches_the_memory_of_the_gpus(tmp_path, said, kernel, module, rdma):
    given = {"SLURM_LOCALID": "0", **made_node(tmp_path, {})}
    script = f'[ "$1" != -r ] || exec echo {kernel}\nexec /bin/uname "$@"'
    shell.program(tmp_path / "bin", "uname", script)
    if said:
        (tmp_path / "version").write_text(f"{said}  Fri\nGCC version:  gcc 11\n")
    if module:
        (tmp_path / "sys/module" / module).mkdir(parents=True)
    gpu = replace(CUDA, kernel_module=str(tmp_path / "version"))
    assert rank_gpu(tmp_path, given, gpu).returncode == 0
    (file,) = tmp_path.glob("gpu.*")
    assert file.read_text().split()[-1] == rdma


@pytest.mark.parametrize(
    ("said", "refused"),
    [("GPU-a1, 00000000:1B:00.0", ""), ("No devices were found", "the job sees: none")],
)
def test_only_gpus_that_are_there_are_taken(tmp_path, said, refused):
    shell.program(tmp_path / "bin", "nvidia-smi", f"echo '{said}'")
    script = "\n".join([*CUDA.restricted(1, "refused"), "echo $CUDA_VISIBLE_DEVICES"])
    done = shell.run("sh", "-c", script, cwd=tmp_path, PATH=f"{tmp_path}/bin:/usr/bin:/bin")
    assert (done.returncode, done.stdout) == ((1, "") if refused else (0, "GPU-a1\n"))
    assert not refused or refused in (tmp_path / "refused").read_text()
    given = {"SLURM_LOCALID": "0", "PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    assert rank_gpu(tmp_path, given).returncode == 0
    (file,) = tmp_path.glob("gpu.*")
    assert file.read_text().split()[3] == ("unknown" if refused else "GPU-a1")


def test_a_launcher_that_does_not_number_its_ranks(tmp_path):
    done = rank_gpu(tmp_path, {})
    assert done.returncode == 1
    assert done.stdout.startswith("rank-gpu.sh: the launcher does not say the number of this rank")
    assert not list(tmp_path.glob("gpu.*"))


def rank_gpu(  # noqa: PLR0913
    folder, variables, gpu=CUDA, *, program=("sh", "-c", "echo $LOCAL_RANK"), bound=(),
    binding="suite",
):  # fmt: skip
    """Starts the script where a test puts it, with the file of the vendor beside it."""
    stage = folder / "stage"
    stage.mkdir()
    shutil.copy(ROOT / "src/assay/gpu/node/rank-gpu.sh", stage)
    (stage / "gpus.sh").write_text(gpu.for_ranks(binding))
    words = (*bound, "sh", stage / "rank-gpu.sh", *program)
    return shell.run(*words, cwd=folder, **{"PATH": "/usr/bin:/bin", **variables})
