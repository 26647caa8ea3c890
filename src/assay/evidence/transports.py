"""Transports: how to force one in each generation of UCX, and how to prove that it was taken.

============  ==============  =======  =======  =======================
transport     UCX_TLS         small    large
============  ==============  =======  =======  =======================
``posix``     posix,self      posix    posix
``sysv``      sysv,self       sysv     sysv
``cma``       posix,cma,self  posix    cma
``tcp``       tcp,self        tcp      tcp
``rc_mlx5``   rc_x,self       rc_mlx5  rc_mlx5  not yet run on hardware
============  ==============  =======  =======  =======================

The first four were run with UCX 1.13.1, 1.15.0, 1.16.0, 1.18.1, 1.20.1 (tcp over eth0), 1.21.0 and
1.22.0. ``self`` is in all of them: without it a rank opens its endpoint to itself over the
transport under test, and UCX before 1.15 does not tell that endpoint from one to a peer. cma cannot
carry active messages (UCX_TLS=cma alone ends with "no active messages transport"), so small
messages go by posix.

=============  ====================  ==========================================================
UCX            is made to say        which proves the path by
=============  ====================  ==========================================================
before 1.16    its lanes             only lane; for cma by its first use
1.16 to 1.20   its tables            protocol table; where that is a plan, only lane or first use
1.21 and on    its tables, counted   count; protocol table or only lane for the shortest messages,
                                     which MPI sends past the counter
=============  ====================  ==========================================================

The first use of cma is seen at UCX_LOG_LEVEL=debug, which costs no line for a message. It needs
one message that is long enough: 256 KiB for a blocking send, with the defaults of UCX.

UCX before 1.16 has protocol tables too, with UCX_PROTO_ENABLE=y. That is not only more words: it
switches to protocols that were not finished, and 1.13.1 then copies through posix what it
otherwise reads by cma. What is measured is the default, so it stays off.

The ways of GPU memory are in :mod:`assay.evidence.gpu_paths`. Open MPI's own settings are the
functions at the end.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from assay.outputs import ucx_log
from assay.outputs.ucx_log import UcxLog, transport_of


@dataclass(frozen=True)
class Transport:
    """One data path.

    :ivar tls: value of UCX_TLS.
    :ivar small: the UCX transport of small messages.
    :ivar large: the UCX transport of large ones.
    :ivar network: it runs over a network device (UCX_NET_DEVICES).
    """

    tls: str
    small: str
    large: str
    network: bool = False


TRANSPORTS: Mapping[str, Transport] = {
    "posix": Transport("posix,self", "posix", "posix"),
    "sysv": Transport("sysv,self", "sysv", "sysv"),
    "cma": Transport("posix,cma,self", "posix", "cma"),
    "tcp": Transport("tcp,self", "tcp", "tcp", network=True),
    "rc_mlx5": Transport("rc_x,self", "rc_mlx5", "rc_mlx5", network=True),
}


#: Transports that tests are run over, wherever a partition has them.
SWITCHED = ("posix", "sysv", "cma", "tcp", "rc_mlx5")


@dataclass(frozen=True)
class Proof:
    """What the logs of UCX prove of one run.

    :ivar means: how, in the words of :class:`assay.outputs.ucx_log.Carried`.
    :ivar ucx: the versions that ran, None where no process named its own.
    :ivar lanes: largest share of any one message size, by lane.
    :ivar problems: what is wrong or unproven, one line each; empty for a proven run.
    """

    means: str
    ucx: str | None
    lanes: Mapping[str, float]
    problems: tuple[str, ...]


def unusable(transport: str, ucx_version: str, device: str | None = None) -> str | None:
    """Why this UCX cannot run the transport (over `device`), None where it can.

    :raises ValueError: unknown transport, or a version that is none.
    """
    _of(transport)
    version = _version(ucx_version)
    if version < (1, 13):
        return f"UCX {ucx_version}: the logs of UCX before 1.13 are not known"
    if transport == "tcp" and device == "lo" and version[:2] == (1, 20):
        # "no route to" the peer; mended by f9cd41403a in 1.21
        return f"UCX {ucx_version} cannot run tcp over lo"
    return None


def environment(transport: str, ucx_version: str, device: str | None = None) -> dict[str, str]:
    """Variables that leave UCX this transport only, and make it say what it did.

    UCX writes its log to standard output, in pieces that mpirun may tear: also set UCX_LOG_FILE, to
    a name with ``%h`` and ``%p``, so that each process has a log of its own.

    :param ucx_version: of the stack, ``1.13.1``: decides what UCX can be asked.
    :param device: value of UCX_NET_DEVICES (``eth0``, ``mlx5_0:1``) for a transport over a
        network; None leaves the choice to UCX.
    :raises ValueError: unknown transport, or a version that is none.
    """
    chosen = _of(transport)
    version = _version(ucx_version)
    variables = {"UCX_TLS": chosen.tls, "UCX_LOG_LEVEL": "info"}
    if chosen.network and device:
        variables["UCX_NET_DEVICES"] = device
    if version < (1, 21) and chosen.large == "cma":
        variables["UCX_LOG_LEVEL"] = "debug"  # the first use of cma is said at this level only
    return {**variables, **tables(version)}


#: From which UCX on its protocols have tables by default, and these have counts.
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
    """The log without what UCX calls an error when a peer is the first to close a connection.

    Over tcp, between four busy nodes, UCX 1.13.1 says so in every other run, in MPI_Finalize.

    :param farewells: of how many endpoints Open MPI said that closing them failed for that reason
        (:class:`assay.outputs.openmpi.OpenMpi`); more such errors than that are errors.
    """
    late = [text for text in log.errors if _FAREWELL.fullmatch(text)]
    if transport != "tcp" or len(late) > farewells:
        return log
    return replace(log, errors=tuple(text for text in log.errors if text not in late))


def prove(
    transport: str,
    log: UcxLog,
    sizes: Sequence[int],
    ucx_version: str | None = None,
    processes: int | None = None,
) -> Proof:
    """Whether messages of `sizes` [B] between processes took this transport and no other.

    :param log: everything that UCX said in one launch, of all its processes.
    :param sizes: the sizes that the benchmark sent; none for a collective, whose messages have
        the sizes that Open MPI chooses.
    :param ucx_version: what the stack says that it has; None to believe any.
    :param processes: how many were started: each must have left its log. None to believe any.
    :raises ValueError: unknown transport.
    """
    chosen = _of(transport)
    if not log.processes:
        return Proof(ucx_log.NONE, None, {}, ("UCX said nothing: is the pml ucx?",))
    carried = ucx_log.carriers(log, sizes)
    versions = sorted({version for version, _ in log.versions.values()})
    problems = [
        *common_problems(log, chosen.tls, ucx_version, processes),
        *_wrong_lanes(log, carried, chosen),
        *_missing_lane(carried, sizes, chosen),
    ]
    return Proof(carried.means, ", ".join(versions) or None, dict(carried.lanes), tuple(problems))


def common_problems(
    log: UcxLog, tls: str, ucx_version: str | None, processes: int | None
) -> list[str]:
    """What is wrong with a run whatever path it took: its UCX, its switches, its processes.

    :param tls: the value of UCX_TLS that was asked for; the others as for :func:`prove`.
    """
    return [
        *_wrong_version(log, ucx_version),
        *_wrong_settings(log, tls),
        *(f"UCX ERROR: {text}" for text in log.errors),
        *(f"UCX WARN: {text}" for text in log.warnings),
        *(f"nothing in this UCX reads {name}" for name in sorted(log.unused)),
        *_missing_processes(log, processes),
    ]


def _wrong_version(log: UcxLog, stated: str | None) -> list[str]:
    if not log.versions:
        return ["no process named the version of its UCX"]
    return [
        f"UCX {version} ran ({library}), the stack states {stated}"
        for version, library in sorted(set(log.versions.values()))
        if stated is not None and version != stated
    ]


def _wrong_settings(log: UcxLog, tls: str) -> list[str]:
    found = {log.env.get(process, {}).get("UCX_TLS") for process in log.processes}
    return [
        f"UCX_TLS was {value or 'not set'} where the program ran, {tls} was asked for"
        for value in sorted(found, key=str)
        if value != tls
    ]


def _missing_processes(log: UcxLog, started: int | None) -> list[str]:
    """Processes that left no log, and those that were alone in a world of their own."""
    met = {config.process for config in log.peer_configs()}
    met |= {table.process for table in log.peer_tables("")}
    problems = [
        f"{host}:{pid} has no endpoint to another process"
        for host, pid in sorted(log.processes - met)
    ]
    if started is not None and len(log.processes) != started:
        problems.append(f"UCX left logs of {len(log.processes)} processes, {started} were started")
    return problems


def _wrong_lanes(log: UcxLog, carried: ucx_log.Carried, chosen: Transport) -> list[str]:
    """Lanes that carried, or by their tables would carry, what is not theirs."""
    allowed = (chosen.small, chosen.large)
    took: dict[str, list[int]] = {}
    for size, lanes in carried.by_size.items():
        for lane in lanes:
            took.setdefault(lane, []).append(size)
    wrong = {
        lane: f"{lane} carried messages of {min(at)}..{max(at)} B" for lane, at in took.items()
    }
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
        return ["nothing that UCX said shows what carried the messages"]
    if carried.means == ucx_log.FIRST_USE:  # it says that cma carried, not what
        lanes: Mapping[str, float] = carried.lanes
        unproven: tuple[int, ...] = ()
    else:
        lanes = carried.by_size.get(max(sizes), {}) if sizes else carried.lanes
        unproven = carried.unproven
    problems = []
    if unproven:
        named = ", ".join(map(str, unproven[:4])) + (", ..." if len(unproven) > 4 else "")
        problems.append(f"nothing that UCX said shows what carried messages of {named} B")
    reached = set(map(transport_of, lanes))
    if (
        reached
        and reached <= {chosen.small, chosen.large}  # others are wrong lanes, and named there
        and (chosen.large not in reached or (sizes and reached != {chosen.large}))
    ):
        largest = f"messages of {max(sizes)} B" if sizes else "any message"
        problems.append(f"{', '.join(sorted(lanes))}, not {chosen.large} alone, carried {largest}")
    return problems


def _of(transport: str) -> Transport:
    if transport not in TRANSPORTS:
        known = ", ".join(TRANSPORTS)
        raise ValueError(f"unknown transport {transport!r}: one of {known}")
    return TRANSPORTS[transport]


def _version(text: str) -> tuple[int, ...]:
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    if match is None:
        raise ValueError(f"{text!r} is no version of UCX: 1.13.1, for instance, is one")
    return tuple(int(part or 0) for part in match.groups())


# --- Open MPI -----------------------------------------------------------------------------------

#: Open MPI's frameworks that steer how and where bytes move.
STEERING = ("pml", "btl", "mtl", "bml", "osc", "coll", "io")

#: Other names under which Open MPI lists the settings that force pml ucx: 4.1 those of pml, 5.0
#: those of osc too.
SYNONYMS = ("pml_ucx_tls", "pml_ucx_devices", "osc_ucx_tls", "osc_ucx_devices")


def verbose_environment() -> dict[str, str]:
    """Makes Open MPI say which pml each process selected, and each world name itself.

    Read by :mod:`assay.outputs.openmpi`.
    """
    return {"OMPI_MCA_pml_base_verbose": "10", "OMPI_MCA_mpi_show_mca_params": "enviro"}


def pml_environment() -> dict[str, str]:
    """Makes the pml ucx the only one: what cannot run over UCX then fails.

    The two lists open it to all transports and devices; by default it refuses anything but
    InfiniBand of one vendor (opal/mca/common/ucx/common_ucx.c of 4.1.4 and 5.0.10).
    """
    return {
        "OMPI_MCA_pml": "ucx",
        "OMPI_MCA_opal_common_ucx_tls": "any",
        "OMPI_MCA_opal_common_ucx_devices": "any",
    }


def unasked(settings: Mapping[str, str], asked: Collection[str]) -> dict[str, str]:
    """The settings that steer Open MPI and come from no variable that was asked for.

    :param settings: MCA settings as Open MPI lists them, without prefix.
    :param asked: names of environment variables, with it.
    """
    return {
        name: value
        for name, value in settings.items()
        if name.split("_")[0] in STEERING
        and name not in SYNONYMS
        and f"OMPI_MCA_{name}" not in asked
    }
