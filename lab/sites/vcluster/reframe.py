"""The emulated cluster of vcluster: four nodes and Slurm on one machine.

The tests run on its login machine: `lab/vcluster/vcluster run login -- reframe -C ...`. The command
`make acceptance SITE=vcluster` does the same. Start the cluster first (`make vcluster-up`). The
stack is `system`, packages of the distribution. With STACK=spack it is the stack that
`make spack SITE=debian12` built.

If the nodes have emulated GPUs (`vcluster up --gpus 2`), there are two partitions more, `gpu` and
`gpu-inter-node`. Their stack is UCX from a wheel. If GPUEMU_STACK names a prefix with OSU, Open MPI
and UCX, all with CUDA, it is a second one: vgpu-stack. No number of them is a measurement of a GPU:
docs/vgpu.md.

If they share files (`vcluster up --shared glusterfs`), there is a partition `glusterfs`.

If the nodes are on two switches (`vcluster up --switches 2`), the tournament asks Slurm for them.

If the nodes are two groups (`vcluster up --groups 2`), `inter-node` is the first group. There are
two partitions more: `group`, the second group, and `across`, the link between them.
"""

# Stacks: system spack ucx-1-22-0 vgpu-stack

import os
import sys
from pathlib import Path

from assay import sites
from assay.describe import detect, machine
from assay.gpu import accelerator
from assay.node import provenance

sys.path.append(str(sites.repository(__file__) / "lab/sites"))
import emulation

STATE = emulation.state()
cluster = emulation.cluster()
nodes, cores = cluster["nodes"], os.cpu_count()
memory = provenance.memory()["limit"] // (nodes + 1)

#: The cluster's processor time, by the version of the host's control groups.
ACCOUNT = "cpu.stat" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "cpuacct.usage"

stack = machine.stack(__file__)
has_gpus = cluster.get("gpus", 0) > 0
#: UCX for the emulated GPUs, and the stack that GPUEMU_STACK names.
wheel = emulation.ucx(__file__, "1.22.0")
named = emulation.prefix(__file__) if has_gpus else None
FOR_GPUS = [wheel, *([named] if named else [])]
NODE = {
    # Polling by sacct needs Slurm's accounting; polling by squeue does not.
    "scheduler": "slurm" if cluster["accounting"] else "squeue",
    "launcher": "srun",
    # All nodes share one host, so only one job runs at a time, on whatever nodes.
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
        # There are more ranks than cores, and waiting ranks spin: let them yield.
        ["OMPI_MCA_mpi_yield_when_idle", "1"],
        # Every node would bind its first rank to the same core of the host. Slurm's prolog of
        # tasks gives the ranks different cores.
        ["OMPI_MCA_hwloc_base_binding_policy", "none"],
    ],
}
# Each node may fill a small part of the memory that it states, because nodes share the host. A job
# may wait for the clean-up of the previous job, but not for a node that is gone.
COMMON = {
    "memory_bytes": memory,
    "memory_fraction": 0.1,
    "max_pending": "100s",
    "pml": "ob1",  # what Open MPI chooses without InfiniBand
    # Everything that runs on the cluster is ours, whoever started it. The rest of the host is not.
    "others": str(STATE / "account" / ACCOUNT),
}
if clock := detect.clock_hz():
    COMMON["clock_hz"] = clock
#: The link between two groups of nodes, if there are two. The other partitions between nodes are
#: then within the first group. If the site is only listed, they have all nodes.
between = emulation.between(cluster)
apart = between and not cluster.get("ideal")
LINK = {
    **NODE,
    "access": [*NODE["access"], *(["--constraint=east"] if apart else [])],
    "features": ["inter-node", "ethernet", "tcp"],
    "extras": {
        **COMMON,
        "network_device": "eth0",
        "nodes": nodes // 2 if apart else nodes,
        "cores_per_node": cluster.get("cores", 1),
        "options": {
            # The usual number of iterations takes osu_mbw_mr minutes.
            "OsuBase.smoke_iterations": 20,
            "PairsOfNodes.width": 1,
            "PairsOfNodes.cpus": [0, cores - 1],
            "PairsOfNodes.seconds": 0.5,
            **({"PairsOfNodes.topology": "slurm"} if cluster.get("switches", 1) > 1 else {}),
            # The nodes share the cores and the memory of the host: one after the other measures.
            "EachCore.width": 1,
            "EachCore.tolerance": 0.4,
            # Ranks that share a core of the host wait for each other, and not for the link.
        },
        # `vcluster up --rate` makes other links, for which hardware.yaml has no entry.
        "hardware": {"link": "vcluster-1gbit"} if cluster["link"]["rate"] == "1gbit" else {},
    },
}

# Slurm allocates single GPUs, so a job sees those of its nodes that it asked for.
of_gpus = [*FOR_GPUS, *([stack] if accelerator.built(stack["features"]) else [])]
GPUS = {
    **NODE,
    "access": ["--partition=gpu", "--licenses=host:1"],
    "devices": [{"type": "gpu", "arch": "emulated", "num_devices": cluster.get("gpus", 0)}],
    "resources": [{"name": "_rfm_gpu", "options": ["--gres=gpu:{num_gpus_per_node}"]}],
    "environs": [each["name"] for each in of_gpus],
}
# Nothing of an emulated GPU is judged, so other work on the host may go on.
ALONGSIDE = {name: value for name, value in COMMON.items() if name != "others"}
ALONGSIDE["options"] = emulation.EACH_GPU


def smoke(extras, *words):
    """The extras of a partition whose smoke profile runs only these tests, or values of them."""
    return {**extras, "options": {**extras["options"], "StrictCheck.smoke": list(words)}}


#: Tests, and benchmarks of OSU, that the smoke profile runs between nodes.
TESTS = (
    *("Tournament", "Census", "EachCore", "NetPipe", "NodeHealth", "OsuCollective", "HplStudy"),
    *("Hpcg", "MpiGraph"),
)
OSU = ("latency", "bw", "bcast", "alltoall")

#: Tests of the documents 001 and 002. But for `Imb`, which needs programs that Debian lacks, they
#: have no tag `smoke`, so only `make paper` runs them.
DOCUMENTS = (
    *("Imb", "BcastStream", "OsuPairs", "OsuPyPairs", "MorePairs", "MorePyPairs"),
    *("HpccStudy", "HpccOverRanks"),
)

#: Partitions of a cluster whose nodes have GPUs. The wheels have no gdrcopy, so configurations with
#: gdrcopy cannot run.
WITH_GPUS = [
    {
        **GPUS,
        "name": "gpu",
        "descr": "EMULATED GPUs of one node: nothing here is hardware",
        "features": ["intra-node", "gpu", "cuda", "nvlink"],
        "extras": smoke(ALONGSIDE, "no-gdrcopy", "no-ipc-no-gdrcopy", "NodeHealth"),
    },
    {
        **GPUS,
        "name": "gpu-inter-node",
        "descr": "EMULATED GPUs of different nodes: nothing here is hardware",
        "features": ["inter-node", "ethernet", "gpu", "cuda"],
        "extras": {
            **smoke(ALONGSIDE, "no-gdrcopy", "Census", "NodeHealth"),
            "network_device": "eth0",
            "nodes": nodes,
        },
    },
]

#: Partitions of a cluster with a parallel file system: its name is that of its directory.
WITH_FILES = [
    {
        **NODE,
        "name": name,
        "descr": "a parallel file system on the disks of the nodes",
        "features": ["storage", "shared"],
        "extras": {
            **COMMON,
            "directory": str(STATE / name),
            "file_system": f"fuse.{name}",
            "nodes": nodes,
            # All nodes' disks are on one disk of the host.
            "options": {"EachNode.tolerance": 0.6, "EachServer.tolerance": 0.5},
        },
    }
    for name in (emulation.ALL["shared"],)
]

#: Partitions of a cluster whose nodes are two groups.
OF_GROUPS = [
    {
        **LINK,
        "name": "group",
        "descr": "one rank on each node, within the second group",
        "access": [*NODE["access"], "--constraint=west"],
        "features": [*LINK["features"], "group"],
        "extras": {
            **smoke(LINK["extras"], "NodeHealth", "ImbLong", "HplStudy"),
            "nodes": nodes // 2,
        },
    },
    {
        **LINK,
        "name": "across",
        "descr": "one rank on each node, half of them in each group",
        "access": NODE["access"],
        "features": [*LINK["features"], "across"],
        "extras": {
            **smoke(
                LINK["extras"],
                *("NodeHealth", "CrossingPairs", "ImbLong", "HplStudy", "LinkFromHpl"),
            ),
            "nodes": nodes,
            "hardware": {},
            "between": between,
        },
    },
]

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
                    # Leave out HPCC: it waits half a minute for links of 1 Gbit/s.
                    "extras": smoke(LINK["extras"], *TESTS, *DOCUMENTS, *OSU),
                },
                {
                    **LINK,
                    "name": "inter-node-mpirun",
                    "descr": "one rank on each node, by mpirun",
                    "launcher": "mpirun",
                    # The link is that of inter-node. Only the launcher differs.
                    "extras": smoke(LINK["extras"], "latency", "bw"),
                },
                {
                    **NODE,
                    "name": "scratch",
                    "descr": "XFS of each node's own",
                    "features": ["storage"],
                    "extras": {
                        **COMMON,
                        "directory": str(STATE / "scratch"),
                        "file_system": "xfs",
                        "nodes": nodes,
                        # All nodes' disks are on one disk of the host.
                        "options": {"EachNode.tolerance": 0.6},
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
                        # Other partitions check what all nodes have.
                        "options": {"StrictCheck.smoke": ["Iozone", "BtIo", "NodeHealth"]},
                    },
                },
                *(WITH_GPUS if has_gpus else []),
                *(WITH_FILES if cluster.get("shared") else []),
                *(OF_GROUPS if between else []),
            ],
        }
    ],
    environments=[stack, *(FOR_GPUS if has_gpus else [])],
    general={"poll_rate_max": 20, "poll_rate_min": 5},
    one_at_a_time=True,
    found=machine.found,
)
