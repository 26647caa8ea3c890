"""Faults between GPUs, and what the suite says of each: the real tests on emulated GPUs.

`python lab/tests/programs/gpu_fault_matrix.py` runs them all, writes docs/faults/gpu.csv, and its
sums into docs/vgpu.md. It needs the emulated GPU, and UCX 1.20.1 and 1.22.0 for it
(`lab/vgpu/ucx.sh VERSION`).

A busy machine copies later than the model of the emulated GPUs says. So no rate that is judged here
is one of this machine: ucx_perftest reports that of the model (perftest_model.py), and EachGpu gets
a recorded output where the fault is a rate, or where there is none (each_gpu_fake.py).
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "clusters"))

import checkout  # noqa: F401 - puts the test modules on the path
import each_gpu_fake
import fault_tables
from bench import ROOT, Bench
from emulation import EACH_GPU

DOCUMENT, TABLE = ROOT / "docs" / "vgpu.md", fault_tables.file("gpu")
BEGIN, END = "<!-- begin: GPU faults -->", "<!-- end: GPU faults -->"

VERSION, OTHER = "1.22.0", "1.20.1"
EMULATED, UCX = ROOT / "build/vgpu", ROOT / ".cache/vgpu"

#: The modelled rate of each link between two GPUs [B/s].
RATE = 1e9
LINKS = f"nvlink=20:{RATE:g},d2d=20:{RATE:g},h2d=20:{RATE:g},d2h=20:{RATE:g}"

LATENCY, BANDWIDTH, NODE = "UcxGpu tag_lat", "UcxGpu tag_bw", "NodeHealth"
EACH = "EachGpu"

#: Test -> its file, and the case as ReFrame's option -n selects it.
TESTS = {
    LATENCY: ("network/ucx_gpu.py", "UcxGpu%operation=tag_lat%gpus=2%configuration=no-gdrcopy$"),
    BANDWIDTH: ("network/ucx_gpu.py", "UcxGpu%operation=tag_bw%gpus=2%configuration=no-gdrcopy$"),
    NODE: ("node/health.py", "^NodeHealth$"),
    EACH: ("network/each_gpu.py", "^EachGpu$"),
}


@dataclass(frozen=True)
class Fault:
    """One row: what is broken, by which variables, and the tests that it is run with.

    :ivar names: what the message must contain.
    :ivar recorded: the output in tests/data/each-gpu that EachGpu gets; without one, its program
        runs.
    :ivar sound: whether it is no fault: all tests pass.
    """

    name: str
    what: str
    variables: Mapping[str, str] = field(default_factory=dict)
    tests: tuple[str, ...] = (LATENCY,)
    names: str = ""
    library: str = "emulated"
    ucx: str = VERSION
    recorded: str = ""

    @property
    def sound(self) -> bool:
        return not self.names


def emulated(faults: str, **more: str) -> dict[str, str]:
    return {"GPUEMU_FAULT": faults, **more}


FAULTS = [
    Fault("healthy", "none", tests=(LATENCY, BANDWIDTH, NODE, EACH), recorded="healthy"),
    Fault("order", "none: GPU 0 is near processor 1, and GPU 1 near processor 0 "
          "(`GPUEMU_CPUS='1;0'`)", {"GPUEMU_CPUS": "1;0"}),
    Fault("ipc-open", "CUDA IPC fails without a word (`ipc-open`)", emulated("ipc-open"),
          names="cuda_ipc carried nothing"),
    Fault("p2p", "one pair cannot access each other's memory (`p2p:0-1`)", emulated("p2p:0-1"),
          (LATENCY, NODE, EACH), names="cannot access each other's memory"),
    Fault("staged", "bytes go through the host (`UCX_RNDV_THRESH=inf` in the stack)",
          {"UCX_RNDV_THRESH": "inf", "GPUEMU_LINKS": ""}, (BANDWIDTH,),
          names="cuda_ipc carried nothing"),
    Fault("ipc-export", "no process can share memory of a GPU (`ipc-export`)",
          emulated("ipc-export"), names="cuIpcGetMemHandle"),
    Fault("one-gpu", "all processes on one GPU, whichever they select (`one-gpu`)",
          emulated("one-gpu"), names="2 GPUs were to be used"),
    Fault("twice", "the job sees the same GPU twice (`CUDA_VISIBLE_DEVICES=0,0`)",
          {"CUDA_VISIBLE_DEVICES": "0,0"}, names="2 ranks of "),
    Fault("far", "the processors near the GPUs are not in the job (`GPUEMU_CPUS='4094;4095'`)",
          {"GPUEMU_CPUS": "4094;4095"}, names="far from GPU 0"),
    Fault("half-link", "one link at half its rate (`GPUEMU_LINKS=...,nvlink:0-1=20:5e8`)",
          {"GPUEMU_LINKS": f"{LINKS},nvlink:0-1=20:{RATE / 2:g}"}, (BANDWIDTH,),
          names="is below the lower bound"),
    Fault("half-other", "the same, a link that other tests do not measure (`nvlink:2-3=20:5e8`)",
          {"GPUEMU_LINKS": f"{LINKS},nvlink:2-3=20:{RATE / 2:g}"}, (EACH,),
          names="this way", recorded="slow-pair"),
    Fault("slow-gpu", "all copies of one GPU at half the rate (`slow:1`)", emulated("slow:1"),
          (EACH,), names="host to device", recorded="slow-gpu"),
    Fault("corrupt", "a byte of each copy of one GPU is wrong (`corrupt:3`)",
          emulated("corrupt:3"), (EACH,), names="data arrived wrong in 8 of its 8 ways"),
    Fault("p2p-other", "another pair cannot access each other's memory (`p2p:2-3`)",
          emulated("p2p:2-3", GPUEMU_LINKS=""), (NODE, EACH),
          names="cannot access each other's memory"),
    Fault("modules", f"modules of UCX {OTHER} beside the libraries of {VERSION}",
          names="ended with exit code", ucx="mixed"),
    Fault("driver", "the driver does not fit libcuda (`driver`)", emulated("driver"),
          (LATENCY, NODE, EACH), names="libcuda.so.1 does not start"),
    Fault("libcuda", "libcuda is missing on the node", tests=(LATENCY, NODE),
          names="libcuda.so.1 does not start", library="no-libcuda"),
    Fault("nvml", "NVML does not start (`nvml`)", emulated("nvml"), (LATENCY, NODE),
          names="Failed to initialize NVML"),
    Fault("ecc", "memory errors before the run (`ecc:1`)", emulated("ecc:1"), (NODE,),
          names="GPU 1 ("),
    Fault("ecc-rises", "memory errors during the run (`ecc-rises:1`)", emulated("ecc-rises:1"),
          names="more during the run (ecc.errors.uncorrected"),
    Fault("nvlink-errors", "an NVLink counts errors during the run (`nvlink-errors:1`)",
          emulated("nvlink-errors:1"), names="NVLink 0: packets that the NVLink sent again"),
    Fault("xid", "an Xid in the kernel's log during the run (`xid:0`)", emulated("xid:0"),
          names="an error during the run: ["),
    Fault("remap", "rows of memory wait to be replaced (`remap:1`)", emulated("remap:1"), (NODE,),
          names="remapped_rows.pending"),
    Fault("throttle", "the hardware slows a clock (`throttle:0`)", emulated("throttle:0"),
          (LATENCY, NODE), names="clocks_throttle_reasons.hw_thermal_slowdown"),
    Fault("nvlink", "all NVLinks are down, PCIe stays (`nvlink`)", emulated("nvlink"), (NODE,),
          names="has no NVLink to another GPU"),
    Fault("lost", "a GPU less than the site says (`GPUEMU_DEVICES=3`)", {"GPUEMU_DEVICES": "3"},
          (NODE, EACH), names="nvidia-smi lists 3 GPUs, the site says 4"),
]  # fmt: skip


def installed() -> bool:
    return all((UCX / version / "pin.txt").exists() for version in (VERSION, OTHER))


def without_libcuda(folder: Path) -> Path:
    """The emulated libraries but for libcuda."""
    shutil.copytree(EMULATED / "lib", folder, ignore=shutil.ignore_patterns("libcuda.so*"))
    return folder


def mixed(folder: Path) -> Path:
    """UCX of one version with the modules of another."""
    wheel = UCX / VERSION / "wheel"
    unused = shutil.ignore_patterns("*.a", "*.la", "cmake", "pkgconfig", "ucx")
    for part in ("bin", "lib"):
        shutil.copytree(wheel / "libucx" / part, folder / "libucx" / part, ignore=unused)
    others = (UCX / OTHER / "wheel/libucx/lib/ucx").glob("*.so*")
    (folder / "libucx/lib/ucx").mkdir()
    for path in others:
        shutil.copy(path, folder / "libucx/lib/ucx")
    (folder / "libucx_cu12.libs").symlink_to(wheel / "libucx_cu12.libs")
    return folder / "libucx"


@dataclass(frozen=True)
class Row:
    """The result for one fault: test -> the reason of the failure, empty if the test passed."""

    fault: Fault
    reasons: Mapping[str, str]


def measure(folder: Path, faults: list[Fault] | None = None) -> list[Row]:
    """Runs each fault, and returns a row for it."""
    chosen = FAULTS if faults is None else faults
    libraries, stacks = {"emulated": EMULATED / "lib"}, {VERSION: UCX / VERSION}
    if any(fault.library == "no-libcuda" for fault in chosen):
        libraries["no-libcuda"] = without_libcuda(folder / "lib")
    if any(fault.ucx == "mixed" for fault in chosen):
        stacks["mixed"] = mixed(folder / "mixed")
    reasons: dict[str, dict[str, str]] = {fault.name: {} for fault in chosen}
    for test, (path, case) in TESTS.items():
        bench = _bench(folder / test.replace(" ", "-"))
        these = [fault for fault in chosen if test in fault.tests]
        for fault in these:
            ucx = stacks[fault.ucx]
            bench.stack(fault.name, ["ucx", "ucx-perftest", "ucx-cuda"], ucx_version=VERSION)
            first = [*_instead(bench, test, fault, ucx), EMULATED / "bin", ucx / "bin"]
            variables = {
                "PATH": ":".join([*map(str, first), "$PATH"]),
                "LD_LIBRARY_PATH": f"{libraries[fault.library]}:{ucx}/lib",
                "GPUEMU_LINKS": LINKS,
                **fault.variables,
            }
            bench.environments[-1]["env_vars"] = [list(each) for each in variables.items()]
        run = bench.run("-n", case, "--mode", "smoke", path=f"reframe/{path}") if these else None
        for fault in these:
            outcome = run.case(test.split()[0], fault.name)
            passed = outcome.result == "pass"
            reasons[fault.name][test] = "" if passed else outcome.reason or outcome.result
    return [Row(fault, reasons[fault.name]) for fault in chosen]


def _instead(bench: Bench, test: str, fault: Fault, ucx: Path) -> list[Path]:
    """Folders for the PATH of a stack, with what keeps rates of this machine out of a test."""
    if test == EACH and fault.recorded:
        return [each_gpu_fake.instead(bench, fault.name, each_gpu_fake.recorded(fault.recorded))]
    if test == BANDWIDTH:
        model = Path(__file__).with_name("perftest_model.py")
        words = shlex.join(map(str, (sys.executable, model, ucx / "bin/ucx_perftest")))
        return [bench.program(fault.name, "ucx_perftest", f'#!/bin/sh\nexec {words} "$@"\n')]
    return []


def _bench(folder: Path) -> Bench:
    bench = Bench(folder)
    bench.partition(
        launcher="replay",
        features=["intra-node", "gpu", "cuda", "nvlink"],
        devices=[{"type": "gpu", "num_devices": 4}],
        extras={"options": EACH_GPU},
    )
    rate = {"value": RATE / 1e6, "unit": "MB/s", "lower": -0.3, "upper": 0.05}
    bench.expect("UcxGpu", {"bandwidth_16MiB": rate}, operation="tag_bw")
    bench.record_all()
    return bench


def cause(row: Row) -> str:
    """The problem that names the fault, without what differs from run to run."""
    said = "; ".join(re.sub(r"^\w+ error: ", "", reason) for reason in row.reasons.values())
    problems = said.replace(f" {os.uname().nodename} ", " node ").split("; ")
    named = next((line for line in problems if row.fault.names in line), problems[0])
    named = re.sub(r": /\S+: line \d+:.*", "", named)
    named = re.sub(r"GPU-67707565-6d75-\w{4}-\w{4}-\w{10}(\w\w)", r"GPU-67707565-6d75-…\1", named)
    named = re.sub(r"runs on processors \d[\d,-]*\b", "runs on processors …", named)
    named = re.sub(r": [\d.e+]+ more during", ": … more during", named)
    named = re.sub(r"\[ *\d+\.\d+\] NVRM", "[…] NVRM", named)
    named = re.sub(r"[\d.]+ GB/s \([\d.]+, -[\d.]+ %\)", "… GB/s (…, -… %)", named)
    named = re.sub(r", \S+ times the spread of the others \(\S+\)", "", named)
    named = re.sub(r"^\S+: (?=GPU |its GPUs)", "node: ", named)
    return re.sub(r"\d{3}(\.\d+)? MB/s( \(range [^)]*\))? is", "… MB/s is", named)


def table(rows: list[Row]) -> str:
    """The text of docs/faults/gpu.csv."""
    lines = []
    for row in rows:
        hits = [test for test, reason in row.reasons.items() if reason]
        caught = ", ".join(hits) or ("no fault: passes" if row.fault.sound else "**none**")
        message = f"`{cause(row)}`" if hits else ""
        lines.append([row.fault.what, caught, message])
    return fault_tables.text(("fault", "caught by", "message"), lines)


def sums(rows: list[Row]) -> str:
    """The generated part of docs/vgpu.md."""
    faults = [row for row in rows if not row.fault.sound]
    caught = sum(all(row.reasons.values()) for row in faults)
    alarms = sum(any(row.reasons.values()) for row in rows if row.fault.sound)
    return (
        f"{caught} of {len(faults)} faults are caught by every test that they are run with; "
        f"{alarms} of {len(rows) - len(faults)} machines without a fault are red."
    )


def replaced(text: str, generated: str) -> str:
    """Replaces the generated part of the document."""
    head, rest = text.split(BEGIN)
    return f"{head}{BEGIN}\n\n{generated}\n\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    wanted = [fault for fault in FAULTS if fault.name in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as scratch:
        found = measure(Path(scratch), wanted or None)
    print(table(found), end="")
    if wanted:
        for row in found:
            for test, reason in row.reasons.items():
                print(f"\n{row.fault.name}, {test}: {reason or 'pass'}")
    else:
        DOCUMENT.write_text(replaced(DOCUMENT.read_text(), sums(found)))
        TABLE.write_text(table(found))
        print(f"{DOCUMENT.relative_to(ROOT)} and {TABLE.relative_to(ROOT)} written")
