"""The emulated cluster of vcluster: four nodes and Slurm on one machine.

Runs on its login machine: `vcluster/vcluster run login -- reframe -C ...`, which is what
`make acceptance SITE=vcluster` does; start the cluster first (`make vcluster-up`). The stack is
`system`, packages of the distribution, or with STACK=spack what `make spack SITE=debian12` built.
"""

# Stacks: system spack

import json
import os
from pathlib import Path

from assay import sites
from assay.sites import detect, machine

STATE = Path(os.environ.get("ASSAY_VCLUSTER", "/var/tmp/assay-vcluster"))  # noqa: S108
#: What `vcluster up` was asked for; without it the site can be listed, and nothing more.
try:
    cluster = json.loads((STATE / "cluster.json").read_text())
except FileNotFoundError:
    cluster = {"nodes": 4, "accounting": False}
nodes, cores = cluster["nodes"], os.cpu_count()
memory = detect.memory_bytes() // (nodes + 1)

#: Its processor time, by the version of the host's control groups.
ACCOUNT = "cpu.stat" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "cpuacct.usage"

stack = machine.stack(__file__)
NODE = {
    # Polling by sacct needs Slurm's accounting, by squeue it does not.
    "scheduler": "slurm" if cluster["accounting"] else "squeue",
    "launcher": "srun",
    # All nodes share one host: one job at a time, wherever it runs.
    "access": ["--partition=batch", "--licenses=host:1", "--exclusive"],
    "environs": [stack["name"]],
    "max_jobs": 1,
    "sched_options": {"job_submit_timeout": 30, "slurm_job_cancel_reasons": []},
    "processor": {
        "num_cpus": cores,
        "num_cpus_per_core": 1,
        "num_cpus_per_socket": cores,
        "num_sockets": 1,
    },
    "env_vars": [
        ["SLURM_MPI_TYPE", "pmix"],
        # More ranks than cores, and ranks that wait for others in a loop: let them step aside.
        ["OMPI_MCA_mpi_yield_when_idle", "1"],
        # Every node would bind its first rank to the same core of the host; Slurm's prolog of
        # tasks gives them different ones.
        ["OMPI_MCA_hwloc_base_binding_policy", "none"],
    ],
}
# Each node may fill a small part of what it says it has: the host is shared.
# A job may wait for the one before it to be cleaned up, never for a node that is gone.
COMMON = {
    "memory_bytes": memory,
    "memory_fraction": 0.1,
    "max_pending": "100s",
    # All that runs on the cluster is ours, whoever runs it; the rest of the host is not.
    "others": str(STATE / "account" / ACCOUNT),
}
if clock := detect.clock_hz():
    COMMON["clock_hz"] = clock
LINK = {
    **NODE,
    "features": ["inter-node", "ethernet", "tcp"],
    "extras": {
        **COMMON,
        "network_device": "eth0",
        "nodes": nodes,
        "cores_per_node": 1,
        "tournament": {"width": 1, "cpus": [0, cores - 1], "seconds": 0.5},
        "hardware": {"link": "vcluster-1gbit"},
    },
}

#: What the smoke profile runs between nodes, and of OSU.
TESTS = ("Tournament", "Census", "NetPipe", "NodeHealth", "OsuCollective", "HplStudy")
OSU = ("latency", "bw", "bcast", "alltoall")

site_configuration = sites.configuration(
    __file__,
    systems=[
        {
            "name": "vcluster",
            "descr": "Slurm on emulated nodes",
            "hostnames": ["login$"],
            "modules_system": "nomod",
            "partitions": [
                {
                    **NODE,
                    "name": "intra-node",
                    "descr": "two ranks on one node",
                    "features": ["intra-node", "posix", "sysv", "cma", "tcp"],
                    "extras": {**COMMON, "network_device": "lo"},
                },
                {
                    **LINK,
                    "name": "inter-node",
                    "descr": "one rank on each node, by srun",
                    # HPCC waits half a minute for links of 1 Gbit/s.
                    "extras": {
                        **LINK["extras"],
                        "smoke": [*TESTS, *OSU],
                    },
                },
                {
                    **LINK,
                    "name": "inter-node-mpirun",
                    "descr": "one rank on each node, by mpirun",
                    "launcher": "mpirun",
                    # The link is that of inter-node: what differs is who starts the ranks.
                    "extras": {**LINK["extras"], "smoke": ["latency", "bw"]},
                },
                {
                    **NODE,
                    "name": "scratch",
                    "descr": "XFS of each node's own",
                    "features": ["storage", "xfs"],
                    "extras": {
                        **COMMON,
                        "directory": str(STATE / "scratch"),
                        "file_system": "xfs",
                        "nodes": nodes,
                        # All nodes' disks are one.
                        "each_node": {"tolerance": 0.6},
                    },
                },
                {
                    **NODE,
                    "name": "shared",
                    "descr": "a directory that all nodes share",
                    "features": ["storage", "shared"],
                    "extras": {
                        **COMMON,
                        "directory": str(STATE / "shared"),
                        "nodes": nodes,
                        # What all nodes have is asked on other partitions.
                        "smoke": ["Iozone", "BtIo", "NodeHealth"],
                    },
                },
            ],
        }
    ],
    environments=[stack],
    general={"poll_rate_max": 20, "poll_rate_min": 5},
    one_at_a_time=True,
)
