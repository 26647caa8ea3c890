"""Transports: how to force one in each generation of UCX, and how to prove that it was used.

=============  ====================  ==========================================================
UCX            reports               proof of the path
=============  ====================  ==========================================================
before 1.16    its lanes             only lane; for cma its first use
1.16 to 1.20   its tables            protocol table; if that is a plan, only lane or first use
1.21 and on    its tables, counted   count; protocol table or only lane for the shortest messages,
                                     which UCX does not count
=============  ====================  ==========================================================

UCX reports the first use of cma at UCX_LOG_LEVEL=debug, which adds no line per message. The proof
needs one message that is long enough: 256 KiB for a blocking send, with the defaults of UCX.

UCX before 1.16 has protocol tables too, with UCX_PROTO_ENABLE=y. This setting does not only add
output: it switches to protocols that were not finished. UCX 1.13.1 then copies through posix what
it otherwise reads by cma. The tests measure the default, so the setting stays off.

:mod:`assay.gpu.gpu_paths` covers the paths of GPU memory, :mod:`assay.prove.mpi` the
settings of the MPI library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from assay import files
from assay.parse import ucx_log
from assay.parse.reading import Process
from assay.parse.ucx_log import UcxLog, transport_of


class Transport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A data path has tls, small and large; ``transports.yaml`` explains them."""

    tls: str
    small: str
    large: str
    network: bool = False
    gid: bool = False

    @property
    def collective_curve(self) -> str:
        """The pattern of a collective over it, a key of ``judge/curves.yaml``."""
        return "collective over a network" if self.network else "collective"


TRANSPORTS = files.own(__file__, dict[str, Transport])

#: Transports that tests use on every partition that has them. A machine that describes itself
#: offers all that its UCX opens.
SWITCHED = ("posix", "sysv", "cma", "tcp", "rc_mlx5")

#: Transports that tests use only where a site names them. Every adapter that opens rc_mlx5 opens
#: these too, and few use them there. The others of :data:`TRANSPORTS` are known to the proof only.
DECLARED = ("rc_verbs", "ud_verbs", "dc_mlx5")
TESTED = (*SWITCHED, *DECLARED)


@dataclass(frozen=True)
class Proof:
    """What the UCX logs of one run prove.

    :ivar means: kind of proof, as in :class:`assay.parse.ucx_log.Carried`.
    :ivar ucx: the versions that ran, None if no process named its version.
    :ivar lanes: for each lane, its largest share of any one message size.
    """

    means: str
    ucx: str | None
    lanes: Mapping[str, float]
    problems: tuple[str, ...]


def unusable(transport: str, ucx_version: str, device: str | None = None) -> str | None:
    """Why this UCX cannot run the transport (over `device`), None if it can.

    :raises ValueError: the version is invalid.
    """
    version = _version(ucx_version)
    if version < (1, 13):
        return f"UCX {ucx_version}: the logs of UCX before 1.13 are not known"
    if transport == "tcp" and device == "lo" and version[:2] == (1, 20):
        # "no route to" the peer; fixed by f9cd41403a in 1.21
        return f"UCX {ucx_version} cannot run tcp over lo"
    return None


def transport_variables(
    transport: str, ucx_version: str, device: str | None = None, gid_index: int | None = None
) -> dict[str, str]:
    """Variables that allow UCX only this transport, and make it report what it did.

    UCX writes its log to standard output, in pieces that mpirun may tear. Therefore also set
    UCX_LOG_FILE to a name with ``%h`` and ``%p``, so that each process has a log of its own.

    :param ucx_version: UCX version of the stack (``1.13.1``), which decides what UCX can report.
    :param device: value of UCX_NET_DEVICES (``eth0``, ``mlx5_0:1``) for a transport over a
        network; None leaves the choice to UCX.
    :param gid_index: the same of UCX_IB_GID_INDEX, for a transport that addresses by a GID.
    :raises ValueError: the version is invalid.
    """
    chosen = TRANSPORTS[transport]
    version = _version(ucx_version)
    variables = {"UCX_TLS": chosen.tls, "UCX_LOG_LEVEL": "info"}
    if chosen.network and device:
        variables["UCX_NET_DEVICES"] = device
    if chosen.gid and gid_index is not None:
        variables[GID_INDEX] = str(gid_index)
    if version < (1, 21) and chosen.large in ucx_log.COPIERS:
        variables["UCX_LOG_LEVEL"] = "debug"  # only this level reports their first use
    return {**variables, **tables(version)}


GID_INDEX = "UCX_IB_GID_INDEX"

#: First UCX version with protocol tables by default, and first version with counts in them.
TABLES_SINCE, COUNTS_SINCE = (1, 16), (1, 21)


def tables(version: tuple[int, ...]) -> dict[str, str]:
    """Variables that make this UCX print its protocol tables, with counts where it can."""
    if version >= COUNTS_SINCE:
        return {"UCX_PROTO_INFO": "used"}
    return {"UCX_PROTO_INFO": "y"} if version >= TABLES_SINCE else {}


_FAREWELL = re.compile(
    r"req 0x[0-9a-f]+: error during flush: Endpoint timeout, flush comp 0x[0-9a-f]+ "
    r"count reduced to \d+"
)


def without_farewells(transport: str, log: UcxLog, farewells: int) -> UcxLog:
    """The log without the errors that UCX reports if a peer is the first to close a connection.

    Over tcp between four busy nodes, UCX 1.13.1 reports them in every other run, in MPI_Finalize.

    :param farewells: number of endpoints that Open MPI could not close for that reason
        (:class:`assay.parse.openmpi.OpenMpi`). If the log has more such errors, all are kept.
    """
    late = {text for text in log.errors if _FAREWELL.fullmatch(text)}
    if transport != "tcp" or len(late) > farewells:
        return log
    return replace(log, errors=tuple(text for text in log.errors if text not in late))


def prove_transport(
    transport: str,
    log: UcxLog,
    sizes: Sequence[int],
    ucx_version: str | None = None,
    processes: int | None = None,
) -> Proof:
    """Whether messages of `sizes` [B] between processes used this transport and no other.

    :param log: all UCX output of one launch, from all its processes.
    :param sizes: the sizes that the benchmark sent, as for :func:`assay.parse.ucx_log.carriers`.
    :param ucx_version: the version that the stack states; None to accept any.
    :param processes: number of started processes; each must have left its log. None to accept any.
    """
    chosen = TRANSPORTS[transport]
    if not log.processes:
        return Proof(ucx_log.NONE, None, {}, ("UCX printed nothing: is the pml ucx?",))
    carried = ucx_log.carriers(log, sizes)
    versions = sorted({version for version, _ in log.versions.values()})
    problems = [
        *common_problems(log, chosen.tls, ucx_version, processes),
        *_unreachable(log),
        *bridges(log),
        *_wrong_lanes(log, carried, chosen),
        *_missing_lane(carried, sizes, chosen),
    ]
    return Proof(carried.means, ", ".join(versions) or None, dict(carried.lanes), tuple(problems))


def devices_to_peers(log: UcxLog) -> dict[Process, set[str]]:
    """The devices of the lanes that each process has to other processes."""
    found: dict[Process, set[str]] = {}
    for config in log.peer_configs():
        # Some versions name a path behind the device: rc_mlx5/mlx5_0:1/path0.
        devices = {lane.split("/")[1] for lane in config.lanes if "/" in lane}
        found.setdefault(config.process, set()).update(devices)
    return found


#: A device of tcp behind which there is no other node.
_BRIDGE = re.compile(r"(docker|virbr|podman|lxcbr|cni)\d+|br-[0-9a-f]{12}")


def bridges(log: UcxLog) -> list[str]:
    """Lanes to a peer over a bridge for containers: UCX takes any device that is up."""
    return [
        f"UCX has a lane over {name} to the peer, a bridge inside the node: UCX_NET_DEVICES (extra "
        "network_device) names the device"
        for name in sorted({name for found in devices_to_peers(log).values() for name in found})
        if _BRIDGE.fullmatch(name)
    ]


def rails(log: UcxLog, devices: Sequence[str]) -> list[str]:
    """Devices that have no lane to the peer, and lanes over other devices, one line each.

    :param devices: the devices that the run was to use side by side (``mlx5_0:1``).
    """
    open_to_peer = {name for found in devices_to_peers(log).values() for name in found}
    return [
        *(f"UCX has no lane over {device} to the peer" for device in devices
          if device not in open_to_peer),
        *(f"UCX has a lane over {device} to the peer, which was not asked for"
          for device in sorted(open_to_peer - set(devices))),
    ]  # fmt: skip


#: Programs whose rows are messages between two ranks, of the size in the row.
POINT_TO_POINT = re.compile(r"(osu_)?(latency|bw|bibw|multi_lat|mbw_mr)\b")


def opened_transports(listing: str) -> list[str]:
    """The transports in an output of ``ucx_info -d``, each once, in UCX's order."""
    return list(dict.fromkeys(re.findall(r"Transport: (\S+)", listing)))


def common_problems(
    log: UcxLog, tls: str, ucx_version: str | None, processes: int | None
) -> list[str]:
    """Problems of a run whatever path it took: its UCX version, its switches, its processes.

    :param tls: the requested value of UCX_TLS; the other parameters are as for :func:`prove`.
    """
    return [
        *_wrong_version(log, ucx_version),
        *other_setting(log, "UCX_TLS", tls),
        *(f"UCX ERROR: {text}" for text in log.errors),
        *(f"UCX WARN: {text}" for text in log.warnings),
        *(f"this UCX does not read {name}" for name in sorted(log.unused)),
        *_missing_processes(log, processes),
    ]


def _wrong_version(log: UcxLog, stated: str | None) -> list[str]:
    if not log.versions:
        return ["no process named the version of its UCX"]
    if stated is None and len(ran := sorted({version for version, _ in log.versions.values()})) > 1:
        return [f"the processes ran different versions of UCX: {', '.join(ran)}"]
    return [
        f"UCX {version} ran ({library}), the stack states {stated}"
        for version, library in sorted(set(log.versions.values()))
        if stated is not None and version != stated
    ]


def other_setting(log: UcxLog, name: str, asked: str) -> list[str]:
    """Problems if UCX read another value of a variable in a process than the requested one."""
    found = {log.env.get(process, {}).get(name) for process in log.processes} - {asked}
    return [
        f"{name} was {value or 'not set'} where the program ran, {asked} was asked for"
        for value in sorted(found, key=str)
    ]


#: What UCX says if its peer does not answer over UD, which also connects rc_verbs
#: (src/uct/ib/ud/base/ud_ep.c:276 of v1.13.1).
_SILENT_PEER = re.compile(r"UD endpoint \S+ to .*: unhandled timeout error")


def _unreachable(log: UcxLog) -> list[str]:
    """A problem if no packet reached the peer; the GID is the usual cause."""
    if not any(_SILENT_PEER.fullmatch(text) for text in log.errors):
        return []
    said = (log.env.get(process, {}).get(GID_INDEX) for process in log.processes)
    asked = sorted({index for index in said if index is not None})
    by = f"GID {', '.join(asked)}" if asked else "the GID that UCX chose"
    mend = f"the extra gid_index of the partition names the GID ({GID_INDEX})"
    return [f"no packet reached the peer by {by}: {mend}"]


def _missing_processes(log: UcxLog, started: int | None) -> list[str]:
    """Processes that left no log, and processes that were alone in a world of their own."""
    met = {config.process for config in log.peer_configs()}
    met |= {table.process for table in log.peer_tables("")}
    alone = sorted(log.processes - met)
    problems = [f"{host}:{pid} has no endpoint to another process" for host, pid in alone]
    if started is not None and len(log.processes) != started:
        problems.append(f"UCX left logs of {len(log.processes)} processes, {started} were started")
    return problems


def _wrong_lanes(log: UcxLog, carried: ucx_log.Carried, chosen: Transport) -> list[str]:
    """Lanes of other transports that carried messages, or would carry them by their tables."""
    allowed = (chosen.small, chosen.large)
    took: dict[str, list[int]] = {}
    for size, lanes in carried.by_size.items():
        for lane in lanes:
            took.setdefault(lane, []).append(size)
    wrong = {n: f"{n} carried messages of {min(at)}..{max(at)} B" for n, at in took.items()}
    tables = log.peer_tables("tagged message") + log.peer_tables("rendezvous data")
    rows = [row for table in tables for row in table.rows if row.count != 0]
    for row in sorted(rows, key=lambda row: row.first):
        for lane in row.lanes:
            wrong.setdefault(lane, f"{lane} is chosen for messages of {row.first} B and more")
    if not tables:
        for lane in (lane for config in log.peer_configs() for lane in config.lanes):
            wrong.setdefault(lane, f"{lane} is open between the processes")
    return [
        f"{what}: {' and '.join(dict.fromkeys(allowed))} was asked for"
        for lane, what in sorted(wrong.items())
        if transport_of(lane) not in allowed
    ]


def _missing_lane(carried: ucx_log.Carried, sizes: Sequence[int], chosen: Transport) -> list[str]:
    if carried.means == ucx_log.NONE:
        return ["UCX's log does not show what carried the messages"]
    lanes, problems, unproven = carried.lanes, [], carried.unproven
    # The first use of cma shows that it carried, but not which sizes.
    sized = carried.means != ucx_log.FIRST_USE
    if sized and sizes:
        lanes = carried.by_size.get(max(sizes), {})
    if sized and unproven:
        named = ", ".join(map(str, unproven[:4])) + (", ..." if len(unproven) > 4 else "")
        problems.append(f"UCX's log does not show what carried messages of {named} B")
    reached = set(map(transport_of, lanes))
    if (
        reached
        and reached <= {chosen.small, chosen.large}  # _wrong_lanes names all other lanes
        and (chosen.large not in reached or (sizes and reached != {chosen.large}))
    ):
        largest = f"messages of {max(sizes)} B" if sizes else "any message"
        problems.append(f"{', '.join(sorted(lanes))}, not {chosen.large} alone, carried {largest}")
    return problems


def _version(text: str) -> tuple[int, ...]:
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    if match is None:
        raise ValueError(f"{text!r} is not a version of UCX; write it like 1.13.1")
    return tuple(int(part or 0) for part in match.groups())
