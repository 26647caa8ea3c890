"""Facts of this site: what ``${NAME}`` stands for in its ``assay.yaml``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from assay import files
from assay.describe import machine
from assay.sites import stacks


def devices(_: Path) -> int:
    """Devices of the node, as lab/vgpu/node.c reads them."""
    return int(os.environ.get("GPUEMU_DEVICES", "4"))


def here(_: Path) -> dict[str, Any]:
    """This machine. Nothing is judged by time, so other work on it may go on."""
    words = machine.partition("here", [], {})
    del words["name"], words["extras"]["others"]
    return words


def probes(_: Path) -> list[str]:
    """The probes of the machine that failed."""
    return [*machine.failed_probes(any_stack=False)]


def stack(site_file: Path) -> dict[str, Any]:
    """The stack, with the emulated GPU in the place of CUDA's own libraries."""
    # As lab/vgpu/build.sh makes it, else as `make spack` made it for its own checks.
    built = [files.repository(site_file.parent) / "build/vgpu", stacks.home(site_file) / "vgpu"]
    emulated = next((each for each in built if (each / "sources").exists()), built[0])
    # Spack writes the path of CUDA's own libcudart into its programs. Loaded first, the emulated
    # one takes its place. The emulated gdrdrv is a library, too.
    preloaded = [emulated / "lib/libcudart.so.12", emulated / "lib/libgdrdrv.so"]
    made = stacks.spack(site_file, site_file.parent / "spack/env/spack.lock", "gpu")
    del made["name"]
    made["extras"]["provenance"] += "; emulated GPUs"
    # ReFrame takes each variable once.
    path = dict(made.get("env_vars", ())).get("PATH", "$PATH")
    made["env_vars"] = [
        ["PATH", f"{emulated}/bin:{path}"],
        ["LD_LIBRARY_PATH", f"{emulated}/lib"],
        ["LD_PRELOAD", ":".join(str(each) for each in preloaded if each.exists())],
    ]
    if not (emulated / "sources").exists():
        made["prepare_cmds"] = ['echo "no emulated GPU: type lab/vgpu/build.sh" >&2', "exit 1"]
    return made
