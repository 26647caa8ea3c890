"""each_gpu, our own copies of all GPUs of a node: ``gpu/node/gpus.py``, which has the format.

Each row is a way: from the host to a GPU, from a GPU to the host, or from a GPU to another one. The
names of the GPUs are in the facts, so a reader sees whether they were emulated.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from assay.gpu.parse import nvidia_smi
from assay.parse.reading import Parsed, ParseError, Row, recogniser, split, without_warnings

PROGRAM = "each_gpu"
VERSIONS = (1,)

#: Kind of a copy, as the program says it.
TO_DEVICE, TO_HOST, BETWEEN = "h2d", "d2h", "d2d"

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

_OF_GPU = ("name", "uuid", "bus", "driver", "near")

recognise = recogniser(re.compile(r'\{"program": "each_gpu".*'))


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
    gpus, rows = it.gpus, it.rows()
    wrong = _wrong(rows, gpus)
    problems += [*it.doubts, *(f"{who}: {what}" for who, what in wrong.items())]
    whole = len(gpus) == it.head["gpus"] and len(rows) == len(gpus) * (len(gpus) + 1)
    facts = {name: it.head[name] for name in ("size", "repeats", "cuda")}
    facts["gpus"] = [gpus[each] for each in sorted(gpus)]
    if wrong:
        facts["wrong"] = wrong
    if it.during and not it.ended:
        facts["during"] = it.named(*it.during)
    version = str(it.head["version"])
    return Parsed(
        "each-gpu", PROGRAM, version, it.ended and whole, rows, UNITS, tuple(problems), facts
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

    :ivar copies: kind and ends of a copy -> what its line says.
    :ivar doubts: what single lines say against themselves.
    :ivar during: the ends of the way that was begun and has no copy yet; empty if there is none.
    """

    def __init__(self) -> None:
        self.head: dict[str, Any] = {}
        self.gpus: dict[int, dict[str, str]] = {}
        self.copies: dict[tuple[str, Any, Any], Mapping[str, Any]] = {}
        self.doubts: list[str] = []
        self.reading = nvidia_smi.Reading()
        self.during: tuple[Any, ...] = ()
        self.ended = False

    def add(self, number: int, said: Mapping[str, Any]) -> None:
        """Adds a line.

        :raises ValueError, LookupError, TypeError, OverflowError: the line is not understood.
        """
        if self.ended or bool(self.head) == ("program" in said):
            raise ValueError("it is at a wrong place")
        if "program" in said:
            self.head = _head(said)
        elif "gpu" in said:
            self._gpu(said)
        elif "smi" in said:
            self.reading = nvidia_smi.parse_nvidia_smi(_typed(said["smi"], str))
        elif "next" in said:
            source, target = _typed(said["next"], list)
            self.during = _ends(source, target, self.gpus)
        elif "copy" in said:
            way = _way(said, self.gpus)
            if way in self.copies:
                raise ValueError("this copy is there twice")
            self.copies[way] = entry = _timed(said, self.head)
            self.during = ()
            for gpu, host in zip(entry["gpu_seconds"], entry["host_seconds"]):
                if gpu > host * (1 + SHARE) + ROUNDED:
                    self.doubts.append(
                        f"line {number}: {self.named(*way[1:])}: the clock of the GPU says "
                        f"{gpu:g} s, that of the host {host:g} s: no copy takes longer than the "
                        "wait for it"
                    )
        else:
            self.ended = _typed(said["end"], bool)

    def _gpu(self, said: Mapping[str, Any]) -> None:
        number = _number(said["gpu"], self.head["gpus"])
        gpu = {name: _typed(said[name], str) for name in _OF_GPU}
        known = self.gpus.values()
        if number in self.gpus or gpu["bus"] in [other["bus"] for other in known]:
            raise ValueError("its number or its address is that of another GPU")
        self.gpus[number] = gpu

    def rows(self) -> tuple[Row, ...]:
        known = {gpu.uuid: gpu for gpu in self.reading.gpus}
        found = []
        for (kind, source, target), entry in self.copies.items():
            ends = [self.gpus[end] for end in (source, target) if end is not None]
            between = kind == BETWEEN
            a, b = known.get(ends[0]["uuid"]), known.get(ends[-1]["uuid"])
            found.append({
                "copy": kind,
                "from": HOST if source is None else str(source),
                "to": HOST if target is None else str(target),
                "joined": a.ways.get(b.number, "") if between and a and b else "",
                "near": "" if between else ends[0]["near"],
                **{name: entry[name] for name in UNITS},
            })  # fmt: skip
        return tuple(found)

    def named(self, *ends: int | None) -> str:
        """Both ends of a way in a message."""
        return " -> ".join(HOST if end is None else label(end, self.gpus[end]) for end in ends)


def label(number: int | str, gpu: Mapping[str, str]) -> str:
    """A GPU in a message: its number, what the driver calls it, UUID and address on the PCI bus."""
    return f"GPU {number} ({gpu['name']}, {gpu['uuid']}, {gpu['bus']})"


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise ValueError(f"{value!r:.40} is no {kind.__name__}")
    return value


def _number(value: Any, below: int) -> int:
    number = int(_typed(value, int))
    if not 0 <= number < below:
        raise ValueError(f"{number!r:.40} is not below {below}")
    return number


def _head(said: Mapping[str, Any]) -> dict[str, Any]:
    if said["program"] != PROGRAM or said["version"] not in VERSIONS:
        raise ValueError(f"unknown version {said['version']!r:.40}")
    cuda = _number(said["cuda"], 10**6)
    return {
        "version": said["version"],
        "size": 1 + _number(_typed(said["size"], int) - 1, 1 << 40),
        "repeats": 1 + _number(_typed(said["repeats"], int) - 1, 10**6),
        "gpus": 1 + _number(_typed(said["gpus"], int) - 1, MOST),
        "cuda": f"{cuda // 1000}.{cuda % 1000 // 10}",
    }


def _way(said: Mapping[str, Any], gpus: Mapping[int, Any]) -> tuple[str, Any, Any]:
    """Kind and ends of a copy; an end that is the host is None."""
    ends = _ends(said["from"], said["to"], gpus)
    kinds = {(True, False): TO_DEVICE, (False, True): TO_HOST, (False, False): BETWEEN}
    if kinds.get((ends[0] is None, ends[1] is None)) != said["copy"] or ends[0] == ends[1]:
        raise ValueError("the kind of the copy is not that of its ends")
    return said["copy"], *ends


def _ends(source: Any, target: Any, gpus: Mapping[int, Any]) -> tuple[Any, Any]:
    for end in (source, target):
        if end is not None and _typed(end, int) not in gpus:
            raise ValueError(f"there is no GPU {end!r:.40}")
    return source, target


def _timed(said: Mapping[str, Any], head: Mapping[str, Any]) -> dict[str, Any]:
    """What a line says of its copies: rates, access, the first wrong byte, and both times."""
    copies = 1 + _number(_typed(said["copies"], int) - 1, 10**6)
    times = {
        name: _seconds(said[name], head["repeats"]) for name in ("gpu_seconds", "host_seconds")
    }
    moved = copies * head["size"] / 1e9
    wrong = said["wrong_at"]
    return {
        **times,
        "access": int(_typed(said["access"], bool)),
        "rate": moved / statistics.median(times["gpu_seconds"]),
        "host_rate": moved / min(times["host_seconds"]),
        "wrong_at": -1 if wrong is None else _number(wrong, head["size"]),
    }


def _seconds(values: Any, repeats: int) -> Sequence[float]:
    found = [float(value) for value in _typed(values, list) if type(value) in (int, float)]
    if len(found) != repeats or len(values) != repeats:
        raise ValueError(f"{len(values)} times of {repeats} repeats")
    if not all(math.isfinite(value) and 1e-12 < value < 1e9 for value in found):
        raise ValueError("a time is not a measurement")
    return found


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
