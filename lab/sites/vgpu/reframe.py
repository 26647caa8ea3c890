"""Emulated GPUs on this machine, with UCX from wheels: docs/vgpu.md.

No number of this site is a measurement of a GPU. It shows that the tests between GPUs run, what
proves their path, and which faults turn them red: GPUEMU_FAULT=ipc-open make acceptance SITE=vgpu.

The programs of OSU are in no wheel. If GPUEMU_STACK names a prefix that has them, with Open MPI and
UCX, there is a second partition, on which OsuGpu, OsuGpuCollective and OsuGpuRelation run.
"""

# Stacks: ucx-1-16-0 ucx-1-20-1 ucx-1-22-0 vgpu-stack

import os
import re
import sys
from functools import partial

from assay import sites
from assay.describe import machine

sys.path.append(str(sites.repository(__file__) / "lab/sites"))
import emulation

#: The wheels of UCX; each is a stack.
LOCK = sites.repository(__file__) / "lab/vgpu/ucx.lock"
VERSIONS = re.findall(r"^libucx-cu12==(\d+\.\d+\.\d+)", LOCK.read_text(), re.MULTILINE)

#: Devices of the node, as lab/vgpu/node.c reads them.
DEVICES = int(os.environ.get("GPUEMU_DEVICES", "4"))

#: The links have the model of lab/sites/emulation.py; hardware.yaml of this site has the same rate.
STACKS = [emulation.ucx(__file__, version) for version in VERSIONS]

partition = {
    **machine.partition(
        "emulated-gpu",
        ["intra-node", "gpu", "cuda", "nvlink"],
        {
            "hardware": {"link": "emulated-nvlink"},
            # The wheels have no gdrcopy, so configurations with gdrcopy cannot run.
            "options": {
                **emulation.EACH_GPU,
                "StrictCheck.smoke": [
                    *("no-gdrcopy", "no-ipc-no-gdrcopy", "EachGpu", "NodeHealth"),
                    *("StackHas", "SuiteLoads"),
                ],
            },
        },
    ),
    "descr": "EMULATED GPUs: nothing here is hardware",
    "launcher": "local",
    "environs": [each["name"] for each in STACKS],
    "devices": [{"type": "gpu", "arch": "emulated", "num_devices": DEVICES}],
}

#: The partition of the stack that GPUEMU_STACK names; a machine may lack it.
WITH_MPI = "emulated-gpu-mpi"
named = emulation.prefix(__file__)
with_mpi = {
    **machine.partition(
        WITH_MPI,
        ["intra-node", "gpu", "cuda", "nvlink"],
        {"pml": "ucx", "options": emulation.EACH_GPU},
    ),
    "descr": "EMULATED GPUs with Open MPI: nothing here is hardware",
    "environs": [named["name"]] if named else [],
    "devices": partition["devices"],
}
# A rank for each GPU, on however few cores: no time is judged.
cores = max(DEVICES, with_mpi["processor"]["num_cpus"])
with_mpi["processor"].update(num_cpus=cores, num_cpus_per_core=1)
with_mpi["env_vars"] += [
    ["OMPI_MCA_rmaps_base_oversubscribe", "1"],  # Open MPI 4.1
    ["PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"],  # Open MPI 5.0
    # A rank that waits leaves its core to the rank that it waits for.
    ["OMPI_MCA_mpi_yield_when_idle", "1"],
]
partitions = [partition, *([with_mpi] if named else [])]

# Only the model of the links is judged, so other work on this machine may go on.
for each in partitions:
    del each["extras"]["others"]

site_configuration = sites.configuration(
    __file__,
    systems=[
        {
            "name": "vgpu",
            "descr": "EMULATED GPUs of vgpu/ on this machine; no number is of hardware",
            "hostnames": [".*"],
            "modules_system": "nomod",
            "max_local_jobs": 1,
            "partitions": partitions,
        }
    ],
    environments=[*STACKS, *([named] if named else [])],
    general=machine.OFTEN,
    found=partial(machine.found, any_stack=False),
)
