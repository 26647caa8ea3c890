"""Whether a node is fit for a measurement: a site's limits against the provenance of the node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from assay.prove import counters
from assay.quantities import size


def load_and_memory(found: Mapping[str, Any]) -> dict[str, float]:
    """Load per processor and share of free memory.

    :param found: what :func:`assay.fleet.node.provenance.collect` found.
    :raises KeyError, TypeError, ZeroDivisionError: the values are missing from it.
    """
    cpu, memory = found["cpu"], found["memory"]
    return {
        "load_per_cpu": cpu["load_1min"] / cpu["usable"],
        "memory_available": memory["MemAvailable"] / memory["MemTotal"],
    }


def limit_problems(
    found: Mapping[str, Any],
    limits: Mapping[str, Any],
    devices: str | None = None,
    gid_index: int | None = None,
) -> Iterator[str]:
    """Properties of a node beyond the limits, and its parts that do not answer, one line each.

    :param devices: the extra ``network_device`` of the partition; its ports of InfiniBand and RoCE
        (``mlx5_0:1``) must be ready, and equally fast.
    :param gid_index: index of the GID that each of these ports must have; None for no such rule.
    """
    yield from found.get("hung", ())
    row = load_and_memory(found)
    limit = limits.get("load_per_cpu_max")
    if limit is not None and row["load_per_cpu"] > limit:
        yield f"load per processor is {row['load_per_cpu']:.2f}, at most {limit}"
    limit = limits.get("memory_available_min")
    if limit is not None and row["memory_available"] < limit:
        yield f"{row['memory_available']:.0%} of the memory is free, not {limit:.0%}"
    allowed = limits.get("governors")
    running = found["cpu"]["governors"]
    if allowed and not (running and set(running) <= set(allowed)):
        said = ", ".join(running) or "cannot be read"
        yield f"clock governor {said}; allowed: {', '.join(allowed)}"
    ports = found.get("network", {}).get("infiniband", {})
    named = [name for name in (devices or "").split(",") if ":" in name]
    for name in named:
        if name in ports:
            for problem in _port(ports[name], limits, gid_index):
                yield f"{name}: {problem}"
        else:
            yield f"{name}: there is no such port; there are: {', '.join(ports) or 'none'}"
    rates = {name: str(ports[name].get("rate")) for name in named if name in ports}
    fastest = max(rates, key=lambda name: counters.leading(rates[name]), default="")
    for name, rate in rates.items():
        if rate != rates[fastest]:
            yield f"{name}: rate is {rate}, that of {fastest} is {rates[fastest]}"
    for mounted in found["file_systems"]:
        yield from _file_system(mounted, limits, found.get("hung", ()))


def _port(port: Mapping[str, Any], limits: Mapping[str, Any], index: int | None) -> Iterator[str]:
    """What is wrong with one port of InfiniBand or RoCE."""
    wanted = {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "rate": limits.get("port_rate"),
        "link_layer": limits.get("link_layer"),
    }
    for what, value in wanted.items():
        if value is not None and port.get(what) != value:
            yield f"{what} is {port.get(what) or 'unreadable'}, not {value}"
    if index is None:
        return
    gids = port.get("gids", {})
    gid = gids.get(str(index))
    if gid is None:
        there = ", ".join(f"{number} ({said['gid']})" for number, said in gids.items())
        yield f"there is no GID at index {index} (gid_index); there are: {there or 'none'}"
    elif limits.get("gid_type") not in (None, gid["type"]):
        said, asked = gid["type"] or "unreadable", limits["gid_type"]
        yield f"the type of the GID at index {index} is {said}, not {asked}"


def _file_system(
    mounted: Mapping[str, Any], limits: Mapping[str, Any], hung: Iterable[str]
) -> Iterator[str]:
    where = f"{mounted['directory']} ({mounted['type']})"
    if "error" in mounted:
        if not any(line.startswith(f"{mounted['directory']}: ") for line in hung):
            yield f"{where}: {mounted['error']}"
        return
    if not mounted["writable"]:
        yield f"{where} is not writable"
    if mounted["free_bytes"] < limits.get("free_bytes_min", 0):
        needed = f"at least {size(limits['free_bytes_min'])} are needed"
        yield f"{where} has {size(mounted['free_bytes'])} free, {needed}"
    missing = set(limits.get("mount_options", ())) - set((mounted["options"] or "").split(","))
    if missing:
        yield f"{where} is mounted without {', '.join(sorted(missing))}"
