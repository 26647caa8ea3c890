"""Emulated GPUs of the nodes (docs/vgpu.md): devices that Slurm allocates, and variables of jobs.

The libraries of an emulated GPU read what a node has from variables. The file :func:`settings` of
a node holds them: Slurm's prolog of tasks gives them to jobs, and `vcluster run` to its command.
"""

import re

from layout import CHECKOUT, STATE, Refusal

#: Slurm wants a device file for each GPU, as /dev/nvidia0. These are links to a device of the host.
DEVICES = STATE / "run"


def configure(cluster):
    """Writes gres.conf and the settings of all nodes, if the cluster has GPUs.

    :returns: the word for each node's line of slurm.conf, and further lines; empty without GPUs.
    """
    file = STATE / "etc/gres.conf"
    file.unlink(missing_ok=True)
    if not cluster.gpus:
        return "", ""
    for number in range(cluster.gpus):
        (DEVICES / f"gpu{number}").symlink_to("/dev/null")
    last = cluster.gpus - 1
    file.write_text(f"AutoDetect=off\nName=gpu File={DEVICES}/gpu[0-{last}] Flags=nvidia_gpu_env\n")
    for name in cluster.node_names:
        mend(cluster, name)
    # In the partition batch a job takes whole nodes. Here, jobs share the GPUs of a node.
    nodes = ",".join(cluster.node_names)
    return f" Gres=gpu:{cluster.gpus}", (
        f"GresTypes=gpu\nPartitionName=gpu Nodes={nodes} MaxTime=INFINITE State=UP\n"
    )


def settings(name):
    """The file with the variables of a node's GPUs, one NAME=VALUE per line."""
    return STATE / f"run/gpus.{name}"


def variables(name):
    """The variables of a machine's GPUs; none if it has no GPUs."""
    file = settings(name)
    lines = file.read_text().splitlines() if file.exists() else []
    return dict(line.split("=", 1) for line in lines)


def mend(cluster, name):
    """Gives a node healthy GPUs, if the cluster has GPUs."""
    if cluster.gpus:
        settings(name).write_text(f"GPUEMU_DEVICES={cluster.gpus}\n")


def faults():
    """The faults that emulated GPUs can have: the first column of the table in docs/vgpu.md."""
    text = (CHECKOUT / "docs/vgpu.md").read_text()
    table = text.partition("| fault | what breaks |\n")[2].partition("\n\n")[0]
    first = " ".join(row.split("|")[1] for row in table.splitlines())
    return re.findall(r"`([\w-]+)`", first)


def disturb(cluster, name, what):
    """Gives the GPUs of a node one more fault.

    :raises Refusal: the cluster has no GPUs, or they have no such fault.
    """
    if not cluster.gpus:
        raise Refusal("this cluster has no GPUs; type: lab/vcluster/vcluster up --gpus 2")
    known = faults()
    if not re.fullmatch(rf"({'|'.join(known)})(:\d(-\d)?)?", what):
        raise Refusal(f"GPUs have no fault {what!r}; docs/vgpu.md describes {', '.join(known)}")
    before = variables(name).get("GPUEMU_FAULT")
    mend(cluster, name)
    with settings(name).open("a") as file:
        file.write(f"GPUEMU_FAULT={','.join(filter(None, [before, what]))}\n")
