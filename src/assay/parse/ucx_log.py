"""Messages of UCX about its data path, in the output of a program run with UCX_LOG_LEVEL=info.

The parser reads the output of UCX 1.10 to 1.22: the lanes of each endpoint (``ep_cfg[1]:
tag(...)`` or ``ucp_context_0 intra-node cfg#1 tag(...)``), the protocol tables of
UCX_PROTO_INFO=y (from 1.13 on), and the tables with a count of UCX_PROTO_INFO=used (1.21 and
later). Lines of several processes may be interleaved, and may be torn if mpirun forwarded them in
pieces. The parser ignores a row that is not complete. With one log file for each process
(UCX_LOG_FILE) no line is torn. If no line names its process, as in what somebody copied by hand and
in the tables of ``ucx_info -e``, all lines belong to one process without a name.

Formats: src/ucp/proto/proto_debug.c:ucp_proto_select_elem_info, src/ucp/proto/proto_multi.c:
ucp_proto_multi_query_config, src/ucp/core/ucp_worker.c:ucp_worker_print_used_tls,
src/ucs/config/parser.c and src/ucs/debug/log.c of UCX v1.13.1, v1.16.0, v1.21.0 and v1.22.0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from assay.parse.reading import Process, said_by

COUNT = "count"
TABLE = "protocol table"
ONLY_LANE = "only lane"
FIRST_USE = "first use"
NONE = "none"

#: Transports that copy from process to process by a call of the kernel.
COPIERS = ("cma", "knem")


@dataclass(frozen=True)
class Row:
    """One row of a protocol table, for one range of message sizes.

    :ivar first: smallest size [B].
    :ivar last: largest size [B], inclusive; ``math.inf`` if there is no upper limit.
    :ivar lanes: share of the bytes by lane (``tcp/eth0``: 0.48); empty if no bytes are moved.
    :ivar estimate: whether UCX marks the row ``(?)``; then a table of the peer decides.
    :ivar count: number of operations that used this row; each fragment of a multi-fragment
        operation counts separately. None if UCX did not count.
    """

    first: int
    last: float
    description: str
    lanes: Mapping[str, float]
    estimate: bool = False
    count: int | None = None


@dataclass(frozen=True)
class Table:
    """One protocol table: an operation of one process on endpoints of one configuration.

    :ivar config: the endpoint configuration, as UCX names it (``ucp_context_0 self cfg#0``).
    :ivar kind: the operation without its attributes (``tagged message by ucp_tag_send*``).
    :ivar variant: its attributes (``fast-completion``, ``multi``); empty for the plain operation.
    :ivar memory: the memory that it moves (``host memory``, ``host memory from host``).
    """

    process: Process
    config: str
    kind: str
    variant: str
    memory: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Config:
    """The lanes of an endpoint for tagged messages; some of them may never be used.

    Without tagged messages they are those for active messages. Endpoints without messages (windows
    of MPI) count, with all their lanes, only in a log of no others.
    """

    process: Process
    name: str
    lanes: tuple[str, ...]


@dataclass(frozen=True)
class UcxLog:
    """All messages of the processes of one job.

    :ivar processes: every process that wrote a line.
    :ivar versions: version and path of the library, by process.
    :ivar env: the UCX_* variables that UCX read, by process.
    :ivar unused: the UCX_* variables that this UCX does not read.
    :ivar warnings: each UCX WARN that is not about unused variables, once.
    :ivar errors: each UCX ERROR or FATAL, once.
    :ivar copiers: processes whose cma endpoint moved data at least once. Only
        UCX_LOG_LEVEL=debug shows this: the first transfer fills the pool of its descriptors
        (src/uct/sm/scopy/base/scopy_ep.c:64 of v1.13.1).
    """

    processes: set[Process] = field(default_factory=set)
    versions: dict[Process, tuple[str, str]] = field(default_factory=dict)
    env: dict[Process, Mapping[str, str]] = field(default_factory=dict)
    unused: set[str] = field(default_factory=set)
    configs: tuple[Config, ...] = ()
    tables: tuple[Table, ...] = ()
    warnings: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    copiers: set[Process] = field(default_factory=set)

    def peer_configs(self) -> tuple[Config, ...]:
        """Configurations of endpoints to *another* process."""
        own = self._own()
        return tuple(c for c in self.configs if (c.process, c.name) not in own)

    def peer_tables(self, kind: str) -> tuple[Table, ...]:
        """Tables of endpoints to *another* process whose kind contains `kind`."""
        own = self._own()
        return tuple(t for t in self.tables if kind in t.kind and (t.process, t.config) not in own)

    def _own(self) -> frozenset[tuple[Process, str]]:
        """The configurations of endpoints to the process itself.

        A rank of an MPI job opens an endpoint to itself before any other. UCX 1.15 and later name
        it ``self``; in older versions its lane shows this.
        """
        lanes = [(c.process, c.name, c.lanes) for c in self.configs]
        lanes += [(t.process, t.config, tuple(row.lanes)) for t in self.tables for row in t.rows]
        return frozenset(
            (process, name)
            for process, name, its in lanes
            if re.search(r"\bself cfg#|^Protocol selection", name)
            or "self" in map(transport_of, its)
        )


@dataclass(frozen=True)
class Carried:
    """The lanes that moved the tagged messages between processes, as far as the log proves it.

    :ivar means: the proof: ``count`` (UCX counted operations), ``protocol table`` (the tables by
        which UCX selects), ``only lane`` (there is no other lane), ``first use`` (cma moved data,
        but UCX does not show for which sizes), or ``none``. If sizes have different proofs, these
        are joined by ``+``: UCX does not count its shortest messages.
    :ivar lanes: for each lane, its largest share of any one size; 1.0 if it carried some size
        alone.
    :ivar by_size: the same for each size [B] that the log decides. If tables disagree, or do not
        show how one transport distributed the bytes over its devices, all lanes are listed, and the
        shares add up to more than 1.
    :ivar unproven: sizes [B] that nothing in the log decides.
    """

    means: str
    lanes: Mapping[str, float]
    by_size: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    unproven: tuple[int, ...] = ()


def transport_of(lane: str) -> str:
    """The transport of a lane: ``tcp`` for the lane ``tcp/eth0``."""
    return lane.partition("/")[0]


def carriers(log: UcxLog, sizes: Sequence[int] = ()) -> Carried:
    """The lanes that carried tagged messages of `sizes` [B] to another process.

    All messages of MPI are tagged messages, those of which Open MPI builds its collectives too. If
    UCX shows none, the active messages count, then the writes to remote memory. Bytes that a
    collective moves by itself (coll/sm, UCC) are not visible here. The library chooses the message
    sizes of a collective, so pass no sizes for it: all ranges that the tables distinguish count.

    A row marked ``(?)`` is only a plan. The receiver decides it (table "rendezvous data fetch").
    If the row of the receiver is marked too, the sender decides ("rendezvous data send"). UCX 1.16
    to 1.20 never print the deciding tables. Without them, a plan counts if no other lane exists, or
    if cma is planned and is known to have moved data (:attr:`UcxLog.copiers`).
    """
    only = _only_way(log)
    for kind in ("tagged message", "active message", "remote memory"):
        if rows := _rows(log.peer_tables(kind)):
            return _by_tables(log, rows, sizes, only)
    if only:
        return Carried(ONLY_LANE, only, dict.fromkeys(sizes, only))
    lanes = {lane for config in log.peer_configs() for lane in config.lanes}
    # cma and knem fill the same pool, so the proof needs that only one of them is there.
    copying = [lane for lane in lanes if transport_of(lane) in COPIERS]
    if log.copiers and len(copying) == 1:
        return Carried(FIRST_USE, {copying[0]: 1.0}, {}, tuple(sizes))
    return Carried(NONE, {}, {}, tuple(sizes))


def _only_way(log: UcxLog) -> dict[str, float]:
    """All lanes to peers if they belong to one transport; else empty."""
    configs = log.peer_configs()
    lanes = {lane for config in configs for lane in config.lanes}
    if not configs:
        lanes = {lane for row in _rows(log.peer_tables("")) for lane in row.lanes}
    if len(set(map(transport_of, lanes))) != 1 or not all(config.lanes for config in configs):
        return {}
    return dict.fromkeys(sorted(lanes), 1.0)


def _by_tables(
    log: UcxLog, tagged: Sequence[Row], sizes: Sequence[int], only: Mapping[str, float]
) -> Carried:
    fetch = _rows(log.peer_tables("rendezvous data fetch"))
    send = _rows(log.peer_tables("rendezvous data send"))
    means: set[str] = set()
    by_size: dict[int, dict[str, float]] = {}
    for size in sizes or sorted({row.first for row in (*tagged, *fetch, *send)}):
        shares: list[Mapping[str, float]] = []
        proof: set[str] = set()
        taken = _taken(size, tagged)
        for row in taken:
            if ends := _decided(row, size, fetch, send):
                shares.append(_largest([end.lanes for end in ends]))
                proof.add(COUNT if row.count else TABLE)
            elif only:
                shares.append(only)
                proof.add(ONLY_LANE)
            elif log.copiers and any(transport_of(lane) in COPIERS for lane in row.lanes):
                shares.append(row.lanes)
                proof |= {TABLE, FIRST_USE}
        if shares and len(shares) == len(taken):
            means |= proof
            by_size[size] = _largest(shares)
    return Carried(
        " + ".join(name for name in (COUNT, TABLE, ONLY_LANE, FIRST_USE) if name in means) or NONE,
        _largest(list(by_size.values())),
        by_size,
        tuple(size for size in sizes if size not in by_size),
    )


def _rows(tables: Sequence[Table]) -> tuple[Row, ...]:
    return tuple(row for table in tables for row in table.rows)


def _taken(size: int, rows: Sequence[Row]) -> list[Row]:
    """Rows that messages of this size used: the rows with a count, if UCX counted any.

    The fast path of "eager short" bypasses the counter, so a count of 0 proves nothing there.
    """
    held = [row for row in rows if row.first <= size <= row.last]
    counted = [row for row in held if row.count]
    return counted or [row for row in held if row.count is None or "short" in row.description]


def _decided(row: Row, size: int, *deciders: Sequence[Row]) -> list[Row]:
    """The row itself, or the rows of the tables that decide it; empty if one is missing."""
    if not row.estimate:
        return [row]
    if not deciders:
        return []
    ends = [_decided(taken, size, *deciders[1:]) for taken in _taken(size, deciders[0])]
    return [end for found in ends for end in found] if all(ends) else []


def _largest(shares: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(lane for lanes in shares for lane in lanes)
    return {name: max(lanes.get(name, 0.0) for lanes in shares) for name in names}


# The thread is a name or a number; the pid is padded to five places.
_PREFIX = re.compile(r"\[\d+\.\d+\] \[([^\s\[\]:]+):(\d{1,9}) *:[^\]\s]*\]")
_MESSAGE = re.compile(r"\S+:\d+\s+UCX\s+([A-Z]+)\s+(.*)")
_VERSION = re.compile(r"Version (\S+) \(loaded from (.*)\)")
_ENV = re.compile(r"UCX_\* env variables?: (.*)")
_UNUSED = re.compile(r"unused env(?:ironment)? variables?: (.*)")
_LANES = re.compile(
    r"((?:.*\b)?(?:cfg#\d+|ep_cfg\[\d+\])):? +((?:[a-z_]{2,9}\([^()]*\);? *)+)(?:rkey_cfg.*)?"
)
_BEFORE = re.compile(r"UCX  (WARN|ERROR|FATAL) +(.*)")
#: The last words of a process that UCX ends have no level; a signal has no place in the source.
_LAST_WORDS = re.compile(
    r"(?:\[[^\s\[\]:]+:\d{1,9} *:[^\]\s]*:\d{1,9}\] +(?:\S+:\d{1,9} +)?|:\d{1,9} +Fatal: )(.*)"
)
_FIRST_COPY = re.compile(r"mpool uct_scopy_iface_tx_mp: allocated chunk")
_BY_NOBODY = re.compile(r"(?:(?<!\S)[^\s:]{1,200}:\d{1,9} {1,9})?UCX {1,9}INFO {1,9}")
_CONFIG_NAME = re.compile(r"(?:.*\b)?(?:cfg#\d+|ep_cfg\[\d+\])")
_TITLE = re.compile(r"(?P<kind>.+?)(?:\((?P<variant>[^)]*)\))? (?:from|into|of) (?P<memory>.+)")
_RANGE = re.compile(
    r"(?:(\d{1,20})  +)?(\d{1,20})([KMGTPE]?)(?:\.\.(?:(\d{1,20})([KMGTPE]?)|(inf)))?"
)
_SHARE = re.compile(r"(\d{1,3})% on (\S+?)(?=,? and |, |$)")
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60}


def parse_ucx_log(text: str) -> UcxLog:
    """Read the output of one job. Never raises; lines that are not understood are ignored."""
    reader, text = _Reader(), text.replace("\0", "")
    read = reader.line if _PREFIX.search(text) else reader.line_of_nobody
    for line in text.splitlines():
        read(line)
    return reader.result()


class _Reader:
    def __init__(self) -> None:
        self.log = UcxLog()
        self.configs: dict[Config, None] = {}
        self.without_messages: dict[Config, None] = {}
        self.messages: dict[str, dict[str, None]] = {"WARN": {}, "ERROR": {}}
        self.tables: list[Table] = []
        self.open: dict[Process, _OpenTable] = {}

    def result(self) -> UcxLog:
        for process in self.open:
            self._close(process)
        return replace(
            self.log,
            configs=tuple(self.configs or self.without_messages),
            tables=tuple(self.tables),
            warnings=tuple(self.messages["WARN"]),
            errors=tuple(self.messages["ERROR"]),
        )

    def line(self, line: str) -> None:
        start = _PREFIX.search(line)
        self._before_the_log(line[: start.start()] if start else line)
        for sender, said in said_by(line, _PREFIX):
            process = sender[1], int(sender[2])
            self.log.processes.add(process)
            if said.startswith("|"):
                self._cells(process, said)
            elif match := _MESSAGE.match(said):
                self._message(process, match[1], match[2])

    def line_of_nobody(self, line: str) -> None:
        """Read a line of a log in which no line names its process."""
        self._before_the_log(line)
        said = _BY_NOBODY.sub("", line.strip("# \t\r"))
        if said.startswith("|"):
            self._cells(("", 0), said)
        elif _LANES.match(said):
            self._message(("", 0), "INFO", said)
        if self.configs or self.without_messages or self.open:
            self.log.processes.add(("", 0))

    def _before_the_log(self, text: str) -> None:
        """Read a message from before the log was opened; its prefix does not name the process."""
        if match := _BEFORE.search(text):
            self._remember(match[1], match[2])
        elif match := _LAST_WORDS.search(text):
            self._remember("FATAL", match[1].removeprefix("Fatal: "))

    def _message(self, process: Process, level: str, said: str) -> None:
        if match := _VERSION.match(said):
            self.log.versions[process] = (match[1], match[2])
        elif match := _ENV.match(said):
            # A value may contain blanks; it ends where the next name begins.
            pairs = re.findall(r"(UCX_\w+)=(.*?)(?= UCX_\w+=|$)", match[1])
            self.log.env[process] = dict(pairs)
        elif match := _LANES.match(said):
            of = dict(re.findall(r"(\w+)\(([^()]*)\)", match[2]))
            messages = of.get("tag") or of.get("am")
            found = tuple(dict.fromkeys((messages or " ".join(of.values())).split()))
            configs = self.configs if messages else self.without_messages
            configs[Config(process, match[1].strip(), found)] = None
        elif _FIRST_COPY.match(said):
            self.log.copiers.add(process)
        else:
            self._remember(level, said)

    def _remember(self, level: str, said: str) -> None:
        if match := _UNUSED.match(said):
            names = re.sub(r"\([^)]*\)", "", match[1])  # "(maybe: UCX_TLS?)", "(set ... to ...)"
            self.log.unused.update(re.findall(r"UCX_\w+", names))
        elif not said.startswith("(set UCX_WARN_UNUSED_ENV_VARS"):
            self.messages.get("ERROR" if level == "FATAL" else level, {})[said] = None

    def _cells(self, process: Process, said: str) -> None:
        table = self.open.get(process)
        cells = [cell.strip() for cell in said.strip("|").split("|")]
        if len(cells) <= 2 and _CONFIG_NAME.fullmatch(cells[0]):
            self._close(process)
            self.open[process] = _OpenTable(len(said), cells[0], "".join(cells[1:]))
        elif table is None or table.width != len(said):  # two torn halves in one line
            return
        elif len(cells) == 1:
            table.title = cells[0]  # 1.22 prints it on its own line
        elif len(cells) in (3, 4) and (row := _row(cells)):
            table.rows.append(row)

    def _close(self, process: Process) -> None:
        table = self.open.get(process)
        if table and table.rows and (match := _TITLE.fullmatch(table.title)):
            kind, variant, memory = match["kind"], match["variant"] or "", match["memory"]
            rows = tuple(table.rows)
            self.tables.append(Table(process, table.config, kind, variant, memory, rows))


@dataclass
class _OpenTable:
    width: int
    config: str
    title: str
    rows: list[Row] = field(default_factory=list)


def _row(cells: Sequence[str]) -> Row | None:
    *counts, sizes, description, config = cells
    match = _RANGE.fullmatch(sizes)
    if match is None or not all(re.fullmatch(r"\d{1,20}", count) for count in counts):
        return None
    count = next(iter(counts), match[1])
    first = int(match[2]) << _UNITS[match[3]]
    last = int(match[4]) << _UNITS[match[5]] if match[4] else math.inf if match[6] else first
    plain = description.removeprefix("(?) ")
    times = None if count is None else int(count)
    return Row(first, last, plain, _shares(config), plain != description, times)


def _shares(config: str) -> dict[str, float]:
    """Shares from ``52% on tcp/lo and 48% on tcp/eth0``, from one lane, or from an empty text."""
    if not config:
        return {}
    parts = _SHARE.findall(config)
    if all(lane.startswith("path") for _, lane in parts):  # none, or paths of one device
        return {config.split(maxsplit=1)[0] if parts else config: 1.0}
    shares: dict[str, float] = {}
    for percent, lane in parts:
        shares[lane] = shares.get(lane, 0.0) + int(percent) / 100
    return shares
