"""The answers of Slurm and of nodes that the tests of `assay site new` share.

The answers in tests/data/site-new are recorded. What the emulated cluster does not have (GPUs,
InfiniBand, Lustre) is written here by hand, after the manual pages.
"""

import copy
import itertools

from shell import ROOT

from assay.describe import described, new, slurm, written
from assay.judge import hardware

DATA = ROOT / "tests/data/site-new"
NAMES = ("node02", "node01")
KNOWN = hardware(ROOT / "site-config" / "mine")
PARTITIONS = (DATA / "partitions.txt").read_text()
NODES = (DATA / "nodes.txt").read_text()
SAID = slurm.Answers(
    config=(DATA / "config.txt").read_text(), mpi=(DATA / "mpi-list.txt").read_text()
)
HEAD = written.Head("mine", ["login$"], "nomod", "2026-11-23", ["node01"])


def labelled(*answers):
    """Answers as `srun --label` passes them on: in pieces of 1 KiB, which mix."""
    pieces = [
        [f"{task}: {text[k : k + 1024]}\n" for k in range(0, len(text), 1024)]
        for task, text in enumerate(answer.rstrip("\n") for answer in answers)
    ]
    return "".join(piece for turn in itertools.zip_longest(*pieces, fillvalue="") for piece in turn)


def recorded():
    return described.answers(labelled(*((DATA / f"{name}.txt").read_text() for name in NAMES)))


def place(nodes=NODES, answers=None):
    """The emulated cluster, or the made one: its partition has the name `gpu`."""
    name = "batch" if "Partitions=batch" in nodes else "gpu"
    (partition,) = slurm.partitions(PARTITIONS.replace("=batch", f"={name}"))
    pool = slurm.pool(partition, slurm.nodes(nodes))
    return described.Place(pool, *(answers or recorded()))


def drafted(*places, **more):
    return new.draft(places, KNOWN, SAID, **more)


TOPOLOGY_KEYS = ("cpus", "cores", "sockets", "numa_nodes")

#: Made: a node with three V100, NVLink, EDR and Lustre.
TOPOLOGY = """\
\tGPU0\tGPU1\tGPU2\tCPU Affinity
GPU0\t X \tNV2\tNV2\t0-23
GPU1\tNV2\t X \tNV2\t0-23
GPU2\tNV2\tNV2\t X \t0-23
"""
EDR = {"rate": "100 Gb/sec (4X EDR)", "state": "4: ACTIVE", "link_layer": "InfiniBand"}
GPU_NODES = "".join(
    NODES.splitlines(keepends=True)[0]
    .replace("node01", f"gpu{number:02}")
    .replace("Partitions=batch", "Partitions=gpu")
    .replace("Gres=(null)", "Gres=gpu:v100:3(S:0-1)")
    .replace("Sockets=1", "Sockets=2")
    .replace("CoresPerSocket=2", "CoresPerSocket=24")
    .replace("RealMemory=5514", "RealMemory=190000")
    for number in range(1, 9)
)


def gpu_node():
    made = copy.deepcopy(recorded()[0])
    listing = "".join(f"GPU {n}: Tesla V100-SXM2-32GB (UUID: GPU-{n})\n" for n in range(3))
    made.update(
        host="gpu01",
        memory=200 << 30,
        gpus=listing,
        topology_of_gpus=TOPOLOGY,
        topology={"cpus": 48, "cores": 48, "sockets": 2, "numa_nodes": 2},
        physical=["eno1"],
        toward_peer="eno1",
        ucx_devices=[*made["ucx_devices"], "rc_mlx5/mlx5_0:1", "tcp/eno1"],
    )
    made["network"] = {
        "infiniband": {"mlx5_0:1": EDR},
        "interfaces": {"eno1": {"state": "up", "mtu": "1500", "speed_mbit": "20000"}},
    }
    made["file_systems"] = [
        {"mount": "/lustre", "type": "lustre", "read_only": False, "directory": "/lustre/users/me"},
        {"mount": "/home", "type": "nfs4", "read_only": False, "directory": None},
        {"mount": "/", "type": "xfs", "read_only": False, "directory": "/home/me"},
    ]
    made["programs"] = {**made["programs"], "osu_latency": "/opt/osu/osu_latency"}
    return made


def gpu_place():
    other = copy.deepcopy(gpu_node())
    other["kernel"]["started"] += 7
    return place(GPU_NODES, [gpu_node(), other])


def by_name(made):
    """The partitions of a draft, each with the extras of its nodes."""
    return {
        each["name"]: {**each, "extras": {**made.common[nodes]["extras"], **each["extras"]}}
        for nodes, every in made.partitions.items()
        for each in every
    }
