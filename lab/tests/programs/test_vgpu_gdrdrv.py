"""The emulated /dev/gdrdrv: what it answers, and what NVIDIA's libgdrapi does on it."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from bench import live_program
from gpu_runs import EMULATED, PRELOADED, STACK, stack_with_gdrcopy

CLIENT = Path(__file__).with_name("gdrdrv_client.py")


@pytest.fixture(scope="module")
def library(built, tmp_path_factory):
    """The library of the client."""
    path = tmp_path_factory.mktemp("library") / "libclient.so"
    source = Path(__file__).with_name("gdrdrv_library.c")
    flags = ["-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, "-o", path, source, "-ldl"], check=True)
    return path


@pytest.fixture
def client(built, library):
    """Plays a scene of the client; `preload` is what it runs under."""

    def play(*scene, preload=built / "lib/libgdrdrv.so", **variables):
        return subprocess.run(
            [sys.executable, CLIENT, built / "lib/libcuda.so.1", library, *map(str, scene)],
            env={**os.environ, "LD_PRELOAD": str(preload), **variables},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return play


@pytest.mark.parametrize(
    "scene",
    [
        *(("copies", function) for function in ("open", "open64", "openat", "openat64")),
        ("overwritten", "before"),
        ("overwritten", "after"),
    ],
)
def test_bytes_go_both_ways_through_a_mapping(client, scene):
    done = client(*scene)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"1 {(2 << 16 | 5, 2 << 16)} 0",  # FD_CLOEXEC; driver 2.5, for libraries from 2.0 on
        "0 True",
        "True",
        "True",
        "True True 65536 1",
        "0 0 True",
        "EINVAL None",
    ]


def test_what_a_driver_refuses(client):
    done = client("refusals")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "host memory EINVAL",
        "nothing EINVAL",
        "more than there is EINVAL",
        "another bus EINVAL",
        "another question ENOTTY",
        "a cached mapping ENOTSUP",
        "another handle EINVAL",
        "too long EINVAL",
        "twice EINVAL",
        "the second pin True",
        "an address within a page of the GPU EINVAL",
        "another process EACCES EACCES",
    ]


@pytest.mark.parametrize(("after", "said"), [("free", "0\n1 EINVAL\n"), ("unpin", "0\n")])
def test_a_mapping_ends_with_its_memory(client, after, said):
    done = client("touches", after)
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, said)


@pytest.mark.parametrize(
    ("fault", "said"), [("gdrdrv", "ENOENT"), ("gdrdrv-version", f"{1 << 16 | 3}")]
)
def test_a_driver_that_is_missing_or_too_old(client, fault, said):
    assert client("faults", GPUEMU_FAULT=fault).stdout == f"{said}\n"


def test_every_other_file_is_left_alone(client, tmp_path):
    with_it, without = tmp_path / "with", tmp_path / "without"
    with_it.mkdir()
    without.mkdir()
    done, plain = client("others", with_it), client("others", without, preload="")
    assert (done.returncode, done.stderr, plain.stderr) == (0, "", "")
    assert done.stdout == plain.stdout
    assert "ENOTTY" in done.stdout


# --- with NVIDIA's libgdrapi ---


@pytest.fixture(scope="module")
def program(built, tmp_path_factory):
    """A program that was linked to the libgdrapi of this machine."""
    path = tmp_path_factory.mktemp("program") / "gdr_client"
    source = Path(__file__).with_name("gdr_client.c")
    places = [f"-I{STACK}/include", f"-L{STACK}/lib", f"-Wl,-rpath,{STACK}/lib"] if STACK else []
    done = subprocess.run(
        ["gcc", "-o", path, source, *places, "-lgdrapi", f"-L{built}/lib", "-l:libcuda.so.1"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if any(missing in done.stderr for missing in ("gdrapi.h: No such", "cannot find -lgdrapi")):
        pytest.skip("needs libgdrapi and its header: GPUEMU_STACK names a prefix that has them")
    assert done.returncode == 0, done.stderr
    return path


def run(built, trace, *command, **variables):
    libraries = [f"{built}/lib", *([f"{STACK}/lib"] if STACK else [])]
    return subprocess.run(
        [str(word) for word in command],
        env={
            **os.environ, "LD_PRELOAD": f"{built}/lib/libgdrdrv.so", "GPUEMU_TRACE": str(trace),
            "LD_LIBRARY_PATH": ":".join(libraries), **variables,
        },
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("", "driver 2.5\narrived returned\n"),
        ("gdrdrv", "no gdrcopy\n"),
        ("gdrdrv-version", "no gdrcopy\n"),
        ("gdrdrv-pin", "driver 2.5\nnot pinned\n"),
    ],
)
def test_the_real_library_moves_bytes(built, program, tmp_path, fault, said):
    done = run(built, tmp_path, program, GPUEMU_FAULT=fault)
    assert (done.returncode, done.stdout) == (0, said), done.stderr
    trace = "".join(file.read_text() for file in tmp_path.glob("*.trace")).splitlines()
    copied = {line for line in trace if line.startswith("gdr ")}
    assert copied == (set() if fault else {"gdr to\t1\t65536", "gdr from\t1\t65536"})


def test_the_tests_of_gdrcopy_itself_pass_but_those_of_virtual_memory(built, tmp_path):
    sanity = shutil.which("gdrcopy_sanity", path=f"{STACK}/bin:{os.environ['PATH']}")
    if not sanity:
        pytest.skip("needs gdrcopy_sanity on this machine")
    said = run(built, tmp_path, sanity).stdout
    assert int(re.search(r"Passed: (\d+)", said)[1]) >= 16
    failed = re.search(r"(?s)List of failed tests:\n(.*?)\n\n", said)[1].split()
    assert [name for name in failed if not name.endswith("_vmmalloc")] == []


@pytest.mark.slow
@pytest.mark.parametrize("configuration", ["all", "no-ipc"])
def test_a_node_with_gdrcopy_passes_and_without_its_driver_is_red(bench, configuration):
    live_program("gcc")
    version = stack_with_gdrcopy()
    if not version:
        pytest.skip("needs a UCX with gdrcopy: GPUEMU_STACK names its prefix")
    gpus = [{"type": "gpu", "arch": "emulated", "num_devices": 2}]
    bench.partition(launcher="replay", features=["intra-node", "gpu", "cuda"], devices=gpus)
    bench.record_all()
    programs = Path(f"{EMULATED.driver}/../bin:{STACK}/bin")
    for fault in ("", "gdrdrv"):
        features = ["ucx", "ucx-perftest", "ucx-cuda"]
        bench.stack(fault or "healthy", features, programs, ucx_version=version)
        bench.environments[-1]["env_vars"] += [
            ["LD_LIBRARY_PATH", f"{EMULATED.driver}:{STACK}/lib"], ["LD_PRELOAD", PRELOADED],
            ["GPUEMU_FAULT", fault],
        ]  # fmt: skip
    name = f"UcxGpu%operation=tag_lat%gpus=2%configuration={configuration}$"
    run = bench.run("-n", name, "--mode", "smoke", path="reframe/network/ucx_gpu.py")
    healthy = run.case("UcxGpu ", "healthy")
    assert healthy.result == "pass", healthy.reason
    assert healthy.record["proof"]["gdrcopy"] == "copied"
    run.says("UcxGpu ", "transport 'gdr_copy' is not available", environ="gdrdrv")
