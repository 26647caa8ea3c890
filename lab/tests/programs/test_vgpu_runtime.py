"""The emulated CUDA runtime: what each function does, and that no kernel seems to run."""

import os
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("runtime_client.c")


@pytest.fixture(scope="module")
def program(built, tmp_path_factory):
    path = tmp_path_factory.mktemp("program") / "runtime_client"
    libraries = [f"-L{built}/lib", "-l:libcudart.so.12", "-l:libcuda.so.1"]
    subprocess.run(
        ["gcc", "-Wall", "-Wextra", "-Werror", "-o", path, SOURCE, *libraries], check=True
    )
    return path


@pytest.fixture
def play(built, program, tmp_path):
    """Plays a scene of the client: its answers by call, its other lines, and its errors."""

    def scene(name):
        done = subprocess.run(
            [program, name],
            env={
                **os.environ, "LD_LIBRARY_PATH": f"{built}/lib", "GPUEMU_TRACE": str(tmp_path),
                "GPUEMU_LINKS": "h2d=200000:1e12",
            },
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        lines = [line.rsplit(": ", 1) for line in done.stdout.splitlines()]
        said = [(line[0], line[1].replace("cudaError", "")) for line in lines if len(line) == 2]
        return said, [line[0] for line in lines if len(line) == 1], done.stderr

    scene.trace = tmp_path
    return scene


def test_an_event_is_done_when_its_stream_is_and_measures_the_time_between(play):
    said, lines, errors = play("events")
    assert said == [
        ("cudaEventRecord(begin, one)", "cudaSuccess"),
        ("cudaMemcpyAsync(memory, host, SIZE, TO_DEVICE, one)", "cudaSuccess"),
        ("cudaEventRecord(end, one)", "cudaSuccess"),
        ("cudaEventRecord(untimed, one)", "cudaSuccess"),
        ("cudaEventQuery(end)", "NotReady"),
        ("cudaEventElapsedTime(&early, begin, end)", "NotReady"),
        ("cudaStreamQuery(one)", "NotReady"),
        ("cudaStreamQuery(other)", "cudaSuccess"),
        ("cudaStreamWaitEvent(other, end, 0)", "cudaSuccess"),
        ("cudaStreamQuery(other)", "NotReady"),
        ("cudaEventSynchronize(end)", "cudaSuccess"),
        ("cudaEventElapsedTime(&passed, begin, end)", "cudaSuccess"),
        ("cudaEventElapsedTime(&none, begin, untimed)", "InvalidResourceHandle"),
        ("cudaEventElapsedTime(&none, begin, unrecorded)", "InvalidResourceHandle"),
        ("cudaGetLastError()", "InvalidResourceHandle"),
        ("cudaMemcpyAsync(memory, host, SIZE, TO_DEVICE, other)", "cudaSuccess"),
        ("cudaDeviceSynchronize()", "cudaSuccess"),
        ("cudaStreamQuery(other)", "cudaSuccess"),
        ("cudaEventDestroy(begin)", "cudaSuccess"),
        ("cudaStreamDestroy(one)", "cudaSuccess"),
    ]
    assert (lines, errors) == (["1 1"], "")  # the time of the model; no time without an answer


def test_a_device_says_that_it_is_emulated(play):
    said, lines, errors = play("device")
    assert said == [
        ("cudaDriverGetVersion(&driver)", "cudaSuccess"),
        ("cudaRuntimeGetVersion(&runtime)", "cudaSuccess"),
        ("cudaGetDeviceProperties_v2(properties, 1)", "cudaSuccess"),
        ("cudaDeviceGetAttribute(&bus, 33, 1)", "cudaSuccess"),
        ("cudaDeviceCanAccessPeer(&here, 0, 1)", "cudaSuccess"),
        ("cudaGetDeviceProperties_v2(refused, 99)", "InvalidDevice"),
    ]
    assert (lines, errors) == (["EMULATED GPU, 32 GiB, 7, bus 0, ends 77", "1 1"], "")


def test_managed_memory_moves_and_a_reset_frees_all(play):
    said, lines, errors = play("memory")
    assert said == [
        ("cudaMallocHost(&pinned, SIZE)", "cudaSuccess"),
        ("cudaMemsetAsync(at, 0x5a, SIZE, NULL)", "cudaSuccess"),
        ("cudaMemcpy(pinned, at, SIZE, FROM_DEVICE)", "cudaSuccess"),
        ("cudaFreeHost(pinned)", "cudaSuccess"),
        ("cudaMemPrefetchAsync(managed, SIZE, 0, NULL)", "cudaSuccess"),
        ("cudaMemPrefetchAsync(managed, SIZE, CPU, NULL)", "cudaSuccess"),
        ("cudaMemPrefetchAsync(managed, SIZE, 99, NULL)", "InvalidDevice"),
        ("cudaMemPrefetchAsync(at, SIZE, 0, NULL)", "InvalidValue"),
        ("cudaMemPrefetchAsync(host, SIZE, 0, NULL)", "InvalidValue"),
        ("cudaPeekAtLastError()", "InvalidValue"),
        ("cudaDeviceReset()", "cudaSuccess"),
        ("cudaMemcpy(at, host, SIZE, TO_DEVICE)", "InvalidValue"),
        ("cudaMalloc(&at, SIZE)", "cudaSuccess"),
        ("cudaMemcpy(at, host, SIZE, TO_DEVICE)", "cudaSuccess"),
    ]
    assert (lines, errors) == (["5a", "context 0, device 1", "1 1"], "")


def test_the_launch_of_a_kernel_fails_and_names_the_kernel(play):
    said, lines, errors = play("kernel")
    assert said == [
        ("cudaPeekAtLastError()", "NotSupported"),
        ("cudaGetLastError()", "NotSupported"),
        ("cudaGetLastError()", "cudaSuccess"),
        ('cudaLaunchKernel("not registered", grid, block, NULL, 0, NULL)', "NotSupported"),
    ]
    shape = "7 3 64 1"
    assert lines == [shape, shape, "operation not supported", "unrecognized error code"]
    message = "EMULATED GPU: cudaErrorNotSupported: kernels do not run here: "
    assert errors.splitlines() == [
        f"{message}_Z5scalePcm", f"{message}one that was not registered"
    ]  # fmt: skip
    trace = "".join(file.read_text() for file in play.trace.glob("*.trace"))
    assert "refused cudaLaunchKernel\t3\t0\n" in trace
