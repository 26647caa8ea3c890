"""The emulated cluster whose nodes are virtual machines with two sockets and a device on each.

Start the cluster first (`make vcluster-up MACHINES=vm`), then `make paper DOC=004
SITE=vcluster-vm`, the tests of processes near their network device. They run on its login machine,
and need OSU's C programs on PATH. The stack is `system`, packages of the distribution. No number of
this site is a measurement: docs/vcluster.md.
"""

# Stacks: system

import sys

from assay import sites
from assay.describe import machine

sys.path.append(str(sites.repository(__file__) / "lab/sites"))
import emulation

cluster = emulation.cluster()
stack = machine.distribution(__file__)
#: Network devices of a node: as many as were asked for, or two if the site is only listed.
own = cluster.get("machines") == "vm"
rails = cluster["rails"] if own else 2
NODE = {
    "scheduler": "slurm" if cluster["accounting"] else "squeue",
    "launcher": "srun",
    # All nodes share one host, so only one job runs at a time, on whatever nodes.
    "access": ["--partition=batch", "--licenses=host:1", "--exclusive"],
    "environs": [stack["name"]],
    "max_jobs": 1,
    "sched_options": {"job_submit_timeout": 60, "slurm_job_cancel_reasons": []},
    "processor": {
        "num_cpus": 2,
        "num_cpus_per_core": 1,
        "num_cpus_per_socket": 1,
        "num_sockets": 2,
    },
    "env_vars": [
        ["SLURM_MPI_TYPE", "pmix"],
        # Slurm binds each rank to a processor. Open MPI must not bind it anew.
        ["OMPI_MCA_hwloc_base_binding_policy", "none"],
        # All processors of both nodes share the cores of one host: let waiting ranks yield.
        ["OMPI_MCA_mpi_yield_when_idle", "1"],
    ],
}
COMMON = {
    "memory_bytes": 1000 << 20,  # what Slurm allocates (lab/vcluster/vm.py)
    "memory_fraction": 0.1,
    "max_pending": "300s",
    "pml": "ob1",  # what Debian's Open MPI chooses
    "nodes": cluster["nodes"] if own else 2,
    # A node that software emulates sends a few MB a second.
    "options": {
        "OsuBase.smoke_iterations": 1,
        "OsuBase.smoke_window": 8,
        "PairsOfNodes.width": 1,
        "PairsOfNodes.cpus": [0, 1],
        "PairsOfNodes.seconds": 2,
        "StrictCheck.smoke": ["Census", "NodeHealth", "NearestDevice", "OsuNear", "AffinityCost"],
    },
}

site_configuration = sites.configuration(
    __file__,
    systems=[
        {
            "name": "vcluster-vm",
            "descr": "Slurm on virtual machines with two sockets, emulated by software",
            "hostnames": ["login$"],
            "modules_system": "nomod",
            "partitions": [
                {
                    **NODE,
                    "name": "verbs",
                    "descr": "a rank on each socket, each with its device of verbs (soft-RoCE)",
                    # Not rc_verbs: two of two runs on healthy nodes did not end.
                    "features": ["inter-node", "ethernet", "rails", "ud_verbs"],
                    "extras": {
                        **COMMON,
                        "network_device": ",".join(f"rxe{rail}:1" for rail in range(rails)),
                        "gid_index": 0,
                        # On nodes that software emulates, acknowledgments come after the timer of
                        # soft-RoCE, so packets are sent again on healthy links.
                        "health": {"link_resent_max": 0.5},
                    },
                },
            ],
        }
    ],
    environments=[stack],
    general={"poll_rate_max": 20, "poll_rate_min": 5},
    one_at_a_time=True,
    found=machine.found,
)
