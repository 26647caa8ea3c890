"""fi_rma_bw of fabtests: the machine-readable output (``-m``) of libfabric 1.21 to 2.5.

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
from typing import Any

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


def parse(text: str) -> Parsed:
    """The rows of a server or a client.

    Columns: ``size`` [B], ``iterations``, ``total`` [B], ``time`` [s], ``bandwidth`` [MB/s, 10^6
    B/s], ``time_per_transfer`` [us], ``million_transfers_per_s`` [1e6/s].

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
        raise ParseError("no command line of fi_rma_bw" + _first_words(lines))
    problems = [f"line {n}: a second run" for n, _ in called[1:]]
    options = called[0][1]
    rows: list[Row] = []
    loose: list[Line] = []
    for n, line in lines:
        if printed := _ROW.fullmatch(line):
            said = n, " ".join(printed.groups())
            rows += cells(said, _COLUMNS, problems, identities=_IDENTITIES)
        elif line not in ("", "---") and not _LOG.fullmatch(line) and not _CALL.fullmatch(line):
            loose.append((n, line))
    problems += [f"line {n}: not a row of {PROGRAM}: {quote(line)}" for n, line in loose]
    plan = _plan(options)
    sizes = [row["size"] for row in rows]
    if not plan:
        problems.append("the sizes that -S asks for are not known")
    elif sizes != plan:
        problems.append(f"{len(sizes)} of {len(plan)} sizes were measured")
    version = first((line for _, line in lines), _VERSION)
    return Parsed(
        "fabtests", PROGRAM, version, bool(plan) and sizes == plan, tuple(rows), units(_COLUMNS),
        capped(problems, loose), _facts(options),
    )  # fmt: skip


def _first_words(lines: list[Line]) -> str:
    """The first line that is not a log, which often gives the reason of a failure."""
    said = next((text for _, text in lines if text and not _LOG.fullmatch(text)), "")
    return f"; it said {quote(said)}" if said else ""


def _plan(options: str) -> list[int]:
    """The sizes that the options ask for [B]; empty if they are not known."""
    asked = re.search(r" -S (\S+)", options)
    if asked is None:
        return list(DEFAULT_SIZES)
    return [int(asked[1])] if re.fullmatch(r"[0-9]{1,12}", asked[1]) else []


def _facts(options: str) -> dict[str, Any]:
    operation, provider = (re.search(rf" -{letter} (\S+)", options) for letter in "op")
    return {
        "operation": operation[1] if operation else "write",
        "provider": provider[1] if provider else None,
        "checked": bool(re.search(r" -v(?: |$)", options)),
    }
