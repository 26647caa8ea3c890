"""A machine that describes itself: partitions of a site without scheduler, detected on the node."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from reframe.core.exceptions import ConfigError
from reframe.utility.cpuinfo import cpuinfo

from assay import catalogue, files, sites
from assay.describe import ask, detect
from assay.fleet.node import provenance
from assay.judge import hardware
from assay.node import answers, capacity
from assay.prove import identity, mpi
from assay.prove.busy import PROCESSES
from assay.prove.transports import SWITCHED, TRANSPORTS, opened_transports
from assay.reframe_compat import command
from assay.sites import site_yaml, stacks
from assay.sites.site_yaml import SiteFile

#: Share of the memory that a matrix may take. A laptop can spare this much for a minute.
MEMORY_FRACTION = 0.02

#: Polling rates of ReFrame for local jobs [1/s]. The end of a job ends the pause between two polls
#: (:mod:`assay.reframe_compat.polling`), and a poll disturbs the benchmark for milliseconds.
OFTEN = {"poll_rate_max": 20, "poll_rate_min": 5}


#: A stack of ``make programs``, if there is one that can be used, and why there is none.
Compiled = tuple[dict[str, Any] | None, list[str]]


def compiled(site_file: Path, said: SiteFile) -> Compiled:
    """What ``make programs`` compiled, if the stack ``system`` is asked for and names its folder.

    Under another MPI each rank would be a world of its own: they are not used.

    :raises ConfigError: as :func:`assay.sites.stacks.compiled`.
    """
    asked = os.environ.get("ASSAY_STACK") or "system"
    stack = said.stacks.get("system") if asked == "system" else None
    folder = site_yaml.programs_of(site_file, stack) if stack and stack.programs else None
    if folder is None or not (folder / stacks.COMPILED).exists():
        return None, []
    made, now = stacks.compiled(folder), os.path.realpath(shutil.which("mpirun") or "mpirun")
    if now == (was := made["extras"]["compiled_with"]):
        return made, []
    why = f"was compiled with {was}, and mpirun is {now}"
    return None, [f"{folder}: {why}: its programs are not used; type make programs"]


def distribution(site_file: str | Path, made: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The stack ``system``: the programs that the distribution installed, each a feature.

    Without those of Open MPI, if mpirun is of another MPI: each rank would be a world of its own.

    :param made: the stack of programs that were compiled here; they come before others.
    """
    features, extras = detect.describe_programs()
    extras["provenance"] = "packages of the distribution"
    programs = detect.programs() if "mpi" in extras else {}
    if apart := [word for word, name in programs.items() if _of_open_mpi(name)]:
        features = [word for word in features if word not in apart]
        extras["provenance"] += f", without {', '.join(apart)}: linked to Open MPI, not to mpirun's"
    if command := osu_py(files.repository(Path(site_file).parent)):
        features.append("osu-py")
        extras["osu_py_command"] = command
    found = {"name": "system", "features": features, "extras": extras}
    if made is None:
        return found
    features += [word for word in made["features"] if word not in features]
    extras |= made["extras"]
    extras["provenance"] = f"packages of the distribution, and {made['extras']['provenance']}"
    return {**found, "env_vars": made["env_vars"]}


def _of_open_mpi(program: str) -> bool:
    linked = ask.output("ldd", shutil.which(program) or program)
    return mpi.of_run(re.findall(r"=> (/\S+)", linked), "") is mpi.OPEN_MPI


def osu_py(repository: Path) -> str | None:
    """How the checkout's own Python ports of OSU are started; None if `make setup` made none."""
    python, ports = repository / ".venv/bin/python", repository / ".cache/osu-py"
    if not (python.exists() and (ports / "osu_latency.py").exists()):
        return None
    return f"{shlex.quote(str(python))} {shlex.quote(str(ports))}/osu_{{benchmark}}.py"


def local_stack(
    site_file: str | Path,
    made: Mapping[str, Any] | None = None,
    instead: str = "type `make setup`",
) -> dict[str, Any]:
    """The packages of the distribution, or with STACK=spack the packages that Spack built here.

    The Spack stack is that of the site ``debian12`` (`make spack SITE=debian12`). Programs that it
    lacks and that need no MPI are added from the distribution.

    :param made: as of :func:`distribution`.
    :param instead: what a user can do who has no MPI.
    :raises ConfigError: mpirun is not there, or does not say of which MPI it is; or as
        :func:`assay.sites.stacks.spack`.
    """
    if os.environ.get("ASSAY_STACK") != "spack":
        if fault := _no_mpi():
            raise ConfigError(f"{site_file}: {fault}; {instead}, or load the module of an MPI")
        return distribution(site_file, made)
    lock = files.repository(Path(site_file).parent) / "site-config/debian12/spack/env/spack.lock"
    spack = stacks.spack(site_file, lock, of="debian12")
    serial = [
        word
        for word in detect.programs()
        if catalogue.PROGRAMS[word].serial and word not in spack["features"]
    ]
    if serial:
        spack["features"] += serial
        spack["extras"]["provenance"] += f"; of the distribution: {', '.join(serial)}"
    return spack


def _no_mpi() -> str:
    """Why there is no MPI here; empty if there is one that the suite knows."""
    if detect.version("openmpi_version"):
        return ""
    path = shutil.which("mpirun")
    if path is None:
        return "no MPI: mpirun is not on PATH"
    said = ask.output("mpirun", "--version").strip()
    if mpi.of_run((), said):
        return ""
    first = said.partition("\n")[0] or "nothing"
    return f"no MPI that the suite knows: {path} --version says {first!r}"


def local_configuration(site_file: Path, said: SiteFile) -> dict[str, Any]:
    """The ReFrame configuration of a site that consists of this machine only.

    Stacks that the file does not describe are found on the machine.

    :raises ConfigError: a directory cannot be made, ReFrame's command loads the site on a machine
        with another distribution without ``--system``, or as
        :func:`assay.sites.site_configuration`.
    """
    transports = inside_the_node(ask.output("ucx_info", "-d"))
    stated = ask.output("sh", f"{provenance.NODE}/machine.sh")
    found = identity.parts(identity.tree(stated), hardware(site_file.parent))
    named = identity.alike(found, "processor", "memory")
    extras: dict[str, Any] = {"memory_fraction": MEMORY_FRACTION, "network_device": "lo"}
    extras |= {"hardware": named} if named else {}
    partitions = [partition("intra-node", ["intra-node", *transports], extras)]
    partitions += file_systems(site_file)
    described = any(each and each.spack for each in said.stacks.values())
    own, why = (None, []) if described else compiled(site_file, said)
    made = site_yaml.environments(site_file, said) if described else [local_stack(site_file, own)]
    for place in partitions:
        place["environs"] = [each["name"] for each in made]
    hostnames = [".*"]
    if said.release:
        here, host, call = detect.release(), socket.gethostname(), command.of_reframe()
        if here != said.release and call and call.system is None:
            raise ConfigError(
                f"{site_file}: machines of the site {site_file.parent.name!r} have {said.release}, "
                f"the host {host!r} has {here}; say --system={site_file.parent.name} if it is one "
                "all the same"
            )
        hostnames = [re.escape(host) + "$"] if here == said.release else []
    problems = [*failed_probes(any_stack=not said.release), *why]
    said = replace(said, general=OFTEN, problems=problems)
    system = site_yaml.system(site_file, said, partitions, hostnames=hostnames, max_local_jobs=1)
    return sites.site_configuration(site_file, system, made, said)


def inside_the_node(listing: str) -> list[str]:
    """The transports of an output of ``ucx_info -d`` that work without a device to other nodes."""
    there = [name for name in opened_transports(listing) if name in SWITCHED]
    return [name for name in there if name == "tcp" or not TRANSPORTS[name].network]


def failed_probes(any_stack: bool = True) -> tuple[str, ...]:
    """The probes of this machine that failed, one line each."""
    lost = detect.not_on_path() if any_stack else []
    return (*detect.ucx_problems(), *lost)


def partition(name: str, features: list[str], extras: Mapping[str, Any]) -> dict[str, Any]:
    """A partition whose jobs run on this machine, with its processor and memory."""
    processor = cpuinfo()
    processor["num_cpus"] = min(processor["num_cpus"], len(os.sched_getaffinity(0)))
    clock = {"clock_hz": hz} if (hz := detect.clock_hz()) else {}
    # Open MPI refuses to start as root unless it is told twice that this is meant.
    root = [["OMPI_ALLOW_RUN_AS_ROOT", "1"], ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"]]
    return {
        "name": name,
        "descr": f"{name} of this machine",
        "scheduler": "local",
        "launcher": "mpirun",
        "processor": processor,
        "features": features,
        # Other work on this machine disturbs the measurement, so the suite watches its processes.
        "extras": {
            **{"memory_bytes": capacity.memory()["limit"], "others": PROCESSES, **clock},
            **detect.pml(provenance.network_devices()["infiniband"]),
            **extras,
        },
        "env_vars": root if os.geteuid() == 0 else [],
    }


def file_systems(site_file: str | Path, *features: str) -> list[dict[str, Any]]:
    """The partitions ``scratch``, with further features, and ``tmpfs``."""
    scratch = os.environ.get("ASSAY_SCRATCH") or sites.results_directory(site_file) / "scratch"
    return [
        storage(site_file, "scratch", Path(scratch), *features),
        storage(site_file, "tmpfs", Path("/dev/shm")),  # noqa: S108 - under test
    ]


def storage(site_file: str | Path, name: str, directory: Path, *features: str) -> dict[str, Any]:

    def make() -> str:
        directory.mkdir(parents=True, exist_ok=True)
        return str(directory.resolve())

    try:
        directory = Path(str(answers.within(make)))  # a file system may hang
    except OSError as error:
        raise ConfigError(
            f"{site_file}: partition {name!r}: directory {directory} cannot be made "
            f"({error.strerror or error}); set ASSAY_SCRATCH to one that can"
        ) from None
    kind = capacity.file_system(str(directory))["type"] or "unknown"
    extras = {"directory": str(directory), "file_system": kind}
    return partition(name, ["storage", *features], extras)
