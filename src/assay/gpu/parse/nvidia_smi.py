"""The state of the NVIDIA GPUs of a node: counters, topology, and errors in the kernel's log.

:func:`assay.gpu.gpu_health.gpu_state_command` prints the text. Each part begins with a line of its
name in brackets, and of the fields that were asked for. Not yet run on hardware: the form of the
parts is that of nvidia-smi(1) and of NVIDIA's page on Xid errors. That of ``nvlink`` is what users
of V100 to H100 show in public.

==============  =================================================================
part            lines
==============  =================================================================
``gpu, rows``   fields of each GPU, separated by commas; the first is the UUID
``nvlink``      ``nvidia-smi nvlink -e``: a line ``GPU 0: NAME (UUID: ...)``, then lines such as
                ``Link 3: Replay Errors: 0``; none for a GPU without NVLink
``driver``      what the driver's library answers to the call that initialises it; 0 is good
``topology``    ``nvidia-smi topo -m``: a matrix with the column ``CPU Affinity``
``peers``       ``nvidia-smi topo -p2p r``: which GPUs may read the memory of another
``kernel``      lines of the kernel's log with ``NVRM: Xid``, or why there are none
==============  =================================================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Gpu:
    """One GPU of a node.

    :ivar bus: its address on the PCI bus, as nvidia-smi prints it.
    :ivar values: field -> number; a field that the GPU does not have is missing. A counter of an
        NVLink is a field with the number of the link (``Link 3: Replay Errors``).
    :ivar cpus: the processors near it, as the kernel writes a list (``0-7,16``); empty if unknown.
    :ivar ways: number of another GPU -> how they are joined (``NV2``, ``PIX``, ``SYS``).
    :ivar peers: number of another GPU -> ``OK`` if it may read the memory of this one.
    """

    number: int
    uuid: str
    bus: str
    values: Mapping[str, float] = field(default_factory=dict)
    cpus: str = ""
    ways: Mapping[int, str] = field(default_factory=dict)
    peers: Mapping[int, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"GPU {self.number} ({self.uuid}, {self.bus})"


@dataclass(frozen=True)
class Reading:
    """What a node reports of its GPUs.

    :ivar driver: the last line of the part ``driver``; empty if it is missing.
    :ivar xids: lines of the kernel's log about errors of GPUs.
    :ivar unread: part -> the line that says why it could not be read.
    """

    gpus: tuple[Gpu, ...] = ()
    driver: str = ""
    xids: tuple[str, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)

    def named(self, word: str) -> Gpu | None:
        """The GPU that a word of CUDA_VISIBLE_DEVICES means, by number or the start of a UUID."""
        for gpu in self.gpus:
            if word == str(gpu.number) or (word.startswith("GPU-") and gpu.uuid.startswith(word)):
                return gpu
        return None


_PART = re.compile(r"\[(\w+)(?: (\S+))?\]")
_WORDS = {"yes": 1.0, "active": 1.0, "no": 0.0, "not active": 0.0}
_STYLE = re.compile(r"\x1b\[\d*m")
_GPU = re.compile(r"GPU(\d{1,4})")
_OF_LINKS = re.compile(r"GPU (\d{1,4}): .*?(?:\(UUID: (GPU-[^)]+)\))?")
_COUNTER = re.compile(r"(Link \d{1,3}: [A-Za-z][\w -]*): (\d{1,18})")
_CPUS = re.compile(r"\d[\d,-]*")


def parse_nvidia_smi(text: str) -> Reading:
    """The reading in a text; what cannot be understood is in :attr:`Reading.unread`."""
    parts: dict[str, list[str]] = {}
    asked: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if head := _PART.fullmatch(line):
            name = head[1]
            parts[name], asked[name] = [], (head[2] or "").split(",")
        elif line.strip():
            parts.setdefault(name, []).append(line)
    unread: dict[str, str] = {}
    found: dict[str, dict[str, str]] = {}
    for name in ("gpu", "rows"):
        for line in parts.get(name, ()):
            cells = [cell.strip() for cell in line.split(",")]
            if not cells[0].startswith("GPU-") or len(cells) != len(asked[name]):
                unread.setdefault(name, line.strip())
                continue
            if name == "gpu" or cells[0] in found:
                found.setdefault(cells[0], {}).update(zip(asked[name], cells))
    links = _links(parts.get("nvlink", []), unread)
    joined, peers = _matrix(parts.get("topology", [])), _matrix(parts.get("peers", []))
    gpus = []
    for number, (uuid, of_gpu) in enumerate(found.items()):
        values = {**_values(of_gpu), **links.get(uuid, links.get(str(number), {}))}
        near = joined.get(number, {}).get("CPU Affinity", "")
        cpus = near if _CPUS.fullmatch(near) else ""
        bus, ways = of_gpu.get("pci.bus_id", "?"), _others(number, joined)
        gpus.append(Gpu(number, uuid, bus, values, cpus, ways, _others(number, peers)))
    kernel = parts.get("kernel", [])
    xids = tuple(line.strip() for line in kernel if "NVRM: Xid" in line)
    if others := [line.strip() for line in kernel if "NVRM: Xid" not in line]:
        unread["kernel"] = others[0]
    if "gpu" not in unread and not gpus:
        unread["gpu"] = "no GPU is listed"
    driver = parts.get("driver", [""])[-1].strip()
    return Reading(tuple(gpus), driver, xids, unread)


def _values(cells: Mapping[str, str]) -> dict[str, float]:
    values = {}
    for name, cell in cells.items():
        if cell.lower() in _WORDS:
            values[name] = _WORDS[cell.lower()]
        elif re.fullmatch(r"\d{1,18}", cell):
            values[name] = float(cell)
    return values


def _links(lines: list[str], unread: dict[str, str]) -> dict[str, dict[str, float]]:
    """UUID of a GPU, or its number where the UUID is not said -> the counters of its links."""
    found: dict[str, dict[str, float]] = {}
    here: dict[str, float] = {}
    for line in map(str.strip, lines):
        if head := _OF_LINKS.fullmatch(line):
            here = found[head[2] or head[1]] = {}
        elif found and (counter := _COUNTER.fullmatch(line)):
            here[counter[1]] = float(counter[2])
        else:
            unread.setdefault("nvlink", line)
    return found


def _matrix(lines: list[str]) -> dict[int, dict[str, str]]:
    """Number of a GPU -> head of a column -> cell, in an output of ``nvidia-smi topo``."""
    found: dict[int, dict[str, str]] = {}
    heads: list[str] = []
    for line in lines:
        cells = [cell.strip() for cell in _STYLE.sub("", line).split("\t")]
        if not cells[0] and _GPU.fullmatch(cells[1] if len(cells) > 1 else ""):
            heads = cells
        elif heads and (row := _GPU.fullmatch(cells[0])):
            found[int(row[1])] = dict(zip(heads, cells))
    return found


def ways(topology: str) -> set[str]:
    """The cells between two different GPUs in an output of ``nvidia-smi topo -m``: NV4, SYS ..."""
    matrix = _matrix(topology.splitlines())
    return {cell for number in matrix for cell in _others(number, matrix).values()}


def _others(number: int, matrix: Mapping[int, Mapping[str, str]]) -> dict[int, str]:
    """The cells of the row of a GPU below the heads of the others."""
    columns = [(_GPU.fullmatch(head), cell) for head, cell in matrix.get(number, {}).items()]
    return {int(head[1]): cell for head, cell in columns if head and int(head[1]) != number}
