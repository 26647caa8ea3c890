"""perftest of the RDMA community (``ib_write_bw``, ``ib_send_lat``...), checked against 4.5.

The heading names the test, the device and the connection. A line of dashes follows the last row. No
line has a version. MB/sec is 2^20 B/s (``format_factor`` in src/perftest_parameters.c), Gb/sec is
10^9 bit/s (``--report_gbits``). Bidirectional rates count both directions. A latency of ``send``
and ``write`` is half of a round trip, one of ``read`` and ``atomic`` is a whole one.

The programs do not compare what they received with what was sent; ``validates`` is False. (A patch
of December 2025, linux-rdma/perftest pull request 364, adds ``--data_validation``; not seen yet.)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from assay.parse import Parsed, ParseError, Row
from assay.parse.reading import MIB_PER_S, recogniser, split, without_warnings
from assay.parse.tables import SIZE, Column, Identity, Line, capped, cells, quote, units

_TITLE = re.compile(
    r"\s{10,}(RDMA_Write|RDMA_Read|Send|Atomic (?:FETCH_AND_ADD|CMP_AND_SWAP)) "
    r"(Bidirectional )?(?:Post List )?(BW|Latency) (?:Multicast )?Test"
)
#: Of the clock of the processor, on standard error, between the heading and the rows.
_CLOCK = re.compile(
    r"Conflicting CPU frequency values detected: .*|Correlation coefficient r\^2: .*"
)
_OPERATIONS = {"RDMA_Write": "write", "RDMA_Read": "read", "Send": "send", "Atomic": "atomic"}
_DASHES = "-" * 87
#: Stands for a line of dashes. Open MPI frames its warnings by shorter ones.
_RULE = "=" * 87
_LABEL = re.compile(
    r"#\w{1,20}|(?:BW \w{1,20}|MsgRate|t_\w{1,20}|[\d.]{1,20}% percentile|CPU_Util)"
    r"\[[^\]]{1,20}\]|tps average"
)
_RATES = {"BW peak": "bandwidth_peak", "BW average": "bandwidth"}
_COLUMNS = {
    "#bytes": SIZE,
    "#sl": Column("service_level", "1", positive=False, whole=True),
    "#iterations": Column("iterations", "1", whole=True),
    # The peak is 0 if the program was told not to look for it, and a slow rate is printed as 0.
    **{
        f"{label}[{unit}]": Column(name, "MB/s", positive=name == "bandwidth", factor=factor)
        for label, name in _RATES.items()
        for unit, factor in (("MB/sec", MIB_PER_S), ("MiB/sec", MIB_PER_S), ("Gb/sec", 125.0))
    },
    "MsgRate[Mpps]": Column("million_messages_per_s", "1e6/s", positive=False),
    "t_min[usec]": Column("time_min", "us"),
    "t_max[usec]": Column("time_max", "us"),
    "t_typical[usec]": Column("latency", "us"),
    "t_avg[usec]": Column("time_avg", "us"),
    "t_stdev[usec]": Column("time_stdev", "us", positive=False),
    "99% percentile[usec]": Column("time_p99", "us"),
    "99.9% percentile[usec]": Column("time_p99_9", "us"),
    "tps average": Column("transactions_per_s", "1/s"),
    "CPU_Util[%]": Column("cpu", "%", positive=False),
}
#: Times of one row, ascending; the mean is not among them.
_ASCENDING = ("time_min", "latency", "time_p99", "time_p99_9", "time_max")
_ORDER = (*(Identity(f"{one} <= {later}") for one, later in combinations(_ASCENDING, 2)),)
#: Settings of the heading: name in the output -> name of the fact.
_SETTINGS = {
    "Device": "device",
    "Transport type": "transport",
    "Connection type": "connection",
    "Mtu": "mtu",
    "Link type": "link_type",
    "GID index": "gid_index",
}

recognise = recogniser(_TITLE)


def parse_ib_perftest(text: str) -> Parsed:
    """The rows of a server or a client.

    Columns of ``ib_*_bw``: ``size`` [B], ``iterations``, ``bandwidth_peak`` and ``bandwidth``
    [MB/s], ``million_messages_per_s``. Columns of ``ib_*_lat``: ``size``, ``iterations``,
    ``time_min``, ``time_max``, ``latency`` (the median), ``time_avg``, ``time_stdev``,
    ``time_p99``, ``time_p99_9`` [us].

    Facts, from the heading: ``device``, ``transport``, ``connection``, ``mtu`` [B], ``link_type``,
    ``gid_index``; ``bidirectional``; ``validates``, which is False.

    The server of ``read`` and ``atomic`` measures nothing and prints no table.

    :raises ParseError: no heading of a known test, no table, or a column that is not known.
    """
    text_lines = [_RULE if line == _DASHES else line for line in split(text)]
    lines = [line for line in without_warnings(text_lines) if not _CLOCK.match(line[1])]
    titles = [(at, match) for at, (_, line) in enumerate(lines) if (match := _TITLE.match(line))]
    if not titles:
        said = next((line for _, line in lines if line), "")
        raise ParseError("no heading of perftest" + (f"; it said {quote(said)}" if said else ""))
    first, title = titles[0]
    problems = [f"line {lines[at][0]}: a second run" for at, _ in titles[1:]]
    settings, *parts = _parts(lines[first + 1 :])
    tables = [at for at, part in enumerate(parts) if part and "#bytes" in part[0][1]]
    if not tables:
        last = next((line for _, line in reversed(lines) if line not in ("", _RULE)), "")
        raise ParseError(f"the heading is followed by no table; it ends with {quote(last)}")
    table, after = parts[tables[0]], parts[tables[0] + 1 :]
    columns = _columns(table[0])
    unit = round(1e6 * max(column.factor for column in columns))
    rate = Identity(f"bandwidth * {unit} = size * million_messages_per_s * 1e6", share=0.001)
    identities = (rate, *_ORDER)
    rows: list[Row] = []
    for line in table[1:]:
        if line[1]:
            rows += cells(line, columns, problems, identities=identities)
    loose = [line for part in after for line in part if line[1]]
    problems += [f"line {n}: not a row of perftest: {quote(line)}" for n, line in loose]
    kind = "bw" if title[3] == "BW" else "lat"
    program = f"ib_{_OPERATIONS[title[1].split()[0]]}_{kind}"
    return Parsed(
        "ib-perftest", program, None, bool(rows and after), tuple(rows), units(columns),
        capped(problems, loose), {**_facts(settings), "bidirectional": bool(title[2])},
    )  # fmt: skip


def _parts(lines: Sequence[Line]) -> list[list[Line]]:
    """The lines between the lines of dashes: settings, connections, the table, what follows it."""
    parts: list[list[Line]] = [[]]
    for number, line in lines:
        if line == _RULE:
            parts.append([])
        else:
            parts[-1].append((number, line))
    return parts


def _columns(heading: Line) -> list[Column]:
    number, line = heading
    labels = _LABEL.findall(line)
    unknown = [label for label in labels if label not in _COLUMNS]
    if unknown or not labels or _LABEL.sub("", line).strip():
        raise ParseError("the columns of this table are not known", number, line)
    return [_COLUMNS[label] for label in labels]


def _facts(settings: Sequence[Line]) -> dict[str, Any]:
    found: dict[str, Any] = {"validates": False}
    for _, line in settings:
        for setting in line.split("\t\t"):
            name, _, value = setting.partition(":")
            if fact := _SETTINGS.get(name.strip()):
                value = value.strip()
                number = fact in ("mtu", "gid_index") and re.match(r"\d{1,9}", value, re.ASCII)
                found[fact] = int(number[0]) if number else value
    return found
