"""Whether the GPUs of a node are fit for a measurement, and whether they stayed fit during a run.

Tests between GPUs read the state of all GPUs of their node before and after the benchmark. The
pre-check and the census read it once. ``gpu_health.yaml`` has the limits, with their sources. An
error of a GPU in the kernel's log (Xid) is a fault if it is new after the run. Older ones may be of
other users.

Not yet run on hardware. The state of GPUs of AMD is not read.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from assay import files
from assay.evidence import steering
from assay.evidence.accelerator import Accelerator
from assay.outputs import nvidia_smi
from assay.outputs.nvidia_smi import Gpu, Reading

#: Files of a job with the state before and after the benchmark; ``*`` stands for the node.
FILES = ("gpus.*.before", "gpus.*.after")

#: The longest that the shell waits for a state [s]. A GPU that was lost can hang its tools.
PATIENCE = 60


class Limit(NamedTuple):
    """What a field may be; ``gpu_health.yaml`` explains it."""

    what: str
    source: str
    most: float | None = None
    rise: float | None = None


@cache
def limits() -> Mapping[str, Mapping[str, Mapping[str, Limit]]]:
    """Vendor -> part of a reading -> field -> its limit, from ``gpu_health.yaml``."""
    document = files.read_yaml(Path(__file__).with_name("gpu_health.yaml"), ValueError)
    return {
        vendor: {
            part: {name: Limit(**limit) for name, limit in fields.items()}
            for part, fields in parts.items()
        }
        for vendor, parts in document.items()
    }


#: A counter of an NVLink has the number of the link before its name.
_OF_LINK = re.compile(r"Link (\d+): (.+)")


def _limits(gpu: Accelerator, values: Iterable[str]) -> Iterator[tuple[str, Limit]]:
    """Each of these fields of a GPU that has a limit, in words with the link that it is of."""
    known = {
        name: limit for fields in limits().get(gpu.word, {}).values()
        for name, limit in fields.items()
    }  # fmt: skip
    for name in values:
        link = _OF_LINK.fullmatch(name)
        if limit := known.get(link[2] if link else name):
            what = f"NVLink {link[1]}: {limit.what}" if link else limit.what
            yield name, limit._replace(what=what)


def command(gpu: Accelerator) -> str:
    """Shell lines that print the state of all GPUs of a node; empty if it is not read."""
    library, initialise = gpu.driver
    code = f'import ctypes; print(ctypes.CDLL("{library}").{initialise}(0))'
    words = {"load": shlex.join([sys.executable, "-c", code])}
    lines = []
    for part, question in gpu.state.items():
        words["fields"] = ",".join(limits()[gpu.word].get(part.split()[0], ()))
        lines += [f"echo '[{part.format(**words)}]'", question.format(**words)]
    return "\n".join(("exec 2>&1", *lines, "true")) if lines else ""


def parse(gpu: Accelerator, text: str) -> Reading:
    """What :func:`command` printed; empty if the state of these GPUs is not read."""
    if not gpu.state:
        return Reading()
    reading = nvidia_smi.parse(text)
    counters = {name for each in reading.gpus for name in each.values if _OF_LINK.fullmatch(name)}
    if counters and not any(_limits(gpu, counters)):
        # Newer GPUs may count other errors. Nothing is then known of their links.
        said = f"no counter of NVLinks is known: {min(counters)}"
        return replace(reading, unread={**reading.unread, "nvlink": said})
    return reading


#: What a problem is about (a UUID and a field, or a text), and the problem in one line.
Named = tuple[object, str]


def unfit(
    gpu: Accelerator, reading: Reading, wanted: int = 0, features: Collection[str] = ()
) -> list[str]:
    """GPUs beyond the limits, and what could not be read of them, one line each.

    :param wanted: number of GPUs that the node must have at least.
    :param features: of the partition; with ``nvlink``, each GPU must have an NVLink to another.
    """
    return [line for _, line in _unfit(gpu, reading, wanted, features)] if gpu.state else []


def problems(gpu: Accelerator, before: Reading, after: Reading) -> list[str]:
    """What is wrong with the GPUs of a node before, during and after a run, one line each."""
    if not gpu.state:
        return []
    named: dict[object, str] = {}
    for what, line in (*_moved(gpu, before, after), *_unfit(gpu, before), *_unfit(gpu, after)):
        named.setdefault(what, line)
    return list(named.values())


def _unfit(
    gpu: Accelerator, reading: Reading, wanted: int = 0, features: Collection[str] = ()
) -> Iterator[Named]:
    if said := reading.unread.get("gpu"):
        yield "unread", f"the state of the GPUs is not known: {said}"
    if reading.gpus and len(reading.gpus) < wanted:
        yield "few", f"{gpu.listing[0]} lists {len(reading.gpus)} GPUs, the site says {wanted}"
    if reading.driver not in ("", "0"):
        library, initialise = gpu.driver
        said = f"{initialise} says: {reading.driver}"
        yield "driver", f"{library} does not start on this node, {said}"
    for each in reading.gpus:
        for name, limit in _limits(gpu, each.values):
            if limit.most is not None and (value := each.values[name]) > limit.most:
                yes = limit.most == 0 and value == 1
                said = "" if yes else f": {value:g}, at most {limit.most:g}"
                yield (each.uuid, name), f"{each}: {limit.what}{said} ({name})"
        if "nvlink" in features:
            yield from _without_nvlink(each, reading)


def _without_nvlink(each: Gpu, reading: Reading) -> Iterator[Named]:
    ways = sorted(set(each.ways.values()))
    joined = [other for other, way in each.ways.items() if way.startswith("NV")]
    if ways and not joined:
        said = f"({', '.join(ways)}), but the partition says nvlink"
        yield (each.uuid, "nvlink"), f"{each} has no NVLink to another GPU {said}"
    for other in joined:
        if other > each.number and each.peers.get(other, "OK") != "OK":
            line = (
                f"{each} and {_gpu(reading, other)} are joined by {each.ways[other]}, but cannot "
                f"access each other's memory: nvidia-smi topo -p2p r says {each.peers[other]}"
            )
            yield (each.uuid, other), line


def _gpu(reading: Reading, number: int) -> Gpu | str:
    return next((gpu for gpu in reading.gpus if gpu.number == number), f"GPU {number}")


def changed(gpu: Accelerator, before: Reading, after: Reading) -> dict[str, dict[str, float]]:
    """By how much each counter of each GPU rose during a run, without those that stayed.

    A counter that fell (the driver was loaded anew) counts from 0.
    """
    old = {each.uuid: each.values for each in before.gpus}
    rose: dict[str, dict[str, float]] = {}
    for each in after.gpus:
        # A field that could not be read before says nothing of the run.
        before_it = old.get(each.uuid, {})
        for name, _ in _limits(gpu, [name for name in each.values if name in before_it]):
            now, then = each.values[name], before_it[name]
            if rise := now - then if now >= then else now:
                rose.setdefault(each.uuid, {})[name] = rise
    return rose


def _moved(gpu: Accelerator, before: Reading, after: Reading) -> Iterator[Named]:
    there = {each.uuid: each for each in after.gpus}
    for each in before.gpus:
        if there and each.uuid not in there:
            yield each.uuid, f"{each} was there before the run, and is not there after it"
        elif there:
            for number in sorted(_links(each) - _links(there[each.uuid]), key=int):
                said = f"NVLink {number} was there before the run, and is not there after it"
                yield (each.uuid, f"link {number}"), f"{each}: {said}"
    for uuid, rises in changed(gpu, before, after).items():
        for name, rise in rises.items():
            ((_, limit),) = _limits(gpu, [name])
            if limit.rise is not None and rise > limit.rise:
                said = f"{limit.what}: {rise:g} more during the run ({name})"
                yield (uuid, name), f"{there[uuid]}: {said}"
    # The kernel's log is a ring: what is new is not in the older reading.
    for line in () if before.unread.get("kernel") else after.xids:
        if line not in before.xids:
            at = [f"{each}: " for each in before.gpus if _address(each.bus) in line.lower()]
            yield line, f"{''.join(at[:1])}an error during the run: {line}"


def _links(gpu: Gpu) -> set[str]:
    """The numbers of the NVLinks of a GPU that have counters."""
    return {found[1] for name in gpu.values if (found := _OF_LINK.fullmatch(name))}


def _address(bus: str) -> str:
    """The address on the bus as the kernel writes it: ``0000:1b:00``, without the function."""
    return bus.lower()[-12:].rpartition(".")[0]


def record(gpu: Accelerator, before: Reading, after: Reading) -> dict[str, Any]:
    """What the record of a case keeps of the state."""
    return {
        "read": [each.uuid for each in before.gpus],
        "rose": changed(gpu, before, after),
        "unread": {**before.unread, **after.unread},
    }


def near(gpu: Gpu) -> frozenset[int]:
    """The processors near a GPU; empty if unknown."""
    return steering.numbers(gpu.cpus)
