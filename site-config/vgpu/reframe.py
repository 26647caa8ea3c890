"""Emulated GPUs on this machine, with UCX from wheels: docs/vgpu.md.

No number of this site is a measurement of a GPU. It shows that the tests between GPUs run, what
proves their path, and which faults turn them red: GPUEMU_FAULT=ipc-open make acceptance SITE=vgpu.
"""

# Stacks: ucx-1-16-0 ucx-1-20-1 ucx-1-22-0

import os
import re

from assay import sites
from assay.sites import machine

REPOSITORY = sites.repository(__file__)
EMULATED = REPOSITORY / "build/vgpu"

#: The wheels of UCX; each is a stack.
VERSIONS = re.findall(
    r"^libucx-cu12==(\d+\.\d+\.\d+)", (REPOSITORY / "vgpu/ucx.lock").read_text(), re.MULTILINE
)

#: Devices of the node, as vgpu/node.c reads them.
DEVICES = int(os.environ.get("GPUEMU_DEVICES", "4"))

#: The model of the links: latency [us] and rate [B/s], slow enough for a busy machine to keep up.
#: hardware.yaml of this site has the same rate.
LINKS = "nvlink=20:1e9,d2d=20:1e9,h2d=20:1e9,d2h=20:1e9"


def stack(version):
    """The environment of the wheel of a version of UCX."""
    ucx = REPOSITORY / ".cache/vgpu" / version
    there = (EMULATED / "sources").exists() and (ucx / "pin.txt").exists()
    missing = f"no emulated GPU, or no UCX {version} for it: type make vgpu"
    return {
        "name": f"ucx-{version}".replace(".", "-"),  # ReFrame takes no dots
        "features": ["ucx", "ucx-perftest", "ucx-cuda"],
        "extras": {
            "ucx_version": version,
            "provenance": f"emulated GPUs; wheel libucx-cu12, pinned in vgpu/ucx.lock: {version}",
        },
        "env_vars": [
            ["PATH", f"{EMULATED}/bin:{ucx}/bin:$PATH"],
            ["LD_LIBRARY_PATH", f"{EMULATED}/lib:{ucx}/lib"],
            ["GPUEMU_LINKS", LINKS],
        ],
        "prepare_cmds": [] if there else [f'echo "{missing}" >&2', "exit 1"],
    }


STACKS = [stack(version) for version in VERSIONS]

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
    "environs": [each["name"] for each in STACKS],
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
    environments=STACKS,
    general=machine.OFTEN,
)
