"""Peaks of hardware: a file for each kind of part in ``hardware/``, and one file of a site.

``site-config/hardware/KIND.yaml`` has what is published of the parts of all machines. A site adds
and changes parts in its own ``hardware.yaml``, by role.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from assay import files
from assay.judge.reference_files import ReferencesError

#: The file of a site.
FILE = "hardware.yaml"

#: The folder of the files of all sites.
FOLDER = "hardware"

#: Kind of part, which is the name of its file -> the role that it plays on a partition.
KINDS = {
    **{"network": "link", "gpu-link": "link", "gpu": "gpu", "processor": "processor"},
    **{"memory": "memory", "pcie": "pcie", "disk": "disk"},
}

#: Any quantity of one part, in the units of the files.
Number = Annotated[float, msgspec.Meta(gt=0, lt=1e9)]

#: A rate may be this share of its peak, a rounded number: the clocks of ranks differ.
MOST_OF_PEAK = 1.05


@dataclass(frozen=True)
class Peak:
    """The value that a metric is a percentage of.

    :ivar what: description, with where the value was measured or published.
    :ivar value: the value in the unit of the metric.
    :ivar most: the greatest plausible share of it; None if it is not an upper limit.
    :ivar of: role and quantity of the hardware that it follows from, such as ``link.bandwidth``;
        empty for a peak that the same run measured.
    """

    what: str
    value: float
    most: float | None = MOST_OF_PEAK
    of: str = ""


class Hardware(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Hardware has a source and its peaks, numbers above 0 in the units of the head of the file.

    :ivar names: how a machine states the part; :mod:`assay.describe.parts` has the forms.
    :ivar where: a regular expression for other words of the machine, if several parts have a name.
    :ivar flags: of a processor, the telltale flags that it may have; it has the first in any case.
    :ivar from_memory: no source of the figures was read, so the part is named, and never judges.
    """

    source: str = ""
    names: tuple[str, ...] = ()
    where: str = ""
    flags: tuple[str, ...] = ()
    from_memory: bool = False
    note: str = ""
    bandwidth: Number | None = None
    fp64: Number | None = None
    fp64_matrix: Number | None = None
    memory_bandwidth: Number | None = None
    cores: Number | None = None
    clock: Number | None = None
    boost: Number | None = None
    memory: Number | None = None
    fp64_per_cycle: Number | None = None
    channels: Number | None = None
    transfers: Number | None = None
    read: Number | None = None
    write: Number | None = None


#: Quantity -> its unit in the files. That of the others which are rates is MB/s.
UNITS = {"fp64": "GFLOP/s", "fp64_matrix": "GFLOP/s", "memory_bandwidth": "GB/s"}


#: Name -> what is known.
Parts = dict[str, Hardware]

#: Role -> name -> what is known.
Known = dict[str, Parts]


def hardware(site: Path, *roles: str) -> Known:
    """The known hardware: that of all sites, with the entries of the site.

    :param roles: the only roles whose files are read; left out: all.
    :raises ReferencesError: a file is not valid.
    """
    folder, own = files.of_all_sites(site, FOLDER), site / FILE
    content: Any = {role: {} for role in KINDS.values()}
    for kind, role in KINDS.items():
        if not roles or role in roles:
            content[role] |= _valid(folder / f"{kind}.yaml", Parts)
    if own.exists():
        content = files.changed(content, _valid(own, Known))
        if fault := files.misshapen(content, Known):
            raise ReferencesError(f"{own}: {fault}")
    return msgspec.convert(content, Known)


def _valid(path: Path, kind: Any) -> Any:
    try:
        return _read(path.resolve(), kind, path.stat().st_mtime_ns)
    except OSError as error:
        raise ReferencesError(f"{path}: {error.strerror}") from None


# Each partition of a site asks. A file with another time of change is read again.
@functools.lru_cache(maxsize=32)
def _read(path: Path, kind: Any, changed: int) -> Any:
    content = files.read_yaml(path, ReferencesError)
    if fault := files.misshapen(content, kind):
        raise ReferencesError(f"{path}: {fault}")
    return content


def peak(site: Path, named: Mapping[str, str], role: str, quantity: str) -> float | None:
    """Peak of one quantity of the hardware that plays a role on a partition.

    :param named: the partition's extra ``hardware``: role -> name.
    :param quantity: a key of :class:`Hardware`.
    :returns: None if the partition does not name its hardware in that role, if nobody published the
        quantity, or if it is from memory.
    :raises ReferencesError: no file has the named hardware.
    """
    name = named.get(role)
    if name is None:
        return None
    check_hardware(site, {role: name})
    part = hardware(site, role)[role][name]
    value: float | None = getattr(part, quantity)
    return None if part.from_memory else value


def check_hardware(site: Path, named: Mapping[str, str]) -> None:
    """Refuses hardware that no file has. Nothing would then be compared with its peak.

    :raises ReferencesError: the role or the name is unknown.
    """
    if not isinstance(named, dict):
        raise ReferencesError(f"{named!r} is not a mapping; write it like {{link: infiniband-edr}}")
    known = hardware(site, "", *named)
    path = files.of_all_sites(site, FOLDER)
    for role, name in named.items():
        if role not in known:
            raise ReferencesError(f"{path}: no role {role!r}; {files.nearest(role, known)}")
        if name not in known[role]:
            raise ReferencesError(
                f"{path}: {role}/{name} is not there, and not in {site / FILE} either; "
                f"{files.nearest(name, known[role])}"
            )


def processor_fp64(processor: Hardware, cores: int, clock: float | None = None) -> float | None:
    """Peak of so many cores of a processor [GFLOP/s]; None if a figure is not known.

    :param cores: cores, not hardware threads.
    :param clock: the clock [GHz]. Left out, it is the nominal clock: published results are shares
        of that. A ceiling takes :attr:`Hardware.boost`, which no core exceeds.
    """
    clock = clock or processor.clock
    if processor.from_memory or not (clock and processor.fp64_per_cycle):
        return None
    return cores * clock * processor.fp64_per_cycle


def memory_bandwidth(
    processor: Hardware, sockets: int = 1, memory: Hardware | None = None
) -> float | None:
    """Peak of the memory of so many sockets [MB/s]; None if a figure is not known.

    :param memory: the memory modules, if they are known; else they are the fastest that the
        processor takes, in all channels.
    """
    if processor.from_memory or (memory and memory.from_memory):
        return None
    if processor.memory_bandwidth:  # no modules: it is on the package
        return 1000 * sockets * processor.memory_bandwidth
    # The processor's own limit holds for faster modules, too.
    rates = [each.transfers for each in (processor, memory) if each and each.transfers]
    if not (processor.channels and rates):
        return None
    return sockets * processor.channels * min(rates) * 8
