"""The CUDA stack of the reference site, compiled on Debian 12 and run on emulated GPUs.

It shows that the stack compiles, that its libraries load, and that the tests between GPUs accept
it. No number of this site is a measurement of a GPU: docs/stack.md, docs/vgpu.md.
"""

# Stacks: spack-gpu

import os
from functools import partial
from pathlib import Path

from assay import sites
from assay.describe import machine
from assay.sites import stacks

LOCK = Path(__file__).resolve().parent / "spack/env/spack.lock"
#: The emulated GPU: as lab/vgpu/build.sh makes it, else as `make spack` made it for its own checks.
BUILT = [sites.repository(__file__) / "build/vgpu", stacks.home(__file__) / "vgpu"]
EMULATED = next((each for each in BUILT if (each / "sources").exists()), BUILT[0])

#: Devices of the node, as lab/vgpu/node.c reads them.
DEVICES = int(os.environ.get("GPUEMU_DEVICES", "4"))

# Spack writes the path of CUDA's own libcudart into its programs. Loaded first, the emulated one
# takes its place. The emulated gdrdrv is a library, too.
PRELOADED = [EMULATED / "lib/libcudart.so.12", EMULATED / "lib/libgdrdrv.so"]

STACK = stacks.spack(__file__, LOCK, "gpu")
STACK["extras"]["provenance"] += "; emulated GPUs"
# ReFrame takes each variable once.
PATH = dict(STACK.get("env_vars", ())).get("PATH", "$PATH")
STACK["env_vars"] = [
    ["PATH", f"{EMULATED}/bin:{PATH}"],
    ["LD_LIBRARY_PATH", f"{EMULATED}/lib"],
    ["LD_PRELOAD", ":".join(str(each) for each in PRELOADED if each.exists())],
]
if not (EMULATED / "sources").exists():
    STACK["prepare_cmds"] = ['echo "no emulated GPU: type lab/vgpu/build.sh" >&2', "exit 1"]

partition = {
    **machine.partition(
        "emulated-gpu",
        ["intra-node", "gpu", "cuda", "nvlink"],
        # Without a model of links, the processor that copies gives the rates: nothing to compare.
        {"pml": "ucx", "options": {"EachGpu.size": 1 << 20, "EachGpu.tolerance": 0.9}},
    ),
    "descr": "EMULATED GPUs: nothing here is hardware",
    "environs": [STACK["name"]],
    "devices": [{"type": "gpu", "arch": "emulated", "num_devices": DEVICES}],
}

# Nothing is judged by time, so other work on this machine may go on.
del partition["extras"]["others"]

DESCRIPTION = "a CUDA stack that Spack compiled, on EMULATED GPUs; no number is of hardware"
site_configuration = sites.configuration(
    __file__,
    [machine.system(__file__, DESCRIPTION, [".*"], [partition])],
    [STACK],
    machine.OFTEN,
    found=partial(machine.found, any_stack=False),
)
