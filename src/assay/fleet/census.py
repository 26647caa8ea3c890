"""The minority report: the nodes of a partition that differ from the others, and the differences.

The value that most nodes have is the intended value. A node with another value was missed by an
update, lost a mount, or has a broken part.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from assay.accused import Against, How
from assay.quantities import size
from assay.store.cases import grouped

#: Keys of ``node/provenance.py`` whose values must be equal on all nodes. A dot goes one
#: level down. A mapping is compared key by key.
COMPARED = (
    *("system", "kernel", "cpu.model", "cpu.online", "cpu.microcode", "cpu.governors", "cpu.smt"),
    *("memory.SwapTotal", "transparent_huge_pages", "ptrace_scope", "packages", "mounts"),
    *("network.infiniband", "network.interfaces", "ucx_devices", "programs", "settings"),
    *("variables", "hosts_sha256", "hung"),
)

#: Ends of keys whose values differ between nodes without a meaning: the devices of UCX already show
#: the slot of a card, a link that is down has no speed, and a GID is an address.
NATURAL = (
    *(" numa_node", " speed_mbit", " gid", " served"),
    *("programs slurm", "programs infiniband"),
)

#: Beginnings of keys that a launcher makes different for each rank.
LAUNCHED = ("variables PMIX_", "variables OMPI_")

#: Relative tolerance for the usable memory, which differs by the amount that the firmware keeps.
MEMORY_TOLERANCE = 0.01

#: Largest difference of clocks [s]; a larger one makes file times and logs inconsistent.
CLOCK_TOLERANCE = 0.1

#: Number of nodes that are named for one value, and number of characters of a value that are shown.
NAMED, SHOWN = 4, 60


def differences(nodes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The nodes that differ from the majority, a line for each value; name -> its provenance."""
    flat = {name: dict(_flat(found)) for name, found in nodes.items()}
    keys = dict.fromkeys(key for values in flat.values() for key in values)
    by_key = ((key, {name: values.get(key) for name, values in flat.items()}) for key in keys)
    return [line for key, values in by_key for line in _minority(key, values)] + _memory(nodes)


def clocks(ahead: Mapping[str, float], within: Mapping[str, float]) -> list[str]:
    """The nodes whose clock differs from that of the others, one line each.

    :param ahead: name -> how far its clock is ahead of the clock of one common node [s].
    :param within: name -> uncertainty of this value, from the duration of the query [s].
    """
    if not ahead:
        return []
    middle = statistics.median(ahead.values())
    lines: list[str] = []
    for name, offset in ahead.items():
        if (apart := abs(offset - middle)) - within[name] > CLOCK_TOLERANCE:
            side = "ahead of" if offset > middle else "behind"
            line = f"{name}: its clock is {apart:.3g} s {side} the median of all"
            lines.append(Against(line, [name], How.DIFFERS))
    return lines


def _flat(found: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """The compared keys with their single values."""
    for key in COMPARED:
        value: Any = found
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        yield from _leaves(key, value)


def _leaves(key: str, value: Any) -> Iterator[tuple[str, str | None]]:
    if isinstance(value, Mapping):
        for name in value:
            yield from _leaves(f"{key} {name}", value[name])
    elif not key.endswith(NATURAL) and not key.startswith(LAUNCHED):
        yield key, None if value is None else value if isinstance(value, str) else json.dumps(value)


def _minority(key: str, values: Mapping[str, str | None]) -> list[str]:
    """A line for each value that differs from the majority; no line if all nodes agree."""
    camps = grouped((value, name) for name, value in values.items())
    if len(camps) == 1:
        return []
    usual = max(camps, key=lambda value: len(camps[value]))
    most = len(camps[usual])
    if 2 * most <= len(values):
        said = "; ".join(f"{_named(names)}: {_shown(value)}" for value, names in camps.items())
        return [f"{key}: nodes disagree, and none is in the majority: {said}"]
    lines: list[str] = []
    for value, names in camps.items():
        if value != usual:
            own, other = _shown(value, usual), _shown(usual, value)
            line = f"{_named(names)}: {key} is {own}, {other} on {most} others"
            lines.append(Against(line, names, How.DIFFERS))
    return lines


#: Key in `memory` of the provenance -> its name; the limit is what a scheduler leaves to a job.
MEMORY = {"MemTotal": "memory", "limit": "memory left to a process"}


def _memory(nodes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    problems: list[str] = []
    for key, what in MEMORY.items():
        sizes = {name: (found.get("memory") or {}).get(key) for name, found in nodes.items()}
        known = [count for count in sizes.values() if count]
        if not known:
            problems.append(f"no node reports its {what}")
            continue
        usual = statistics.median(known)
        for name, count in sizes.items():
            if abs((count or 0) - usual) > MEMORY_TOLERANCE * usual:
                line = f"{name}: {what} is {size(count or 0)}, {size(usual)} is the median"
                problems.append(Against(line, [name], How.DIFFERS))
    return problems


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _shown(value: str | None, other: str | None = None) -> str:
    """A value for a line; a long value is reduced to the words in which it differs from `other`."""
    if value is None:
        return "absent"
    line = value.partition("\n")[0]
    if len(line) <= SHOWN:
        return line
    own, others = (re.split(r"[\s,]+", text) for text in (value, other or ""))
    words = [word for word in own if word not in others]
    if not words:
        line = "without " + ",".join(word for word in others if word not in own)
    elif len(words) < len(own):
        line = "with " + ",".join(words)
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 3]}..."
