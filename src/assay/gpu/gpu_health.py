"""Whether the GPUs of a node are fit for a measurement, and whether they stayed fit during a run.

Tests between GPUs read the state of all GPUs of their node before and after the benchmark. The
pre-check and the census read it once. :mod:`assay.prove.counters` has the limits. An error of a
GPU in the kernel's log (Xid) is a fault if it is new after the run.

Which GPU each process used, and whether the processors of the process are near it:

=====================  ===========================================================================
question               answer
=====================  ===========================================================================
GPU to be taken        what ``rank-gpu.sh`` or the job script writes into ``gpu.HOST.NUMBER``
GPU that was used      ``cuda/GPU1`` in the tables of UCX from 1.16 on: the number among those that
\\                      the process sees, as on emulated GPUs (docs/vgpu.md)
processors near it     ``local_cpulist`` of its PCI device, or else ``nvidia-smi topo -m``
=====================  ===========================================================================

Not yet run on hardware. Where a question has no answer, nothing is judged. The state of GPUs of AMD
is not read.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from reframe.utility import nodelist_abbrev

from assay.gpu.accelerator import Accelerator
from assay.gpu.parse import nvidia_smi
from assay.gpu.parse.nvidia_smi import Gpu, Reading
from assay.node.lists import numbers
from assay.parse.reading import Process
from assay.parse.ucx_log import UcxLog
from assay.prove import counters
from assay.prove.launch import short_name
from assay.prove.plan import Note

#: Files of a job with the state before and after the benchmark; ``*`` stands for the node.
FILES = ("gpus.*.before", "gpus.*.after")

#: The files that name the GPU of each process, ``gpu.HOST.NUMBER``.
OF_RANKS = "gpu.*.*"

#: The longest that the shell waits for a state [s]. A GPU that was lost can hang its tools.
PATIENCE = 60

#: A counter of an NVLink has the number of the link before its name.
_OF_LINK = re.compile(r"Link (\d+): (.+)")


def _asked(gpu: Accelerator, part: str) -> list[str]:
    """The counters that the table has of a part of the state."""
    return [row.name for row in counters.rows().values() if row.tool == f"{gpu.word} {part}"]


def gpu_state_command(gpu: Accelerator) -> str:
    """Shell lines that print the state of all GPUs of a node; empty if it is not read."""
    library, initialise = gpu.driver
    code = f'import ctypes; print(ctypes.CDLL("{library}").{initialise}(0))'
    words = {"load": shlex.join([sys.executable, "-c", code])}
    lines = []
    for part, question in gpu.state.items():
        words["fields"] = ",".join(_asked(gpu, part.split()[0]))
        lines += [f"echo '[{part.format(**words)}]'", question.format(**words)]
    return "\n".join(("exec 2>&1", *lines, "true")) if lines else ""


def parse_gpu_state(gpu: Accelerator, text: str) -> Reading:
    """What :func:`gpu_state_command` printed; empty if the state of these GPUs is not read."""
    if not gpu.state:
        return Reading()
    reading = nvidia_smi.parse_nvidia_smi(text)
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
    # The kernel writes an address on the bus as 0000:1b:00, without the function.
    there = (*reading.gpus, *beside)
    gpus = {each.bus.lower()[-12:].rpartition(".")[0]: str(each) for each in there}
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
    :param health: the extra of the partition.
    """
    if not gpu.state:
        return []
    counted = _counted(reading)
    return [
        *_unfit(gpu, reading, wanted, features),
        *counters.reading_problems(counted, counted, health),
    ]


def gpu_problems(
    gpu: Accelerator, before: Reading, after: Reading, health: Mapping[str, Any] | None = None
) -> list[str]:
    """What is wrong with the GPUs of a node before, during and after a run, one line each."""
    if not gpu.state:
        return []
    moved = counters.reading_problems(*_of_run(before, after), health)
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
    named = {gpu.number: gpu for gpu in reading.gpus}
    for other in joined:
        if other > each.number and each.peers.get(other, "OK") != "OK":
            both = f"{each} and {named.get(other, f'GPU {other}')} are joined by {each.ways[other]}"
            why = f"nvidia-smi topo -p2p r says {each.peers[other]}"
            yield f"{both}, but cannot access each other's memory: {why}"


def record(before: Reading, after: Reading) -> dict[str, Any]:
    """What the record of a case keeps of the state."""
    return {
        "read": [each.uuid for each in before.gpus],
        "rose": counters.rises(*_of_run(before, after)),
        "unread": {**before.unread, **after.unread},
    }


class Taken(NamedTuple):
    """The GPU that a process was to take; the record of a case keeps the first four.

    :ivar rank: its number on the node.
    :ivar visible: the GPUs that it sees, ``all`` if nothing restricts them.
    :ivar uuid: of the GPU, ``unknown`` if no program named it.
    :ivar pid: 0 if unknown.
    :ivar number: of the GPU among those that the process sees.
    :ivar near: the processors near its GPU, as the kernel says; empty if it does not.
    :ivar network: those near its network device; empty if it has none, or that is unknown.
    :ivar rdma: by what an adapter can reach the memory of its GPU, see ``rank-gpu.sh``.
    """

    host: str
    rank: str
    visible: str
    uuid: str
    pid: int
    number: int
    cpus: frozenset[int]
    near: frozenset[int]
    network: frozenset[int]
    rdma: str


def taken(text: str) -> Taken | None:
    """The content of a file ``gpu.HOST.NUMBER``; None if it is torn."""
    words = text.split()
    if len(words) != len(Taken._fields) or not (words[4].isdigit() and words[5].isdigit()):
        return None
    host, rank, visible, uuid, pid, number, *lists, rdma = words
    cpus, near, network = map(numbers, lists)
    return Taken(host, rank, visible, uuid, int(pid), int(number), cpus, near, network, rdma)


def used(gpu: Accelerator, log: UcxLog) -> dict[Process, set[int]]:
    """The numbers of the GPUs whose memory each process gave to UCX, as far as its tables say."""
    found: dict[Process, set[int]] = {}
    for table in log.peer_tables(""):
        if own := re.match(rf"{gpu.word}/GPU(\d+)\b", table.memory):
            found.setdefault(table.process, set()).add(int(own[1]))
    return found


def shared(taken: Iterable[Taken]) -> list[str]:
    """Ranks of one node that were to take the same GPU, one line for each GPU."""
    ranks = Counter((one.host, one.uuid) for one in taken)
    return [f"{n} ranks of {host} took {uuid}" for (host, uuid), n in ranks.items() if n > 1]


def others(gpu: Accelerator, log: UcxLog, taken: Sequence[Taken]) -> list[str]:
    """Processes that used another GPU than the one that they were to take, one line each."""
    ran = {(short_name(host), pid): found for (host, pid), found in used(gpu, log).items()}
    return [
        f"rank {one.rank} of {one.host} used GPU{number} of those that it sees ({one.visible}), it "
        f"was to use GPU{one.number}: {one.uuid}"
        for one in taken
        for number in sorted(ran.get((short_name(one.host), one.pid), set()) - {one.number})
    ]


def together(gpu: Accelerator, log: UcxLog, wanted: int) -> list[str]:
    """A problem if a server and a client used fewer GPUs than they were to use."""
    processes = used(gpu, log)
    found: set[int] = set().union(*processes.values())
    if len(processes) < wanted or len(found) >= wanted:
        return []
    named = ", ".join(f"GPU{number}" for number in sorted(found))
    return [f"{len(processes)} processes used {named}: {wanted} GPUs were to be used"]


def without(taken: Sequence[Taken], started: int) -> list[str]:
    """Whether each rank took a GPU: those that the launcher gave one number wrote one file."""
    found = len(taken)
    return [] if found == started else [f"{found} of {started} ranks took a GPU of their own"]


def far(reading: Reading, taken: Iterable[Taken], host: str, remedy: str) -> list[str]:
    """Processes that run on no processor near their GPU, one line each; notes on what is unknown.

    :param reading: of the GPUs of the node `host`; it counts where the kernel says nothing.
    """
    problems: list[str] = []
    for one in taken:
        each = reading.named(one.uuid) if one.host == host else None
        near = one.near or numbers(each.cpus if each else "")
        who, gpu = f"rank {one.rank} of {one.host}", each or one.uuid
        if not near:
            problems.append(Note(f"{who}: which processors are near its GPU is not known ({gpu})"))
        elif one.cpus and not near & one.cpus:
            said = f"{who} runs on processors {_listed(one.cpus)}, far from {gpu}, which is near "
            problems.append(f"{said}{_listed(near)}: {remedy}")
        elif one.cpus - near:
            said = f"{who} may run on processors {_listed(one.cpus)}, of which not all are near "
            problems.append(Note(f"{said}{gpu} ({_listed(near)})"))
        elif one.network and not near & one.network:
            there = f"the network device, which is near {_listed(one.network)}"
            problems.append(Note(f"{who} and {gpu} are far from {there}"))
    return problems


def unreachable(gpu: Accelerator, taken: Iterable[Taken]) -> list[str]:
    """Nodes on which no adapter reaches the memory of the GPUs, one line each, or a note.

    There are nvidia-peermem, and dma-buf of Linux and the open module (NVIDIA's GPU Operator).
    """
    found, hosts = [], {one.host: one.rdma for one in taken}
    for host, rdma in hosts.items() if gpu.peer_memory else ():
        said = f"{host} has no kernel module {gpu.peer_memory[0]}"
        if rdma == "no":
            why = "nor an open one of the GPUs: its adapters cannot reach their memory; load it"
            found.append(f"{said}, {why}")
        elif rdma in ("open", "unknown"):
            found.append(Note(f"{said}, and does not show another way to the memory of its GPUs"))
    return found


def _listed(cpus: Iterable[int]) -> str:
    return str(nodelist_abbrev([*map(str, sorted(cpus))])).strip("[]")
