"""Emulated GPUs on this machine, with UCX from wheels: docs/vgpu.md.

No number of this site is a measurement of a GPU. It shows that the tests between GPUs run, what
proves their path, and which faults turn them red: GPUEMU_FAULT=ipc-open make acceptance SITE=vgpu.
"""

# Stacks: ucx-1-16-0 ucx-1-20-1 ucx-1-22-0

import os
import re

from assay import sites
from assay.sites import emulated, machine

#: The wheels of UCX; each is a stack.
LOCK = sites.repository(__file__) / "vgpu/ucx.lock"
VERSIONS = re.findall(r"^libucx-cu12==(\d+\.\d+\.\d+)", LOCK.read_text(), re.MULTILINE)

#: Devices of the node, as vgpu/node.c reads them.
DEVICES = int(os.environ.get("GPUEMU_DEVICES", "4"))

#: The links have the model of assay.sites.emulated; hardware.yaml of this site has the same rate.
STACKS = [emulated.ucx(__file__, version) for version in VERSIONS]

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
