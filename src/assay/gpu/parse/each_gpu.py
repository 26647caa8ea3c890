"""each_gpu, our own copies of all GPUs of a node: ``gpu/node/gpus.py``, which has the format.

Each row is a way: from the host to a GPU, from a GPU to the host, or from a GPU to another one.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, convert, field
from msgspec.structs import asdict

from assay.gpu.parse import nvidia_smi
from assay.parse.reading import Parsed, ParseError, Row, recogniser, split, without_warnings

PROGRAM = "each_gpu"
VERSIONS = (1,)

#: Kind of a copy, as the program says it.
TO_DEVICE, TO_HOST, BETWEEN = "h2d", "d2h", "d2d"

#: Whether source and target are the host -> kind of the copy.
_KINDS = {(True, False): TO_DEVICE, (False, True): TO_HOST, (False, False): BETWEEN}

#: The end of a copy that is no GPU.
HOST = "host"

UNITS: Mapping[str, str] = {"access": "1", "rate": "GB/s", "host_rate": "GB/s", "wrong_at": "B"}

#: A time by the GPU may be longer than that by the host by this share, and by this much [s]: both
#: clocks are rounded.
SHARE, ROUNDED = 0.01, 2e-5

#: More GPUs than any node has.
MOST = 64

#: How each line of the program begins.
_OURS = '{"'

recognise = recogniser(re.compile(r'\{"program": "each_gpu".*'))


_Count = Annotated[int, Meta(ge=1, le=10**6)]
_Times = list[Annotated[float, Meta(gt=1e-12, lt=1e9)]]
_Ends = tuple[int | None, int | None]


class _Head(msgspec.Struct):
    program: Literal["each_gpu"]
    version: int
    size: Annotated[int, Meta(ge=1, le=1 << 40)]
    repeats: _Count
    gpus: Annotated[int, Meta(ge=1, le=MOST)]
    cuda: Annotated[int, Meta(ge=0, lt=10**6)]


class _Gpu(msgspec.Struct):
    name: str
    uuid: str
    bus: str
    driver: str
    near: str


class _Copy(msgspec.Struct):
    copy: str
    source: int | None = field(name="from")
    target: int | None = field(name="to")
    access: bool
    copies: _Count
    gpu_seconds: _Times
    host_seconds: _Times
    wrong_at: Annotated[int, Meta(ge=0)] | None


def parse_each_gpu(text: str) -> Parsed:
    """The copies of one node, in the order of the output.

    Columns: ``copy``, one of ``h2d``, ``d2h``, ``d2d``; ``from`` and ``to``, the number of a GPU or
    ``host``; ``joined``, how nvidia-smi says that two GPUs are joined (``NV4``, ``SYS``), empty if
    it does not; ``near``, whether the memory of the host was near the GPU (``yes``, ``no``,
    ``unknown``), empty between GPUs; ``access``, 1 if `from` may access the memory of `to`;
    ``rate``, by the median of the repeats and the clock of the GPU; ``host_rate``, by the quickest
    repeat and the clock of the host; ``wrong_at``, the first byte that arrived wrong, -1 if none.

    Facts: ``size`` of a copy [B], ``repeats``, ``cuda``, and ``gpus``, a mapping for each GPU with
    ``name``, ``uuid``, ``bus``, ``driver`` and ``near``. If the output ends while a way is
    measured, ``during`` names that way. If data arrived wrong, ``wrong`` is a mapping: the GPU or
    the way, as a message names it, and what was wrong.

    :raises ParseError: no first line, an unknown version, or a line that is not understood.
    """
    it, problems = _Output(), stray(text)
    for number, line in without_warnings(split(text)):
        if not line.startswith(_OURS):
            continue
        try:
            it.add(number, json.loads(line))
        except (ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
            raise ParseError(f"not understood ({error})"[:200], number, line) from None
    if not it.head:
        raise ParseError("no first line of each_gpu")
    gpus, rows = it.gpus, it.rows(it.head.size)
    wrong = _wrong(rows, gpus)
    problems += [*it.doubts, *(f"{who}: {what}" for who, what in wrong.items())]
    whole = len(gpus) == it.head.gpus and len(rows) == len(gpus) * (len(gpus) + 1)
    facts: dict[str, Any] = {"size": it.head.size, "repeats": it.head.repeats}
    facts["cuda"] = f"{it.head.cuda // 1000}.{it.head.cuda % 1000 // 10}"
    facts["gpus"] = [gpus[each] for each in sorted(gpus)]
    if wrong:
        facts["wrong"] = wrong
    if it.during and not it.ended:
        facts["during"] = it.named(*it.during)
    return Parsed(
        "each-gpu", PROGRAM, str(it.head.version), it.ended and whole, rows, UNITS, tuple(problems),
        facts,
    )  # fmt: skip


def stray(text: str) -> list[str]:
    """The lines that the program did not write, as problems: of its failure, or of a library."""
    return [
        f"line {number}: {line.strip()[:300]}"
        for number, line in without_warnings(split(text))
        if line.strip() and not line.startswith(_OURS)
    ]


class _Output:
    """What the lines say so far.

    :ivar copies: the ends of a copy, None for the host -> what its line says.
    :ivar doubts: what single lines say against themselves.
    :ivar during: the ends of the way that was begun and has no copy yet; None if there is none.
    """

    def __init__(self) -> None:
        self.head: _Head | None = None
        self.gpus: dict[int, dict[str, str]] = {}
        self.copies: dict[_Ends, _Copy] = {}
        self.doubts: list[str] = []
        self.reading = nvidia_smi.Reading()
        self.during: _Ends | None = None
        self.ended = False

    def add(self, number: int, said: Mapping[str, Any]) -> None:
        """Adds a line.

        :raises ValueError, LookupError, TypeError, OverflowError: the line is not understood.
        """
        head = self.head
        if self.ended or (head is None) != ("program" in said):
            raise ValueError("it is at a wrong place")
        if head is None:
            self.head = convert(said, _Head)
            if self.head.version not in VERSIONS:
                raise ValueError(f"unknown version {self.head.version}")
        elif "gpu" in said:
            number = convert(said["gpu"], Annotated[int, Meta(ge=0, lt=head.gpus)])
            gpu = asdict(convert(said, _Gpu))
            if number in self.gpus or gpu["bus"] in [other["bus"] for other in self.gpus.values()]:
                raise ValueError("its number or its address is that of another GPU")
            self.gpus[number] = gpu
        elif "smi" in said:
            self.reading = nvidia_smi.parse_nvidia_smi(convert(said["smi"], str))
        elif "next" in said:
            self.during = self._known(convert(said["next"], _Ends))
        elif "copy" in said:
            self._copy(number, convert(said, _Copy), head)
        else:
            self.ended = convert(said["end"], bool)

    def _known(self, ends: _Ends) -> _Ends:
        for end in ends:
            if end is not None and end not in self.gpus:
                raise ValueError(f"there is no GPU {end}")
        return ends

    def _copy(self, number: int, copy: _Copy, head: _Head) -> None:
        ends = self._known((copy.source, copy.target))
        if ends[0] == ends[1] or copy.copy != _KINDS[ends[0] is None, ends[1] is None]:
            raise ValueError("the kind of the copy is not that of its ends")
        if ends in self.copies:
            raise ValueError("this copy is there twice")
        for times in (copy.gpu_seconds, copy.host_seconds):
            if len(times) != head.repeats:
                raise ValueError(f"{len(times)} times of {head.repeats} repeats")
        if copy.wrong_at is not None and copy.wrong_at >= head.size:
            raise ValueError(f"{copy.wrong_at} is not below {head.size}")
        self.copies[ends], self.during = copy, None
        for gpu, host in zip(copy.gpu_seconds, copy.host_seconds):
            if gpu > host * (1 + SHARE) + ROUNDED:
                self.doubts.append(
                    f"line {number}: {self.named(*ends)}: the clock of the GPU says {gpu:g} s, "
                    f"that of the host {host:g} s: no copy takes longer than the wait for it"
                )

    def rows(self, size: int) -> tuple[Row, ...]:
        known = {gpu.uuid: gpu for gpu in self.reading.gpus}
        found: list[Row] = []
        for (source, target), copy in self.copies.items():
            ends = [self.gpus[end] for end in (source, target) if end is not None]
            between, moved = copy.copy == BETWEEN, copy.copies * size / 1e9
            a, b = known.get(ends[0]["uuid"]), known.get(ends[-1]["uuid"])
            found.append({
                "copy": copy.copy,
                "from": HOST if source is None else str(source),
                "to": HOST if target is None else str(target),
                "joined": a.ways.get(b.number, "") if between and a and b else "",
                "near": "" if between else ends[0]["near"],
                "access": int(copy.access),
                "rate": moved / statistics.median(copy.gpu_seconds),
                "host_rate": moved / min(copy.host_seconds),
                "wrong_at": -1 if copy.wrong_at is None else copy.wrong_at,
            })  # fmt: skip
        return tuple(found)

    def named(self, *ends: int | None) -> str:
        """Both ends of a way in a message."""
        return " -> ".join(HOST if end is None else label(end, self.gpus[end]) for end in ends)


def label(number: int | str, gpu: Mapping[str, str]) -> str:
    """A GPU in a message: its number, what the driver calls it, UUID and address on the PCI bus."""
    return f"GPU {number} ({gpu['name']}, {gpu['uuid']}, {gpu['bus']})"


def _wrong(rows: Sequence[Row], gpus: Mapping[int, Mapping[str, str]]) -> dict[str, str]:
    """The GPU or the way whose data arrived wrong -> what is wrong, as a message says both.

    A GPU that is wrong with the host explains its other copies.
    """
    bad = [row for row in rows if row["wrong_at"] != -1]
    found: dict[str, str] = {}
    named = set()
    for number, gpu in sorted(gpus.items()):
        its = [row for row in bad if str(number) in (row["from"], row["to"])]
        of_host = [row for row in its if HOST in (row["from"], row["to"])]
        if of_host:
            named.add(str(number))
            began = "; copies from it may have begun with that data"
            found[label(number, gpu)] = (
                f"data arrived wrong in {len(its)} of its {2 * len(gpus)} "
                f"ways, with the host first at byte {of_host[0]['wrong_at']}"
                f"{began if of_host[0]['copy'] == TO_DEVICE else ''}"
            )
    for row in bad:
        ends = str(row["from"]), str(row["to"])
        if named.isdisjoint(ends):
            names = " -> ".join(label(end, gpus[int(end)]) for end in ends)
            found[names] = f"data arrived wrong, first at byte {row['wrong_at']}"
    return found
