"""Peaks of hardware: ``hardware.yaml`` of all sites, and one in the folder of a site."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay import files
from assay.judge.reference_files import ReferencesError

FILE = "hardware.yaml"

#: Above any quantity of one piece of hardware, in the units of the file.
MOST = 1e9


def hardware(site: Path) -> dict[str, dict[str, Any]]:
    """The known hardware: role -> name -> quantities. An entry of the site replaces that of all.

    :param site: the folder of the site.
    :raises ReferencesError: a file is not valid YAML.
    """
    known: dict[str, dict[str, Any]] = {}
    for path in files.layers(site, FILE):
        content = files.read_yaml(path, ReferencesError)
        if not isinstance(content, dict):
            raise ReferencesError(f"{path}: must be a mapping of roles; see site-config/{FILE}")
        for role, entries in content.items():
            if not (isinstance(entries, dict) and all(map(_is_mapping, entries.values()))):
                raise ReferencesError(f"{path}: {role}: must be a mapping of names to quantities")
            known.setdefault(role, {}).update(entries)
    return known


def peak(site: Path, named: Mapping[str, str], role: str, quantity: str) -> float | None:
    """Peak of one quantity of the hardware that plays a role on a partition.

    :param site: the folder of the site.
    :param named: the partition's extra ``hardware``: role -> name, such as
        ``{"link": "infiniband-edr"}``.
    :param role: ``link`` or ``gpu``.
    :param quantity: a key of the entry, in the unit that the head of the file states.
    :returns: None if the partition does not name its hardware in that role.
    :raises ReferencesError: no file has the named hardware, or not its quantity.
    """
    name = named.get(role)
    if name is None:
        return None
    known = hardware(site)
    check(site, {role: name})
    place = f"{files.of_all_sites(site, FILE)}: {role}/{name}"
    if quantity not in known[role][name]:
        raise ReferencesError(f"{place}: has no {quantity}; add it")
    value = known[role][name][quantity]
    # A bool is an int in Python. No computer of any size reaches the upper limit.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < MOST:
        raise ReferencesError(
            f"{place}/{quantity}: {value!r} is no peak; write a number above 0 and below {MOST:g}"
        )
    return float(value)


def check(site: Path, named: Mapping[str, str]) -> None:
    """Refuses hardware that no file has. Nothing would then be compared with its peak.

    :raises ReferencesError: the role or the name is unknown.
    """
    if not _is_mapping(named):
        raise ReferencesError(f"{named!r} is not a mapping; write it like {{link: infiniband-edr}}")
    known = hardware(site)
    path = files.of_all_sites(site, FILE)
    for role, name in named.items():
        if role not in known:
            raise ReferencesError(f"{path}: no role {role!r}; known are {', '.join(known)}")
        if name not in known[role]:
            raise ReferencesError(
                f"{path}: {role}/{name} is not there, and not in {site / FILE} either; known under "
                f"{role}: {', '.join(known[role]) or 'none'}"
            )


def _is_mapping(value: Any) -> bool:
    return isinstance(value, dict)
