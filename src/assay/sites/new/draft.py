"""From what Slurm and the nodes say to the partitions of a site, in the words of the vocabulary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.evidence.transports import SWITCHED, TRANSPORTS
from assay.sites import detect
from assay.sites.new import gpus, links, storage
from assay.sites.new.facts import Gap, Place
from assay.sites.new.slurm import named

#: Programs whose absence is said: without them, much of the suite does not run.
EXPECTED = ("ucx", "ucx-perftest", "osu", "hpl", "hpcc", "iozone")

#: Share of the peak of a link that large messages reach, by transport. The rest is for headers, and
#: for TCP also for the kernel.
REACHED = {"rc_mlx5": 0.95, "tcp": 0.9, "nvlink": 0.9}


@dataclass(frozen=True)
class Proposal:
    """A reference that follows from the peak of hardware, and from no measurement.

    :ivar case: the keys of its ``for`` block.
    :ivar share: of the peak.
    :ivar hardware: name of the link in ``hardware.yaml``.
    :ivar peak: [MB/s].
    :ivar source: where the peak comes from.
    """

    case: Mapping[str, str]
    share: float
    hardware: str
    peak: float
    source: str


@dataclass
class Draft:
    """A site that is not written yet.

    :ivar common: partition of Slurm -> what all partitions on its nodes have in common.
    :ivar partitions: partition of Slurm -> partitions in the format of ReFrame.
    :ivar stack: the one environment.
    :ivar links: links with the rate that a device states, for ``hardware.yaml`` of the site.
    :ivar gaps: what could not be found out.
    :ivar together: the nodes are parts of one machine.
    """

    stack: dict[str, Any]
    together: bool
    common: dict[str, dict[str, Any]] = field(default_factory=dict)
    partitions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    links: dict[str, Any] = field(default_factory=dict)
    proposals: list[Proposal] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)


def of(  # noqa: PLR0913
    places: Sequence[Place],
    known: links.Known,
    *,
    scheduler: str,
    launcher: str,
    access: Sequence[str] = (),
    modules: Sequence[str] = (),
    osu_py: str | None = None,
) -> Draft:
    """The site for some places. The partitions of the first one have names without a prefix.

    :param known: the known hardware, :func:`assay.judge.hardware`.
    :param access: further options of jobs.
    :param modules: the modules that the stack loads.
    :param osu_py: how the Python ports of OSU are started, None if there are none.
    """
    made = stack(places[0], modules, osu_py)
    draft = Draft(made, together=any(place.together for place in places))
    draft.gaps += _of_stack(made, places[0])
    before, known = known["link"], {**known, "link": dict(known["link"])}
    jobs = {"scheduler": scheduler, "launcher": launcher, "access": access}
    seen: set[str] = set()
    for number, place in enumerate(places):
        slurm, gaps = place.pool.partition.name, list(_of_nodes(place))
        between = links.partitions(place, known, gaps)
        found = [
            _intra_node(place, gaps),
            *between,
            *gpus.partitions(place, known, made["features"], between, gaps),
            *storage.partitions(place, seen, gaps),
        ]
        draft.common[slurm] = _common(place, jobs, made["name"], gaps)
        if number:
            gaps += _of_another_stack(place, places[0])
            gaps = [Gap(f"{slurm}: {gap.where}", gap.what, gap.do) for gap in gaps]
            for each in found:
                each["name"] = f"{storage.word(slurm)}-{each['name']}"
        draft.partitions[slurm] = found
        draft.gaps += gaps
        draft.proposals += proposals(found, known, made["features"])
    draft.links = {name: link for name, link in known["link"].items() if name not in before}
    return draft


# --- stack ----------------------------------------------------------------------------------------


def stack(place: Place, modules: Sequence[str], osu_py: str | None) -> dict[str, Any]:
    """The environment of the programs that are on PATH on a node."""
    said = place.here["said"]

    def answer(*command: str) -> str:
        return str(said.get(" ".join(command), ""))

    has = place.here["programs"].__contains__
    features, extras = detect.described(has, answer)
    if "mpi" in features and "openmpi_version" not in extras:
        # Cases on another MPI are refused by this word.
        extras["mpi"] = _library(answer("mpirun", "--version"))
    if osu_py and "mpi" in features and not modules:
        features.append("osu-py")
        extras["osu_py_command"] = osu_py
    how = f"modules {', '.join(modules)}" if modules else "no module"
    extras["provenance"] = f"programs on PATH of {place.host}, {how}"
    found = {"name": "modules" if modules else "system", "features": features, "extras": extras}
    return {**found, "modules": list(modules)} if modules else found


def _library(said: str) -> str:
    """The MPI library whose mpirun printed its version so; ``unknown`` if it cannot be told."""
    if "Intel(R) MPI" in said:
        return "intel-mpi"
    return "mpich" if "HYDRA" in said else "unknown"


def _of_stack(made: Mapping[str, Any], place: Place) -> list[Gap]:
    where, gaps = f"stack {made['name']}", []
    if "mpi" not in made["features"]:
        what = f"no mpirun is on PATH of {place.host}"
        gaps.append(
            Gap(where, what, "delete the folder, and name the module of an Open MPI by --module")
        )
    elif "mpi" in made["extras"]:
        what = (
            f"{place.here['programs']['mpirun']} is not of Open MPI, and the suite cannot judge it"
        )
        gaps.append(
            Gap(where, what, "delete the folder, and name the module of an Open MPI by --module")
        )
    missing = [word for word in EXPECTED if word not in made["features"]]
    if missing:
        what = f"not on PATH of {place.host}: {', '.join(missing)}"
        gaps.append(
            Gap(where, what, "install or load what you want to run, and add it to features")
        )
    return gaps


def _of_another_stack(place: Place, first: Place) -> list[Gap]:
    missing = sorted({*first.here["programs"]} - {*place.here["programs"]})
    if not missing:
        return []
    what = f"{place.host} has no {', '.join(missing)}, which {first.host} has"
    return [Gap("stack", what, "give these partitions a stack of their own")]


# --- nodes ----------------------------------------------------------------------------------------


def _of_nodes(place: Place) -> list[Gap]:
    where = f"partition {place.pool.partition.name} of Slurm"
    gaps = [
        Gap(where, f"not described: {kind}", "copy its partitions, and add --constraint to access")
        for kind in place.pool.others
    ]
    down = [node for node in place.pool.nodes if not node.takes_jobs]
    if down:
        states = ", ".join(sorted({node.state for node in down}))
        gaps.append(
            Gap(where, f"{named(down)} take no jobs ({states})", "mend them, raise `nodes`")
        )
    for limit in place.pool.partition.limits:
        gaps.append(Gap(where, f"it has {limit}", "check that your jobs may use it: --access"))
    gaps += [Gap(where, f"on {place.host} {line}", "mend it") for line in place.here["hung"]]
    return gaps


def _common(place: Place, jobs: Mapping[str, Any], stack: str, gaps: list[Gap]) -> dict[str, Any]:
    variables = [["SLURM_MPI_TYPE", "pmix"]]
    if place.together:
        # There are more ranks than cores: those that wait must yield, and no node may bind its
        # ranks to the cores to which the other nodes bind theirs.
        variables += [
            ["OMPI_MCA_mpi_yield_when_idle", "1"],
            ["OMPI_MCA_hwloc_base_binding_policy", "none"],
        ]
    slurm = place.pool.partition.name
    return {
        "scheduler": jobs["scheduler"],
        "launcher": jobs["launcher"],
        "access": [f"--partition={slurm}", "--exclusive", *jobs["access"]],
        "environs": [stack],
        "max_jobs": 1,
        "processor": _processor(place, gaps),
        "env_vars": variables,
    }


def _processor(place: Place, gaps: list[Gap]) -> dict[str, int]:
    """The processor as the node describes it; where the node does not, as Slurm does."""
    said, seen = place.pool.shape.processor, place.here["topology"]
    cpus, cores, sockets = seen["cpus"], seen["cores"], seen["sockets"]
    if not (cpus and cores and sockets) or cpus % cores or cpus % sockets:
        what = f"{place.host} does not describe its sockets and cores"
        gaps.append(Gap("processor", what, "compare what Slurm says with lscpu on a node"))
        return said
    if cpus != said["num_cpus"]:
        what = f"Slurm states {said['num_cpus']} processors, {place.host} has {cpus}"
        gaps.append(Gap("processor", what, "correct what is wrong; the ranks follow from it"))
        return said
    return {
        "num_cpus": cpus,
        "num_cpus_per_core": cpus // cores,
        "num_cpus_per_socket": cpus // sockets,
        "num_sockets": sockets,
    }


def _intra_node(place: Place, gaps: list[Gap]) -> dict[str, Any]:
    opened, extras = place.transports, place.extras
    over = [
        name
        for name in SWITCHED
        if name in opened and (not TRANSPORTS[name].network or "lo" in opened[name])
    ]
    if "clock_hz" not in extras:
        what = "the nominal clock of a core is not known"
        gaps.append(Gap("partition intra-node", what, "write it as clock_hz [Hz]"))
    if not extras["memory_bytes"]:
        gaps.append(
            Gap("partition intra-node", "the memory of a node is not known", "correct memory_bytes")
        )
    seen = place.here["topology"]
    shape = [("processors", "cpus"), ("sockets", "sockets"), ("NUMA nodes", "numa_nodes")]
    said = ", ".join(f"{name}: {seen[key]}" for name, key in shape if seen[key])
    return {
        "name": "intra-node",
        "descr": "the ranks on one node" + (f" ({said})" if said else ""),
        "features": ["intra-node", *over],
        "extras": {**extras, "network_device": "lo"},
    }


# --- references -----------------------------------------------------------------------------------


def proposals(
    partitions: Sequence[Mapping[str, Any]],
    known: Mapping[str, Mapping[str, Any]],
    stack: Sequence[str],
) -> list[Proposal]:
    """References of large messages, where the peak of the link is known."""
    between = next(
        (test for word, test in (("osu", "Osu"), ("osu-py", "OsuPy")) if word in stack), None
    )
    found = []
    for each in partitions:
        features, name = each["features"], each["extras"].get("hardware", {}).get("link")
        if name is None:
            continue
        case = {"partition": each["name"]}
        link = known["link"][name]
        said = (name, link["bandwidth"], link["source"])
        if "nvlink" in features:
            case |= {"test": "OsuGpu", "benchmark": "bw", "buffers": "DD", "configuration": "all"}
            found.append(Proposal(case, REACHED["nvlink"], *said))
        elif between and "gpu" not in features:
            case |= {"test": between, "benchmark": "bw"}
            found += [
                Proposal({**case, "transport": over}, REACHED[over], *said)
                for over in REACHED
                if over in features
            ]
    return found
