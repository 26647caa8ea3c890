"""ucx_perftest: the output of the client (or of a server with results) of UCX 1.13 to 1.22.

print_header() and print_progress() of src/tools/perf/perftest_run.c print it. Their unit MB/s is
2^20 B/s (``/ (1024.0 * 1024.0)``) in all versions. The column "average" covers the time since the
last report, "overall" covers the whole run. A bandwidth test has the column "overhead", the time of
one send call; other tests have "latency" instead. The first percentile column was "typical" before
1.12.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from assay.parse import Parsed, ParseError
from assay.parse.reading import MIB_PER_S, recogniser
from assay.parse.tables import Column, Identity, Line, Table, body, capped, cells, quote, units

PROGRAM = "ucx_perftest"

#: Less than any message from one process to another takes [us].
SHORTEST = 0.005

_GROUPS = re.compile(
    r"\| +\| +\| +(latency|overhead) \(usec\) +\| +bandwidth \(MB/s\) +"
    r"\| +message rate \(msg/s\) +\|"
)
_NAMES = re.compile(
    r"\| +(Stage|Test) +\| # iterations \| +(?:(\d{1,3}\.\d)%ile|typical) +\| average \| overall "
    r"\| +average \| +overall \| +average +\| +overall +\|"
)
_CSV = re.compile(r"(?:\S+,)?iterations,\d{1,3}\.\d_percentile_lat,avg_lat,overall_lat,.*")
_INFO = re.compile(r"\| (API|Test|Send memory|Recv memory|Message size|Window size): +(.+?) +\|")
_QUIET = re.compile(
    r"\+[-+]+\+|\| Data layout: .*|Waiting for connection\.\.\.|Accepted connection from .*"
)
_VERSION = re.compile(r"UCX +INFO +Version (\S+) \(loaded from ")
_USAGE = re.compile(r" +Usage: ucx_perftest .*")
_FINAL = re.compile(r"Final: +(\S.*)")
# With -f there is only one row. Its column "Test" is empty outside of batch files.
_ONLY = re.compile(r" +(\S.*)")
_PROGRESS = re.compile(r"\[thread \d+\] *(\S.*)")
_OVERALL = ("iterations", "bandwidth", "messages_per_s")
#: One thread sends one message in the overall time of a message. The median of the last 2048
#: messages may be far below that time, but not far above it. A cache line takes longer than
#: :data:`SHORTEST` from one core to another.
_IDENTITIES = (
    *(
        Identity(
            f"{kind} * messages_per_s + 0 * {kind}_recent = 1e6",
            f"{kind} {{{kind}:g}} us and {{messages_per_s:g}} messages/s contradict each other",
            share=0.001,
        )
        for kind in ("latency", "overhead")
    ),
    Identity("p50 <= 10 * latency"),
    Identity(
        f"{SHORTEST} + 0 * latency <= p50",
        "a median of {p50:g} us, which no message between processes takes",
    ),
)

recognise = recogniser(_GROUPS, _CSV, _USAGE, re.compile(r"Final:(?: +(?:[\d.]+|inf)){4,8}"))


def parse_ucx_perftest(text: str) -> Parsed:
    """The final result as the only row.

    Columns: ``iterations``; ``latency``, or ``overhead`` for a bandwidth test, over the whole run
    [us]; ``latency_recent`` since the last report [us]; the percentile [us], ``p50`` unless
    another one was asked for; ``bandwidth`` and ``bandwidth_recent`` [MB/s, 10^6 B/s];
    ``messages_per_s`` and ``messages_per_s_recent``. A run of several threads (``-T``) prints only
    the overall columns. A run whose last report came with its last iteration has no recent
    columns.

    Facts: ``final`` (the row again); ``test``, ``api``, ``message_size`` [B], ``window_size``,
    ``send_memory`` and ``recv_memory`` if the text has the server's side.

    :raises ParseError: no result table, other headings, or CSV (``-v``).
    """
    lines, problems = body(text)
    result = _Result(problems)
    for line in lines:
        result.take(line)
    if not result.columns:
        raise ParseError("no result table" + (f"; {problems[0]}" if problems else ""))
    cut = result.is_cut(text)
    if not cut and not result.rows:
        problems.append("no final result")
    complete = bool(result.rows) and not cut
    version = _VERSION.search(text)
    facts = {**result.facts, "final": dict(result.rows[0])} if result.rows else result.facts
    return Parsed(
        "ucx-perftest", PROGRAM, version[1] if version else None, complete, tuple(result.rows),
        units(result.printed or result.columns), capped(problems, result.loose), facts,
    )  # fmt: skip


class _Result(Table):
    """The result table, even if other output stands between its lines."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(PROGRAM, [], None, problems)
        self.kind = ""
        self.named = False
        self.printed: Sequence[Column] = []
        self.facts: dict[str, Any] = {}

    def take(self, line: Line) -> None:
        number, text = line
        if not text or _QUIET.fullmatch(text):
            return
        if info := _INFO.fullmatch(text):
            key, value = info[1].lower().replace(" ", "_"), info[2]
            self.facts[key] = int(value) if re.fullmatch(r"[0-9]{1,18}", value) else value
        elif _CSV.fullmatch(text):
            why = "CSV (-v) does not say whether its times are latencies: run without -v"
            raise ParseError(why, number, text)
        elif groups := _GROUPS.fullmatch(text):
            if self.columns:
                self.problems.append(f"line {number}: a second table: {quote(text)}")
            self.kind = groups[1]
        elif text.startswith("|") and self.kind and not self.columns:
            names = _NAMES.fullmatch(text)
            if names is None:
                raise ParseError("unknown headings of ucx_perftest", *line)
            self.named = names[1] == "Stage"
            self.columns = _columns(self.kind, f"p{float(names[2]):g}" if names[2] else "typical")
        elif self.columns and not self.rows:
            self._row(line)
        elif text.startswith("Final:"):
            what = "a second result" if self.rows else "a result without its headings"
            self.problems.append(f"line {number}: {what}: {quote(text)}")
        else:
            self.loose.append(line)

    def _row(self, line: Line) -> None:
        number, text = line
        progress = _PROGRESS.fullmatch(text)
        values = progress or (_FINAL if self.named else _ONLY).fullmatch(text)
        if values is None:
            self.problems.append(f"line {number}: not a row of ucx_perftest: {quote(text)}")
            return
        columns, printed = self.columns, values[1].split()
        if not progress:
            self.last_row = number
            # The last one is a rate, printed without decimals. A row that was cut has a time there.
            if len(printed) == 4 and "." not in printed[3]:
                columns = [c for c in columns if c.name in (*_OVERALL, self.kind)]
            elif len(printed) == len(columns) and printed[2] == "inf":
                # No iteration was left after the last report, so the recent columns are empty.
                kept = [i for i, c in enumerate(columns) if not c.name.endswith("_recent")]
                columns, printed = [columns[i] for i in kept], [printed[i] for i in kept]
        identities = () if progress else _IDENTITIES
        found = cells((number, " ".join(printed)), columns, self.problems, identities=identities)
        for row in [] if progress else found:
            # Several threads sent, or no message after the last report: the rate may be rounded.
            slow = f"{self.kind}_recent" in row or float(row[self.kind]) > 1.99e6
            if row["messages_per_s"] == 0 and not slow:
                self.problems.append(
                    f"line {number}: messages_per_s is 0, which is not a measured value"
                )
            self.printed = columns
            self.rows.append(row)


def _columns(kind: str, percentile: str) -> list[Column]:
    """Columns in the order of print_progress(); of the times, only the overall one cannot be 0."""
    return [
        Column("iterations", "1", whole=True),
        Column(percentile, "us", positive=False),
        Column(f"{kind}_recent", "us", positive=False),
        Column(kind, "us"),
        Column("bandwidth_recent", "MB/s", positive=False, factor=MIB_PER_S),
        Column("bandwidth", "MB/s", positive=False, factor=MIB_PER_S),
        Column("messages_per_s_recent", "1/s", positive=False),
        # A whole number: 0 if a message takes more than 2 s, which the time then says, too.
        Column("messages_per_s", "1/s", positive=False),
    ]
