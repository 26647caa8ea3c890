"""Peaks of hardware: ``hardware.yaml`` of all sites, and one in the folder of a site."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from assay import files
from assay.judge.references import ReferencesError

FILE = "hardware.yaml"


def hardware(site: Path) -> dict[str, dict[str, Any]]:
    """The known hardware: role -> name -> quantities. An entry of the site replaces that of all.

    :param site: the folder of the site.
    """
    known: dict[str, dict[str, Any]] = {}
    for path in (files.of_all_sites(site, FILE), site / FILE):
        if path != site / FILE or path.exists():
            for role, entries in yaml.safe_load(path.read_text(encoding="utf-8")).items():
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
    try:
        return float(known[role][name][quantity])
    except KeyError:
        names = ", ".join(known.get(role, {})) or "none"
        raise ReferencesError(
            f"{files.of_all_sites(site, FILE)}: {role}/{name}/{quantity} is not there, and not in "
            f"{site / FILE} either; known under {role}: {names}"
        ) from None
