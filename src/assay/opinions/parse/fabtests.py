"""fi_rma_bw of fabtests, the output of ``-m``, 1.21 to 2.5; and fi_pingpong of libfabric.

Checked against 1.21.0 and 2.5.1. show_perf_mr() of fabtests/common/shared.c prints a row for each
size. MB/s is 10^6 B/s. The default output rounds sizes and counts ("1m"), so the parser refuses it.
In ``read`` and ``write`` server and client transfer at the same time, and each prints the rate of
its own transfers. In ``writedata`` only the client writes, and only the server checks. With ``-v``
the program fills and checks the buffers while it measures the time.

util/pingpong.c prints the table of fi_pingpong, in a form of libfabric 1.4 to 2.5, with sizes and
counts cut to their first digits. Its MB/s is half of what both directions of a round trip carry.

Only the log of libfabric (FI_LOG_LEVEL=info, on standard error) has a version. Its lines may stand
anywhere in the text.
"""

from __future__ import annotations

import re

from assay.parse import Parsed, ParseError, Row
from assay.parse.reading import first, recogniser, split, without_warnings
from assay.parse.tables import SIZE, Column, Identity, Line, Table, capped, cells, quote, units

PROGRAM = "fi_rma_bw"

#: Sizes that the program measures by default [B]: FT_DEFAULT_SIZE in fabtests/common/shared.c.
DEFAULT_SIZES = (64, 256, 1 << 10, 1 << 12, 1 << 16, 1 << 20)

_LOG = re.compile(r"libfabric:\d+:\d+:.*")
_VERSION = re.compile(r"libfabric:\S+<info> Using \S+ provider (\d+\.\d+), path:.*")
_CALL = re.compile(r"\S*fi_rma_bw( .*) :")
_ROW = re.compile(
    r"- \{ xfer_size: (\S+), iterations: (\S+), total: (\S+), time: (\S+), MB/sec: (\S+), "
    r"usec/xfer: (\S+), Mxfers/sec: (\S+) \}"
)
_ROUNDED = re.compile(r"bytes +iters +total +time +MB/sec +usec/xfer +Mxfers/sec")
_COLUMNS = (
    SIZE,
    Column("iterations", "1", whole=True),
    Column("total", "B", whole=True),
    Column("time", "s"),
    Column("bandwidth", "MB/s"),
    Column("time_per_transfer", "us"),
    Column("million_transfers_per_s", "1e6/s", positive=False),
)
_IDENTITIES = [
    Identity("size * iterations = total"),
    # The rate is computed from the time, which is printed in whole microseconds.
    Identity("bandwidth * time * 1e6 = total", share=1e-5),
]

_PING = re.compile(r"bytes +#sent +#ack +total +time +MB/sec +usec/xfer +Mxfers/sec")
_PING_ROW = re.compile(
    r"(\d{1,12}(?:\.\d)?)([kmg]?) +(\d{1,12})([kmb]?) +([=+-])(\S+) +\S+ +(\S+)s"
    r" +(\S+) +(\S+) +\S+",
    re.ASCII,
)
_PING_FAILED = re.compile(r"\[error\] .*|\w+\(\): \S+:\d+ *, ret=.*")
_PING_COLUMNS = (
    SIZE,
    Column("iterations", "1", whole=True),
    Column("time", "s", positive=False),
    Column("bandwidth", "MB/s", positive=False),
    Column("time_per_transfer", "us"),
)
_PING_IDENTITIES = (
    Identity("bandwidth * time_per_transfer = size"),
    Identity("time * 1e6 = 2 * iterations * time_per_transfer"),
)
#: The sizes of ``-S all``, of which the provider may permit fewer [B].
_ALL_SIZES = [0, 1, *(size for k in range(1, 23) for size in (1 << k, 3 << (k - 1)))]

recognise = recogniser(_CALL, _ROW, _ROUNDED, _PING)


def parse_fabtests(text: str) -> Parsed:
    """The rows of a server or a client.

    Columns of fi_rma_bw: ``size`` [B], ``iterations``, ``total`` [B], ``time`` [s], ``bandwidth``
    [MB/s, 10^6 B/s], ``time_per_transfer`` [us], ``million_transfers_per_s`` [1e6/s].

    Facts, from the command line that the program repeats: ``operation``, ``provider``, ``checked``
    (``-v``).

    Columns of fi_pingpong: ``size``, ``iterations``, ``time``, ``bandwidth`` and
    ``time_per_transfer``, half of a round trip.

    :raises ParseError: the program printed no command line, or it ran without ``-m``.
    """
    lines = list(without_warnings(split(text)))
    if heads := [at for at, (_, line) in enumerate(lines) if _PING.fullmatch(line)]:
        return _pingpong(lines, heads, text.count("\n") + 1)
    called = [(n, match[1]) for n, line in lines if (match := _CALL.fullmatch(line))]
    if not called:
        for n, line in lines:
            if _ROUNDED.fullmatch(line):
                why = "this form rounds sizes and counts: run fi_rma_bw with -m"
                raise ParseError(why, n, line)
        # The first line that is not a log often gives the reason of a failure.
        said = next((line for _, line in lines if line and not _LOG.fullmatch(line)), "")
        words = f"; it said {quote(said)}" if said else ""
        raise ParseError(f"no command line of fi_rma_bw{words}")
    problems = [f"line {n}: a second run" for n, _ in called[1:]]
    options = dict(re.findall(r" -([opS]) (\S+)", called[0][1]))
    rows: list[Row] = []
    loose: list[Line] = []
    for n, line in lines:
        if printed := _ROW.fullmatch(line):
            row = n, " ".join(printed.groups())
            rows += cells(row, _COLUMNS, problems, identities=_IDENTITIES)
        elif line not in ("", "---") and not _LOG.fullmatch(line) and not _CALL.fullmatch(line):
            loose.append((n, line))
    problems += [f"line {n}: not a row of {PROGRAM}: {quote(line)}" for n, line in loose]
    sizes, plan = [row["size"] for row in rows], list(DEFAULT_SIZES)
    if asked := options.get("S"):
        plan = [int(asked)] if re.fullmatch(r"[0-9]{1,12}", asked) else []
    if not plan:
        problems.append("the sizes that -S asks for are not known")
    elif sizes != plan:
        problems.append(f"{len(sizes)} of {len(plan)} sizes were measured")
    version = first((line for _, line in lines), _VERSION)
    facts = {
        "operation": options.get("o", "write"),
        "provider": options.get("p"),
        "checked": " -v " in f"{called[0][1]} ",
    }
    return Parsed(
        "fabtests", PROGRAM, version, bool(plan) and sizes == plan, tuple(rows), units(_COLUMNS),
        capped(problems, loose), facts,
    )  # fmt: skip


def _pingpong(lines: list[Line], heads: list[int], end: int) -> Parsed:
    """The rows of fi_pingpong; `end` is the number of a last line without its line end."""
    problems = [f"line {lines[at][0]}: a second run" for at in heads[1:]]
    table = Table("fi_pingpong", _PING_COLUMNS, None, problems)
    for n, line in lines[heads[0] + 1 :]:
        if not (match := _PING_ROW.fullmatch(line)):
            table.loose += [(n, line)] if line and not _LOG.fullmatch(line) else []
            continue
        number, unit, count, thousands, acknowledged, others, *times = match.groups()
        size = int(float(number) * (1024 ** " kmg".index(unit or " ")))
        if acknowledged != "=":
            problems.append(f"line {n}: {acknowledged}{others} messages were acknowledged")
        sent = int(count) * 1000 ** " kmb".index(thousands or " ")
        table.identities = _PING_IDENTITIES[: 2 - bool(thousands)] if size in _ALL_SIZES else ()
        table.read((n, " ".join(map(str, (size, sent, *times)))))
    problems += [f"line {n}: {line[:200]}" for n, line in lines if _PING_FAILED.fullmatch(line)]
    sizes = [row["size"] for row in table.rows]
    # One row of another size than the first ones is that of -S.
    whole = sizes in (list(DEFAULT_SIZES), _ALL_SIZES)
    whole |= len(sizes) == 1 and sizes[0] not in (0, 64)
    if not whole or table.last_row == end:
        why = "it was cut, or the provider permits no more"
        problems.append(f"the table ends after {len(sizes)} sizes: {why}")
    version = first((line for _, line in lines), _VERSION)
    return Parsed(
        "fabtests", "fi_pingpong", version, whole and table.last_row != end, tuple(table.rows),
        units(_PING_COLUMNS), capped(problems, table.loose),
    )  # fmt: skip
