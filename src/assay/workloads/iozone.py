"""The figures of IOzone by which a cluster is validated."""

from __future__ import annotations

from assay.declared import PARTITION, Figure

#: How files are opened -> name of a figure, and the operation that it shows; "" for no figure.
FIGURES = {
    "cached": {"IOzone: read": "read", "IOzone: write": "write"},
    "o_sync": {"IOzone: SYNC write": "write"},
    "direct": {"": ""},
}


def figures(sync: str) -> list[Figure]:
    """The figures of a mode; none for an unknown mode."""
    named = FIGURES.get(sync, {}).items()
    return [Figure("heat map", name, PARTITION, operation) for name, operation in named]
