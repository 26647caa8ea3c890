"""Peaks of hardware: ``hardware.yaml`` of all sites, and one in the folder of a site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from assay import files
from assay.judge.reference_files import ReferencesError

FILE = "hardware.yaml"

#: Above any quantity of one piece of hardware, in the units of the file.
MOST = 1e9

Number = Annotated[float, msgspec.Meta(gt=0, lt=MOST)]


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


class Hardware(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Hardware has a source and its peaks, numbers above 0 in the units of the head of the file."""

    source: str = ""
    bandwidth: Number | None = None
    fp64: Number | None = None
    memory_bandwidth: Number | None = None
    cores: Number | None = None
    clock: Number | None = None
    memory: Number | None = None


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
    :returns: None if the partition does not name its hardware in that role.
    :raises ReferencesError: no file has the named hardware, or not its quantity.
    """
    name = named.get(role)
    if name is None:
        return None
    check_hardware(site, {role: name})
    value: float | None = getattr(hardware(site)[role][name], quantity)
    if value is None:
        place = f"{files.of_all_sites(site, FILE)}: {role}/{name}"
        raise ReferencesError(f"{place}: has no {quantity}; add it")
    return value


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
