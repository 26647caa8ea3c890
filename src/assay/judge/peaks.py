"""Peaks of hardware, from ``site-config/hardware.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

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
    known = yaml.safe_load(path.read_text(encoding="utf-8"))
    try:
        return float(known[role][name][quantity])
    except KeyError:
        names = ", ".join(known.get(role, {})) or "none"
        raise ReferencesError(
            f"{path}: {role}/{name}/{quantity} is not there; known under {role}: {names}"
        ) from None
