"""Peaks of hardware: ``hardware.yaml`` of all sites, and one in the folder of a site."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from assay import files
from assay.judge.reference_files import ReferencesError

FILE = "hardware.yaml"

#: Above any quantity of one piece of hardware, in the units of the file.
MOST = 1e9

Number = Annotated[float, msgspec.Meta(gt=0, lt=MOST)]


class Hardware(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Hardware has a source and its peaks, numbers above 0 in the units of the head of the file."""

    source: str = ""
    bandwidth: Number | None = None
    fp64: Number | None = None
    fp64_matrix: Number | None = None
    fp64_per_cycle: Number | None = None
    memory_bandwidth: Number | None = None
    cores: Number | None = None
    clock: Number | None = None
    boost: Number | None = None
    memory: Number | None = None
    channels: Number | None = None
    transfers: Number | None = None
    read: Number | None = None
    write: Number | None = None


#: Quantities that not all hardware of a kind has.
OPTIONAL = ("fp64_matrix",)

#: Quantity -> its unit in the files. That of the others which are rates is MB/s.
UNITS = {"fp64": "GFLOP/s", "fp64_matrix": "GFLOP/s", "memory_bandwidth": "GB/s"}

#: What a channel of memory moves in a transfer [B].
BYTES_OF_A_TRANSFER = 8


#: Role (``link`` or ``gpu``) -> name -> what is known.
Known = dict[str, dict[str, Hardware]]


def hardware(site: Path) -> Known:
    """The known hardware: that of all sites, with the entries of the site.

    :param site: the folder of the site.
    :raises ReferencesError: a file is not valid.
    """
    return files.layered(site, FILE, Known, ReferencesError)


def peak(site: Path, named: Mapping[str, str], role: str, quantity: str) -> float | None:
    """Peak of one quantity of the hardware that plays a role on a partition.

    :param named: the partition's extra ``hardware``: role -> name, such as
        ``{"link": "infiniband-edr"}``.
    :param quantity: a key of :class:`Hardware`.
    :returns: None if the partition does not name its hardware in that role, or if it needs not have
        the quantity (:data:`OPTIONAL`).
    :raises ReferencesError: no file has the named hardware, or not its quantity.
    """
    name = named.get(role)
    if name is None:
        return None
    check_hardware(site, {role: name})
    value: float | None = getattr(hardware(site)[role][name], quantity)
    if value is None and quantity not in OPTIONAL:
        place = f"{files.of_all_sites(site, FILE)}: {role}/{name}"
        raise ReferencesError(f"{place}: has no {quantity}; add it")
    return value


def processor_fp64(processor: Hardware, cores: int) -> float | None:
    """What so many cores compute at their nominal clock [GFLOP/s]; None if a figure is missing."""
    if processor.clock is None or processor.fp64_per_cycle is None:
        return None
    return cores * processor.clock * processor.fp64_per_cycle


def memory_bandwidth(processor: Hardware, memory: Hardware | None, sockets: int) -> float | None:
    """What the memory of a node carries [MB/s]; None if a figure is missing.

    :param memory: a channel of it; None for the fastest modules that the processor takes.
    """
    if processor.channels is None:
        return None
    transfers = (memory or processor).transfers
    channel = memory.bandwidth if memory else None
    if channel is None and transfers is not None:
        channel = transfers * BYTES_OF_A_TRANSFER
    return None if channel is None else sockets * processor.channels * channel


def check_hardware(site: Path, named: Mapping[str, str]) -> None:
    """Refuses hardware that no file has. Nothing would then be compared with its peak.

    :raises ReferencesError: the role or the name is unknown.
    """
    if not isinstance(named, dict):
        raise ReferencesError(f"{named!r} is not a mapping; write it like {{link: infiniband-edr}}")
    known = hardware(site)
    path = files.of_all_sites(site, FILE)
    for role, name in named.items():
        if role not in known:
            raise ReferencesError(f"{path}: no role {role!r}; {files.nearest(role, known)}")
        if name not in known[role]:
            raise ReferencesError(
                f"{path}: {role}/{name} is not there, and not in {site / FILE} either; "
                f"{files.nearest(name, known[role])}"
            )
