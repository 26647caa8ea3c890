"""A cluster without preparation: scheduler, nodes, links, GPUs and stack are detected.

Slurm tells what can be known of compute nodes without a job: their number, processors, memory and
GPUs. Links and transports are read from the machine that loads the site. If this machine is a login
node and differs from the compute nodes, set the variables below, or start the suite inside a job.

=====================  =========================================================================
``ASSAY_IMAGE``        image whose programs are the stack; default: Spack's or the distribution's
``ASSAY_IMAGE_SHA256`` digest that this image must have: :mod:`assay.sites.verified`
``ASSAY_IMAGE_KEY``    public key of the owner who must have signed it
``ASSAY_CONTAINED=1``  run all ranks in one container, on one node, by the mpirun of the image
``ASSAY_COMPARE=1``    add the native stack to that of the image, for tests that compare the two
``ASSAY_PARTITION``    partition of Slurm; default: Slurm's default partition
``ASSAY_ACCESS``       further options for the jobs, such as ``--account=hpc``
``ASSAY_LAUNCHER``     ``srun`` or ``mpirun``, under Slurm; default: srun if it supports PMIx
``ASSAY_NODES``        number of nodes for tests over all nodes; default: all, but at most four
``ASSAY_DEVICE``       device of the link between nodes, ``mlx5_0:1`` or ``eth0``
``ASSAY_SCRATCH``      the file system under test
=====================  =========================================================================
"""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reframe.core.exceptions import ConfigError

from assay import sites
from assay.evidence.accelerator import ACCELERATORS
from assay.evidence.transports import SWITCHED, TRANSPORTS
from assay.judge import hardware
from assay.onnode import provenance
from assay.sites import container, detect, machine, verified

#: Largest number of nodes for tests over all nodes, if ``ASSAY_NODES`` is not set.
NODES = 4

#: The query to Slurm: partition, nodes, processors of a node, sockets, cores of a socket, threads
#: of a core, memory [MiB], generic resources, state.
SINFO = ("sinfo", "-h", "-o", "%P|%D|%c|%X|%Y|%Z|%m|%G|%t")

#: The query for Slurm's settings.
CONFIG = ("scontrol", "show", "config")

#: How a job asks Slurm for GPUs, in the format of ReFrame's configuration.
GPU_RESOURCE = [{"name": "_rfm_gpu", "options": ["--gres=gpu:{num_gpus_per_node}"]}]

#: States in which a node accepts jobs (NODE STATE CODES of sinfo(1), in the compact form).
_TAKING = ("alloc", "comp", "idle", "mix", "plnd", "resv")


@dataclass(frozen=True)
class Nodes:
    """The identical nodes of one partition of Slurm.

    :ivar count: how many there are.
    :ivar memory: memory of each node [B].
    :ivar gpus: GPUs of each node that Slurm allocates.
    """

    partition: str
    count: int
    sockets: int
    cores: int
    threads: int
    memory: int
    gpus: int

    @property
    def processor(self) -> dict[str, int]:
        """The processor of a node, in the format of ReFrame's configuration."""
        of_socket = self.cores * self.threads
        return {
            "num_cpus": self.sockets * of_socket,
            "num_cpus_per_core": self.threads,
            "num_cpus_per_socket": of_socket,
            "num_sockets": self.sockets,
        }


def slurm_nodes(listing: str, wanted: str | None = None) -> Nodes | None:
    """The largest group of identical nodes; None if Slurm has no partition.

    :param listing: what :data:`SINFO` prints.
    :param wanted: name of the partition; by default the one that Slurm marks as its default.
    :raises ConfigError: there is no such partition, or none of its nodes takes jobs.
    """
    rows = [line.split("|") for line in listing.splitlines() if line.count("|") == 8]
    if not rows:
        return None
    default = next((row[0] for row in rows if row[0].endswith("*")), rows[0][0])
    name = wanted or default.rstrip("*")
    known = dict.fromkeys(row[0].rstrip("*") for row in rows)
    if name not in known:
        raise ConfigError(f"ASSAY_PARTITION: Slurm has no {name!r}; it has {', '.join(known)}")
    alike: Counter[tuple[str, ...]] = Counter()
    for partition, number, _, *shape, state in rows:
        # A * after the state marks a node that does not respond. Other signs do not exclude a node.
        if partition.rstrip("*") == name and re.match(rf"({'|'.join(_TAKING)})[a-z]*[^*]?$", state):
            alike[tuple(shape)] += int(number)
    if not alike:
        raise ConfigError(f"ASSAY_PARTITION: no node of Slurm's {name!r} takes jobs now")
    (*numbers, resources), count = alike.most_common(1)[0]
    # "64+" means at least 64.
    sockets, cores, threads, memory = (int(text.rstrip("+")) for text in numbers)
    return Nodes(name, count, sockets, cores, threads, memory << 20, gres_gpus(resources))


def gres_gpus(resources: str) -> int:
    """The GPUs among the generic resources of a node, such as ``gpu:v100:4(S:0-1)``."""
    return sum(int(number) for number in re.findall(r"\bgpu:(?:[^,:(]+:)?(\d+)", resources))


def infiniband(root: Path = Path("/sys/class/infiniband")) -> tuple[str, str | None] | None:
    """The fastest port of InfiniBand of this machine; see :func:`fastest`."""
    ports = {}
    for port in sorted(root.glob("*/ports/*")):
        said = {name: provenance.read(str(port / name)) for name in ("state", "link_layer", "rate")}
        ports[f"{port.parts[-3]}:{port.name}"] = said
    return fastest(ports)


def fastest(ports: Mapping[str, Mapping[str, str | None]]) -> tuple[str, str | None] | None:
    """The fastest active port of InfiniBand, and the name of its link in ``hardware.yaml``.

    :param ports: ``state``, ``link_layer`` and ``rate`` of each port, as the kernel writes them.
    :returns: ``mlx5_0:1`` and ``infiniband-edr`` (None where the kernel does not name the speed).
    """
    best: tuple[float, str, str | None] | None = None
    for name, said in ports.items():
        # "4: ACTIVE", "InfiniBand", "100 Gb/sec (4X EDR)"
        rate = re.match(r"([\d.]+) Gb/sec(?: \(\d+X (\w+)\))?", said["rate"] or "")
        if rate and "ACTIVE" in (said["state"] or "") and said["link_layer"] == "InfiniBand":
            link = f"infiniband-{rate[2].lower()}" if rate[2] else None
            if best is None or float(rate[1]) > best[0]:
                best = (float(rate[1]), name, link)
    return best[1:] if best else None


def ethernet(routes: str) -> str | None:
    """The device of the default route in a text of ``/proc/net/route``, None without one."""
    rows = (line.split() for line in routes.splitlines()[1:])
    return next((row[0] for row in rows if len(row) > 1 and row[1] == "00000000"), None)


def gpus() -> tuple[list[str], list[str]]:
    """The GPUs of this machine, under their names in ``hardware.yaml``, and words for the vendor.

    If there are GPUs of several vendors, the first vendor with any counts.
    """
    for word, gpu in ACCELERATORS.items():
        if found := gpu.found(detect.output(*gpu.listing)):
            return found, [word]
    return [], []


def pmix(listing: str) -> bool:
    """Whether the output of ``srun --mpi=list`` lists PMIx."""
    return re.search(r"^\s*(?:pmix|pmix_v\d+)\s*$", listing, re.MULTILINE) is not None


def configuration(site_file: str | Path, image: verified.Demand = verified.ANY) -> dict[str, Any]:
    """The ReFrame configuration of the cluster or the machine that loads the site.

    :param site_file: the site's ``__file__``.
    :param image: what the site demands of an image.
    :raises ConfigError: a variable above names something that does not exist, there is no MPI at
        all, Slurm does not answer, or as :func:`assay.sites.configuration`.
    """
    site_file = Path(site_file).resolve()
    listing = detect.output(*SINFO)
    if silence := provenance.hung.get(SINFO[0]):
        # A silent Slurm does not prove that there is no cluster. This may be its login node.
        raise ConfigError(f"{silence}: without Slurm nothing is run; ask its administrator")
    nodes = slurm_nodes(listing, os.environ.get("ASSAY_PARTITION"))
    srun = nodes is not None and _launcher() == "srun"
    stacks, transports = _stacks(site_file, srun, image)
    names = [stack["name"] for stack in stacks]
    contained = "contained" in stacks[0]["extras"]
    common = _on_slurm(nodes, "srun" if srun and not contained else "mpirun") if nodes else {}

    # Under Slurm, Slurm tells how many GPUs a node has. Their model is known only if this machine
    # has GPUs, too.
    here, vendor = gpus()
    number = nodes.gpus if nodes else len(here)
    known = hardware(site_file.parent)
    extras: dict[str, Any] = {"memory_fraction": machine.MEMORY_FRACTION, "network_device": "lo"}
    if here and here[0] in known["gpu"]:
        extras["hardware"] = {"gpu": here[0]}
    features = ["intra-node", *transports, *(["gpu", *vendor] if number else [])]
    partitions = [machine.partition("intra-node", features, extras)]
    if number:
        partitions[0]["devices"] = [{"type": "gpu", "num_devices": number}]
    if nodes and nodes.count > 1 and not contained:
        partitions += _links(nodes.count, transports, known["link"])
    partitions += machine.file_systems(site_file, *(["shared"] if nodes else []))
    for partition in partitions:
        partition.update(common, environs=names)
        if nodes:
            partition["extras"]["memory_bytes"] = nodes.memory
            # These describe the machine that loads the site, not the compute nodes.
            for name in ("clock_hz", "pml"):
                partition["extras"].pop(name, None)
            partition["extras"].pop("others")
            partition["env_vars"].append(["SLURM_MPI_TYPE", "pmix"])
    descr = "as it was found: " + (nodes.partition if nodes else "this machine")
    systems = [machine.system(site_file, descr, [".*"], partitions)]
    return sites.configuration(
        site_file, systems, stacks, {} if nodes else machine.OFTEN, found=machine.found
    )


def _launcher() -> str:
    said = os.environ.get("ASSAY_LAUNCHER")
    if said is None:
        return "srun" if pmix(detect.output("srun", "--mpi=list")) else "mpirun"
    if said not in ("srun", "mpirun"):
        raise ConfigError(f"ASSAY_LAUNCHER: {said!r} is neither srun nor mpirun")
    return said


def _stacks(
    site_file: Path, srun: bool, demand: verified.Demand
) -> tuple[list[dict[str, Any]], list[str]]:
    """The environments, and the transports that their UCX opens on this machine."""
    path = os.environ.get("ASSAY_IMAGE")
    # If the suite itself runs inside an image, the image takes the place of the distribution.
    if not path or os.environ.get("ASSAY_STACK") in ("system", "spack"):
        native = machine.stack(site_file, "name an image by ASSAY_IMAGE")
        return [native], [name for name in detect.ucx_transports() if name in SWITCHED]
    image = container.look(path, sites.repository(site_file), demand)
    # Ranks in separate containers find each other only through a launcher that supports PMIx.
    hybrid = srun or detect.version("openmpi_version") is not None
    contained = os.environ.get("ASSAY_CONTAINED") == "1" or not hybrid
    stacks = [container.stack(site_file, image, contained)]
    if os.environ.get("ASSAY_COMPARE") == "1":
        stacks.append(machine.stack(site_file))
    return stacks, [name for name in image.transports if name in SWITCHED]


def _on_slurm(nodes: Nodes, launcher: str) -> dict[str, Any]:
    """The settings that all partitions under Slurm have in common."""
    found: dict[str, Any] = {
        "scheduler": scheduler(detect.output(*CONFIG)),
        "launcher": launcher,
        "max_jobs": 1,
        "access": [
            f"--partition={nodes.partition}",
            "--exclusive",
            *shlex.split(os.environ.get("ASSAY_ACCESS", "")),
        ],
        "processor": nodes.processor,
    }
    if nodes.gpus:
        found["resources"] = GPU_RESOURCE
    return found


def scheduler(config: str) -> str:
    """ReFrame's backend for Slurm: sacct knows ended jobs only if Slurm keeps accounting records.

    :param config: what :data:`CONFIG` prints.
    """
    slurmdbd = r"^AccountingStorageType\s*=\s*accounting_storage/slurmdbd"
    return "slurm" if re.search(slurmdbd, config, re.MULTILINE) else "squeue"


def over(link: str, transports: Iterable[str]) -> list[str]:
    """The transports that reach other nodes over a link."""
    network = [name for name in transports if TRANSPORTS[name].network]
    return [name for name in network if (name == "tcp") == (link == "ethernet")]


def _links(count: int, transports: list[str], known: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A partition for each link between nodes: InfiniBand, and the device of the default route."""
    said = os.environ.get("ASSAY_DEVICE")
    port = infiniband()
    device = ethernet(provenance.read("/proc/net/route") or "")
    links: list[tuple[str, str, str | None]] = []
    if said:
        links = [("infiniband" if ":" in said else "ethernet", said, None)]
        if port and port[0] == said:
            links = [("infiniband", *port)]
    else:
        links += [("infiniband", *port)] if port else []
        links += [("ethernet", device, None)] if device else []
    number = os.environ.get("ASSAY_NODES", str(min(count, NODES)))
    if not (number.isdigit() and 2 <= int(number) <= count):
        raise ConfigError(f"ASSAY_NODES: {number!r} is not a number from 2 to {count}")
    found = []
    for name, where, link in links:
        reach = over(name, transports)
        extras = {
            "memory_fraction": machine.MEMORY_FRACTION,
            "network_device": where,
            "nodes": int(number),
            **({"hardware": {"link": link}} if link in known else {}),
        }
        found.append(machine.partition(name, ["inter-node", name, *reach], extras))
    return found
