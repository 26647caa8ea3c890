"""Links that the nodes of a run have, and over which no case moved bytes.

The words of a site say what was found; the hardware says what there is. A record has the links of
its node (``provenance.py``). A port of InfiniBand or EFA that is up is there to join nodes. A port
of Ethernet is, if it has served RDMA since the node booted: otherwise it may carry storage or
management by TCP, which nobody has to measure. Of Slingshot, nothing shows which bytes went past
the kernel, so an unused one is named and is no fault. A port that is down, and the
virtual functions that a host gives away, join nothing.

Ports of one kind and rate are rails of one link: if a case used one of them, the others are named,
and are no fault. A site names what is not to be measured, and why (``not_measured`` of its
promise). The links of AMD's GPUs are not known here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from assay.prove.mpi import OPEN_MPI
from assay.prove.transports import TRANSPORTS
from assay.store.cases import grouped
from assay.store.record import Record
from assay.store.sanitize import line, mapping

#: The links between the GPUs of a node, as one device.
NVLINK = "nvlink"

#: What shows that bytes went from GPU to GPU: a lane of UCX, a way of NCCL, a metric of copies.
_BETWEEN_GPUS = re.compile(r"cuda_ipc|P2P/|NVLS|between_gpus|device_to_device")

#: Transports past the kernel. IP over InfiniBand is TCP, and reaches a part of its rate.
_RDMA = {name for name, each in TRANSPORTS.items() if each.network and name != "tcp"}


class Link(NamedTuple):
    """The kind of a link, with its rate, and whether it must be measured."""

    kind: str
    must: bool = True


def active(found: Mapping[str, Any]) -> dict[str, Link]:
    """The links of a node that are up, by device: ``mlx5_0:1``, ``cxi0``, ``nvlink``.

    :param found: what :func:`assay.fleet.node.provenance.collect` found on the node.
    """
    network, there = mapping(found.get("network")), {}
    for name, port in mapping(network.get("infiniband")).items():
        said = mapping(port)
        if "ACTIVE" not in line(said.get("state")) or said.get("virtual"):
            continue
        layer = line(said.get("link_layer"))
        kind = {"Ethernet": "RoCE", "Unspecified": "EFA"}.get(layer, layer)
        must = kind != "RoCE" or bool(said.get("served"))
        there[line(name)] = Link(f"{kind}, {line(said.get('rate'))}", must)
    for name, port in mapping(network.get("slingshot")).items():
        if mapping(port).get("state") == "up":
            rate = line(mapping(port).get("speed_mbit"))
            there[line(name)] = Link(f"Slingshot, {rate} Mbit/s", must=False)
    if re.search(r"\tNV\d+\b", str(found.get("gpus") or "")):
        there[NVLINK] = Link("between the GPUs of a node")
    return there


def used(case: Record) -> set[str]:
    """The devices over which a case moved bytes, past the kernel."""
    lanes = [str(lane).partition("/")[0] for lane in mapping(case.proof.get("lanes"))]
    ways = str(mapping(case.proof.get("nccl")).get("pairs"))
    transport = case.transport or str(case.parameters.get("transport", ""))
    # Of an MPI whose path nobody can read, and of a pml that leaves it to the fabric's own library,
    # the counters of the port are all that there is.
    mpi, pml = case.proof.get("mpi"), str(case.proof.get("pml"))
    unread = mpi not in (None, OPEN_MPI.word) or "cm" in pml
    crossed = unread and bool(mapping(case.proof.get("link")).get("moved"))
    rdma = {transport, *lanes} & _RDMA or "NET/IB" in ways or crossed
    found = {*case.device.split(",")} if rdma else set()
    shown = " ".join([*lanes, ways, *(metric.name for metric in case.metrics)])
    return found | ({NVLINK} if _BETWEEN_GPUS.search(shown) else set())


def links(
    state: Mapping[str, Any], ran: Iterable[Record]
) -> tuple[list[str], list[str], list[str]]:
    """Links that no case used: as faults, as reasons why the run is a part, and as mere names.

    A machine without a scheduler cannot measure the link to others: the run is a part.

    :param state: how the run compares with the promise of its site. Of a run that somebody
        narrowed, and of one before this comparison existed, nothing is asked.
    """
    if "not_measured" not in state or state.get("narrowed"):
        return [], [], []
    ran = [case for case in ran if case.verdict is not None]
    excused = mapping(state["not_measured"])
    took = set().union(*map(used, ran))
    there = grouped(
        ((link, name), host)
        for case in ran
        for host in [line(case.provenance.get("host"))]
        for name, link in active(case.provenance).items()
    )
    measured = {link.kind for link, name in there if name in took}
    alone = all(case.scheduler in ("", "local") for case in ran)
    found: tuple[list[str], list[str], list[str]] = ([], [], [])
    faults, parts, others = found
    for (link, name), hosts in sorted(there.items()):
        if name in took:
            continue
        why = next((line(why) for at, why in excused.items() if fnmatchcase(name, at)), "")
        what = f"no case moved bytes over {name} ({link.kind}), which is up on {hosts[0]}"
        if why or link.kind in measured or not link.must:
            others.append(f"{what}: {why}" if why else what)
        elif alone and name != NVLINK:
            parts.append(f"{what}: one node cannot; start the suite where Slurm has two of them")
        else:
            faults.append(
                f"{what}: install a program or a UCX that can use it, or add a partition with it "
                "as network_device; if nobody needs it, write why into not_measured of promise.yaml"
            )
    return found
