"""IBiSCo: 32 nodes with four V100 each, NVLink, InfiniBand EDR, Slurm, Lustre.

Not yet run there. Before the first run: give the `processor` of a node, which decides the number of
ranks, compare the rest with the machine, and give the options of the site's Slurm (partition,
account) in ASSAY_SLURM, the directories in ASSAY_LUSTRE_HDD, ASSAY_LUSTRE_SSD and ASSAY_XFS.
"""

import os
import shlex
from pathlib import Path

from assay import sites, stacks

USER = os.environ.get("USER", "nobody")
# A lower bound, until it is read off a node: HPL and the file sizes are made from it.
MEMORY = 64 * 2**30

NODE = {
    "scheduler": "slurm",
    "launcher": "srun",
    "access": shlex.split(os.environ.get("ASSAY_SLURM", "--exclusive")),
    "environs": ["spack"],
    # Open MPI 5 is started by Slurm through PMIx and nothing else.
    "env_vars": [["SLURM_MPI_TYPE", "pmix"]],
}

#: File system -> what it is, feature, variable that names the directory, default of it.
STORAGE = {
    "lustre-hdd": ("home: Lustre on SAS disks", "lustre", "ASSAY_LUSTRE_HDD",
                   str(Path.home() / "assay")),
    "lustre-ssd": ("scratch: Lustre on SATA SSDs", "lustre", "ASSAY_LUSTRE_SSD",
                   f"/lustre/scratch/{USER}/assay"),
    "xfs": ("a local SSD of the node", "xfs", "ASSAY_XFS", f"/scratch/{USER}/assay"),
}  # fmt: skip

site_configuration = sites.configuration(
    __file__,
    systems=[
        {
            "name": "ibisco",
            "descr": "V100, InfiniBand EDR, Slurm, Lustre",
            "hostnames": [".*"],
            "modules_system": "nomod",
            "partitions": [
                {
                    **NODE,
                    "name": "intra-node",
                    "descr": "the ranks on one node, over shared memory",
                    "features": ["intra-node", "posix", "sysv", "cma"],
                    "extras": {"memory_bytes": MEMORY, "memory_fraction": 0.8},
                },
                {
                    **NODE,
                    "name": "gpu",
                    "descr": "the GPUs of one node, joined by NVLink",
                    "features": ["intra-node", "gpu", "nvlink"],
                    "environs": ["spack-gpu", "spack-diagnosis"],
                    "extras": {"memory_bytes": MEMORY},
                },
                *(
                    {
                        **NODE,
                        "name": name,
                        "descr": descr,
                        "features": ["storage", feature],
                        "extras": {
                            "memory_bytes": MEMORY,
                            "directory": os.environ.get(variable, default),
                        },
                    }
                    for name, (descr, feature, variable, default) in STORAGE.items()
                ),
            ],
        }
    ],
    environments=[
        stacks.spack(__file__, sites.repository(__file__) / "spack.lock", view)
        for view in ("host", "gpu", "diagnosis")
    ],
)
