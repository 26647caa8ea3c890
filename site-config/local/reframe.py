"""The machine in front of you: everything that can be read off it is read off it.

The stack is `system`: what the distribution installed. Two variables choose where files are
written: ASSAY_SCRATCH (default: results/scratch) and ASSAY_TMPFS (default: /dev/shm).
"""

import os
import shlex
import shutil
from pathlib import Path

from reframe.core.exceptions import ConfigError
from reframe.utility.cpuinfo import cpuinfo

from assay import detect, sites

REPOSITORY = sites.repository(__file__)
SCRATCH = Path(
    os.environ.get("ASSAY_SCRATCH", sites.results_directory(__file__) / "scratch")
).resolve()
TMPFS = Path(os.environ.get("ASSAY_TMPFS", "/dev/shm")).resolve()  # noqa: S108 - under test


def launcher_environment():
    """Debian's Open MPI refuses to start as root unless it is told twice that this is meant."""
    if os.geteuid() != 0:
        return []
    return [["OMPI_ALLOW_RUN_AS_ROOT", "1"], ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"]]


def processor():
    """Topology of this node, with the processors that we may use."""
    info = cpuinfo()
    info["num_cpus"] = min(info["num_cpus"], detect.usable_cpus())
    return info


def storage_partition(name, directory, *features):
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{__file__}: partition {name!r}: directory {directory} cannot be made "
            f"({error.strerror}); set ASSAY_{name.upper()} to one that can"
        ) from None
    kind = detect.file_system(directory)
    words = ["storage", *features]
    if kind in ("xfs", "lustre") and kind not in words:
        words.append(kind)
    return partition(
        name, words, {"directory": str(directory), "file_system": kind, "memory_bytes": MEMORY}
    )


def partition(name, features, extras):
    return {
        "name": name,
        "descr": f"{name} of this machine",
        "scheduler": "local",
        "launcher": "mpirun",
        "environs": ["system"],
        "processor": processor(),
        "features": features,
        "extras": extras,
        "env_vars": launcher_environment(),
    }


def stack():
    """The stack `system`, with a feature for each program that is really there."""
    programs = detect.programs()
    features = list(programs)
    extras = {"provenance": "packages of the distribution"}
    for key, value in (
        ("openmpi_version", detect.openmpi_version()),
        ("ucx_version", detect.ucx_version()),
        ("netpipe_command", programs.get("netpipe")),
        ("osu_version", detect.osu_version() if "osu" in programs else None),
    ):
        if value:
            extras[key] = value
    classes, subtypes = detect.btio()
    if classes:
        features.append("btio")
        extras.update(btio_classes=classes, btio_subtypes=subtypes)
    python, ports = REPOSITORY / ".venv/bin/python", REPOSITORY / ".cache/osu-py"
    if python.exists() and (ports / "osu_latency.py").exists():
        features.append("osu-py")
        extras["osu_py_command"] = (
            f"{shlex.quote(str(python))} {shlex.quote(str(ports))}/osu_{{benchmark}}.py"
        )
    return {
        "name": "system",
        "cc": "mpicc",
        "cxx": "mpicxx",
        "ftn": "mpifort",
        "features": features,
        "extras": extras,
    }


if not shutil.which("mpirun"):
    raise ConfigError(
        f"{__file__}: no MPI: mpirun is not on PATH; type `make setup`, "
        "or load the module of your MPI and try again"
    )

MEMORY = detect.memory_bytes()
TRANSPORTS = [t for t in detect.ucx_transports() if t in ("posix", "sysv", "cma", "tcp")]

site_configuration = sites.configuration(
    __file__,
    systems=[
        {
            "name": "local",
            "descr": "this machine, with the packages of its distribution",
            "hostnames": [".*"],
            "modules_system": "nomod",
            # One case at a time, over all partitions: two would measure each other.
            "max_local_jobs": 1,
            "partitions": [
                partition(
                    "intra-node",
                    ["intra-node", *TRANSPORTS],
                    # A share of memory that a newcomer's laptop can lose for a minute.
                    {"memory_bytes": MEMORY, "memory_fraction": 0.02, "network_device": "lo"},
                ),
                storage_partition("scratch", SCRATCH),
                storage_partition("tmpfs", TMPFS, "tmpfs"),
            ],
        }
    ],
    environments=[stack()],
    # Asking a process of our own whether it has ended costs nothing: do it often, wait little.
    general={"poll_rate_max": 50, "poll_rate_min": 20},
)
