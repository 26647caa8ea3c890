"""IBiSCo: 32 nodes with four V100 each, NVLink, InfiniBand EDR, Slurm, Lustre.

Not yet run there. Before the first run: compare what is below with a node, and give the options of
the site's Slurm (partition, account) in ASSAY_SLURM, the directories in ASSAY_LUSTRE_HDD,
ASSAY_LUSTRE_SSD and ASSAY_XFS.
"""

import os
import shlex
from pathlib import Path

from assay import sites, stacks

REPOSITORY = sites.repository(__file__)
ACCESS = shlex.split(os.environ.get("ASSAY_SLURM", "--exclusive"))
# A lower bound, until it is read off a node: HPL and the file sizes are made from it.
MEMORY = 64 * 2**30


def partition(name, descr, features, extras):
    return {
        "name": name,
        "descr": descr,
        "scheduler": "slurm",
        "launcher": "srun",
        "access": ACCESS,
        "environs": ["spack"],
        "features": features,
        "extras": {"memory_bytes": MEMORY, **extras},
        # Open MPI 5 is started by Slurm through PMIx and nothing else.
        "env_vars": [["SLURM_MPI_TYPE", "pmix"]],
    }


def storage(name, descr, variable, default, *features):
    directory = os.environ.get(variable, default)
    return partition(name, descr, ["storage", *features], {"directory": directory})


USER = os.environ.get("USER", "nobody")

site_configuration = sites.configuration(
    __file__,
    systems=[
        {
            "name": "ibisco",
            "descr": "V100, InfiniBand EDR, Slurm, Lustre",
            "hostnames": [".*"],
            "modules_system": "nomod",
            "partitions": [
                partition(
                    "intra-node",
                    "the ranks on one node, over shared memory",
                    ["intra-node", "posix", "sysv", "cma"],
                    {"memory_fraction": 0.8},
                ),
                storage(
                    "lustre-hdd",
                    "home file system: Lustre on SAS disks",
                    "ASSAY_LUSTRE_HDD",
                    str(Path.home() / "assay"),
                    "lustre",
                ),
                storage(
                    "lustre-ssd",
                    "scratch area: Lustre on SATA SSDs",
                    "ASSAY_LUSTRE_SSD",
                    f"/lustre/scratch/{USER}/assay",
                    "lustre",
                ),
                storage(
                    "xfs",
                    "a local SSD of the node",
                    "ASSAY_XFS",
                    f"/scratch/{USER}/assay",
                    "xfs",
                ),
            ],
        }
    ],
    environments=[stacks.spack(__file__, REPOSITORY / "spack.lock")],
)
