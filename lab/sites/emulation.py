"""What the sites of lab read: the running cluster (docs/vcluster.md), and UCX for emulated GPUs.

UCX for the emulated GPU (docs/vgpu.md) is a ReFrame environment for each pinned wheel, and for a
prefix that ``GPUEMU_STACK`` names: Open MPI, UCX and the programs of OSU, built with CUDA.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from reframe.core.exceptions import ConfigError

from assay import files
from assay.catalogue import PROGRAMS
from assay.describe import ask, detect
from assay.gpu.accelerator import CUDA
from assay.prove.transports import opened_transports

#: A model of the links: latency [us] and rate [B/s], slow enough for a busy machine to keep up.
LINKS = "nvlink=20:1e9,d2d=20:1e9,h2d=20:1e9,d2h=20:1e9"

#: Options for emulated GPUs: copies that need a millisecond by this model, one node
#: after the other, and a wide tolerance, because a busy machine copies later than the model says.
EACH_GPU = {"EachGpu.size": 1 << 20, "EachGpu.tolerance": 0.4, "EachGpu.width": 1}

#: A cluster that has all: its cases are those of every cluster.
ALL = {
    "nodes": 4,
    "accounting": False,
    "gpus": 4,
    "shared": "glusterfs",
    "link": {"rate": "1gbit", "delay": 100},
    "between": {"bandwidth": 62.5, "delay": 145},
    "rails": 2,
    "ideal": True,
}


def state() -> Path:
    """The directory of the emulated cluster."""
    return Path(os.environ.get("ASSAY_VCLUSTER", "/var/tmp/assay-vcluster"))  # noqa: S108


def cluster() -> dict[str, Any]:
    """The arguments with which the emulated cluster was started.

    If none is up, the site can only be listed, as for a cluster that has all.
    """
    file = state() / "cluster.json"
    if not file.exists():
        return dict(ALL)
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def between(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """The extra ``between`` of a cluster whose nodes are two groups; empty if they are one.

    A packet is held by the link between the groups and by that of the node that receives it.
    """
    link = cluster.get("between")
    if not link:
        return {}
    nodes = cluster["nodes"]
    half = nodes // 2
    return {
        "groups": {"east": f"node[01-{half:02d}]", "west": f"node[{half + 1:02d}-{nodes:02d}]"},
        "bandwidth": link["bandwidth"],
        "latency": link["delay"] + cluster["link"]["delay"],
    }


def ucx(site_file: str | Path, version: str) -> dict[str, Any]:
    """The environment of a wheel of ``lab/vgpu/ucx.lock``, even if the wheel is not installed yet.

    If it is not installed, its jobs end at once with a line that says so.

    :param site_file: the site's ``__file__``.
    :param version: of UCX, such as ``1.22.0``.
    """
    repository = files.repository(Path(site_file).parent)
    gpu, wheel = repository / "build/vgpu", repository / ".cache/vgpu" / version
    there = (gpu / "sources").exists() and (wheel / "pin.txt").exists()
    missing = f"no emulated GPU, or no UCX {version} for it: type make vgpu"
    return {
        "name": f"ucx-{version}".replace(".", "-"),  # ReFrame takes no dots
        "features": ["ucx", "ucx-perftest", "ucx-cuda"],
        "extras": {
            "ucx_version": version,
            "provenance": f"emulated GPUs; wheel libucx-cu12 {version} of lab/vgpu/ucx.lock",
        },
        "env_vars": [
            ["PATH", f"{gpu}/bin:{wheel}/bin:$PATH"],
            ["LD_LIBRARY_PATH", f"{gpu}/lib:{wheel}/lib"],
            ["GPUEMU_LINKS", LINKS],
        ],
        "prepare_cmds": [] if there else [f'echo "{missing}" >&2', "exit 1"],
    }


#: The stack that GPUEMU_STACK names, and its programs. Without one of them, its jobs end at once.
NAME = "vgpu-stack"
PREFIX = ("mpi", "ucx", "ucx-perftest", "osu")


def prefix(site_file: str | Path) -> dict[str, Any] | None:
    """The environment of the prefix that ``GPUEMU_STACK`` names; None if it names none.

    The prefix is that of an installation or of a view of Spack: programs in ``bin``, and those of
    OSU there or below ``libexec``. If its UCX was built without gdrcopy, the extra ``ucx_lacks``
    says so, and cases with gdrcopy are left out.

    :param site_file: the site's ``__file__``.
    :raises ConfigError: ``ASSAY_STACK`` asks for this stack, and no prefix is named.
    """
    named = os.environ.get("GPUEMU_STACK", "")
    if not named and os.environ.get("ASSAY_STACK") == NAME:
        raise ConfigError(f"{site_file}: STACK={NAME}: name its prefix by GPUEMU_STACK")
    if not named:
        return None
    root = Path(named).absolute()
    gpu = files.repository(Path(site_file).parent) / "build/vgpu"
    folders = [root / "bin", *sorted({each.parent for each in root.glob("libexec/**/osu_[lb]*")})]
    # Programs name the folder of CUDA's own libcudart; a preloaded one takes its place.
    preloaded = [gpu / "lib/libcudart.so.12", gpu / "lib/libgdrdrv.so"]
    variables = {
        "PATH": ":".join(map(str, [gpu / "bin", *folders])),
        "LD_LIBRARY_PATH": f"{gpu}/lib:{root}/lib",
        "LD_PRELOAD": ":".join(map(str, preloaded)),
    }

    def said(*command: str) -> str:
        path = f"{variables['PATH']}:{os.environ['PATH']}"
        assigned = [f"{name}={value}" for name, value in {**variables, "PATH": path}.items()]
        return ask.output("env", *assigned, *command)

    def has(name: str) -> bool:
        return any((folder / name).exists() for folder in folders)

    problem = _lacking(root, gpu, has)
    extras: dict[str, Any] = {
        "provenance": f"emulated GPUs; the prefix {root}, which GPUEMU_STACK names"
    }
    for word in PREFIX:
        asked = PROGRAMS[word].version
        if asked and not problem and (version := detect.version(asked.extra, said)):
            extras[asked.extra] = version
    if not problem:
        # Not with the fault of this run: a driver that is missing is no choice of who built UCX.
        lacks = _built_without(said("env", "GPUEMU_FAULT=", "ucx_info", "-d"))
        extras.update({"ucx_lacks": lacks} if lacks else {})
    return {
        "name": NAME,
        "features": ["mpi", "ucx", "ucx-perftest", "ucx-cuda", "osu-cuda"],
        "extras": extras,
        "env_vars": [
            ["PATH", f"{variables['PATH']}:$PATH"],
            ["LD_LIBRARY_PATH", variables["LD_LIBRARY_PATH"]],
            ["LD_PRELOAD", variables["LD_PRELOAD"]],
            ["GPUEMU_LINKS", LINKS],
        ],
        "prepare_cmds": [f"echo {shlex.quote(problem)} >&2", "exit 1"] if problem else [],
    }


def _built_without(listing: str) -> list[str]:
    """The transports that a UCX was built without: gdr_copy, or none.

    :param listing: what ``ucx_info -d`` says on healthy GPUs. A listing without the GPUs shows
        nothing, and then no case is left out.
    """
    opened = opened_transports(listing)
    return [CUDA.small] if CUDA.copy in opened and CUDA.small not in opened else []


def _lacking(root: Path, gpu: Path, has: Callable[[str], bool]) -> str:
    """What a prefix lacks, as a line for the user; empty if it has all."""
    if not (gpu / "sources").exists():
        return "no emulated GPU: type lab/vgpu/build.sh"
    missing = [name for word in PREFIX if not has(name := PROGRAMS[word].executables[0])]
    if not missing:
        return ""
    return (
        f"GPUEMU_STACK={root} has no {', '.join(missing)} in bin or libexec: name a prefix with "
        "Open MPI, UCX and the programs of OSU, built with CUDA"
    )
