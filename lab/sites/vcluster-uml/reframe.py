"""The emulated cluster whose nodes have a kernel of their own, with verbs over soft-RoCE.

Start the cluster first (`make vcluster-up MACHINES=uml`), then `make acceptance SITE=vcluster-uml`.
The tests run on its login machine. The stack is `system`, packages of the distribution. No number
of this site is a measurement of InfiniBand: docs/vcluster.md.
"""

# Stacks: system

import sys

from assay import sites
from assay.describe import machine

sys.path.append(str(sites.repository(__file__) / "lab/sites"))
import emulation

cluster = emulation.cluster()
stack = machine.distribution(__file__)
NODE = {
    "scheduler": "slurm" if cluster["accounting"] else "squeue",
    "launcher": "srun",
    # All nodes share one host, so only one job runs at a time, on whatever nodes.
    "access": ["--partition=batch", "--licenses=host:1", "--exclusive"],
    "environs": [stack["name"]],
    "max_jobs": 1,
    "sched_options": {"job_submit_timeout": 30, "slurm_job_cancel_reasons": []},
    "processor": {
        "num_cpus": 1,
        "num_cpus_per_core": 1,
        "num_cpus_per_socket": 1,
        "num_sockets": 1,
    },
    "env_vars": [
        ["SLURM_MPI_TYPE", "pmix"],
        # The nodes share the cores of one host: let waiting ranks yield.
        ["OMPI_MCA_mpi_yield_when_idle", "1"],
    ],
}
#: Tests that the smoke profile runs, beside two of OSU.
TESTS = ("Census", "NodeHealth", "Tournament", "TransportOpens", "IbPerftest")
COMMON = {
    "memory_bytes": 640 << 20,  # what Slurm allocates (lab/vcluster/uml.py)
    "memory_fraction": 0.1,
    "max_pending": "100s",
    "pml": "ob1",  # what Debian's Open MPI chooses
    "nodes": cluster["nodes"],
    "cores_per_node": 1,
    # The cores of the host move between the nodes: healthy pairs differed by half, in latency
    # and in bandwidth (2026-11-23).
    "options": {
        "PairsOfNodes.width": 1,
        "PairsOfNodes.cpus": [0, 0],
        "PairsOfNodes.tolerances": {"latency": 0.6, "bandwidth": 0.5},
        "StrictCheck.smoke": [*TESTS, "latency", "bw"],
    },
}
VERBS = {
    **COMMON,
    "gid_index": 0,
    # On a busy host, acknowledgments come after the timer of soft-RoCE: up to
    # 0.3 % of the packets were sent again on healthy links.
    # The peer of a last packet may have ended, and does not acknowledge it: soft-RoCE
    # then counts one error (one of eight healthy launches, 2026-11-23).
    "health": {"link_resent_max": 0.006, "link_errors_max": 1},
}
#: Partitions of a cluster whose nodes have two rails.
OF_RAILS = [
    {
        **NODE,
        "name": "rails",
        "descr": "one rank on each node, over two rails of verbs (soft-RoCE)",
        "features": ["inter-node", "ethernet", "rails", "rc_verbs"],
        "extras": {
            **VERBS,
            "network_device": "rxe0:1,rxe1:1",
            # The usual amounts take two minutes for each case.
            "options": {
                **COMMON["options"],
                "OsuBase.smoke_iterations": 50,
                "OsuBase.smoke_window": 8,
                "StrictCheck.smoke": ["Census", "NodeHealth", "IbPerftest", "OsuRails"],
            },
        },
    },
]

site_configuration = sites.configuration(
    __file__,
    systems=[
        {
            "name": "vcluster-uml",
            "descr": "Slurm on emulated nodes with a kernel of their own, without InfiniBand",
            "hostnames": ["login$"],
            "modules_system": "nomod",
            "partitions": [
                {
                    **NODE,
                    "name": "ethernet",
                    "descr": "one rank on each node, over TCP",
                    "features": ["inter-node", "ethernet", "tcp"],
                    "extras": {**COMMON, "network_device": "eth0"},
                },
                {
                    **NODE,
                    "name": "verbs",
                    "descr": "one rank on each node, over verbs (soft-RoCE)",
                    "features": ["inter-node", "ethernet", "rc_verbs", "ud_verbs"],
                    "extras": {**VERBS, "network_device": "rxe0:1"},
                },
                *(OF_RAILS if cluster.get("rails", 1) > 1 else []),
            ],
        }
    ],
    environments=[stack],
    general={"poll_rate_max": 20, "poll_rate_min": 5},
    one_at_a_time=True,
    found=machine.found,
)
