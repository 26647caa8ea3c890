"""Facts for the sites of lab: what ``${NAME}`` stands for in their ``assay.yaml``.

A fact is a function of the file that ReFrame loads. It says what the running cluster, this machine
or a stack on it has. None leaves the key, the place or the stack out.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent))
import emulation

from assay.describe import detect, machine
from assay.gpu import accelerator
from assay.node import capacity

Stack = dict[str, Any] | None


def _unnamed(stack: Stack) -> Stack:
    return stack and {key: value for key, value in stack.items() if key != "name"}


# --- the emulated cluster -------------------------------------------------------------------------


def state(_: Path) -> Path:
    """The directory of the cluster."""
    return emulation.state()


def scheduler(_: Path) -> str:
    """Polling by sacct needs Slurm's accounting; polling by squeue does not."""
    return "slurm" if emulation.cluster()["accounting"] else "squeue"


def nodes(_: Path) -> int:
    """All nodes."""
    return int(emulation.cluster()["nodes"])


def half(site_file: Path) -> int:
    """The nodes of one of two groups."""
    return nodes(site_file) // 2


def _apart(cluster: dict[str, Any]) -> bool:
    # If the site is only listed, its other partitions have all nodes.
    return bool(emulation.between(cluster)) and not cluster.get("ideal")


def nodes_of_link(site_file: Path) -> int:
    """The nodes of partitions within one group."""
    return half(site_file) if _apart(emulation.cluster()) else nodes(site_file)


def east(_: Path) -> list[str]:
    """The option of jobs for the first of two groups."""
    return ["--constraint=east"] if _apart(emulation.cluster()) else []


def between(_: Path) -> dict[str, Any]:
    """The link between two groups; empty if there is one."""
    return emulation.between(emulation.cluster())


def cores(_: Path) -> int:
    """The cores of the host, which all nodes share."""
    return os.cpu_count() or 1


def last_core(site_file: Path) -> int:
    """The number of the last one."""
    return cores(site_file) - 1


def cores_per_node(_: Path) -> int:
    """The ranks of a node."""
    return int(emulation.cluster().get("cores", 1))


def memory(site_file: Path) -> int:
    """The memory that a node states [B]; the login machine has as much."""
    return int(capacity.memory()["limit"]) // (nodes(site_file) + 1)


def clock_hz(_: Path) -> float | None:
    """The nominal clock of a core of the host."""
    return detect.clock_hz()


def account(_: Path) -> str:
    """The cluster's processor time, by the version of the host's control groups."""
    second = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    return str(emulation.state() / "account" / ("cpu.stat" if second else "cpuacct.usage"))


def topology(_: Path) -> str | None:
    """Where the tournament finds the switches, if there are two."""
    return "slurm" if emulation.cluster().get("switches", 1) > 1 else None


def link(_: Path) -> dict[str, str]:
    """`vcluster up --rate` makes other links, for which hardware.yaml has no entry."""
    usual = emulation.cluster()["link"]["rate"] == "1gbit"
    return {"link": "vcluster-1gbit"} if usual else {}


def gpus(_: Path) -> int:
    """The emulated GPUs of a node."""
    return int(emulation.cluster().get("gpus", 0))


def shared(_: Path) -> str | None:
    """The parallel file system."""
    name: str | None = emulation.cluster().get("shared")
    return name


def two_rails(_: Path) -> bool:
    """Whether nodes have two rails."""
    return bool(emulation.cluster().get("rails", 1) > 1)


def _virtual() -> dict[str, Any]:
    cluster = emulation.cluster()
    return cluster if cluster.get("machines") == "vm" else {"nodes": 2, "rails": 2}


def virtual_nodes(_: Path) -> int:
    """The virtual machines that are nodes; two if the site is only listed."""
    return int(_virtual()["nodes"])


def virtual_devices(_: Path) -> str:
    """The network devices of such a node."""
    return ",".join(f"rxe{rail}:1" for rail in range(_virtual()["rails"]))


# --- stacks ---------------------------------------------------------------------------------------


def distribution(site_file: Path) -> Stack:
    """The packages of the distribution."""
    return _unnamed(machine.distribution(site_file))


def system(site_file: Path) -> Stack:
    """The same, where STACK= asks for no stack of Spack."""
    of_spack = os.environ.get("ASSAY_STACK") == "spack"
    return None if of_spack else _unnamed(machine.local_stack(site_file))


def spack(site_file: Path) -> Stack:
    """The stack of Spack, where STACK= asks for it."""
    of_spack = os.environ.get("ASSAY_STACK") == "spack"
    return _unnamed(machine.local_stack(site_file)) if of_spack else None


def ucx_1_16_0(site_file: Path) -> Stack:
    """UCX of a wheel for emulated GPUs."""
    return _unnamed(emulation.ucx(site_file, "1.16.0"))


def ucx_1_20_1(site_file: Path) -> Stack:
    """UCX of a wheel for emulated GPUs."""
    return _unnamed(emulation.ucx(site_file, "1.20.1"))


def ucx_1_22_0(site_file: Path) -> Stack:
    """UCX of a wheel for emulated GPUs."""
    return _unnamed(emulation.ucx(site_file, "1.22.0"))


def of_cluster(site_file: Path) -> Stack:
    """UCX for a cluster whose nodes have emulated GPUs."""
    return ucx_1_22_0(site_file) if gpus(site_file) else None


def named(site_file: Path) -> Stack:
    """The stack that GPUEMU_STACK names."""
    return _unnamed(emulation.prefix(site_file))


def named_of_cluster(site_file: Path) -> Stack:
    """The same, for a cluster whose nodes have emulated GPUs."""
    return named(site_file) if gpus(site_file) else None


def also_for_gpus(site_file: Path) -> list[str]:
    """The stack of the nodes, if it is built for GPUs."""
    stack = machine.local_stack(site_file)
    return [stack["name"]] if accelerator.built(stack["features"]) else []


# --- this machine ---------------------------------------------------------------------------------


def devices(_: Path) -> int:
    """Devices of the node, as lab/vgpu/node.c reads them."""
    return int(os.environ.get("GPUEMU_DEVICES", "4"))


def arch(_: Path) -> str:
    """The architecture of the GPUs. Where a fault was put in, the model of their links judges."""
    return "emulated-with-a-fault" if os.environ.get("GPUEMU_FAULT") else "emulated"


def here(_: Path) -> dict[str, Any]:
    """This machine; only the model of links is judged, so other work on it may go on."""
    words = _unnamed(machine.partition("here", [], {})) or {}
    words["extras"].pop("others")
    return words


def here_with_mpi(site_file: Path) -> dict[str, Any]:
    """This machine with a rank for each GPU, on however few cores: no time is judged."""
    words = here(site_file)
    most = max(devices(site_file), words["processor"]["num_cpus"])
    words["processor"].update(num_cpus=most, num_cpus_per_core=1)
    words["env_vars"] += [
        ["OMPI_MCA_rmaps_base_oversubscribe", "1"],  # Open MPI 4.1
        ["PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"],  # Open MPI 5.0
        # A rank that waits leaves its core to the rank that it waits for.
        ["OMPI_MCA_mpi_yield_when_idle", "1"],
    ]
    return words


def probes(_: Path) -> list[str]:
    """The probes of the machine that failed."""
    return [*machine.failed_probes()]


def probes_of_ucx(_: Path) -> list[str]:
    """The same, without the programs of the distribution."""
    return [*machine.failed_probes(any_stack=False)]
