"""The log of NCCL and RCCL (NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=INIT,GRAPH,NET), 2.4 to 2.30.

The sender of each channel says which transport it took (src/transport/p2p.cc, shm.cc, net.cc). Over
a network, the receiver says it, too, and each of both whether its GPU has RDMA. Between ranks of
one node NCCL prefers P2P, then shared memory, then the network. Between nodes it takes the network
of its plugin, and Socket if there is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from assay.parse.reading import said_by
from assay.parse.tables import Line

#: host:pid:thread [GPU]; a warning has a place in the source.
LOG = re.compile(
    r"(?<![\w.-])([\w.-]{1,128}):\d{1,10}:\d{1,10} \[(-?\d{1,4})\] (?:[\w/.-]{1,99}:\d{1,9} "
    r"(?:\(\w{1,40}\) )?)?NCCL (INFO|WARN) ",
    re.ASCII,
)
_VERSION = re.compile(r"([NR]CCL version) :? ?(\d\S*)")
_CHANNEL = re.compile(
    r"(?:Channel|Ring) \d+(?:/\d+)? : (\d{1,7})(?:\[\w+\])? -> (\d{1,7})(?:\[\w+\])?"
    r"(?: \[(send|receive)\])? via (.*)",
    re.ASCII,
)
_NETWORK = re.compile(r"(NET/[^/]{1,60})/(\d{1,4})(?:\(\d+\))?(.*)", re.ASCII)
_RANK = re.compile(r"(?:\S+ )?(?:\[Rank \d+\] \S+ )?comm \S+ rank (\d{1,7}) n[rR]anks", re.ASCII)
_CHANNELS = re.compile(
    r"(\d{1,5}) coll channels, (?:\d+ collnet channels, )?(?:(\d{1,5}) nvls channels, )?"
    r"(\d{1,5}) p2p channels.*",
    re.ASCII,
)
_CAUSE = re.compile(
    r"NCCL_(?:\w+_DISABLE|\w+_LEVEL|NET|ALGO|PROTO|NVLS_ENABLE) set by environment to .*"
    r"|NET/IB : No device found\.|P2P is disabled between .*|GPU Direct RDMA Disabled for .*"
    r"|NET/\w+ : GPU Direct RDMA Disabled for .*"
)
#: Warnings about the machine, which say nothing against a result.
_HARMLESS = re.compile(r"Missing \"iommu=pt\" |NUMA auto balancing |Failed to open lib\w+\.so")


def parse_nccl_log(lines: Iterable[Line]) -> tuple[dict[str, Any] | None, list[str], list[Line]]:
    """The path of the messages, the problems, and the lines that are no log.

    The path: ``library``; ``ranks``: rank -> node and GPU; ``pairs``: ``A->B`` -> transports (two
    transports: RDMA of only one of both GPUs); ``channels``, by purpose; ``rings`` and ``trees``
    (whether they were connected); ``networks``; ``adapters``: node -> the numbers of those in use;
    ``fall_backs``: each pair that did not take P2P in a node or RDMA of GPUs between nodes, with
    node and GPU; ``causes``: what NCCL says of reasons. None if no line is of the log.
    """
    path: dict[str, Any] = {"library": None, "ranks": {}, "pairs": {}}
    path |= {"channels": {}, "adapters": {}}
    path |= {"rings": False, "trees": False, "networks": [], "fall_backs": [], "causes": []}
    problems: list[str] = []
    rest: list[Line] = []
    logged = False
    for number, line in lines:
        begin = LOG.search(line) if " NCCL " in line else None
        if not begin and _VERSION.match(line):
            _take(path, {}, line)
            continue
        if before := line[: begin.start()].rstrip() if begin else line:
            rest.append((number, before))
        for start, said in said_by(line, LOG) if begin else ():
            logged = True
            node, where = f"{start[1]}, GPU {start[2]}", {"node": start[1], "gpu": int(start[2])}
            if start[3] == "INFO":
                _take(path, where, said)
            elif _HARMLESS.match(said):
                _add(path["causes"], f"{node}: {said[:160]}")
            else:
                problems.append(f"line {number}: NCCL warns on {node}: {said[:160]}")
    path["fall_backs"] = _fall_backs(path)
    return path if logged else None, problems, rest


def _take(path: dict[str, Any], where: dict[str, Any], said: str) -> None:
    if channel := _CHANNEL.fullmatch(said):
        one, other, end, via = channel.groups()
        path["ranks"].setdefault(other if end == "receive" else one, where)
        network = _NETWORK.fullmatch(via)
        if network:
            _add(path["adapters"].setdefault(where["node"], []), int(network[2]))
            via = network[1] + ("/GDRDMA" if "GDRDMA" in network[3] else "")
        elif via.startswith(("SHM", "direct shared")):
            via = "SHM"
        else:
            via = "/".join(via.split("/")[:2])
        _add(path["pairs"].setdefault(f"{one}->{other}", []), via)
    elif rank := _RANK.match(said):
        path["ranks"].setdefault(rank[1], where)
    elif counts := _CHANNELS.fullmatch(said):
        path["channels"] = {
            "collective": int(counts[1]), "nvls": int(counts[2] or 0), "p2p": int(counts[3]),
        }  # fmt: skip
    elif said.startswith("Connected all "):
        path[said.split()[2].rstrip(",")] = True
    elif said.startswith("Using network "):
        _add(path["networks"], said.removeprefix("Using network "))
    elif version := _VERSION.match(said):
        path["library"] = f"{version[1].split()[0]} {version[2]}"
    elif _CAUSE.fullmatch(said):
        _add(path["causes"], f"{where['node']}, GPU {where['gpu']}: {said[:160]}")


def _add(said: list[Any], one: Any) -> None:
    if one not in said:
        said.append(one)


def _fall_backs(path: dict[str, Any]) -> list[str]:
    found = []
    for pair, transports in path["pairs"].items():
        ends = [path["ranks"].get(rank) for rank in pair.split("->")]
        near = None not in ends and ends[0]["node"] == ends[1]["node"]
        named = [f"{end['node']}, GPU {end['gpu']}" if end else "?" for end in ends]
        for via in transports:
            best = re.match("P2P/(?!indirect)", via) or (not near and via.endswith("GDRDMA"))
            if not best:
                better = "P2P" if near else "RDMA of the GPU"
                found.append(f"rank {pair}: {via} from {named[0]} to {named[1]}, not {better}")
    return found
