"""An example of a newer cluster: nodes with H100, NVLink, InfiniBand NDR, Slurm.

Copy the folder and correct it for the machine: first `hostnames` (or type --system=h100), then give
the `processor` of a node. Nothing here was read from a real machine.
"""

# Stacks: spack spack-gpu spack-diagnosis

import os
import shlex
from pathlib import Path

from assay import sites
from assay.sites import stacks

MEMORY = 512 * 2**30

NODE = {
    "scheduler": "slurm",
    "launcher": "srun",
    "access": ["--exclusive", *shlex.split(os.environ.get("ASSAY_ACCESS", ""))],
    "environs": ["spack"],
    # Slurm starts Open MPI 5 through PMIx only.
    "env_vars": [["SLURM_MPI_TYPE", "pmix"]],
}

site_configuration = sites.configuration(
    __file__,
    systems=[
        {
            "name": "h100",
            "descr": "an example: H100, InfiniBand NDR, Slurm",
            "hostnames": [r"h100-(login|gpu)\d*"],
            "modules_system": "nomod",
            "partitions": [
                {
                    **NODE,
                    "name": "intra-node",
                    "descr": "the ranks on one node, over shared memory",
                    "features": ["intra-node", "posix", "sysv", "cma"],
                    "extras": {"memory_bytes": MEMORY, "memory_fraction": 0.8, "pml": "ucx"},
                },
                {
                    **NODE,
                    "name": "gpu",
                    "descr": "the GPUs of one node, joined by NVLink",
                    "features": ["intra-node", "gpu", "cuda", "nvlink"],
                    "environs": ["spack-gpu", "spack-diagnosis"],
                    "extras": {"memory_bytes": MEMORY},
                },
                {
                    **NODE,
                    "name": "scratch",
                    "descr": "the parallel file system",
                    "features": ["storage"],
                    "extras": {
                        "memory_bytes": MEMORY,
                        "file_system": "lustre",
                        "directory": os.environ.get("ASSAY_SCRATCH", str(Path.home() / "assay")),
                    },
                },
            ],
        }
    ],
    environments=[
        stacks.spack(__file__, Path(__file__).resolve().parent / "spack/env/spack.lock", view)
        for view in ("default", "gpu", "diagnosis")
    ],
)
