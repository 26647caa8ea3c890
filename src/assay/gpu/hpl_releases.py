"""Which releases of NVIDIA's HPL run on which GPUs, by ``hpl_releases.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
from reframe.core.exceptions import ConfigError

from assay import files
from assay.workloads.osu import numbers


class Releases(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The releases for the GPUs of one generation; the file says what the keys mean."""

    first: str
    block: int
    source: str
    last: str = ""


_KNOWN: Mapping[str, Releases] = files.read_shape(
    Path(__file__).with_suffix(".yaml"), dict[str, Releases], ConfigError
)


def releases_of(gpu: str) -> Releases | None:
    """What is known for a GPU, by its name in ``site-config/hardware``; None if nothing is."""
    return next((its for name, its in _KNOWN.items() if gpu.startswith(f"{name}-")), None) or (
        _KNOWN.get(gpu)
    )


def does_not_run(gpu: str, release: str) -> str:
    """Why a release does not run on a GPU, in one line; empty if it may."""
    its = releases_of(gpu)
    if its is None or not release:
        return ""
    low, high = numbers(its.first), numbers(its.last or release)
    if low <= numbers(release) <= high:
        return ""
    last = f" to {its.last}" if its.last else " on"
    known = its.first if its.first == its.last else f"those from {its.first}{last}"
    return f"release {release} of NVIDIA's HPL does not run on {gpu}: take {known}"
