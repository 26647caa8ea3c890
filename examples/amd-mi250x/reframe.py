"""An example of a site with GPUs of AMD. This cluster does not exist; README.md describes it."""

# Stacks: host rocm

from assay import sites

MEMORY = 512 * 2**30

NODE = {
    "scheduler": "slurm",
    "launcher": "srun",
    "access": ["--partition=gpu", "--exclusive"],
    "processor": {
        "num_cpus": 128,
        "num_cpus_per_core": 1,
        "num_cpus_per_socket": 64,
        "num_sockets": 2,
    },
    # Slurm starts Open MPI 5 through PMIx only.
    "env_vars": [["SLURM_MPI_TYPE", "pmix"]],
}

# Slurm must set ROCR_VISIBLE_DEVICES alone: AutoDetect=rsmi, or Flags=amd_gpu_env in gres.conf.
GPUS = {
    "devices": [{"type": "gpu", "arch": "gfx90a", "num_devices": 8}],
    "resources": [{"name": "_rfm_gpu", "options": ["--gres=gpu:{num_gpus_per_node}"]}],
}

LINK = {
    "network_device": "mlx5_0:1",
    "nodes": 4,
    "memory_bytes": MEMORY,
    "clock_hz": 2.45e9,  # the base clock of an EPYC 7763 (AMD's page of the product)
}

site_configuration = sites.configuration(
    __file__,
    systems=[
        {
            "name": "amd-mi250x",
            "descr": "an example: MI250X, InfiniBand HDR, Slurm, Lustre",
            "hostnames": [r"amd-mi250x-login\d+"],
            "modules_system": "nomod",
            "partitions": [
                {
                    **NODE,
                    "name": "intra-node",
                    "descr": "the ranks on one node, over shared memory",
                    "environs": ["host"],
                    "features": ["intra-node", "posix", "sysv", "cma"],
                    "extras": {"memory_bytes": MEMORY, "memory_fraction": 0.8},
                },
                {
                    **NODE,
                    **GPUS,
                    "name": "gpu",
                    "descr": "the GPUs of one node, joined by Infinity Fabric",
                    "environs": ["rocm"],
                    "features": ["intra-node", "gpu", "rocm"],
                    "extras": {
                        "memory_bytes": MEMORY,
                        "memory_fraction": 0.8,
                        # The first two GPUs are the dies of one module.
                        "hardware": {"link": "infinity-fabric-4-links", "gpu": "mi250x-gcd"},
                    },
                },
                {
                    **NODE,
                    "name": "infiniband",
                    "descr": "the memory of nodes, over InfiniBand HDR",
                    "environs": ["host"],
                    "features": ["inter-node", "infiniband", "rc_mlx5"],
                    "extras": {
                        **LINK,
                        "memory_fraction": 0.8,
                        "hardware": {"link": "infiniband-hdr"},
                    },
                },
                {
                    **NODE,
                    **GPUS,
                    "name": "gpu-infiniband",
                    "descr": "GPUs of different nodes, over InfiniBand HDR",
                    "environs": ["rocm"],
                    "features": ["inter-node", "infiniband", "gpu", "rocm"],
                    "extras": {
                        **LINK,
                        "hardware": {"link": "infiniband-hdr", "gpu": "mi250x-gcd"},
                    },
                },
                {
                    **NODE,
                    "name": "scratch",
                    "descr": "the parallel file system",
                    "environs": ["host"],
                    "features": ["storage", "shared"],
                    "extras": {
                        "memory_bytes": MEMORY,
                        "nodes": 4,
                        "directory": "/lustre/scratch/assay",
                        "file_system": "lustre",
                    },
                },
            ],
        }
    ],
    environments=[
        {
            "name": "host",
            "features": ["mpi", "ucx", "ucx-perftest", "osu", "hpcc", "hpl", "iozone"],
            "prepare_cmds": ["module load openmpi osu-micro-benchmarks hpcc hpl iozone"],
            "extras": {
                "openmpi_version": "5.0.10",
                "ucx_version": "1.18.1",
                "osu_version": "7.5",
                "provenance": "modules of the site",
            },
        },
        {
            "name": "rocm",
            "features": ["mpi", "ucx", "ucx-perftest", "ucx-rocm", "osu-rocm"],
            "prepare_cmds": ["module load rocm openmpi-rocm osu-micro-benchmarks-rocm"],
            "extras": {
                "openmpi_version": "5.0.10",
                "ucx_version": "1.18.1",
                "osu_version": "7.5",
                "provenance": "modules of the site, with ROCm",
            },
        },
    ],
)
