"""Which GPU each process used, and whether the processors of the process are near it.

=====================  ===========================================================================
question               answer
=====================  ===========================================================================
GPU to be taken        what ``rank-gpu.sh`` or the job script writes into ``gpu.HOST.NUMBER``
GPU that was used      ``cuda/GPU1`` in the tables of UCX from 1.16 on: the number among those that
\\                      the process sees, as on emulated GPUs (docs/vgpu.md)
processors near it     column ``CPU Affinity`` of ``nvidia-smi topo -m``, on the node of the job
=====================  ===========================================================================

Not yet run on hardware. Where a question has no answer, nothing is judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from assay.evidence import gpu_health, steering
from assay.evidence.accelerator import Accelerator
from assay.evidence.launch import short_name
from assay.outputs.nvidia_smi import Reading
from assay.outputs.ucx_log import Process, UcxLog

#: The files that name the GPU of each process, ``gpu.HOST.NUMBER``.
FILES = "gpu.*.*"


class Taken(NamedTuple):
    """The GPU that a process was to take.

    :ivar host: the node.
    :ivar rank: its number on the node.
    :ivar visible: the GPUs that it sees, ``all`` if nothing restricts them.
    :ivar uuid: UUID of the GPU, ``unknown`` if no program named it.
    :ivar pid: its process id, 0 if unknown.
    :ivar number: the GPU's number among those that the process sees.
    :ivar cpus: the processors that it may run on.
    """

    host: str
    rank: str
    visible: str
    uuid: str
    pid: int
    number: int
    cpus: frozenset[int]

    def words(self) -> list[str]:
        """What the record of a case keeps of it."""
        return [self.host, self.rank, self.visible, self.uuid]


def parse(text: str) -> Taken | None:
    """The content of a file ``gpu.HOST.NUMBER``; None if it is torn."""
    words = text.split()
    if len(words) != len(Taken._fields) or not (words[4].isdigit() and words[5].isdigit()):
        return None
    host, rank, visible, uuid = words[:4]
    return Taken(
        host, rank, visible, uuid, int(words[4]), int(words[5]), steering.numbers(words[6])
    )


def used(gpu: Accelerator, log: UcxLog) -> dict[Process, set[int]]:
    """The numbers of the GPUs whose memory each process gave to UCX, as far as its tables say."""
    found: dict[Process, set[int]] = {}
    for table in log.peer_tables(""):
        if own := re.match(rf"{gpu.word}/GPU(\d+)\b", table.memory):
            found.setdefault(table.process, set()).add(int(own[1]))
    return found


def shared(taken: Iterable[Taken]) -> list[str]:
    """Ranks of one node that were to take the same GPU, one line for each GPU."""
    ranks: dict[tuple[str, str], int] = {}
    for one in taken:
        ranks[one.host, one.uuid] = ranks.get((one.host, one.uuid), 0) + 1
    return [f"{n} ranks of {host} took {uuid}" for (host, uuid), n in ranks.items() if n > 1]


def others(gpu: Accelerator, log: UcxLog, taken: Sequence[Taken]) -> list[str]:
    """Processes that used another GPU than the one that they were to take, one line each."""
    numbers = {(short_name(host), pid): found for (host, pid), found in used(gpu, log).items()}
    return [
        f"rank {one.rank} of {one.host} used GPU{number} of those that it sees ({one.visible}), it "
        f"was to use GPU{one.number}: {one.uuid}"
        for one in taken
        for number in sorted(numbers.get((short_name(one.host), one.pid), set()) - {one.number})
    ]


def together(gpu: Accelerator, log: UcxLog, wanted: int) -> list[str]:
    """A problem if a server and a client used fewer GPUs than they were to use."""
    numbers = used(gpu, log)
    if len(numbers) < wanted or len(set().union(*numbers.values())) >= wanted:
        return []
    named = ", ".join(f"GPU{number}" for number in sorted(set().union(*numbers.values())))
    return [f"{len(numbers)} processes used {named}: {wanted} GPUs were to be used"]


def far(reading: Reading, taken: Iterable[Taken]) -> list[str]:
    """Processes that run on no processor near their GPU, one line each.

    :param reading: the state of the GPUs of the node that all of `taken` are on.
    """
    problems = []
    for one in taken:
        each = reading.named(one.uuid)
        near = gpu_health.near(each) if each else frozenset()
        if each and near and one.cpus and not near & one.cpus:
            problems.append(
                f"rank {one.rank} of {one.host} runs on processors {_list(one.cpus)}, far from "
                f"{each}, which is near {each.cpus}: bind the ranks by their GPUs"
            )
    return problems


def _list(cpus: Iterable[int]) -> str:
    """Processors as the kernel writes them: ``0-3,8``."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)
