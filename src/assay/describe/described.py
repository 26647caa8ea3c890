"""What a machine has, as partitions of ReFrame: one description of a machine that nobody prepared.

``assay site new`` writes the partitions of its places to files. The site ``any`` makes its own in
memory, from the machine that loads it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reframe.core.exceptions import ConfigError

from assay import catalogue, files
from assay.catalogue import BTIO_CLASSES, BTIO_SUBTYPES, PROGRAMS, VERSIONS
from assay.describe import detect, foreign, slurm
from assay.describe.slurm import Answers, Pool, Shape
from assay.fleet.node import provenance
from assay.gpu.accelerator import ACCELERATORS
from assay.gpu.parse import nvidia_smi
from assay.judge import Hardware, Known
from assay.prove import identity
from assay.prove.identity import Part, Stated
from assay.prove.transports import SWITCHED, TRANSPORTS
from assay.store.record import EMULATED

#: Command that says what memory modules there are, to an administrator.
DIMMS = ("dmidecode", "-t", "memory")

#: Share of the memory that a matrix may take, of a node that shares its machine with other nodes.
TOGETHER = 0.1

#: Two kernels of one second whose switches differ by less than this share are one.
SAME_KERNEL = 0.02

#: Largest number of nodes for tests over all nodes.
NODES = 4

#: How a job asks Slurm for GPUs, in the format of ReFrame's configuration.
GPU_RESOURCE = [{"name": "_rfm_gpu", "options": ["--gres=gpu:{num_gpus_per_node}"]}]

#: Tests and benchmarks of the smoke profile between nodes that share one machine. HPCC and HPL are
#: left out: all nodes would compute on the same cores.
SMOKE = (
    *("Tournament", "Census", "NetPipe", "NodeHealth", "OsuCollective"),
    *("latency", "bw", "bcast", "alltoall"),
)

#: File systems that all nodes share, by the beginning of their types.
SHARED = ("lustre", "gpfs", "beegfs", "nfs", "fuse.glusterfs", "glusterfs", "ceph", "fuse.ceph")

#: Where the system is, and not a user's files.
OF_THE_SYSTEM = re.compile(r"/($|(etc|usr|var|opt|lib|lib64|root|tmp)$)")

#: Programs whose absence is said: without them, much of the suite does not run.
EXPECTED = ("ucx", "ucx-perftest", "osu", "hpl", "hpcc", "iozone")

#: The texts of what could not be found out, by their names.
GAPS: Mapping[str, str] = files.read_yaml(Path(__file__).with_name("gaps.yaml"), ConfigError)


@dataclass(frozen=True)
class Place:
    """The nodes of one partition of Slurm, and what was found on some of them.

    :ivar here: what :func:`assay.fleet.node.provenance.node` found on the first node.
    :ivar there: the same of another node; None if only one was asked.
    :ivar login: ``here`` is of the login node. A compute node may have other names of devices.
    :ivar gaps: what could not be found out, and what to do; the functions below add to it.
    :ivar links: links whose rate a device states, and that are not known; likewise.
    """

    pool: Pool
    here: Mapping[str, Any]
    there: Mapping[str, Any] | None = None
    login: bool = False
    gaps: list[str] = field(default_factory=list)
    links: dict[str, Hardware] = field(default_factory=dict)

    def gap(self, which: str, /, **values: object) -> None:
        """Adds a text of ``gaps.yaml``."""
        known = {"host": self.host, "pool": self.pool.partition.name}
        self.gaps.append(GAPS[which].format_map({**known, **values}))

    @property
    def host(self) -> str:
        return str(self.here["host"])

    @property
    def together(self) -> bool:
        """Whether the nodes are parts of one machine, as those of an emulated cluster are."""
        if self.there is None:
            return False
        one, other = self.here["kernel"], self.there["kernel"]
        if None in (*one.values(), *other.values()) or one["started"] != other["started"]:
            return False
        least, most = sorted((one["switches"], other["switches"]))
        return bool(most - least <= SAME_KERNEL * most)

    @property
    def nodes(self) -> int:
        """How many nodes a test over all of them takes."""
        return min(len(self.pool.up), NODES)

    @property
    def transports(self) -> dict[str, set[str]]:
        """The transports that UCX opens on the node, each with its devices."""
        found: dict[str, set[str]] = {}
        for pair in self.here["ucx_devices"]:
            name, _, device = pair.partition("/")
            found.setdefault(name, set()).add(device)
        return found

    @property
    def ports(self) -> Mapping[str, Mapping[str, str | None]]:
        """The ports of InfiniBand and RoCE, as ``provenance.py`` describes them."""
        found: Mapping[str, Mapping[str, str | None]] = self.here["network"]["infiniband"]
        return found

    @property
    def extras(self) -> dict[str, Any]:
        """The extras that all partitions of these nodes have."""
        sizes = (self.pool.shape.memory_bytes, self.here["memory"] or 0)
        clock = detect.clock_hz(self.here["clock"])
        return {
            "memory_bytes": min((size for size in sizes if size > slurm.CONFIGURED), default=0),
            "memory_fraction": TOGETHER if self.together else foreign.ALONE,
            **({"clock_hz": clock} if clock else {}),
            **detect.pml(self.ports),
        }


def questions(peer: str | None) -> str:
    """What the probe of a node is asked, as its argument: :func:`.provenance.asked`."""
    names = [name for p in PROGRAMS.values() if p.detected for name in p.executables]
    names += [catalogue.btio(cls, sub) for cls in BTIO_CLASSES for sub in BTIO_SUBTYPES]
    asked = (
        *(version.command for version in VERSIONS.values()),
        *(program.needs.command for program in PROGRAMS.values() if program.needs),
        *(("ucx_info", "-d"), detect.HEADER, detect.UCX_OF_MPI),
        *(gpu.listing for gpu in ACCELERATORS.values() if gpu.word != "cuda"),
        DIMMS,
    )
    return json.dumps({"programs": names, "commands": [*map(list, asked)], "peer": peer})


def answers(text: str) -> list[dict[str, Any]]:
    """The answers of the nodes in the output of a job, in the order of the nodes' names."""
    # srun passes a line on in pieces of 1 KiB, which mix with those of the other node. Its option
    # --label says whose piece it is.
    tasks: dict[str, str] = {}
    for task, piece in re.findall(r"^ *(\d+): (.*)", text, re.MULTILINE):
        tasks[task] = tasks.get(task, "") + piece
    parts = [part for said in tasks.values() for part in said.split(provenance.MARK)[1:]]
    found = [json.JSONDecoder().raw_decode(part)[0] for part in parts]
    return sorted(found, key=lambda answer: str(answer["host"]))


def jobs(place: Place, said: Answers, access: Sequence[str]) -> dict[str, Any]:
    """What all partitions on the nodes of a place have in common."""
    variables = [["SLURM_MPI_TYPE", "pmix"]]
    if place.together:
        # There are more ranks than cores: those that wait must yield, and no node may bind its
        # ranks to the cores to which the other nodes bind theirs.
        variables += [
            ["OMPI_MCA_mpi_yield_when_idle", "1"],
            ["OMPI_MCA_hwloc_base_binding_policy", "none"],
        ]
    return {
        "scheduler": said.scheduler,
        "launcher": said.launcher,
        "access": [f"--partition={place.pool.partition.name}", "--exclusive", *access],
        "max_jobs": 1,
        "processor": place.pool.shape.processor if place.login else _processor(place),
        "env_vars": variables,
    }


def _processor(place: Place) -> dict[str, int]:
    """The processor as the node describes it; where the node does not, as Slurm does."""
    said, seen = place.pool.shape.processor, place.here["topology"]
    cpus, cores, sockets = seen["cpus"], seen["cores"], seen["sockets"]
    if not (cpus and cores and sockets) or cpus % cores or cores % sockets:
        place.gap("no-shape")
        return said
    if cpus != said["num_cpus"]:
        place.gap("other-shape", stated=said["num_cpus"], seen=cpus)
        return said
    return Shape(sockets, cores // sockets, cpus // cores, 0, "").processor


def _partition(name: str, descr: str, features: list[str], **extras: Any) -> dict[str, Any]:
    """A partition, without what all on its nodes have; an extra that is empty is left out."""
    extras = {key: value for key, value in extras.items() if value}
    return {"name": name, "descr": descr, "features": features, "extras": extras}


def parts(here: Mapping[str, Any], known: Known) -> list[Part]:
    """The parts of a node, by the files and the commands that were read there."""
    said = {**here.get("said", {}), "nvidia-smi -L": here.get("gpus")}
    texts = {command: text for command, text in said.items() if text}
    texts["dmidecode"] = texts.pop(" ".join(DIMMS), "")
    return identity.parts({**identity.tree(here.get("machine") or ""), **texts}, known)


def _extra(place: Place, known: Known, *roles: str) -> dict[str, str]:
    """The extra ``hardware`` of partitions on these nodes; a part that is unknown becomes a gap."""
    found = parts(place.here, known)
    for part in dict.fromkeys(found):
        if not part.name and part.stated.role in roles:
            place.gaps.append(str(part))
    return identity.alike(found, *roles)


def intra_node(place: Place, known: Known) -> dict[str, Any]:
    """The partition of the ranks on one node."""
    opened, extras = place.transports, place.extras
    over = [w for w in SWITCHED if w in opened and (not TRANSPORTS[w].network or "lo" in opened[w])]
    if "clock_hz" not in extras:
        place.gap("no-clock")
    if not extras["memory_bytes"]:
        place.gap("no-memory")
    seen = place.here["topology"]
    shape = [("processors", "cpus"), ("sockets", "sockets"), ("NUMA nodes", "numa_nodes")]
    said = ", ".join(f"{name}: {seen[key]}" for name, key in shape if seen[key])
    descr = "the ranks on one node" + (f" ({said})" if said else "")
    named = {} if place.together else _extra(place, known, "processor", "memory")
    return _partition(
        *("intra-node", descr, ["intra-node", *over]), network_device="lo", hardware=named
    )


def fastest(ports: Mapping[str, Mapping[str, str | None]]) -> str | None:
    """The fastest active port of InfiniBand, such as ``mlx5_0:1``; None if there is none.

    :param ports: ``state``, ``link_layer`` and ``rate`` of each port, as the kernel writes them.
    """
    rates = {name: _rate(said)[0] for name, said in ports.items() if _is_up(said, "InfiniBand")}
    return max((name for name in rates if rates[name]), key=rates.__getitem__, default=None)


def _is_up(port: Mapping[str, str | None], layer: str) -> bool:
    return "ACTIVE" in (port["state"] or "") and port["link_layer"] == layer


def _rate(port: Mapping[str, str | None]) -> tuple[float, str]:
    """The rate of a port [Gbit/s], and its generation: ``edr``, or "" if it is not stated."""
    said = re.match(r"([\d.]+) Gb/sec(?: \(\d+X (\w+)\))?", port["rate"] or "")
    return (float(said[1]), (said[2] or "").lower()) if said else (0.0, "")


def default_route(routes: str) -> str | None:
    """The device of the default route in a text of ``/proc/net/route``, None without one."""
    rows = (line.split() for line in routes.splitlines()[1:])
    return next((row[0] for row in rows if len(row) > 1 and row[1] == "00000000"), None)


def links(place: Place, known: Known, device: str = "") -> list[dict[str, Any]]:
    """A partition for each link between nodes: InfiniBand, and the interface toward a node.

    :param device: the only one, ``mlx5_0:1`` or ``eth0``.
    """
    if len(place.pool.up) < 2:
        place.gap("one-node")
        return []
    interface = place.here["toward_peer"] or default_route(place.here["routes"] or "")
    # IP over InfiniBand is no link of its own.
    ethernet = None if (interface or "ib").startswith("ib") else interface
    found = []
    for each in filter(None, [device] if device else [fastest(place.ports), ethernet]):
        describe = _infiniband if ":" in each else _ethernet
        found.append(describe(place, each, known))
    for name, said in place.ports.items():
        if _is_up(said, "Ethernet"):
            place.gap("roce", port=name)
    if not found:
        place.gap("no-link")
    return found


def _infiniband(place: Place, name: str, known: Known) -> dict[str, Any]:
    said = place.ports.get(name)
    if said is None or not _rate(said)[0]:
        return _between(place, "infiniband", name, None)
    found = Stated("link", name, (f"InfiniBand {said['rate']}",), name)
    link = _stated(place, known, "infiniband", found, _rate(said)[0])
    place.gap("port-rate", port=name, rate=said["rate"])
    ports = {name: each for name, each in place.ports.items() if _is_up(each, "InfiniBand")}
    equal = [name for name, each in ports.items() if each["rate"] == said["rate"]]
    if len(equal) > 1:
        place.gap("equal-ports", count=len(equal), ports=", ".join(equal))
    return _between(place, "infiniband", name, link)


def _ethernet(place: Place, device: str, known: Known) -> dict[str, Any]:
    link = None
    said = place.here["network"]["interfaces"].get(device, {}).get("speed_mbit")
    if device not in place.here["physical"]:
        place.gap("no-hardware", device=device)
    elif not (said and said.isdigit() and int(said)):
        place.gap("no-rate", device=device)
    else:
        found = Stated("link", device, (f"ethernet {said} Mb/s",), device)
        link = _stated(place, known, "ethernet", found, int(said) / 1000)
        place.gap("rate", device=device, rate=said)
    return _between(place, "ethernet", device, link)


def _stated(place: Place, known: Known, kind: str, stated: Stated, rate: float) -> str:
    """The name of a link with a rate that a device states; an unknown rate makes a new link."""
    if name := identity.named(stated, known["link"]).name:
        return name
    own = re.sub(r"[^a-z0-9-]", "-", f"{kind}-{rate:g}gbit")
    if own not in known["link"]:
        source = f"the rate that {stated.by} of {place.host} states, {rate:g} Gbit/s; not measured"
        place.links[own] = Hardware(source=source, bandwidth=rate * 125)
    return own


def _between(place: Place, name: str, device: str, link: str | None) -> dict[str, Any]:
    opened = place.transports
    network = [w for w in SWITCHED if TRANSPORTS[w].network]
    over = [w for w in network if (w == "tcp") == (name == "ethernet")]
    reach = [w for w in over if (w in opened if place.login else device in opened.get(w, ()))]
    if not reach:
        place.gap("no-transport", name=name, device=device)
    last = place.pool.shape.processor["num_cpus"] - 1
    options = {
        "PairsOfNodes.width": 1,
        "PairsOfNodes.cpus": [0, last],
        "PairsOfNodes.seconds": 0.5,
        "StrictCheck.smoke": list(SMOKE),
    }
    shared: dict[str, Any] = {"cores_per_node": 1, "options": options}
    return _partition(
        *(name, f"nodes joined by {name}, over {device}", ["inter-node", name, *reach]),
        network_device=device,
        nodes=place.nodes,
        hardware={"link": link} if link else {},
        **(shared if place.together else {}),
    )


def models(here: Mapping[str, Any], known: Known) -> tuple[str | None, list[str]]:
    """The vendor of the GPUs of a node, and their models: names of the catalogue, or as stated.

    If there are GPUs of several vendors, the first vendor with any counts.
    """
    for name, gpu in ACCELERATORS.items():
        said = here["gpus"] if name == "cuda" else here["said"].get(" ".join(gpu.listing))
        stated = [Stated("gpu", gpu.listing[0], (it,)) for it in gpu.found(said or "")]
        if found := [identity.named(each, known["gpu"]) for each in stated]:
            return name, [part.name or part.stated.names[0] for part in found]
    return None, []


def gpus(
    place: Place, known: Known, stack: Sequence[str], between: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """A partition for the GPUs of a node, and one for those of several nodes.

    :param between: the partitions between nodes, the fastest link first.
    """
    vendor, listed = models(place.here, known)
    allocated = place.pool.shape.gpus
    if not (count := allocated or len(listed)):
        return []
    words = ["gpu", *([vendor] if vendor else [])]
    _compare(place, vendor, listed, stack)
    model = listed[0] if listed else ""
    of_gpu = {"gpu": model} if model in known["gpu"] else {}
    if model and not of_gpu:
        place.gap("no-peak", what=model)
    links = nvlinks(place.here["topology_of_gpus"] or "")
    if place.here["topology_of_gpus"] is None and count > 1:
        place.gap("no-ways")
    named = {**of_gpu, **identity.alike(parts(place.here, known), "pcie")}
    if links:
        way = identity.named(Stated("link", "topo -m", (f"NV{links}",), model), known["link"])
        if way.name:
            named["link"] = way.name
        else:
            place.gap("no-peak", what=f"{links} NVLinks of {model}")
    of_node = {
        "devices": devices(count, listed),
        **({"resources": GPU_RESOURCE} if allocated else {}),
    }
    features = ["intra-node", *words, *(["nvlink"] if links else [])]
    found = [_partition("gpu", "the GPUs of one node", features, hardware=named)]
    for each in between[:1]:
        name, extras = each["name"], dict(each["extras"])
        descr = f"GPUs of different nodes, over {extras['network_device']}"
        extras |= {"hardware": {**extras.get("hardware", {}), **of_gpu}}
        features = ["inter-node", name, *words]
        found.append(_partition(f"gpu-{name}", descr, features, **extras))
    return [{**each, **of_node} for each in found]


def devices(count: int, listed: Sequence[str]) -> list[dict[str, Any]]:
    """The GPUs of a node for ReFrame; those whose driver says that they are emulated say so."""
    emulated = {"arch": EMULATED} if any(EMULATED in model.lower() for model in listed) else {}
    return [{"type": "gpu", "num_devices": count, **emulated}]


def _compare(place: Place, vendor: str | None, listed: Sequence[str], stack: Sequence[str]) -> None:
    """Compares the GPUs that Slurm allocates with those that the driver lists, and the stack."""
    allocated = place.pool.shape.gpus
    if not listed:
        place.gap("no-driver", count=allocated)
    elif not allocated:
        place.gap("no-gres")
    elif len(listed) != allocated:
        place.gap("other-count", count=allocated, seen=len(listed))
    if len({*listed}) > 1:
        place.gap("unlike-gpus", models=", ".join(sorted({*listed})))
    if vendor and f"ucx-{vendor}" not in stack:
        place.gap("no-gpu-stack", vendor=vendor)


def nvlinks(topology: str) -> int:
    """The least number of NVLinks between two GPUs of a node; 0 if two have none."""
    ways = [re.fullmatch(r"NV(\d+)", way) for way in nvidia_smi.ways(topology)]
    return min((int(way[1]) if way else 0 for way in ways), default=0)


def word(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")


def storage(place: Place, seen: set[str]) -> list[dict[str, Any]]:
    """A partition for each file system of users on which this user can write.

    :param seen: mount points of shared file systems that have a partition; it grows.
    """
    found: list[dict[str, Any]] = []
    names = ["intra-node", "infiniband", "ethernet", "gpu"]
    # Of several mounts at one place the last one counts.
    for each in {each["mount"]: each for each in place.here["file_systems"]}.values():
        mount, kind, directory = each["mount"], each["type"], each["directory"]
        shared = kind.startswith(SHARED)
        if shared and mount in seen:
            continue
        if shared and directory is None:
            nothing = f"no directory on it that {place.here['user']} can write was found"
            place.gap("not-writable", mount=mount, kind=kind, why=each.get("error") or nothing)
        local = mount == "/dev/shm" if kind == "tmpfs" else not OF_THE_SYSTEM.match(mount)  # noqa: S108
        if directory is None or not (shared or local):
            continue
        seen.update([mount] if shared else [])
        name = "tmpfs" if kind == "tmpfs" else word(mount.rpartition("/")[2])
        names.append(f"files-{word(mount)}" if not name or name in names else name)
        descr = f"{kind} at {mount}, {'of all nodes' if shared else 'of each node'}"
        features = ["storage", *(["shared"] if shared else [])]
        found.append(
            _partition(
                *(names[-1], descr, features),
                directory=directory,
                file_system=kind,
                nodes=place.nodes,
                # The disks of all nodes may be on one disk.
                options={"EachNode.tolerance": 0.6} if place.together else {},
            )
        )
    if not found:
        place.gap("no-storage")
    return found


def stack_on_path(place: Place, modules: Sequence[str], osu_py: str | None) -> dict[str, Any]:
    """The environment of the programs that are on PATH on a node."""
    said, programs = place.here["said"], place.here["programs"]

    features, extras = detect.describe_programs(
        programs.__contains__, lambda *command: str(said.get(" ".join(command), ""))
    )
    name = "modules" if modules else "system"
    if "mpi" not in features:
        place.gap("no-mpi", name=name)
    elif "openmpi_version" not in extras:
        extras.setdefault("mpi", "unknown")
        place.gap("other-mpi", name=name, program=programs["mpirun"])
    if missing := [word for word in EXPECTED if word not in features]:
        place.gap("no-program", name=name, missing=", ".join(missing))
    if osu_py and "mpi" in features and not modules:
        features.append("osu-py")
        extras["osu_py_command"] = osu_py
    how = f"modules {', '.join(modules)}" if modules else "no module"
    extras["provenance"] = f"programs on PATH of {place.host}, {how}"
    found = {"name": name, "features": features, "extras": extras}
    return {**found, "modules": list(modules)} if modules else found
