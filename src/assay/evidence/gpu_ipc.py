"""Whether IPC between GPUs (CUDA IPC) carried messages, by the protocol tables of UCX.

UCX opens a lane of IPC and plans messages on it before a process tries to map the memory of the
other. If that fails, UCX says so at the level debug only, and copies through the host. So neither
a lane nor a plan proves anything. Seen in the logs of UCX 1.16.0, 1.20.1 and 1.22.0 on emulated
GPUs (docs/vgpu.md), beside the emulator's count of the bytes that IPC carried:

===================================  ==========================  ==================================
row on a lane of IPC                 healthy                     mapping fails
===================================  ==========================  ==================================
marked ``(?)``, tagged message       there, counted              there, counted
marked ``(?)``, ``frag``             not there                   there, counted (1.20, 1.22)
``pipeline``                         not there                   there, counted at 16 MiB (1.20,
                                                                 1.22); its fragments decide
not marked, neither of these         there, counted              not there
===================================  ==========================  ==================================

Only the last row is a proof. UCX 1.16 prints it in a table of the sender, and prints no such table
between two processes on one GPU. Then the plan of the receiver decides, which is there if the
receiver has mapped the memory; the table of a sender that could not map it is always printed.
Such a plan names the memory of both (``from cuda/GPU0 from cuda/dev[0]``). One that names its own
memory only is no proof: in a gather of OSU with UCX 1.16 it is there whether or not the mapping
fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from assay.evidence import transports
from assay.evidence.accelerator import Accelerator
from assay.outputs import ucx_log
from assay.outputs.ucx_log import Row, Table, UcxLog, transport_of

#: From this size on [B], messages between GPUs of one node must take IPC if it is on. Below it the
#: cheaper way depends on the GPUs and on gdrcopy, and UCX may rightly choose another one.
MUST_SINCE = 64 << 10

OPEN_LANE, UNUSED = "open lane", "not used at these sizes"


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


class Ipc(NamedTuple):
    """What the tables show: the kind of proof as in :class:`ucx_log.Carried`, and the problems."""

    means: str
    problems: tuple[str, ...]


def used(gpu: Accelerator, log: UcxLog, version: tuple[int, ...], sent: Sent) -> Ipc:
    """Whether IPC carried what it had to carry between the processes of one node.

    :param log: all UCX output of one launch.
    :param sent: what was sent, all of it from GPU memory to GPU memory.
    """
    sizes, senders = sent.sizes, sent.senders
    tables = log.peer_tables("")
    lanes = {lane for config in log.peer_configs() for lane in config.lanes}
    lanes |= {lane for table in tables for row in table.rows for lane in row.lanes}
    if not any(transport_of(lane) == gpu.ipc for lane in lanes):
        silent = f"no lane of {gpu.ipc} between the processes: do their GPUs see each other?"
        return Ipc(ucx_log.NONE, (silent,))
    if version < transports.TABLES_SINCE:
        return Ipc(OPEN_LANE, ())
    counts = version >= transports.COUNTS_SINCE
    rows = [(table, row) for table in tables for row in table.rows if _on(gpu, row)]
    mapped = [(table, row) for table, row in rows if direct(row)]
    if not mapped and not counts and not _senders_tables(gpu, log):
        mapped = [(table, row) for table, row in rows if _plan_of_receiver(table, row)]
        senders = 1  # UCX prints only one of these plans
    planned = [size for size in sizes if any(_took(row, size) for _, row in rows)]
    if not sizes or max(sizes) >= MUST_SINCE:
        size = max(sizes, default=None)
        shown = [(table, row) for table, row in mapped if _took(row, size)]
    elif planned:
        # A receiver that has mapped the memory may still find another way cheaper for them.
        size, shown = planned[0], mapped
    elif not counts and any(_never_on(gpu, table) for table in _senders_tables(gpu, log)):
        size, shown = min(sizes), []
    else:
        return Ipc(UNUSED, ())
    ends = {(table.process, table.kind) for table, _ in shown}
    if not ends:
        messages = "any message" if size is None else f"messages of {size} B"
        said = "count" if counts else "choose it for"
        return Ipc(ucx_log.NONE, (f"{gpu.ipc} carried nothing: UCX did not {said} {messages}",))
    # Each process receives, so each such row is one of a receiver that could not map the memory.
    cut = senders > 1 and any("frag" in row.description and _took(row, size) for _, row in rows)
    if sizes and (len(ends) < senders or cut):
        partly = f"{gpu.ipc} carried the messages of some of {senders} senders, or their fragments"
        return Ipc(ucx_log.NONE, (partly,))
    carried = any(_took(row, size) for _, row in shown)
    return Ipc((ucx_log.COUNT if counts else ucx_log.TABLE) if carried else UNUSED, ())


def _took(row: Row, size: int | None) -> bool:
    """Whether messages of this size [B] (None for any) took the row, as far as UCX counted."""
    return row.count != 0 and (size is None or row.first <= size <= row.last)


def direct(row: Row) -> bool:
    """Whether a row says what carries its messages: it is neither a plan nor cut into fragments."""
    return not row.estimate and not row.description.startswith("pipeline")


def _on(gpu: Accelerator, row: Row) -> bool:
    return any(transport_of(lane) == gpu.ipc for lane in row.lanes)


def _senders_tables(gpu: Accelerator, log: UcxLog) -> list[Table]:
    """The tables by which senders decide what carries messages from the memory of a GPU."""
    return [
        table for table in log.peer_tables("rendezvous data send")
        if table.memory.startswith(gpu.word)
    ]  # fmt: skip


def _never_on(gpu: Accelerator, table: Table) -> bool:
    """Whether a sender's table leaves IPC out at every size, as only a failed mapping does."""
    return not any(_on(gpu, row) for row in table.rows)


def _plan_of_receiver(table: Table, row: Row) -> bool:
    return (
        "rendezvous data fetch" in table.kind
        # Without the memory of the sender, nothing was mapped yet.
        and " from " in table.memory
        and "frag" not in row.description
        and not row.description.startswith("pipeline")
    )
