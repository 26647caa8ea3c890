"""An example of a newer cluster: nodes with H100, NVLink, InfiniBand NDR, Slurm.

Copy the folder and correct it to the machine; nothing here was read off one.
"""

import os
import shlex
from pathlib import Path

from assay import sites, stacks

HERE = Path(__file__).resolve().parent
ACCESS = shlex.split(os.environ.get("ASSAY_SLURM", "--exclusive"))


def partition(name, descr, features, extras):
    return {
        "name": name,
        "descr": descr,
        "scheduler": "slurm",
        "launcher": "srun",
        "access": ACCESS,
        "environs": ["spack"],
        "features": features,
        "extras": {"memory_bytes": 512 * 2**30, **extras},
        # Open MPI 5 is started by Slurm through PMIx and nothing else.
        "env_vars": [["SLURM_MPI_TYPE", "pmix"]],
    }


site_configuration = sites.configuration(
    __file__,
    systems=[
        {
            "name": "h100",
            "descr": "an example: H100, InfiniBand NDR, Slurm",
            "hostnames": [".*"],
            "modules_system": "nomod",
            "partitions": [
                partition(
                    "intra-node",
                    "the ranks on one node, over shared memory",
                    ["intra-node", "posix", "sysv", "cma"],
                    {"memory_fraction": 0.8},
                ),
                partition(
                    "scratch",
                    "the parallel file system",
                    ["storage", "lustre"],
                    {"directory": os.environ.get("ASSAY_SCRATCH", str(Path.home() / "assay"))},
                ),
            ],
        }
    ],
    environments=[stacks.spack(__file__, HERE / "spack/env/spack.lock")],
)
