"""nccl-tests under ReFrame, without a GPU: made outputs, and the faults that turn them red.

tests/pure/nccl_form.py makes the outputs in the form of the programs, with made-up numbers.
"""

import subprocess

import nccl_form
import pytest
from bench import HPL, ROOT, live_program
from tests.programs.gpu.test_bases import on_emulated_gpus

pytestmark = pytest.mark.slow

LARGEST = 64 << 20


def output(near="P2P/CUMEM/read", sizes=24, **more):
    """all_reduce_perf of two GPUs of one node, from 8 B to 64 MiB."""
    made = {"gpus": 2, "first": 8, "step": 2, "sizes": sizes, **more}
    logged = (near, "NET/Socket/0") if near else None
    return nccl_form.output(logged=logged, **made)


def table(text, old, new):
    assert old in text
    return text.replace(old, new)


HEALTHY = output()
ROW = next(line for line in HEALTHY.splitlines() if line.split()[:1] == [str(LARGEST)])
#: What the environment of a user may hold.
LEVEL = nccl_form.log("n1", 0, "NCCL_P2P_LEVEL set by environment to PHB\n")

#: Stack -> its output, and why the run must not pass; an empty reason: it passes.
RUNS = {
    "healthy": (HEALTHY, ""),
    "shared-memory": (
        output("SHM/direct/direct"),
        "from n1, GPU 0 to n1, GPU 1 the data went by SHM, P2P was asked for",
    ),
    "by-socket": (
        output("NET/Socket/0"),
        "from n1, GPU 0 to n1, GPU 1 the data went by NET/Socket",
    ),
    "one-gpu-missing": (output(gpus=1), "ranks"),
    "one-gpu-for-both": (table(HEALTHY, "device  1", "device  0"), "2 ranks used GPU 0 of n1"),
    "wrong-values": (table(HEALTHY, ROW, ROW[:-1] + "1"), "wrong"),
    "no-bandwidth": (
        table(HEALTHY, "# Avg bus bandwidth    : ", "# Avg bus bandwidth    : 0 #"),
        "the average bus bandwidth is 0",
    ),
    "stopped": (HEALTHY[: HEALTHY.index(ROW)], "this test did not come to its end"),
    "shorter": (output(sizes=20), "the table ends at 4194304 B, 67108864 B was asked for"),
    "another-program": (output(program="all_gather"), "all_gather_perf"),
    "no-log": (output(near=""), "NCCL left no log that shows its path"),
    # So the program prints it with -c 0.
    "not-compared": (table(HEALTHY, "       0", "     N/A"), "validates"),
    "a-level": (table(HEALTHY, "NCCL version", LEVEL + "NCCL version"), "outside of the test"),
}


def run(bench, configuration, outputs, *features):
    bench.partition(
        launcher="replay",
        features=["intra-node", "gpu", *features],
        devices=[{"type": "gpu", "num_devices": 2}],
        extras={"hardware": {"link": "nvlink3-4-links"}},
    )
    bench.record_all()
    runs = {name: HPL.but(stdout=text) for name, text in outputs.items()}
    bench.replays("all_reduce_perf", ["nccl-tests", "mpi"], runs)
    case = f"Nccl%collective=all_reduce:{configuration}$"
    return bench.run("-n", case, "--mode", "smoke", path="reframe/network/nccl.py")


def test_each_fault_is_named(bench):
    done = run(bench, "default", {name: text for name, (text, _) in RUNS.items()}, "nvlink")
    for name, (_, cause) in RUNS.items():
        if name == "a-level":
            record = done.case("Nccl ", name).record
            assert any(cause in doubt for doubt in record["doubts"])
        else:
            done.says("Nccl ", cause, environ=name)
    record = done.case("Nccl ", "healthy").record
    pairs = record["proof"]["nccl"]["pairs"]
    assert pairs == {"0->1": ["P2P/CUMEM"], "1->0": ["P2P/CUMEM"]}
    assert record["metrics"]["bus_bandwidth_64MiB"]["percent_of"]["peak"] == 100  # GB/s


def test_without_nvlink_the_way_is_recorded(bench):
    """Some GPUs have no P2P: only a site that says nvlink promises it."""
    done = run(bench, "default", {"shared-memory": output("SHM/direct/direct")})
    case = done.case("Nccl ", "shared-memory")
    assert case.result == "pass", case.reason
    assert case.record["proof"]["nccl"]["fall_backs"]


@pytest.mark.parametrize(
    ("configuration", "way", "other"),
    [
        ("no-p2p", "SHM/direct/direct", "P2P/CUMEM/read"),
        ("no-shm", "NET/Socket/0", "SHM/direct/direct"),
    ],
)
def test_what_is_switched_off_must_be_off(bench, configuration, way, other):
    done = run(bench, configuration, {"healthy": output(way), "not-off": output(other)})
    done.says("Nccl ", "", environ="healthy")
    done.says("Nccl ", "was asked for: look for a cause in nccl.*.log", environ="not-off")


def test_the_state_of_emulated_gpus_of_vgpu_is_judged(bench):
    """A GPU that counts memory errors during the run is a fault, whatever NCCL says."""
    live_program("gcc")
    subprocess.run([str(ROOT / "lab/vgpu/build.sh")], check=True)
    bench.partition(
        launcher="replay",
        features=["intra-node", "gpu", "nvlink", "cuda"],
        devices=[{"type": "gpu", "num_devices": 2}],
    )
    bench.record_all()
    for name, fault in {"healthy": "", "ecc": "ecc-rises:1"}.items():
        bench.replays("all_reduce_perf", ["nccl-tests", "mpi"], {name: HPL.but(stdout=HEALTHY)})
        on_emulated_gpus(bench, GPUEMU_FAULT=fault)
    case = "Nccl%collective=all_reduce:default$"
    done = bench.run("-n", case, "--mode", "smoke", path="reframe/network/nccl.py")
    done.says("Nccl ", "", environ="healthy")
    done.says("Nccl ", "memory errors", environ="ecc")
    assert done.case("Nccl ", "healthy").record["proof"]["state"]
