"""The emulated GPU: device memory, CUDA IPC, faults, its trace, and that it says what it is."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bench import ROOT

PROCESS = Path(__file__).with_name("vgpu_process.py")


class Processes:
    """Processes on emulated GPUs; each answers a line with a line."""

    def __init__(self, built, trace):
        self.library, self.trace, self.started = built / "lib/libcuda.so.1", trace, []

    def on(self, number, **variables):
        process = subprocess.Popen(
            [sys.executable, str(PROCESS), str(self.library), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "GPUEMU_TRACE": str(self.trace), **variables},
            text=True,
            bufsize=1,
        )
        self.started.append(process)
        return process

    def end(self):
        for process in self.started:
            process.stdin.close()
            process.wait()
            process.stdout.close()
        rows = [
            line.split("\t")
            for file in self.trace.glob("*.trace")
            for line in file.read_text().splitlines()
            if not line.startswith("#")
        ]
        return {what: int(size) for what, _, size in rows if int(size)}, {row[0] for row in rows}


@pytest.fixture
def processes(built, tmp_path):
    these = Processes(built, tmp_path)
    yield these
    for process in these.started:
        process.kill()
        process.wait()


def ask(process, line):
    process.stdin.write(line + "\n")
    return process.stdout.readline().strip()


def exported(process):
    assert [ask(process, "alloc"), ask(process, "fill")] == ["done", "done"]
    return ask(process, "export")


@pytest.mark.parametrize(
    ("number", "links", "way"),
    [
        (1, {}, "nvlink ipc"),
        (1, {"GPUEMU_NVLINK": "none"}, "pcie ipc"),
        (0, {}, "d2d ipc"),
        (1, {"GPUEMU_FAULT": "one-gpu"}, "d2d ipc"),
    ],
)
def test_ipc_moves_bytes_to_another_process_and_the_trace_names_their_way(
    processes, number, links, way
):
    owner, other = processes.on(0, **links), processes.on(number, **links)
    handle = exported(owner)
    assert ask(other, f"open {handle}") == "done"
    assert [ask(other, "copy"), ask(other, "read")] == ["done", "4096"]
    assert processes.end()[0] == {way: 4096, "d2h": 4096}


def test_a_process_cannot_open_its_own_handle(processes):
    owner = processes.on(0)
    assert ask(owner, f"open {exported(owner)}") == "cuIpcOpenMemHandle_v2: 201"


@pytest.mark.parametrize("fault", ["", "host-access"])
def test_the_cpu_cannot_touch_device_memory(processes, fault):
    process = processes.on(0, GPUEMU_FAULT=fault)
    exported(process)
    assert ask(process, "touch") == ("5a" if fault else "")
    if not fault:
        assert process.wait() == -signal.SIGSEGV


@pytest.mark.parametrize(
    ("fault", "number", "answer"),
    [
        ("ipc-open", 0, "cuIpcOpenMemHandle_v2: 205"),
        ("p2p", 1, "cuIpcOpenMemHandle_v2: 217"),
        ("p2p", 0, "done"),
        ("nvlink,p2p:1-0", 1, "cuIpcOpenMemHandle_v2: 217"),
        ("p2p:0-2", 1, "done"),
    ],
)
def test_a_fault_breaks_what_it_names_and_nothing_else(processes, fault, number, answer):
    owner, other = processes.on(0), processes.on(number, GPUEMU_FAULT=fault)
    assert ask(other, f"open {exported(owner)}") == answer
    refused = "ipc handle refused" in processes.end()[1]
    assert refused == (answer != "done")


def test_a_fault_of_the_driver_ends_the_program(processes):
    assert processes.on(0, GPUEMU_FAULT="driver").wait() != 0
    assert processes.on(0, CUDA_VISIBLE_DEVICES="").wait() != 0
    assert processes.on(2, CUDA_VISIBLE_DEVICES="0,1").wait() != 0


def smi(built, *words, **variables):
    return subprocess.run(
        [str(built / "bin/nvidia-smi"), *words],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    ).stdout.splitlines()


@pytest.mark.parametrize(
    "words",
    [(), ("-L",), ("--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")],
)
def test_every_answer_of_nvidia_smi_says_what_it_is(built, words):
    lines = smi(built, *words, GPUEMU_DEVICES="2")
    assert len(lines) == (2 if words else 1)
    assert all("EMULATED" in line for line in lines)
    for question in ("-m", "-p2p"):
        assert "EMULATED" in smi(built, "topo", question, "r")[-1]
    assert all("EMULATED" in line for line in smi(built, *words, GPUEMU_FAULT="nvml"))


def test_the_uuids_of_a_node_differ_and_stay(built):
    query = ("--query-gpu=uuid", "--format=csv,noheader")
    uuids = smi(built, *query, GPUEMU_DEVICES="8")
    assert len(set(uuids)) == 8
    assert smi(built, *query, GPUEMU_DEVICES="2") == uuids[:2]
    assert smi(built, "--query-gpu=clocks.sm") == ['Field "clocks.sm" is not emulated']


STATE = "ecc.errors.uncorrected.volatile.total", "clocks_throttle_reasons.hw_thermal_slowdown"


def test_a_fault_of_one_device_leaves_the_others(built):
    def state(fault):
        return smi(built, f"--query-gpu={','.join(STATE)}", GPUEMU_DEVICES="2", GPUEMU_FAULT=fault)

    healthy, bad, slow = "0, Not Active", "7, Not Active", "0, Active"
    assert state("") == [healthy, healthy]
    assert state("ecc:1") == [healthy, bad]
    assert state("ecc") == [bad, bad]
    assert state("throttle:0,ecc:1") == [slow, bad]
    rows = "--query-remapped-rows=remapped_rows.pending"
    assert smi(built, rows, GPUEMU_DEVICES="2", GPUEMU_FAULT="remap:1") == ["0", "1"]
    first = state("ecc-rises:0")
    last = state("ecc-rises:0")
    assert 0 < int(first[0].split(",")[0]) < int(last[0].split(",")[0])
    assert first[1] == last[1] == healthy


def test_errors_of_an_nvlink_rise_on_one_link_of_one_device(built):
    def counted():
        given = {"GPUEMU_DEVICES": "3", "GPUEMU_NVLINK": "0-1,1-2"}
        lines = smi(built, "nvlink", "-e", **given, GPUEMU_FAULT="nvlink-errors:1")
        assert len([line for line in lines if line.startswith("GPU ")]) == 3
        return [int(line.rpartition(" ")[2]) for line in lines if line.startswith("\t Link ")]

    first = counted()
    last = counted()
    # Devices 0 and 2 have one link, device 1 has two, each with three counters.
    risen = [after - before for before, after in zip(first, last)]
    assert [bool(rise) for rise in risen] == [False] * 3 + [True, False, True] + [False] * 6
    assert smi(built, "nvlink", "-e", GPUEMU_DEVICES="1") == smi(built, "-L", GPUEMU_DEVICES="1")


def test_the_topology_follows_the_links_and_the_processors(built):
    given = {"GPUEMU_DEVICES": "3", "GPUEMU_NVLINK": "0-1", "GPUEMU_CPUS": "0-3;4-7"}
    text = smi(built, "topo", "-m", **given)
    assert text[1].split("\t")[:5] == ["GPU0", " X ", " NV1 ", " PHB ", "0-3"]
    assert text[2].split("\t")[4] == "4-7"
    assert text[3].split("\t")[4] == f"0-{os.sysconf('SC_NPROCESSORS_CONF') - 1}"
    peers = smi(built, "topo", "-p2p", "r", GPUEMU_FAULT="p2p:0-2")
    assert peers[1].split() == ["GPU0", "X", "OK", "TNS", "OK"]


@pytest.mark.parametrize(("fault", "bus"), [("", ""), ("xid:1", "0000:2b:00")])
def test_the_log_of_the_kernel_names_the_device_of_an_error(built, fault, bus):
    environment = {**os.environ, "GPUEMU_FAULT": fault}
    program = [str(built / "bin/dmesg")]
    found = []
    for _ in range(2):
        done = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
        first, *errors = done.stdout.splitlines()
        assert "EMULATED" in first
        assert bool(errors) == bool(fault)
        assert all(f"NVRM: Xid (PCI:{bus}): " in line and "EMULATED" in line for line in errors)
        found += errors
    assert len(set(found)) == len(found), "a reading has no error that is new"


def between_a_pair(processes, number, latency):
    """Two processes, on device 0 and this one, with this latency between devices 0 and 1 [s]."""
    links = {"GPUEMU_LINKS": f"nvlink=1:1e12,nvlink:0-1={latency * 1e6:.0f}:1e12"}
    owner, other = processes.on(0, **links), processes.on(number, **links)
    assert ask(other, f"open {exported(owner)}") == "done"
    return other


def test_the_model_of_one_pair_delays_its_copies(processes):
    other = between_a_pair(processes, 1, 0.7)
    before = time.monotonic()
    assert ask(other, "copy") == "done"
    assert time.monotonic() - before >= 0.7


def test_the_model_of_one_pair_is_not_that_of_the_others(processes):
    # If it were, the answer would come after these ten hours.
    assert ask(between_a_pair(processes, 2, 36000), "copy") == "done"


def test_a_trace_says_that_no_gpu_was_there(processes):
    exported(processes.on(0))
    ask(processes.started[0], "read")
    processes.end()
    (file,) = processes.trace.glob("*.trace")
    assert file.read_text().startswith("# EMULATED: no GPU was here\n")


def test_a_second_build_does_nothing(built):
    before = (built / "lib/libcuda.so.1").stat().st_mtime_ns
    subprocess.run([str(ROOT / "lab/vgpu/build.sh"), str(built)], check=True)
    assert (built / "lib/libcuda.so.1").stat().st_mtime_ns == before


@pytest.mark.parametrize(("program", "number"), [("spack/needs", 50), ("vgpu/osu-needs", 25)])
def test_every_function_that_ucx_and_osu_are_linked_to_is_there(built, program, number):
    needs = (ROOT / f"tests/data/{program}.txt").read_text().split()
    script = """
import ctypes, sys
libraries = [ctypes.CDLL(each, ctypes.RTLD_GLOBAL) for each in sys.argv[1:4]]
print(*[each for each in sys.argv[4:] if not any(hasattr(l, each) for l in libraries)])"""
    names = ("libcuda.so.1", "libcudart.so.12", "libnvidia-ml.so.1")
    libraries = [str(built / "lib" / each) for each in names]
    command = [sys.executable, "-c", script, *libraries, *needs]
    assert len(needs) > number
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "\n"


def test_a_context_has_a_version_of_the_interface(processes):
    assert ask(processes.on(0), "version") == "3020"
