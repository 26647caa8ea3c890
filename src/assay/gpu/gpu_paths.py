"""How bytes get from GPU to GPU: UCX switches for GPUDirect RDMA, CUDA IPC and gdrcopy.

Not yet run on hardware. Written from UCX's sources and issue threads, at the tags v1.13.1 to
v1.22.0. The tables are for GPUs of NVIDIA. For GPUs of AMD, the names of the transports differ
(:mod:`assay.gpu.accelerator`), and there is nothing like gdrcopy to switch.

UCX_TLS lists the allowed transports, and never has the form ``^gdr_copy``: every UCX warns about a
requested transport that is not there, but from 1.18 on not about a denied one. ``cuda_copy`` is in
every list: nothing else tells UCX which pointers belong to a GPU, and without it a run crashes
(openucx/ucx issue 3776). UCX_IB_GPU_DIRECT_RDMA=y fails if there is neither a module for it nor
dma-buf of the adapter; the default ``try`` is silent (src/uct/ib/base/ib_md.c).

The proof of each path, in addition to UCX reading every switch (an unused one fails the test):

=============  ================  =================================================================
technology     UCX               proof
=============  ================  =================================================================
CUDA IPC off   all               no lane ``cuda_ipc`` to another process
CUDA IPC on    before 1.16       such a lane, which may be idle; in addition the ratio on/off
\\              1.16 to 1.20      a table that decides for it (below)
\\              1.21 and on       operations that UCX counted on it, in a row that is not a plan
buffers        1.16 and on       number of processes with a table of tagged messages "from cuda",
                                 equal to the number of ranks that send from GPU memory
gdrcopy        all               no log of UCX shows it (src/ucp/core/ucp_worker.c:2227 of v1.22.0
                                 leaves these endpoints out). Instead: no warning about the name;
                                 what libgdrapi itself says at its first copy; the ratio on/off
RDMA           all               the kernel of each node (``rank-gpu.sh``): UCX opens a device
\\                                that knows dma-buf without it; the ratio on/off at 1 MiB
TCP            all               the tables, as in :func:`assay.parse.ucx_log.carriers`
=============  ================  =================================================================

Between nodes without InfiniBand, UCX copies messages to host memory and sends them over TCP. There
GPUDirect RDMA cannot be switched. For GPUs of AMD, only the ratio shows RDMA: UCX takes it to be
there if /dev/kfd is, which comes with every driver (uct_ib_md_open_common in ib_md.c).

UCX plans messages on a lane of IPC before a process tries to map the memory of the other. If that
fails, UCX copies through the host, and says so at the level debug only. So neither a lane nor a
plan proves anything. Seen with UCX 1.16.0, 1.20.1 and 1.22.0 on emulated GPUs (docs/vgpu.md):

===================================  ==========================  ==================================
row on a lane of IPC                 healthy                     mapping fails
===================================  ==========================  ==================================
marked ``(?)``, tagged message       there, counted              there, counted
marked ``(?)``, ``frag``             not there                   there, counted (1.20, 1.22)
``pipeline``                         not there                   there, counted at 16 MiB (1.20,
                                                                 1.22); its fragments decide
not marked, neither of these         there, counted              not there
===================================  ==========================  ==================================

Only the last row is a proof. UCX 1.16 prints it in a table of the sender, but not between two
processes on one GPU. Then the plan of a receiver decides, if it names the memory of both (``from
cuda/GPU0 from cuda/dev[0]``): the receiver has mapped it. One that names its own memory only is
there whether or not the mapping fails, in a gather of OSU with UCX 1.16.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from assay import declared
from assay.declared import INTER, INTRA
from assay.gpu.accelerator import ACCELERATORS, Accelerator
from assay.parse import ucx_log
from assay.parse.ucx_log import Row, Table, UcxLog, transport_of
from assay.prove import transports
from assay.prove.plan import Note
from assay.prove.transports import Proof


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


#: The configurations of :data:`assay.declared.CONFIGURATIONS`.
CONFIGURATIONS: Mapping[str, Configuration] = {
    name: Configuration("no-ipc" not in name, "no-gdrcopy" not in name, "no-rdma" not in name, its)
    for name, its in declared.CONFIGURATIONS.items()
}


#: What carries messages between nodes, as UCX_TLS names it: InfiniBand, or TCP where there is none.
RC, TCP = "rc", "tcp"


class Way(NamedTuple):
    """A configuration, its place, the GPUs, and what carries messages between nodes."""

    configuration: str
    place: str
    gpu: Accelerator
    over: str = RC

    @property
    def has_rdma(self) -> bool:
        """Whether GPUDirect RDMA can be switched on this way."""
        return self.place == INTER and self.over == RC


def with_configuration(name: str) -> list[Accelerator]:
    """The vendors for whose GPUs a configuration differs from the others."""
    return [each for each in ACCELERATORS.values() if each.small or CONFIGURATIONS[name].gdrcopy]


def lacking(way: Way, lacks: Collection[str]) -> list[str]:
    """The transports of a configuration that a UCX was built without.

    :param lacks: names of transports, as UCX_TLS names them.
    :raises ValueError: as :func:`gpu_path_variables`.
    """
    return [name for name in _list(way).split(",") if name in lacks]


def gpu_path_variables(way: Way, ucx_version: str, device: str | None = None) -> dict[str, str]:
    """Variables that allow UCX only these paths between GPUs, and make it report its choice.

    :param device: between nodes: ``mlx5_0:1`` or ``eth0``.
    :raises ValueError: the configuration is unknown, it has no effect in this place, or the
        switches of this UCX are not known.
    """
    variables = {
        "UCX_TLS": _list(way), "UCX_LOG_LEVEL": "info",
        **transports.tables(known(way.gpu, ucx_version)), **way.gpu.log, **_rdma(way),
    }  # fmt: skip
    if way.place == INTER and device:
        variables["UCX_NET_DEVICES"] = device
    return variables


class Sent(NamedTuple):
    """What the processes of a launch sent to each other.

    :ivar buffers: ``D`` or ``H`` for each sending process: its buffer is in GPU or host memory.
        ``d`` for a process that may send, and then from GPU memory. None if messages need not come
        from these buffers.
    :ivar sizes: sizes of the messages [B]; empty for a collective, because the library chooses the
        sizes of its messages.
    :ivar senders: number of processes that send messages of the largest size.
    """

    buffers: str | None
    sizes: Sequence[int] = ()
    senders: int = 1


#: Collectives of OSU that reduce.
REDUCTIONS = ("reduce", "allreduce")

#: The leaves of a broadcast and the root of a gather send nothing. Between them Open MPI chooses
#: who sends, and in a gather also from host memory (coll/base of Open MPI 5.0).
ONE_ENDED = ("bcast", "gather")


def of_pair(benchmark: str, buffers: str, sizes: Sequence[int]) -> Sent:
    """What two ranks of OSU send to each other.

    In return for a window of messages, the receiver of ``osu_bw`` sends 4 B.
    """
    return Sent(buffers, sizes, 2 if benchmark == "latency" else 1)


def of_collective(benchmark: str, ranks: int) -> Sent:
    """What the ranks of a collective of OSU send, with all buffers in GPU memory."""
    if benchmark in REDUCTIONS:
        # Open MPI reduces on the host: it copies the data there first (coll/cuda of 4.1, 5.0).
        return Sent(None)
    return Sent("D" + ("d" if benchmark in ONE_ENDED else "D") * (ranks - 1))


def prove_gpu_paths(
    way: Way, log: UcxLog, sent: Sent, ucx_version: str, processes: int | None = None
) -> Proof:
    """Whether a run used the paths that its configuration allows, as far as UCX reports them.

    :param log: all UCX output of one launch, from all its processes.
    :raises ValueError: as :func:`gpu_path_variables`.
    """
    chosen, version, buffers = _of(way), known(way.gpu, ucx_version), sent.buffers
    if not log.processes:
        return Proof(ucx_log.NONE, None, {}, ("UCX printed nothing: is the pml ucx?",))
    problems = transports.common_problems(log, _list(way), ucx_version, processes)
    for name, value in _rdma(way).items():
        problems += transports.other_setting(log, name, value)
    lanes = _lanes(log)
    tables = [row for table in log.peer_tables("") for row in table.rows]
    counted = {lane for row in tables if row.count and direct(row) for lane in row.lanes}
    if buffers and version >= transports.TABLES_SINCE:
        problems += _buffers_elsewhere(way.gpu, log, buffers)
    means = "no lane" if not chosen.ipc else ucx_log.NONE
    if chosen.ipc and way.place == INTRA and buffers and set(buffers) <= set("Dd"):
        means, problem = over_ipc(way.gpu, log, version, sent)
        problems += filter(None, [problem])
    if way.place == INTER and way.over == TCP:
        carried = ucx_log.carriers(log, sent.sizes)
        means = carried.means
        others = sorted(lane for lane in carried.lanes if transport_of(lane) != TCP)
        problems += [f"{lane} carried messages: {TCP} was asked for" for lane in others]
        if carried.unproven or means == ucx_log.NONE:
            sizes = ", ".join(map(str, carried.unproven)) or "any size"
            problems.append(f"UCX's log does not show what carried messages of {sizes} B")
    problems += _wrong_lanes(way, lanes)
    if sent.sizes and (said := staged(way, log, max(sent.sizes))):
        problems.append(Note(said))
    if way.gpu.unproven:
        problems.append(way.gpu.unproven)
    versions = sorted({version for version, _ in log.versions.values()})
    return Proof(
        means, ", ".join(versions) or None, dict.fromkeys(sorted(counted or lanes), 1.0),
        tuple(problems),
    )  # fmt: skip


def _lanes(log: UcxLog) -> set[str]:
    """All lanes to other processes, by the configurations and by the tables."""
    lanes = {lane for config in log.peer_configs() for lane in config.lanes}
    rows = (row for table in log.peer_tables("") for row in table.rows)
    return lanes.union(*(row.lanes for row in rows))


def _wrong_lanes(way: Way, lanes: Collection[str]) -> list[str]:
    """Lanes that the configuration switches off, and lanes of transports that it does not name."""
    gpu, problems = way.gpu, []
    ipc = sorted(lane for lane in lanes if transport_of(lane) == gpu.ipc)
    if ipc and not _of(way).ipc:
        problems.append(f"{', '.join(ipc)} is open between the processes: it should be off")
    between = SHARED_MEMORY if way.place == INTRA else RELIABLE if way.over == RC else {TCP}
    expected = between | {"self", gpu.copy, gpu.small} | ({gpu.ipc} if _of(way).ipc else set())
    foreign = sorted({transport_of(lane) for lane in lanes} - expected)
    return [*problems, *(f"{transport} is open between the processes" for transport in foreign)]


def _rdma(way: Way) -> dict[str, str]:
    """The switch of GPUDirect RDMA, where UCX reads it."""
    return {"UCX_IB_GPU_DIRECT_RDMA": "y" if _of(way).rdma else "n"} if way.has_rdma else {}


def staged(way: Way, log: UcxLog, size: int) -> str:
    """What shows that messages of this size [B] went through the memory of the host; else empty.

    UCX may find that faster where the adapter is far from the GPU, so it is no fault by itself.
    """
    rows = (
        row for table in log.peer_tables("rendezvous data")
        if table.memory.startswith(way.gpu.word) for row in table.rows if _took(row, size)
    )  # fmt: skip
    cut = next((row.description for row in rows if "frag host" in row.description), "")
    said = f"UCX copied messages of {size} B through the memory of the host ({cut})"
    return said if cut and way.has_rdma and _of(way).rdma else ""


def _buffers_elsewhere(gpu: Accelerator, log: UcxLog, buffers: str) -> list[str]:
    """Problems by the tables of UCX, because OSU 7.4 no longer reports where its buffers are."""
    tables = log.peer_tables("tagged message")
    sent = {table.process for table in tables if table.memory.startswith(gpu.word)}
    least = buffers.count("D")
    most = least + buffers.count("d")
    if least <= len(sent) <= most:
        return []
    wanted = f"{least}" if least == most else f"{least} to {most}"
    return [f"{len(sent)} ranks sent from GPU memory, {wanted} of {len(buffers)} were to"]


#: What libgdrapi logs at the first copy of more than 8 B (``gdr_dbgc`` in src/gdrapi.c of 2.5).
_COPIED = re.compile(r"using \S+ implementation of gdr_copy_(?:to|from)_mapping")


def gdrcopy(way: Way, stderr: str) -> tuple[str, list[str]]:
    """Whether gdrcopy ``copied`` anything, or was ``silent``; and what is wrong, one line each.

    ``silent`` does not prove that nothing was copied: some processors lack the instructions that
    gdrcopy reports, and it does not report aligned copies of up to 8 B (seen with UCX 1.16 in
    tests/data/vgpu). The ratio on/off decides then.

    :param stderr: of all processes of a launch.
    """
    if _COPIED.search(stderr) is None:
        return "silent", []
    return "copied", [] if _of(way).gdrcopy else ["gdrcopy copied: it should be off"]


#: The transports behind the aliases in :func:`_list` (src/ucp/core/ucp_context.c of v1.22.0).
SHARED_MEMORY = frozenset(["posix", "sysv", "cma", "xpmem", "knem"])
RELIABLE = frozenset(["rc_verbs", "rc_mlx5"])


def _list(way: Way) -> str:
    chosen, gpu = _of(way), way.gpu
    names = ["sm" if way.place == INTRA else way.over, "self", gpu.copy]
    names += [gpu.ipc] * chosen.ipc + [gpu.small] * (chosen.gdrcopy and bool(gpu.small))
    return ",".join(names)


def _of(way: Way) -> Configuration:
    name, place = way.configuration, way.place
    if name not in CONFIGURATIONS:
        raise ValueError(f"unknown configuration {name!r}: one of {', '.join(CONFIGURATIONS)}")
    if place not in CONFIGURATIONS[name].places:
        raise ValueError(f"the configuration {name} makes no difference {place}")
    if place == INTER and not (way.has_rdma or CONFIGURATIONS[name].rdma):
        raise ValueError(f"the configuration {name} makes no difference over {way.over}")
    return CONFIGURATIONS[name]


def known(gpu: Accelerator, text: str) -> tuple[int, ...]:
    """The generation of a UCX. Raises ValueError if its switches are not known."""
    match = re.match(r"(\d+)\.(\d+)", text)
    version = tuple(map(int, match.groups())) if match else ()
    if not gpu.ucx[0] <= version <= gpu.ucx[1]:
        first, last = (".".join(map(str, edge)) for edge in gpu.ucx)
        what = f"how it switches the paths of {gpu.word} memory"
        raise ValueError(f"UCX {text}: {what} is known for {first} to {last}")
    return version


# --- IPC between the GPUs of one node -------------------------------------------------------------

#: From this size on [B], messages between GPUs of one node must take IPC if it is on. Below it the
#: cheaper way depends on the GPUs and on gdrcopy, and UCX may rightly choose another one.
MUST_SINCE = 64 << 10

OPEN_LANE, UNUSED = "open lane", "not used at these sizes"


def over_ipc(
    gpu: Accelerator, log: UcxLog, version: tuple[int, ...], sent: Sent
) -> tuple[str, str]:
    """The kind of proof that IPC carried what it had to carry, and the problem; else empty.

    :param sent: what was sent, all of it from GPU memory to GPU memory.
    """
    sizes, senders = sent.sizes, sent.senders
    tables = log.peer_tables("")
    if not any(transport_of(lane) == gpu.ipc for lane in _lanes(log)):
        said = f"no lane of {gpu.ipc} between the processes: do their GPUs see each other?"
        return ucx_log.NONE, said
    if version < transports.TABLES_SINCE:
        return OPEN_LANE, ""
    counts = version >= transports.COUNTS_SINCE
    # The tables by which senders decide what carries messages from the memory of a GPU.
    deciding = [
        table for table in log.peer_tables("rendezvous data send")
        if table.memory.startswith(gpu.word)
    ]  # fmt: skip
    rows = [(table, row) for table in tables for row in table.rows if _on(gpu, row)]
    mapped = [(table, row) for table, row in rows if direct(row)]
    if not mapped and not counts and not deciding:
        mapped = [(table, row) for table, row in rows if _plan_of_receiver(table, row)]
        senders = 1  # UCX prints only one of these plans
    planned = [size for size in sizes if any(_took(row, size) for _, row in rows)]
    if not sizes or max(sizes) >= MUST_SINCE:
        size = max(sizes, default=None)
        shown = [(table, row) for table, row in mapped if _took(row, size)]
    elif planned:
        # A receiver that has mapped the memory may still find another way cheaper for them.
        size, shown = planned[0], mapped
    elif not counts and any(not any(_on(gpu, row) for row in table.rows) for table in deciding):
        # Only a failed mapping makes a sender's table leave IPC out at every size.
        size, shown = min(sizes), []
    else:
        return UNUSED, ""
    ends = {(table.process, table.kind) for table, _ in shown}
    if not ends:
        messages = "any message" if size is None else f"messages of {size} B"
        said = "count" if counts else "choose it for"
        return ucx_log.NONE, f"{gpu.ipc} carried nothing: UCX did not {said} {messages}"
    # Each process receives, so each such row is one of a receiver that could not map the memory.
    cut = senders > 1 and any("frag" in row.description and _took(row, size) for _, row in rows)
    if sizes and (len(ends) < senders or cut):
        partly = f"{gpu.ipc} carried the messages of some of {senders} senders, or their fragments"
        return ucx_log.NONE, partly
    carried = any(_took(row, size) for _, row in shown)
    return (ucx_log.COUNT if counts else ucx_log.TABLE) if carried else UNUSED, ""


def _took(row: Row, size: int | None) -> bool:
    """Whether messages of this size [B] (None for any) took the row, as far as UCX counted."""
    return row.count != 0 and (size is None or row.first <= size <= row.last)


def direct(row: Row) -> bool:
    """Whether a row says what carries its messages: it is neither a plan nor cut into fragments."""
    return not row.estimate and not row.description.startswith("pipeline")


def _on(gpu: Accelerator, row: Row) -> bool:
    return any(transport_of(lane) == gpu.ipc for lane in row.lanes)


def _plan_of_receiver(table: Table, row: Row) -> bool:
    return (
        "rendezvous data fetch" in table.kind
        # Without the memory of the sender, nothing was mapped yet.
        and " from " in table.memory
        and "frag" not in row.description
        and not row.description.startswith("pipeline")
    )
