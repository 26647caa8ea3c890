"""The words of the extra ``health`` of a partition: what a site says of its nodes and counters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from assay import files
from assay.prove import counters

Limit = Annotated[float, msgspec.Meta(ge=0)]

#: Words of the partition's extra `health` about the state of a node before a run; the site sets the
#: values. Those about counters are in counters.yaml.
WORDS: dict[str, Any] = {
    **dict.fromkeys(("load_per_cpu_max", "memory_available_min", "free_bytes_min"), Limit),
    **dict.fromkeys(("governors", "mount_options"), list[str]),
    **dict.fromkeys(("port_rate", "link_layer", "gid_type"), str),
}


def refused(health: Any) -> str:
    """What is wrong with the extra `health`, in one line; empty if nothing."""
    every = counters.rows()
    limited = tuple(n for n, r in every.items() if not (r.pattern or (r.gone and not r.pci_class)))
    named = health.get(counters.BY_NAME) if isinstance(health, Mapping) else None
    for name in (name for name in every if isinstance(named, Mapping) and name in named):
        if name not in limited:
            return f"{counters.BY_NAME}/{name}: has no limit to change: each case of it is a fault"
    of_counters = {row.site_key: Limit for row in every.values() if row.site_key}
    by_name = {counters.BY_NAME: dict[Literal[limited], Limit]}  # type: ignore[valid-type]
    words = {**WORDS, **of_counters, **by_name}
    fields = [(word, kind, None) for word, kind in words.items()]
    return files.misshapen(health, msgspec.defstruct("Health", fields, forbid_unknown_fields=True))
