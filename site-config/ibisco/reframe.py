"""IBiSCo: 32 nodes with four V100 each, NVLink, InfiniBand EDR, Slurm, Lustre.

Not yet run there. Before the first run, compare all of this with the machine. Begin with
`hostnames`, which are a guess (or type --system=ibisco). Then check the `processor` of a node; it
decides the number of ranks, the `network_device`, the directories in STORAGE, and HPL_GPU. Give the
options of the site's Slurm (partition, account) in ASSAY_ACCESS.
"""

# Stacks: spack spack-gpu spack-diagnosis nvidia-hpl

import os
import shlex
from pathlib import Path

from assay import sites
from assay.sites import stacks

USER = os.environ.get("USER", "nobody")
# A lower bound until it is read from a node. HPL and the file sizes follow from it.
MEMORY = 64 * 2**30

# "About 1600 physical cores" on 32 nodes with two sockets each: 24 cores per socket fit.
PROCESSOR = {
    "num_cpus": 48,
    "num_cpus_per_core": 1,
    "num_cpus_per_socket": 24,
    "num_sockets": 2,
}

NODE = {
    "scheduler": "slurm",
    "launcher": "srun",
    "access": ["--exclusive", *shlex.split(os.environ.get("ASSAY_ACCESS", ""))],
    "environs": ["spack"],
    "processor": PROCESSOR,
    # Slurm starts Open MPI 5 through PMIx only.
    "env_vars": [["SLURM_MPI_TYPE", "pmix"]],
}

# How to ask the site's Slurm for GPUs.
GPUS = {
    "devices": [{"type": "gpu", "arch": "sm_70", "num_devices": 4}],
    "resources": [{"name": "_rfm_gpu", "options": ["--gres=gpu:{num_gpus_per_node}"]}],
    "environs": ["spack-gpu", "spack-diagnosis", "nvidia-hpl"],
}
# How NVIDIA's HPL is started, which is not part of the stack. Its release for V100 is 21.4, for
# instance "apptainer exec --nv hpc-benchmarks-21.4-hpl.sif hpl.sh".
HPL_GPU = ""
NVIDIA_HPL = {
    "name": "nvidia-hpl",
    "features": ["mpi", "hpl-gpu"],
    "extras": {"hpl_gpu_command": HPL_GPU or "hpl.sh", "hpl_gpu_block": 288},
    "prepare_cmds": []
    if HPL_GPU
    else ['echo "NVIDIA\'s HPL is not named: write HPL_GPU of the site ibisco" >&2', "exit 1"],
}
LINK = {
    "pml": "ucx",
    "network_device": "mlx5_0:1",
    "nodes": 4,
    "hardware": {"link": "infiniband-edr", "gpu": "v100-sxm2-32gb"},
    "memory_bytes": MEMORY,
}

#: File system -> description, its kind, directory.
STORAGE = {
    "lustre-hdd": ("home: Lustre on SAS disks", "lustre", str(Path.home() / "assay")),
    "lustre-ssd": ("scratch: Lustre on SATA SSDs", "lustre", f"/lustre/scratch/{USER}/assay"),
    "xfs": ("a local SSD of the node", "xfs", f"/scratch/{USER}/assay"),
}

# BT-IO takes a square number of nodes: 25 of the 32. The published runs are of class E. They take
# hours each; type -S BtIo.npb_class=E.
SHARED = {"nodes": 25, "options": {"BtIo.full_class": "C"}}

site_configuration = sites.configuration(
    __file__,
    systems=[
        {
            "name": "ibisco",
            "descr": "V100, InfiniBand EDR, Slurm, Lustre",
            "hostnames": [r"[\w-]*ibisco"],
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
                    **GPUS,
                    "extras": {
                        "memory_bytes": MEMORY,
                        "hardware": {"link": "nvlink2-2-links", "gpu": "v100-sxm2-32gb"},
                    },
                },
                {
                    **NODE,
                    "name": "infiniband",
                    "descr": "the memory of nodes, over InfiniBand EDR",
                    "features": ["inter-node", "infiniband", "rc_mlx5"],
                    "extras": {**LINK, "memory_fraction": 0.8},
                },
                {
                    **NODE,
                    "name": "gpu-infiniband",
                    "descr": "GPUs of different nodes, over InfiniBand EDR",
                    "features": ["inter-node", "infiniband", "gpu", "cuda"],
                    **GPUS,
                    "extras": LINK,
                },
                *(
                    {
                        **NODE,
                        "name": name,
                        "descr": descr,
                        "features": ["storage", *(["shared"] if kind == "lustre" else [])],
                        "extras": {
                            **(SHARED if kind == "lustre" else {}),
                            "file_system": kind,
                            "memory_bytes": MEMORY,
                            "directory": directory,
                        },
                    }
                    for name, (descr, kind, directory) in STORAGE.items()
                ),
            ],
        }
    ],
    environments=[
        *(
            stacks.spack(__file__, sites.repository(__file__) / "spack.lock", view)
            for view in ("default", "gpu", "diagnosis")
        ),
        NVIDIA_HPL,
    ],
)
