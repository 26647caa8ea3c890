"""Peaks of hardware, from ``site-config/hardware.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from assay import files
from assay.judge.references import ReferencesError


def peak(path: Path, hardware: Mapping[str, str], role: str, quantity: str) -> float | None:
    """Peak of one quantity of the hardware that plays a role on a partition.

    :param path: ``hardware.yaml``.
    :param hardware: the partition's extra: role -> name, such as ``{"link": "infiniband-edr"}``.
    :param role: ``link`` or ``gpu``.
    :param quantity: a key of the entry, in the unit that the head of the file states.
    :returns: None if the partition does not name its hardware in that role.
    :raises ReferencesError: the file does not have the named hardware, or not its quantity.
    """
    name = hardware.get(role)
    if name is None:
        return None
    known = _read(path)
    check(path, {role: name})
    try:
        return float(known[role][name][quantity])
    except KeyError:
        raise ReferencesError(f"{path}: {role}/{name}: has no {quantity}; add it") from None


def check(path: Path, hardware: Mapping[str, str]) -> None:
    """Refuses hardware that the file does not have. Nothing would then be compared with its peak.

    :raises ReferencesError: the role or the name is unknown.
    """
    known = _read(path)
    for role, name in hardware.items():
        if role not in known:
            raise ReferencesError(f"{path}: no role {role!r}; known are {', '.join(known)}")
        if name not in known[role]:
            names = ", ".join(known[role]) or "none"
            raise ReferencesError(f"{path}: {role}: no {name!r}; known are {names}")


def _read(path: Path) -> Mapping[str, Any]:
    try:
        return cast("Mapping[str, Any]", files.read_yaml(path))
    except files.YamlError as error:
        raise ReferencesError(str(error)) from None
