"""A cluster without preparation: scheduler, nodes, links, GPUs and stack are detected.

Slurm tells the number, processors, memory and GPUs of compute nodes. Links and transports are those
of the machine that loads the site: if a login node differs, set the variables of
``docs/variables.md``, or start the suite inside a job.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from reframe.core.exceptions import ConfigError

from assay import files, sites
from assay.describe import ask, container, described, detect, machine, slurm
from assay.describe.slurm import Answers, Pool
from assay.fleet.node import provenance
from assay.gpu.accelerator import ACCELERATORS
from assay.judge import Known, hardware
from assay.node import answers
from assay.prove import identity
from assay.sites import site_yaml
from assay.sites.site_yaml import SiteFile


def any_configuration(site_file: Path, said: SiteFile) -> dict[str, Any]:
    """The ReFrame configuration of the cluster or the machine that loads the site.

    :raises ConfigError: a variable names something that does not exist, there is no MPI at
        all, Slurm does not answer, or as :func:`assay.sites.site_configuration`.
    """
    slurm_says = ask.slurm()
    if silence := answers.hung.get("scontrol"):
        # A silent Slurm does not prove that there is no cluster. This may be its login node.
        raise ConfigError(f"{silence}: without Slurm nothing is run; ask its administrator")
    pool = _pool(slurm_says, os.environ.get("ASSAY_PARTITION"))
    launcher = os.environ.get("ASSAY_LAUNCHER", slurm_says.launcher) if pool else "mpirun"
    if launcher not in ("srun", "mpirun"):
        raise ConfigError(f"ASSAY_LAUNCHER: {launcher!r} is neither srun nor mpirun")
    stacks, opened, why = _stacks(site_file, launcher == "srun", said)
    transports = machine.inside_the_node(opened)
    names = [stack["name"] for stack in stacks]

    here = {**provenance.node(), "said": {}, "ucx_devices": provenance.ucx(opened)}
    here["said"] = {" ".join(g.listing): ask.output(*g.listing) for g in ACCELERATORS.values()}
    # Under Slurm, Slurm tells how many GPUs a node has. Their model is known only if this machine
    # has GPUs, too.
    known = hardware(site_file.parent)
    vendor, listed = described.models(here, known)
    number = pool.shape.gpus if pool else len(listed)
    extras: dict[str, Any] = {"memory_fraction": machine.MEMORY_FRACTION, "network_device": "lo"}
    # Under Slurm, this machine may be a login node with other processors.
    roles = ("gpu",) if pool else ("gpu", "pcie", "processor", "memory")
    if named := identity.alike(described.parts(here, known), *roles):
        extras["hardware"] = named
    gpu = ["gpu", *([vendor] if vendor else [])] if number else []
    partitions = [machine.partition("intra-node", ["intra-node", *transports, *gpu], extras)]
    if number:
        partitions[0]["devices"] = described.devices(number, listed)
    common: dict[str, Any] = {}
    if pool:
        place = described.Place(pool, here, login=True)
        common = described.jobs(place, slurm_says, shlex.split(os.environ.get("ASSAY_ACCESS", "")))
        common["launcher"] = launcher
        common["resources"] = described.GPU_RESOURCE if pool.shape.gpus else []
        if len(pool.up) > 1:
            partitions += _links(place, known)
    partitions += machine.file_systems(site_file, *(["shared"] if pool else []))
    for each in partitions:
        each.update({**common, "environs": names, "env_vars": each["env_vars"]})
        if pool:
            each["extras"]["memory_bytes"] = pool.shape.memory_bytes
            # These describe the machine that loads the site, not the compute nodes.
            for name in ("clock_hz", "pml", "others"):
                each["extras"].pop(name, None)
            each["env_vars"] += common["env_vars"]
    descr = "as it was found: " + (pool.partition.name if pool else "this machine")
    system = site_yaml.system(
        site_file, said, partitions, descr=descr, hostnames=[".*"], max_local_jobs=1
    )
    often = {} if pool else machine.OFTEN
    said = replace(said, general=often, problems=[*machine.failed_probes(), *why])
    return sites.site_configuration(site_file, system, stacks, said)


def _pool(said: Answers, wanted: str | None) -> Pool | None:
    """The nodes of the partition that is wanted, by default Slurm's; None if there is no Slurm."""
    known = {partition.name: partition for partition in slurm.partitions(said.partitions)}
    if not known:
        return None
    name = wanted or next(iter(known))
    partition = site_yaml.one_of(known, name, "ASSAY_PARTITION: Slurm has no")
    pool = slurm.pool(partition, slurm.nodes(said.nodes))
    if pool is None:
        raise ConfigError(f"ASSAY_PARTITION: no node of Slurm's {name!r} takes jobs now")
    return pool


def _stacks(
    site_file: Path, srun: bool, said: SiteFile
) -> tuple[list[dict[str, Any]], str, list[str]]:
    """The environments, what their UCX lists here (``ucx_info -d``), and what is not used."""
    path = os.environ.get("ASSAY_IMAGE")
    # If the suite itself runs inside an image, the image takes the place of the distribution.
    if not path or os.environ.get("ASSAY_STACK") in ("system", "spack"):
        made, why = machine.compiled(site_file, said)
        native = machine.local_stack(
            site_file, made, "take an image (apptainer run assay.sif acceptance)"
        )
        return [native], ask.output("ucx_info", "-d"), why
    # Ranks in separate containers find each other only through a launcher that supports PMIx.
    if not (srun or detect.version("openmpi_version")):
        raise ConfigError(
            f"ASSAY_IMAGE: neither srun nor an mpirun of Open MPI starts ranks here in {path}; "
            f"measure this node all inside the image: apptainer run {path} acceptance"
        )
    image = container.look(path, files.repository(site_file.parent))
    stacks, why = [container.container_stack(site_file, image)], list[str]()
    if os.environ.get("ASSAY_COMPARE") == "1":
        made, why = machine.compiled(site_file, said)
        stacks.append(machine.local_stack(site_file, made))
    return stacks, image.said["ucx_info", "-d"], why


def _links(place: described.Place, known: Known) -> list[dict[str, Any]]:
    """A partition for each link between nodes, with its hardware if its peak is known."""
    count = len(place.pool.up)
    number = os.environ.get("ASSAY_NODES", str(place.nodes))
    if not (number.isdigit() and 2 <= int(number) <= count):
        raise ConfigError(f"ASSAY_NODES: {number!r} is not a number from 2 to {count}")
    device = os.environ.get("ASSAY_DEVICE", "")
    found = []
    for each in described.links(place, known, device):
        extras = {**each["extras"], "nodes": int(number)}
        extras["memory_fraction"] = machine.MEMORY_FRACTION
        if extras.get("hardware", {}).get("link") not in known["link"]:
            extras.pop("hardware", None)
        found.append(machine.partition(each["name"], each["features"], extras))
    return found
