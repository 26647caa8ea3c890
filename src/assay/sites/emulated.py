"""What sites read of emulated parts: the running cluster (docs/vcluster.md), and UCX for its GPUs.

UCX for the emulated GPU (docs/vgpu.md) is a ReFrame environment for each pinned wheel.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay import sites
from assay.sites import ideal

#: A model of the links: latency [us] and rate [B/s], slow enough for a busy machine to keep up.
LINKS = "nvlink=20:1e9,d2d=20:1e9,h2d=20:1e9,d2h=20:1e9"

#: A cluster that has all: its cases are those of every cluster.
ALL = {
    "nodes": 4,
    "accounting": False,
    "gpus": 4,
    "link": {"delay": 100},
    "between": {"bandwidth": 62.5, "delay": 145},
    "ideal": True,
}


def state() -> Path:
    """The directory of the emulated cluster."""
    return Path(os.environ.get("ASSAY_VCLUSTER", "/var/tmp/assay-vcluster"))  # noqa: S108


def cluster() -> dict[str, Any]:
    """The arguments with which the emulated cluster was started.

    If none is up, the site can only be listed, as for a cluster that has all. `assay expect` asks
    for that cluster too.
    """
    file = state() / "cluster.json"
    if ideal.asked() or not file.exists():
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
    """The environment of a wheel of ``vgpu/ucx.lock``, even if the wheel is not installed yet.

    If it is not installed, its jobs end at once with a line that says so.

    :param site_file: the site's ``__file__``.
    :param version: of UCX, such as ``1.22.0``.
    """
    repository = sites.repository(site_file)
    gpu, wheel = repository / "build/vgpu", repository / ".cache/vgpu" / version
    there = (gpu / "sources").exists() and (wheel / "pin.txt").exists()
    missing = f"no emulated GPU, or no UCX {version} for it: type make vgpu"
    return {
        "name": f"ucx-{version}".replace(".", "-"),  # ReFrame takes no dots
        "features": ["ucx", "ucx-perftest", "ucx-cuda"],
        "extras": {
            "ucx_version": version,
            "provenance": f"emulated GPUs; wheel libucx-cu12, pinned in vgpu/ucx.lock: {version}",
        },
        "env_vars": [
            ["PATH", f"{gpu}/bin:{wheel}/bin:$PATH"],
            ["LD_LIBRARY_PATH", f"{gpu}/lib:{wheel}/lib"],
            ["GPUEMU_LINKS", LINKS],
        ],
        "prepare_cmds": [] if there else [f'echo "{missing}" >&2', "exit 1"],
    }
