"""The figures of a case: those that its record or the plan of its session names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.declared import HOSTS, PARTITION, Figure
from assay.results.sanitize import line, mapping, sequence
from assay.workloads import iozone, osu


def read(raw: Any) -> tuple[Figure, ...]:
    """The figures of an entry ``figures``; what is not a figure is left out."""
    found = []
    for entry in map(mapping, sequence(raw)):
        try:
            found.append(Figure(**{str(key): line(value) for key, value in entry.items()}))
        except (TypeError, ValueError):
            continue
    return tuple(found)


def undeclared(parameters: Mapping[str, str], family: str = "") -> tuple[Figure, ...]:
    """The figures of a case without such an entry, from the parameters of its test.

    It is a case of a session from before tests declared figures, or of a job that left nothing. At
    that time no test between GPUs had run.

    :param family: the family of its program; "" if it did not run.
    """
    if "configuration" in parameters:
        return ()
    if "benchmark" in parameters:
        at = HOSTS if family in ("", "osu") else ""
        return tuple(osu.figures(parameters["benchmark"], at))
    if "nodes" in parameters:
        return (Figure("scaling", "HPL over nodes", "HPL"),)
    if "subtype" in parameters:
        return (Figure("runs", "BT-IO", PARTITION),)
    return tuple(iozone.figures(parameters.get("sync", "")))
