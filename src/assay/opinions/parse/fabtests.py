"""fi_rma_bw of fabtests, the output of ``-m``, 1.21 to 2.5.

Checked against 1.21.0 and 2.5.1. show_perf_mr() of fabtests/common/shared.c prints a row for each
size. MB/s is 10^6 B/s. The default output rounds sizes and counts ("1m"), so the parser refuses it.
In ``read`` and ``write`` server and client transfer at the same time, and each prints the rate of
its own transfers. In ``writedata`` only the client writes, and only the server checks. With ``-v``
the program fills and checks the buffers while it measures the time.

Only the log of libfabric (FI_LOG_LEVEL=info, on standard error) has a version. Its lines may stand
anywhere in the text.
"""

from __future__ import annotations

import re

from assay.parse import Parsed, ParseError, Row
from assay.parse.reading import first, recogniser, split, without_warnings
from assay.parse.tables import SIZE, Column, Identity, Line, capped, cells, quote, units

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

recognise = recogniser(_CALL, _ROW, _ROUNDED)


def parse_fabtests(text: str) -> Parsed:
    """The rows of a server or a client.

    Columns: ``size`` [B], ``iterations``, ``total`` [B], ``time`` [s], ``bandwidth``
    [MB/s, 10^6 B/s], ``time_per_transfer`` [us], ``million_transfers_per_s`` [1e6/s].

    Facts, from the command line that the program repeats: ``operation``, ``provider``, ``checked``
    (``-v``).

    :raises ParseError: the program printed no command line, or it ran without ``-m``.
    """
    lines = list(without_warnings(split(text)))
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
