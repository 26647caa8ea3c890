"""The partitions between nodes of a site that is not written yet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from assay.evidence.transports import SWITCHED
from assay.sites import auto
from assay.sites.new.facts import ADD_PEAK, Gap, Place

#: What is known about hardware: role -> name -> quantities, as in ``hardware.yaml``.
Known = Mapping[str, dict[str, Any]]

#: A port states a rounded rate: 56 Gb/s for the 54.5 Gb/s of FDR.
ROUNDED = 0.05

#: Tests and benchmarks of the smoke profile between nodes that share one machine. HPCC and HPL are
#: left out: all nodes would compute on the same cores.
SMOKE = (
    *("Tournament", "Census", "NetPipe", "NodeHealth", "OsuCollective"),
    *("latency", "bw", "bcast", "alltoall"),
)


def partitions(place: Place, known: Known, gaps: list[Gap]) -> list[dict[str, Any]]:
    """A partition for each link between nodes.

    :param known: the known hardware, :func:`assay.judge.hardware`. It gets the links whose rate a
        device states, if they are not there.
    :param gaps: gets what could not be found out.
    """
    if len(place.pool.up) < 2:
        what = f"fewer than two nodes of {place.pool.partition.name} take jobs now"
        gaps.append(Gap("links", what, "describe the link when two nodes are up"))
        return []
    found = []
    if port := auto.fastest(place.ports):
        found.append(_infiniband(place, port, known, gaps))
    for name, said in place.ports.items():
        if said["link_layer"] == "Ethernet" and "ACTIVE" in (said["state"] or ""):
            do = f"add rc_mlx5 or rc_verbs, network_device {name} and gid_index to a partition"
            gaps.append(
                Gap("links", f"{name} is RoCE, and which GID joins the nodes is not known", do)
            )
    device = place.here["toward_peer"] or auto.ethernet(place.here["routes"] or "")
    # IP over InfiniBand is no link of its own.
    if device and not device.startswith("ib"):
        found.append(_ethernet(place, device, known, gaps))
    if not found:
        do = "add a partition with inter-node and its network_device"
        gaps.append(Gap("links", "no device toward another node was found", do))
    return found


def _infiniband(
    place: Place, port: tuple[str, str | None], known: Known, gaps: list[Gap]
) -> dict[str, Any]:
    where, (name, link) = "partition infiniband", port
    rate = place.ports[name]["rate"] or ""
    link = _stated(known, link or "infiniband", float(rate.split()[0]), f"{name} of {place.host}")
    what = f"{name} has {rate} on {place.host}; whether that was bought is not known"
    gaps.append(Gap(where, what, f"compare, and write health: {{port_rate: {rate}}}"))
    equal = [
        other
        for other, said in place.ports.items()
        if (said["rate"], said["link_layer"]) == (rate, "InfiniBand")
        and "ACTIVE" in (said["state"] or "")
    ]
    if len(equal) > 1:
        what = f"{len(equal)} ports are equal ({', '.join(equal)}), and one is described"
        do = "name all in network_device and add rails, if they join the same nodes"
        gaps.append(Gap(where, what, do))
    return _between(place, "infiniband", name, link, gaps)


def _ethernet(place: Place, device: str, known: Known, gaps: list[Gap]) -> dict[str, Any]:
    where, link = "partition ethernet", None
    said = place.here["network"]["interfaces"].get(device, {}).get("speed_mbit")
    if device not in place.here["physical"]:
        what = f"{device} is no device of hardware, so the rate of the link is not known"
        gaps.append(Gap(where, what, ADD_PEAK))
    elif not (said and said.isdigit() and int(said)):
        gaps.append(Gap(where, f"{device} does not state its rate", ADD_PEAK))
    else:
        link = _stated(known, "ethernet", int(said) / 1000, f"{device} of {place.host}")
        what = f"{device} states {said} Mbit/s; whether that was bought is not known"
        gaps.append(Gap(where, what, "compare"))
    return _between(place, "ethernet", device, link, gaps)


def _stated(known: Known, name: str, rate: float, device: str) -> str:
    """The name of a link with a rate that a device states.

    If no link of this name has that rate, such as half of the lanes of HDR, it becomes known.

    :param rate: [Gbit/s].
    """
    bandwidth = rate * 125
    entry = known["link"].get(name)
    if entry and abs(entry["bandwidth"] - bandwidth) <= ROUNDED * bandwidth:
        return name
    own = re.sub(r"[^a-z0-9-]", "-", f"{name}-{rate:g}gbit")
    source = f"the rate that {device} states, {rate:g} Gbit/s; not measured"
    known["link"].setdefault(own, {"bandwidth": bandwidth, "source": source})
    return own


def _between(
    place: Place, name: str, device: str, link: str | None, gaps: list[Gap]
) -> dict[str, Any]:
    opened = place.transports
    over = [each for each in auto.over(name, SWITCHED) if device in opened.get(each, ())]
    if not over:
        what = f"UCX lists no transport on {device}"
        gaps.append(Gap(f"partition {name}", what, "look at ucx_info -d in a job"))
    extras = {
        **place.extras,
        "network_device": device,
        "nodes": min(len(place.pool.up), auto.NODES),
        **({"hardware": {"link": link}} if link else {}),
    }
    if place.together:
        last = place.pool.shape.processor["num_cpus"] - 1
        extras["cores_per_node"] = 1
        extras["options"] = {
            "PairsOfNodes.width": 1,
            "PairsOfNodes.cpus": [0, last],
            "PairsOfNodes.seconds": 0.5,
            "StrictCheck.smoke": list(SMOKE),
        }
    return {
        "name": name,
        "descr": f"nodes joined by {name}, over {device}",
        "features": ["inter-node", name, *over],
        "extras": extras,
    }
