"""Runs of ucx_perftest and OSU between GPUs, and what they prove: the evidence against the trace.

test_vgpu_runs.py runs these between emulated GPUs. tests/data/vgpu has recorded runs of the same
kind, which test_gpu_paths.py compares; gpu_records.py records such runs.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from assay.gpu import gpu_paths
from assay.gpu.accelerator import CUDA
from assay.gpu.gpu_paths import INTRA, Sent, Way
from assay.parse import ucx_log
from assay.parse.ucx_log import UcxLog
from assay.prove import mpi
from assay.prove.transports import Proof
from assay.workloads import osu

ROOT = Path(__file__).parents[2]
#: The versions of UCX whose wheels are pinned.
VERSIONS = tuple(
    re.findall(
        r"^libucx-cu12==(\d+\.\d+\.\d+)", (ROOT / "lab/vgpu/ucx.lock").read_text(), re.MULTILINE
    )
)
#: What ucx_perftest sends: both processes in turn, or one of them, and 1 B in return.
SENT = {"tag_lat": ("DD", 2), "tag_bw": ("Dd", 1)}
#: Operation, message size [B], iterations.
SIZES = (("tag_lat", 8, 20), ("tag_bw", 1 << 20, 4))
#: Name -> what is broken in the server and in the client.
FAULTS = {
    "healthy": ("", ""),
    "ipc-open": ("ipc-open", "ipc-open"),
    "ipc-open-in-client": ("", "ipc-open"),
    "p2p": ("p2p", "p2p"),
    "nvlink": ("nvlink", "nvlink"),
}
#: The same for what only configurations with gdrcopy use.
GDRCOPY_FAULTS = {
    "gdrdrv": ("gdrdrv", "gdrdrv"),
    "gdrdrv-in-client": ("", "gdrdrv"),
    "gdrdrv-version": ("gdrdrv-version", "gdrdrv-version"),
}
#: The verdict on a run with a problem.
RED = "red"
#: A prefix with libgdrapi and a UCX that uses it, empty if there is none: docs/vgpu.md.
STACK = os.environ.get("GPUEMU_STACK", "")


class Gpus(NamedTuple):
    """GPUs to run on: their name, the folder of UCX for them, and an emulated driver."""

    name: str
    ucx: Path
    driver: str = ""


EMULATED = Gpus("emulated GPU", ROOT / ".cache/vgpu", f"{ROOT}/build/vgpu/lib")
#: Programs of Spack name the folder of CUDA's own libcudart; a preloaded one takes its place.
PRELOADED = ":".join(f"{EMULATED.driver}/{name}" for name in ("libcudart.so.12", "libgdrdrv.so"))


class Run(NamedTuple):
    """One run: the number of GPUs that it sees, the configuration, a fault of :data:`FAULTS`.

    The operation is that of ucx_perftest, or a program of OSU with its buffers (``osu_bw-DH``,
    ``osu_bcast``), which has a rank on each GPU.
    """

    version: str
    operation: str
    size: int
    iterations: int
    gpus: int
    configuration: str
    fault: str


RUNS = [
    Run(version, *size, 2, configuration, fault)
    for version, size in itertools.product(VERSIONS, SIZES)
    for configuration, faults in (
        ("no-gdrcopy", list(FAULTS)),
        ("no-ipc-no-gdrcopy", ["healthy", "ipc-open"]),
    )
    for fault in faults
]


#: Faults of runs of OSU, with and without gdrcopy.
OSU_FAULTS = {"all": ("healthy", "ipc-open", "p2p", "gdrdrv"),
              "no-gdrcopy": ("healthy", "ipc-open", "p2p"),
              "no-ipc": ("healthy", "gdrdrv"), "no-ipc-no-gdrcopy": ("healthy",)}  # fmt: skip


def of_osu(version: str, gdrcopy: bool) -> list[Run]:
    """Runs of OSU over the UCX in :data:`STACK`: pairs of buffers, and collectives of 2 to 4.

    :param gdrcopy: whether that UCX has it.
    """
    every, without_ipc = ("all", "no-ipc") if gdrcopy else ("no-gdrcopy", "no-ipc-no-gdrcopy")
    pairs = [
        Run(version, f"osu_{program}-{buffers}", size, iterations, 2, configuration, fault)
        for program, buffers in itertools.product(("latency", "bw"), ("DD", "DH", "HD", "HH"))
        for size, iterations in ((8, 20), (1 << 20, 4))
        for configuration, faults in OSU_FAULTS.items()
        for fault in faults
        if (gdrcopy or not gpu_paths.CONFIGURATIONS[configuration].gdrcopy)
        and (buffers == "DD" or (configuration == every and fault in ("healthy", "ipc-open")))
    ]
    collectives = [
        Run(version, f"osu_{program}", 1 << 20, 4, ranks, configuration, fault)
        for program, ranks in itertools.product(osu.COLLECTIVE, (2, 3, 4))
        for configuration, fault in (
            (every, "healthy"), (every, "ipc-open"), (without_ipc, "healthy")
        )
    ]  # fmt: skip
    return pairs + collectives


def with_gdrcopy(version: str) -> list[Run]:
    """Runs of the UCX in :data:`STACK`."""
    return [
        Run(version, *size, 2, configuration, fault)
        for size in SIZES
        for configuration, faults in (
            ("all", ["healthy", "ipc-open", *GDRCOPY_FAULTS]),
            ("no-ipc", ["healthy", *GDRCOPY_FAULTS]),
        )
        for fault in faults
    ]


def ways(carried: Mapping[str, int]) -> set[str]:
    """The ways that carried more than a tenth of the bytes of a trace.

    UCX does not say whether NVLink or PCIe joins two GPUs, so both are ``p2p``.
    """
    arrived = {way: count for way, count in carried.items() if way not in ("d2h", "gdr from")}
    named = re.compile("nvlink|pcie")
    return {
        named.sub("p2p", way)
        for way, count in arrived.items()
        if count > sum(arrived.values()) / 10
    }


def sent(run: Run) -> Sent:
    """What the processes of a run send to each other."""
    if run.operation in SENT:
        buffers, senders = SENT[run.operation]
        return Sent(buffers, (run.size,), senders)
    program, _, buffers = run.operation.removeprefix("osu_").partition("-")
    if buffers:
        return gpu_paths.of_pair(program, buffers, (run.size,))
    return gpu_paths.of_collective(program, run.gpus)


def judged(run: Run) -> bool:
    """Whether the suite judges the way of the messages: not with a buffer in host memory."""
    return "H" not in (sent(run).buffers or "")


def prove(run: Run, log: UcxLog) -> Proof:
    """The verdict of the suite on a run."""
    processes = 2 if run.operation in SENT else run.gpus
    way = Way(run.configuration, INTRA, CUDA)
    return gpu_paths.prove_gpu_paths(way, log, sent(run), run.version, processes)


def lacks(configuration: str, fault: str) -> bool:
    """Whether a fault takes a transport away that the configuration names, needed or not."""
    return fault in GDRCOPY_FAULTS and gpu_paths.CONFIGURATIONS[configuration].gdrcopy


def verdict(proof: Proof) -> str:
    """:data:`RED`, or what proves the way of a run that is not red."""
    return RED if proof.problems else proof.means


def agrees(said: str, carried: set[str], healthy: set[str], lacking: bool = False) -> bool:
    """Whether a run is red exactly if its bytes took another way than those of the healthy run.

    :param said: as :func:`verdict` gives it.
    :param lacking: as :func:`lacks` says; such a run must be red, whatever way its bytes took.
    """
    if said == RED or carried != healthy or lacking:
        return (said == RED) == (carried != healthy or lacking)
    by_ipc = any("ipc" in way for way in carried)
    return (said in (ucx_log.COUNT, ucx_log.TABLE)) == by_ipc


def installed(version: str) -> bool:
    return (ROOT / ".cache/vgpu" / version / "pin.txt").exists()


def _ucx_of_stack() -> tuple[str, bool]:
    """The version of the UCX in :data:`STACK`, empty if there is none; whether it has gdrcopy."""
    if not Path(STACK, "bin/ucx_info").exists():
        return "", False
    libraries = f"{EMULATED.driver}:{STACK}/lib"
    done = subprocess.run(
        [f"{STACK}/bin/ucx_info", "-v", "-d"], capture_output=True, text=True, check=True,
        env={**os.environ, "LD_LIBRARY_PATH": libraries, "LD_PRELOAD": PRELOADED},
    )  # fmt: skip
    version = re.search(r"Library version: (\S+)", done.stdout)
    return version[1] if version else "", "gdr_copy" in done.stdout


def stack_with_gdrcopy() -> str:
    """The version of the UCX in :data:`STACK`; empty if there is none, or if it has no gdrcopy."""
    version, gdrcopy = _ucx_of_stack()
    return version if gdrcopy else ""


def osu_of_stack() -> list[Run]:
    """Runs of the programs of OSU in :data:`STACK`, with and without faults; none without OSU."""
    version, gdrcopy = _ucx_of_stack() if STACK and _osu_folders() else ("", False)
    return of_osu(version, gdrcopy) if version else []


def _osu_folders() -> list[str]:
    """Folders of the prefix with programs of OSU."""
    patterns = ("bin/osu_[lb]*", "libexec/**/osu_[lb]*")
    found = [path for pattern in patterns for path in Path(STACK).glob(pattern)]
    return sorted({str(path.parent) for path in found if path.is_file()})


def do(run: Run, folder: Path, gpus: Gpus = EMULATED) -> tuple[str, dict[str, int]]:
    """Runs the processes of a run in `folder`; returns their logs, and the bytes of their traces.

    :raises RuntimeError: a process did not end well.
    """
    if run.operation in SENT:
        _do_perftest(run, folder, gpus)
    else:
        _do_osu(run, folder)
    carried: dict[str, int] = {}
    for file in folder.glob("*.trace"):
        for line in file.read_text().splitlines()[1:]:
            way, _, count = line.split("\t")
            if int(count):
                carried[way] = carried.get(way, 0) + int(count)
    return _logs(folder), carried


def _do_osu(run: Run, folder: Path) -> None:
    """Runs a program of OSU, without validation: its copies would be in the trace."""
    program, _, buffers = run.operation.partition("-")
    variables = {
        **mpi.OpenMpi.only_ucx,
        **gpu_paths.gpu_path_variables(Way(run.configuration, INTRA, CUDA), run.version),
        "PATH": ":".join([f"{STACK}/bin", *_osu_folders(), os.environ["PATH"]]),
        "LD_LIBRARY_PATH": f"{EMULATED.driver}:{STACK}/lib",
        "LD_PRELOAD": PRELOADED,
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(run.gpus))),
        "UCX_LOG_FILE": "ucx.%h.%p.log",
        "GPUEMU_TRACE": str(folder),
        "GPUEMU_FAULT": {**FAULTS, **GDRCOPY_FAULTS}[run.fault][0],
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    asked = ["-m", f"{run.size}:{run.size}", "-i", str(run.iterations), "-x", "2"]
    passed = [word for name in variables if "OMPI" not in name for word in ("-x", name)]
    done = subprocess.run(
        ["mpirun", "-np", str(run.gpus), "--oversubscribe", "--bind-to", "none", *passed,
         program, "-d", "cuda", *asked, *buffers],
        cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        said = done.stdout + done.stderr + _logs(folder)[-1000:]
        raise RuntimeError(f"{run} ended with {done.returncode}:\n{said}")


def _do_perftest(run: Run, folder: Path, gpus: Gpus) -> None:
    """Runs server and client. A real GPU that was lost can hang them; no emulated one does."""
    limit = None if gpus.driver else 120
    gdrcopy = gpu_paths.CONFIGURATIONS[run.configuration].gdrcopy
    ucx = Path(STACK) if gdrcopy else gpus.ucx / run.version
    libraries = [gpus.driver, f"{ucx}/lib", os.environ.get("LD_LIBRARY_PATH", "")]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = [str(ucx / "bin/ucx_perftest"), "-p", str(port)]
    variables = {
        **os.environ,
        **gpu_paths.gpu_path_variables(Way(run.configuration, INTRA, CUDA), run.version),
        "LD_LIBRARY_PATH": ":".join(filter(None, libraries)),
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(run.gpus))),
        "UCX_LOG_FILE": "ucx.%h.%p.log",
        "GPUEMU_TRACE": str(folder),
        **({"LD_PRELOAD": PRELOADED} if gdrcopy and gpus.driver else {}),
    }
    asked = ["-t", run.operation, "-s", str(run.size), "-n", str(run.iterations), "-w", "2"]
    broken = {**FAULTS, **GDRCOPY_FAULTS}[run.fault]
    with (folder / "server.out").open("w") as said:
        server = subprocess.Popen(
            program, cwd=folder, env={**variables, "GPUEMU_FAULT": broken[0]}, stdout=said,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        listens = f":{port:04X} 00000000:0000 0A"
        until = time.monotonic() + (limit or math.inf)
        while listens not in Path("/proc/net/tcp").read_text() and server.poll() is None:
            if time.monotonic() > until:
                break
            time.sleep(0.05)
        client = subprocess.run(
            [program[0], "127.0.0.1", *program[1:], *asked, "-m", "cuda,cuda"], cwd=folder,
            env={**variables, "GPUEMU_FAULT": broken[1]}, capture_output=True, text=True,
            timeout=limit, check=False,
        )  # fmt: skip
        if ended := client.returncode or server.wait(limit):
            said = client.stdout + client.stderr + (folder / "server.out").read_text()
            raise RuntimeError(f"{run} ended with {ended}:\n{said}{_logs(folder)[-1000:]}")
    finally:
        server.kill()
        server.wait()


def _logs(folder: Path) -> str:
    return "".join(file.read_text() for file in sorted(folder.glob("ucx.*.log")))


def compared(runs: list[Run]) -> list[dict[str, object]]:
    """A row for each run. The healthy run comes before the faults of the same combination."""
    rows: list[dict[str, object]] = []
    healthy: set[str] = set()
    for run in runs:
        with tempfile.TemporaryDirectory() as folder:
            text, carried = do(run, Path(folder))
        took = ways(carried)
        healthy = took if run.fault == "healthy" else healthy
        log = ucx_log.parse_ucx_log(text)
        proof = prove(run, log)
        rows.append({
            **run._asdict(), "ways": sorted(took), "means": proof.means,
            "problems": list(proof.problems),
            "agrees": agrees(verdict(proof), took, healthy, lacks(run.configuration, run.fault))
            if judged(run) else not proof.problems,
        })  # fmt: skip
    return rows
