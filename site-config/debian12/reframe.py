"""A machine with Debian 12 and no cluster: the stack `spack` on one node, without a scheduler.

Two variables choose where files are written: ASSAY_SCRATCH (default: results/scratch) and
ASSAY_TMPFS (default: /dev/shm).
"""

import os
from pathlib import Path

from reframe.utility.cpuinfo import cpuinfo

from assay import detect, sites, stacks

HERE = Path(__file__).resolve().parent
SCRATCH = Path(
    os.environ.get("ASSAY_SCRATCH", sites.results_directory(__file__) / "scratch")
).resolve()
TMPFS = Path(os.environ.get("ASSAY_TMPFS", "/dev/shm")).resolve()  # noqa: S108 - under test
MEMORY = detect.memory_bytes()
TRANSPORTS = [t for t in detect.ucx_transports() if t in ("posix", "sysv", "cma", "tcp")]

PROCESSOR = cpuinfo()
PROCESSOR["num_cpus"] = min(PROCESSOR["num_cpus"], detect.usable_cpus())

# Debian's Open MPI refuses to start as root unless it is told twice that this is meant.
AS_ROOT = [["OMPI_ALLOW_RUN_AS_ROOT", "1"], ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"]]


def partition(name, features, extras):
    return {
        "name": name,
        "descr": f"{name} of this machine",
        "scheduler": "local",
        "launcher": "mpirun",
        "environs": ["spack"],
        "processor": PROCESSOR,
        "features": features,
        "extras": {"memory_bytes": MEMORY, **extras},
        "env_vars": AS_ROOT if os.geteuid() == 0 else [],
    }


def storage(name, directory, *features):
    directory.mkdir(parents=True, exist_ok=True)
    extras = {"directory": str(directory), "file_system": detect.file_system(directory)}
    return partition(name, ["storage", *features], extras)


site_configuration = sites.configuration(
    __file__,
    systems=[
        {
            "name": "debian12",
            "descr": "one machine with Debian 12, with the programs that Spack built",
            "hostnames": [".*"],
            "modules_system": "nomod",
            # One case at a time, over all partitions: two would measure each other.
            "max_local_jobs": 1,
            "partitions": [
                partition(
                    "intra-node",
                    ["intra-node", *TRANSPORTS],
                    {"memory_fraction": 0.02, "network_device": "lo"},
                ),
                storage("scratch", SCRATCH),
                storage("tmpfs", TMPFS, "tmpfs"),
            ],
        }
    ],
    environments=[stacks.spack(__file__, HERE / "spack/env/spack.lock")],
    # Asking a process of our own whether it has ended costs nothing: do it often, wait little.
    general={"poll_rate_max": 50, "poll_rate_min": 20},
)
