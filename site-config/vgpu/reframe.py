"""Emulated GPUs on this machine, with UCX from a wheel: docs/vgpu.md.

No number of this site is a measurement of a GPU. It shows that the tests between GPUs run, what
proves their path, and which faults turn them red: GPUEMU_FAULT=ipc-open make acceptance SITE=vgpu.
"""

# Stacks: ucx-wheel

import os

from assay import sites
from assay.sites import machine

VERSION = "1.22.0"
REPOSITORY = sites.repository(__file__)
EMULATED = REPOSITORY / "build/vgpu"
UCX = REPOSITORY / ".cache/vgpu" / VERSION

#: Devices of the node, as vgpu/node.c reads them.
DEVICES = int(os.environ.get("GPUEMU_DEVICES", "4"))

#: The model of the links: latency [us] and rate [B/s], slow enough for a busy machine to keep up.
#: hardware.yaml of this site has the same rate.
LINKS = "nvlink=20:4e8,d2d=20:4e8,h2d=20:4e8,d2h=20:4e8"

STACK = {
    "name": "ucx-wheel",
    "features": ["ucx", "ucx-perftest", "ucx-cuda"],
    "extras": {
        "ucx_version": VERSION,
        "provenance": f"emulated GPUs; wheel libucx-cu12, pinned in vgpu/ucx.lock: {VERSION}",
    },
    "env_vars": [
        ["PATH", f"{EMULATED}/bin:{UCX}/bin:$PATH"],
        ["LD_LIBRARY_PATH", f"{EMULATED}/lib:{UCX}/lib"],
        ["GPUEMU_LINKS", LINKS],
    ],
}
if not (EMULATED / "sources").exists() or not (UCX / "pin.txt").exists():
    STACK["prepare_cmds"] = [
        'echo "no emulated GPU, or no UCX for it: type make vgpu" >&2',
        "exit 1",
    ]

partition = {
    **machine.partition(
        "emulated-gpu",
        ["intra-node", "gpu", "cuda", "nvlink"],
        {
            "hardware": {"link": "emulated-nvlink"},
            # The wheels have no gdrcopy, so configurations with gdrcopy cannot run.
            "smoke": ["no-gdrcopy", "no-ipc-no-gdrcopy", "NodeHealth", "StackHas", "SuiteLoads"],
        },
    ),
    "descr": "EMULATED GPUs: nothing here is hardware",
    "launcher": "local",
    "environs": [STACK["name"]],
    "devices": [{"type": "gpu", "arch": "emulated", "num_devices": DEVICES}],
}

# Only the model of the links is judged, so other work on this machine may go on.
del partition["extras"]["others"]

site_configuration = sites.configuration(
    __file__,
    systems=[
        {
            "name": "vgpu",
            "descr": "EMULATED GPUs of vgpu/ on this machine; no number is of hardware",
            "hostnames": [".*"],
            "modules_system": "nomod",
            "max_local_jobs": 1,
            "partitions": [partition],
        }
    ],
    environments=[STACK],
    general=machine.OFTEN,
)
