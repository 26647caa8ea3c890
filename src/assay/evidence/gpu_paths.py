"""How bytes get from GPU to GPU: UCX switches for GPUDirect RDMA, CUDA IPC and gdrcopy.

Not yet run on hardware. Written from UCX's sources and issue threads, at the tags v1.13.1 to
v1.22.0.

========================  =====================================  ==============================
technology                on                                     off
========================  =====================================  ==============================
CUDA IPC (one node)       ``cuda_ipc`` in UCX_TLS                not in UCX_TLS
gdrcopy (small messages)  ``gdr_copy`` in UCX_TLS                not in UCX_TLS
GPUDirect RDMA (between)  UCX_IB_GPU_DIRECT_RDMA=y               UCX_IB_GPU_DIRECT_RDMA=n
========================  =====================================  ==============================

The value of UCX_TLS lists the allowed transports; it never has the form ``^gdr_copy``. Every UCX
warns about a requested transport that is not there. From 1.18 on, UCX does not warn about a denied
transport that is not there. ``cuda_copy`` is in every list: nothing else tells UCX which pointers
belong to a GPU, and without it a run crashes (openucx/ucx issue 3776). ``y`` fails if GPUDirect
RDMA is not there; the default ``try`` is silent (src/uct/ib/base/ib_md.c).

The proof of each path, in addition to UCX reading every switch (an unused one fails the test):

=============  ================  =================================================================
technology     UCX               proof
=============  ================  =================================================================
CUDA IPC off   all               no lane ``cuda_ipc`` to another process
CUDA IPC on    before 1.21       such a lane, which may be idle; in addition the ratio on/off
\\              1.21 and on       operations that UCX counted on it
buffers        1.16 and on       number of processes with a table of tagged messages "from cuda",
                                 equal to the number of ranks with a buffer in GPU memory
gdrcopy        all               no log of UCX shows it (src/ucp/core/ucp_worker.c:2227 of v1.22.0
                                 leaves these endpoints out). Instead: no warning about the name;
                                 what libgdrapi itself says at its first copy; the ratio on/off
RDMA           all               UCX fails to open the device if RDMA is on but missing; the
                                 ratio on/off at 1 MiB
=============  ================  =================================================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.evidence import transports
from assay.evidence.transports import Proof
from assay.outputs import ucx_log
from assay.outputs.ucx_log import UcxLog, transport_of

#: First and last generation of UCX with known switches. Any other UCX is an error.
KNOWN = ((1, 13), (1, 22))


@dataclass(frozen=True)
class Configuration:
    """Which of the three technologies a run may use.

    :ivar places: where the configuration differs from the others. CUDA IPC has no effect between
        nodes, and GPUDirect RDMA has no effect within a node.
    """

    ipc: bool
    gdrcopy: bool
    rdma: bool
    places: tuple[str, ...]


INTRA, INTER = "intra-node", "inter-node"

#: The configurations that differ, named by what is off. "all" is what a user gets.
CONFIGURATIONS: Mapping[str, Configuration] = {
    "all": Configuration(ipc=True, gdrcopy=True, rdma=True, places=(INTRA, INTER)),
    "no-gdrcopy": Configuration(ipc=True, gdrcopy=False, rdma=True, places=(INTRA, INTER)),
    "no-ipc": Configuration(ipc=False, gdrcopy=True, rdma=True, places=(INTRA,)),
    "no-ipc-no-gdrcopy": Configuration(ipc=False, gdrcopy=False, rdma=True, places=(INTRA,)),
    "no-rdma": Configuration(ipc=True, gdrcopy=True, rdma=False, places=(INTER,)),
    "no-rdma-no-gdrcopy": Configuration(ipc=True, gdrcopy=False, rdma=False, places=(INTER,)),
}


#: Name of a configuration, and the place where it is examined.
Way = tuple[str, str]


def environment(way: Way, ucx_version: str, device: str | None = None) -> dict[str, str]:
    """Variables that allow UCX only these paths between GPUs, and make it report its choice.

    :param way: a name in :data:`CONFIGURATIONS`, and ``intra-node`` or ``inter-node``.
    :param ucx_version: UCX version of the stack.
    :param device: HCA and port for `inter-node` (``mlx5_0:1``).
    :raises ValueError: the configuration is unknown, it has no effect in this place, or the
        switches of this UCX are not known.
    """
    chosen, place = _of(way), way[1]
    version = _known(ucx_version)
    variables = {
        "UCX_TLS": _list(chosen, place),
        "UCX_LOG_LEVEL": "info",
        **transports.tables(version),
        # libgdrapi then logs to standard error. It reads its level only if logging is on.
        "GDRCOPY_ENABLE_LOGGING": "1",
        "GDRCOPY_LOG_LEVEL": "1",
    }
    if place == INTER:
        # Within a node no part of UCX would read this variable.
        variables[RDMA] = _rdma(chosen)
        if device:
            variables["UCX_NET_DEVICES"] = device
    return variables


def prove(
    way: Way,
    log: UcxLog,
    buffers: Sequence[str] | None,
    ucx_version: str,
    processes: int | None = None,
) -> Proof:
    """Whether a run used the paths that its configuration allows, as far as UCX reports them.

    :param log: all UCX output of one launch, from all its processes.
    :param buffers: ``D`` or ``H`` for each sending process: its buffer is in GPU or host memory.
        None if messages need not come from these buffers.
    :raises ValueError: see :func:`environment`.
    """
    chosen, place = _of(way), way[1]
    version = _known(ucx_version)
    if not log.processes:
        return Proof(ucx_log.NONE, None, {}, ("UCX said nothing: is the pml ucx?",))
    problems = list(transports.common_problems(log, _list(chosen, place), ucx_version, processes))
    if place == INTER:
        asked = _rdma(chosen)
        found = {log.env.get(process, {}).get(RDMA) for process in log.processes} - {asked}
        problems += [
            f"{RDMA} was {value or 'not set'} where the program ran, {asked} was asked for"
            for value in sorted(found, key=str)
        ]
    lanes = {lane for config in log.peer_configs() for lane in config.lanes}
    tables = [row for table in log.peer_tables("") for row in table.rows]
    lanes |= {lane for row in tables for lane in row.lanes}
    counted = {lane for row in tables if row.count for lane in row.lanes}
    ipc = {lane for lane in lanes if transport_of(lane) == "cuda_ipc"}
    means = "no lane" if not chosen.ipc else ucx_log.NONE
    if ipc and not chosen.ipc:
        problems.append(f"{', '.join(sorted(ipc))} is open between the processes: it was to be off")
    if buffers and version >= transports.TABLES_SINCE:
        problems += _buffers_elsewhere(log, buffers)
    if chosen.ipc and place == INTRA and buffers and set(buffers) == {"D"}:
        means = ucx_log.COUNT if version >= transports.COUNTS_SINCE else "open lane"
        if not ipc:
            problems.append("no lane of cuda_ipc between the processes: do their GPUs see another?")
        elif version >= transports.COUNTS_SINCE and not ipc & counted:
            problems.append("cuda_ipc carried nothing: UCX counted no operation on it")
    foreign = sorted({transport_of(lane) for lane in lanes} - _expected(chosen, place))
    problems += [f"{transport} is open between the processes" for transport in foreign]
    versions = sorted({version for version, _ in log.versions.values()})
    return Proof(
        means, ", ".join(versions) or None, dict.fromkeys(sorted(counted or lanes), 1.0),
        tuple(problems),
    )  # fmt: skip


#: The default, ``try``, gives no message if GPUDirect RDMA is not there.
RDMA = "UCX_IB_GPU_DIRECT_RDMA"


def _rdma(chosen: Configuration) -> str:
    return "y" if chosen.rdma else "n"


def shows_buffers(ucx_version: str) -> bool:
    """Whether :func:`prove` sees where buffers are with this UCX. Raises as :func:`environment`."""
    return _known(ucx_version) >= transports.TABLES_SINCE


def _buffers_elsewhere(log: UcxLog, buffers: Sequence[str]) -> list[str]:
    """Problems by the tables of UCX, because OSU 7.4 no longer reports where its buffers are."""
    tables = log.peer_tables("tagged message")
    sent = {table.process for table in tables if table.memory.startswith("cuda")}
    wanted = list(buffers).count("D")
    if len(sent) == wanted:
        return []
    return [f"{len(sent)} ranks sent from GPU memory, {wanted} of {len(buffers)} were to"]


#: What libgdrapi logs at the first copy of more than 8 B in a process (``src/gdrapi.c`` of gdrcopy
#: 2.5, ``gdr_dbgc``): the instructions that it uses, and the direction.
_COPIED = re.compile(r"using \S+ implementation of gdr_copy_(?:to|from)_mapping")


@dataclass(frozen=True)
class Gdrcopy:
    """What gdrcopy reports about itself.

    :ivar said: ``copied`` or ``silent``. ``silent`` does not prove that nothing was copied: some
        processors lack the instructions that gdrcopy reports. The ratio on/off decides then.
    """

    said: str
    problems: tuple[str, ...]


def gdrcopy(way: Way, stderr: str) -> Gdrcopy:
    """Whether gdrcopy copied anything, by the standard error of all processes of a launch."""
    copied = _COPIED.search(stderr) is not None
    wrong = copied and not _of(way).gdrcopy
    return Gdrcopy(
        "copied" if copied else "silent", ("gdrcopy copied: it was to be off",) if wrong else ()
    )


#: The transports behind the aliases in :func:`_list` (src/ucp/core/ucp_context.c of v1.22.0).
SHARED_MEMORY = frozenset(["posix", "sysv", "cma", "xpmem", "knem"])
RELIABLE = frozenset(["rc_verbs", "rc_mlx5"])


def _list(chosen: Configuration, place: str) -> str:
    names = ["sm" if place == INTRA else "rc", "self", "cuda_copy"]
    names += ["cuda_ipc"] * chosen.ipc + ["gdr_copy"] * chosen.gdrcopy
    return ",".join(names)


def _expected(chosen: Configuration, place: str) -> frozenset[str]:
    between = SHARED_MEMORY if place == INTRA else RELIABLE
    return between | {"self", "cuda_copy", "gdr_copy"} | ({"cuda_ipc"} if chosen.ipc else set())


def _of(way: Way) -> Configuration:
    name, place = way
    if name not in CONFIGURATIONS:
        raise ValueError(f"unknown configuration {name!r}: one of {', '.join(CONFIGURATIONS)}")
    if place not in CONFIGURATIONS[name].places:
        raise ValueError(f"{name} says nothing that {place} would notice")
    return CONFIGURATIONS[name]


def _known(text: str) -> tuple[int, ...]:
    match = re.match(r"(\d+)\.(\d+)", text)
    version = tuple(map(int, match.groups())) if match else ()
    if not KNOWN[0] <= version <= KNOWN[1]:
        first, last = (".".join(map(str, edge)) for edge in KNOWN)
        raise ValueError(
            f"UCX {text}: how it switches the ways of GPU memory is known for {first} to {last}"
        )
    return version
