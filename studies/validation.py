"""The validation of a cluster, which selects cases of the suite: the names of its figures.

docs/studies.md has the source; ``figures.yaml`` lists the figures, and ``tests.txt`` the cases.
"""

from __future__ import annotations

from collections.abc import Mapping

from assay.declared import PARTITION, PLACE, Figure
from assay.workloads.osu import COLLECTIVE

#: Where messages between buffers in host memory, and between buffers in GPU memory, belong.
HOSTS, GPUS = "between hosts", f"between GPUs {PLACE}"

#: Mode of IOzone -> the operations whose heat maps the validation shows, with their names.
IOZONE = {
    "cached": {"read": "IOzone: read", "write": "IOzone: write"},
    "o_sync": {"write": "IOzone: SYNC write"},
}


def figures(test: str, parameters: Mapping[str, str]) -> list[Figure]:
    """The figures of the validation that a case of the suite is a part of."""
    benchmark = parameters.get("benchmark", "")
    if test in ("Osu", "OsuCollective", "OsuGpu", "OsuGpuCollective"):
        # With one buffer in host memory and the other on a GPU, the validation has no figure.
        places = {"HH": HOSTS, "DH": "", "HD": ""}
        at = places.get(parameters.get("buffers", ""), GPUS) if "Gpu" in test else HOSTS
        column = {"latency": "latency", "bw": "bandwidth"}.get(benchmark)
        if benchmark in COLLECTIVE:
            return [Figure("collective", benchmark, at)]
        return [Figure("curve", f"point to point: {column}", at)] if column else []
    if test in ("HplStudy", "GpuHplStudy"):
        program = "GPU HPL" if test == "GpuHplStudy" else "HPL"
        return [Figure("scaling", "HPL over nodes", program)]
    if test == "BtIo":
        return [Figure("runs", "BT-IO", PARTITION)]
    if test == "Iozone":
        maps = IOZONE.get(parameters.get("sync", ""), {})
        return [Figure("heat map", name, PARTITION, column) for column, name in maps.items()]
    return []
