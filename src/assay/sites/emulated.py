"""UCX for the emulated GPU (docs/vgpu.md), as a ReFrame environment: one for each pinned wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assay import sites

#: A model of the links: latency [us] and rate [B/s], slow enough for a busy machine to keep up.
LINKS = "nvlink=20:1e9,d2d=20:1e9,h2d=20:1e9,d2h=20:1e9"


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
