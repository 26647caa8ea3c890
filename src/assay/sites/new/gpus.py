"""The partitions with GPUs of a site that is not written yet."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from assay.evidence.accelerator import ACCELERATORS
from assay.outputs import nvidia_smi
from assay.sites import auto
from assay.sites.new.facts import ADD_PEAK, Gap, Place

#: Generation of NVLink, by the beginning of the names of GPUs in ``hardware.yaml``.
NVLINK = {"v100": 2, "a100": 3, "h100": 4}


def partitions(
    place: Place,
    known: Mapping[str, Mapping[str, Any]],
    stack: Sequence[str],
    links: Sequence[Mapping[str, Any]],
    gaps: list[Gap],
) -> list[dict[str, Any]]:
    """A partition for the GPUs of a node, and one for those of several nodes.

    :param known: the known hardware, :func:`assay.judge.hardware`.
    :param stack: the features of the stack.
    :param links: the partitions between nodes, the fastest link first.
    :param gaps: gets what could not be found out.
    """
    vendor, listed = models(place.here)
    allocated = place.pool.shape.gpus
    if not (count := allocated or len(listed)):
        return []
    model = listed[0] if listed else None
    words = ["gpu", *([vendor] if vendor else [])]
    gaps += _unclear(place, vendor, listed, stack)
    hardware = {}
    if model in known["gpu"]:
        hardware["gpu"] = str(model)
    elif model:
        gaps.append(Gap("partition gpu", f"the peak of {model} is not in hardware.yaml", ADD_PEAK))
    made = {
        "devices": [{"type": "gpu", "num_devices": count}],
        **({"resources": auto.GPU_RESOURCE} if allocated else {}),
    }
    joined, link = _joined(place, str(model), known, count, gaps)
    named = {**hardware, **({"link": link} if link else {})}
    found = [
        {
            "name": "gpu",
            "descr": "the GPUs of one node",
            "features": ["intra-node", *words, *joined],
            **made,
            "extras": {**place.extras, **({"hardware": named} if named else {})},
        }
    ]
    for over in links[:1]:
        named = {**over["extras"].get("hardware", {}), **hardware}
        device = over["extras"]["network_device"]
        found.append(
            {
                "name": f"gpu-{over['name']}",
                "descr": f"GPUs of different nodes, over {device}",
                "features": ["inter-node", over["name"], *words],
                **made,
                "extras": {**over["extras"], **({"hardware": named} if named else {})},
            }
        )
    return found


def models(here: Mapping[str, Any]) -> tuple[str | None, list[str]]:
    """The vendor of the GPUs of a node, and their models as ``hardware.yaml`` names them."""
    for name, gpu in ACCELERATORS.items():
        said = here["gpus"] if name == "cuda" else here["said"].get(" ".join(gpu.listing))
        if models := gpu.found(said or ""):
            return name, models
    return None, []


def _unclear(
    place: Place, vendor: str | None, listed: Sequence[str], stack: Sequence[str]
) -> list[Gap]:
    where, allocated = "partition gpu", place.pool.shape.gpus
    gaps = []
    if not listed:
        what = f"Slurm states {allocated} GPUs, and no driver lists them on {place.host}"
        gaps.append(Gap(where, what, "look at nvidia-smi -L or rocminfo in a job"))
    elif not allocated:
        what = "Slurm does not allocate the GPUs (no gres)"
        gaps.append(Gap(where, what, "check that --exclusive gives all GPUs of a node"))
    elif len(listed) != allocated:
        what = f"Slurm states {allocated} GPUs, the driver of {place.host} lists {len(listed)}"
        gaps.append(Gap(where, what, "correct what is wrong; ranks follow from num_devices"))
    if len({*listed}) > 1:
        what = f"the GPUs differ: {', '.join(sorted({*listed}))}"
        gaps.append(Gap(where, what, "describe each kind as a partition"))
    if vendor and f"ucx-{vendor}" not in stack:
        what = f"no UCX for {vendor} was found, so the cases between GPUs are skipped"
        gaps.append(Gap(where, what, "load one that is built for the GPUs, and programs of OSU"))
    return gaps


def _joined(
    place: Place,
    model: str,
    known: Mapping[str, Mapping[str, Any]],
    count: int,
    gaps: list[Gap],
) -> tuple[list[str], str | None]:
    """The word nvlink if all GPUs of a node are joined so, and the name of the links."""
    where, topology = "partition gpu", place.here["topology_of_gpus"]
    if topology is None and count > 1:
        what = "how the GPUs of a node are joined is not known"
        gaps.append(Gap(where, what, "add nvlink, if they are joined so"))
    links = nvlinks(topology or "")
    if not links:
        return [], None
    generation = NVLINK.get(model.partition("-")[0])
    name = f"nvlink{generation}-{links}-links"
    if name in known["link"]:
        return ["nvlink"], name
    what = f"the peak of {links} NVLinks of {model} is not in hardware.yaml"
    gaps.append(Gap(where, what, ADD_PEAK))
    return ["nvlink"], None


def nvlinks(topology: str) -> int:
    """The least number of NVLinks between two GPUs of a node; 0 if two have none.

    :param topology: output of ``nvidia-smi topo -m``.
    """
    ways = [re.fullmatch(r"NV(\d+)", way) for way in nvidia_smi.ways(topology)]
    return min((int(way[1]) if way else 0 for way in ways), default=0)
