"""Whether the GPUs of a node are fit for a measurement, and whether they stayed fit during a run.

Tests between GPUs read the state of all GPUs of their node before and after the benchmark. The
pre-check and the census read it once. :mod:`assay.evidence.counters` has the limits. An error of a
GPU in the kernel's log (Xid) is a fault if it is new after the run. Older ones may be of other
users.

Not yet run on hardware. The state of GPUs of AMD is not read.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from assay.evidence import counters, steering
from assay.evidence.accelerator import Accelerator
from assay.outputs import nvidia_smi
from assay.outputs.nvidia_smi import Gpu, Reading

#: Files of a job with the state before and after the benchmark; ``*`` stands for the node.
FILES = ("gpus.*.before", "gpus.*.after")

#: The longest that the shell waits for a state [s]. A GPU that was lost can hang its tools.
PATIENCE = 60

#: A counter of an NVLink has the number of the link before its name.
_OF_LINK = re.compile(r"Link (\d+): (.+)")


def _asked(gpu: Accelerator, part: str) -> list[str]:
    """The counters that the table has of a part of the state."""
    return [row.name for row in counters.rows().values() if row.tool == f"{gpu.word} {part}"]


def command(gpu: Accelerator) -> str:
    """Shell lines that print the state of all GPUs of a node; empty if it is not read."""
    library, initialise = gpu.driver
    code = f'import ctypes; print(ctypes.CDLL("{library}").{initialise}(0))'
    words = {"load": shlex.join([sys.executable, "-c", code])}
    lines = []
    for part, question in gpu.state.items():
        words["fields"] = ",".join(_asked(gpu, part.split()[0]))
        lines += [f"echo '[{part.format(**words)}]'", question.format(**words)]
    return "\n".join(("exec 2>&1", *lines, "true")) if lines else ""


def parse(gpu: Accelerator, text: str) -> Reading:
    """What :func:`command` printed; empty if the state of these GPUs is not read."""
    if not gpu.state:
        return Reading()
    reading = nvidia_smi.parse(text)
    found = [
        link for each in reading.gpus for name in each.values if (link := _OF_LINK.fullmatch(name))
    ]
    if found and not {link[2] for link in found} & {*_asked(gpu, "nvlink")}:
        # Newer GPUs may count other errors. Nothing is then known of their links.
        said = f"no counter of NVLinks is known: {min(link[0] for link in found)}"
        return replace(reading, unread={**reading.unread, "nvlink": said})
    return reading


def _counted(reading: Reading, beside: Sequence[Gpu] = ()) -> counters.Reading:
    """The counters of a reading. A device is the UUID of a GPU, or this and the number of a link.

    :param beside: GPUs of another reading that a line of the log may be about, too.
    """
    values: dict[str, dict[str, float]] = {}
    devices = {each.uuid: ("gpu_there", str(each)) for each in reading.gpus}
    for each in reading.gpus:
        for name, value in each.values.items():
            device = each.uuid
            if link := _OF_LINK.fullmatch(name):
                name, device = link[2], f"{each.uuid} {link[1]}"  # noqa: PLW2901
                devices[device] = "nvlink_there", f"{each}: NVLink {link[1]}"
            values.setdefault(name, {})[device] = value
    gpus = {_address(each.bus): str(each) for each in (*reading.gpus, *beside)}
    lines = {
        line: next((gpu for at, gpu in gpus.items() if at in line.lower()), "")
        for line in reading.xids
    }
    return counters.Reading(0.0, values, devices, {}, lines, reading.unread.get("kernel", ""))


def _of_run(before: Reading, after: Reading) -> tuple[counters.Reading, counters.Reading]:
    """The counters of both readings. If no GPU answers any more, that alone is the problem."""
    there = before if after.gpus else replace(before, gpus=())
    return _counted(there), _counted(after, before.gpus)


def unfit(
    gpu: Accelerator,
    reading: Reading,
    wanted: int = 0,
    features: Collection[str] = (),
    health: Mapping[str, Any] | None = None,
) -> list[str]:
    """GPUs beyond the limits, and what could not be read of them, one line each.

    :param wanted: number of GPUs that the node must have at least.
    :param features: of the partition; with ``nvlink``, each GPU must have an NVLink to another.
    :param health: the extra of the partition, which may set other limits.
    """
    if not gpu.state:
        return []
    counted = _counted(reading)
    return [
        *_unfit(gpu, reading, wanted, features),
        *counters.problems(counted, counted, health),
    ]


def problems(
    gpu: Accelerator, before: Reading, after: Reading, health: Mapping[str, Any] | None = None
) -> list[str]:
    """What is wrong with the GPUs of a node before, during and after a run, one line each."""
    if not gpu.state:
        return []
    moved = counters.problems(*_of_run(before, after), health)
    return list(dict.fromkeys((*moved, *_unfit(gpu, before), *_unfit(gpu, after))))


def _unfit(
    gpu: Accelerator, reading: Reading, wanted: int = 0, features: Collection[str] = ()
) -> Iterator[str]:
    if said := reading.unread.get("gpu"):
        yield f"the state of the GPUs is not known: {said}"
    if reading.gpus and len(reading.gpus) < wanted:
        yield f"{gpu.listing[0]} lists {len(reading.gpus)} GPUs, the site says {wanted}"
    if reading.driver not in ("", "0"):
        library, initialise = gpu.driver
        yield f"{library} does not start on this node, {initialise} says: {reading.driver}"
    for each in reading.gpus if "nvlink" in features else ():
        yield from _without_nvlink(each, reading)


def _without_nvlink(each: Gpu, reading: Reading) -> Iterator[str]:
    ways = sorted(set(each.ways.values()))
    joined = [other for other, way in each.ways.items() if way.startswith("NV")]
    if ways and not joined:
        said = f"({', '.join(ways)}), but the partition says nvlink"
        yield f"{each} has no NVLink to another GPU {said}"
    for other in joined:
        if other > each.number and each.peers.get(other, "OK") != "OK":
            yield (
                f"{each} and {_gpu(reading, other)} are joined by {each.ways[other]}, but cannot "
                f"access each other's memory: nvidia-smi topo -p2p r says {each.peers[other]}"
            )


def _gpu(reading: Reading, number: int) -> Gpu | str:
    return next((gpu for gpu in reading.gpus if gpu.number == number), f"GPU {number}")


def _address(bus: str) -> str:
    """The address on the bus as the kernel writes it: ``0000:1b:00``, without the function."""
    return bus.lower()[-12:].rpartition(".")[0]


def record(before: Reading, after: Reading) -> dict[str, Any]:
    """What the record of a case keeps of the state."""
    return {
        "read": [each.uuid for each in before.gpus],
        "rose": counters.rises(*_of_run(before, after)),
        "unread": {**before.unread, **after.unread},
    }


def near(gpu: Gpu) -> frozenset[int]:
    """The processors near a GPU; empty if unknown."""
    return steering.numbers(gpu.cpus)
