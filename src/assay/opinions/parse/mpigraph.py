"""mpiGraph of LLNL, 1.5: bandwidths between all pairs of ranks, while all ranks send and receive.

mpiGraph.c prints two tables, of the sends and of the receives, with a row for each rank. Its MB/s
is 2^20 B/s. It does not compare what was received with what was sent.
"""

from __future__ import annotations

import re

from assay.parse import Parsed, Row
from assay.parse.reading import MIB_PER_S, read_as, recogniser
from assay.parse.tables import Column, Line, begun, body, capped, cells, quote, units

KNOWN = ("1.5",)
PROGRAM = "mpiGraph"

_START = re.compile(r"START mpiGraph v(\S+)")
_END = "END mpiGraph"
_SETTING = re.compile(r"(MsgSize|Times|Window|Procs|Warmup\w*)\t(\d{1,9})", re.ASCII)
_FACTS = {"MsgSize": "message", "Times": "repetitions", "Window": "window", "Procs": "ranks"}
_PROGRESS = re.compile(r"\d+ of \d+ \(\d+\.\d%\)|Gathering results")
_STATED = re.compile(r"(Send|Recv) (max|avg)\t(\S+)")
_HEAD = re.compile(r"(Send|Recv)\t(\S.*)")
_ROW = re.compile(r"(\S+) (?:to|from)\t(.*)")
_PLACE = Column("rank", "1", positive=False, whole=True), Column("peer", "1", positive=False)
_RATE = Column("bandwidth", "MB/s", factor=MIB_PER_S)

recognise = recogniser(_START)


def parse_mpigraph(text: str) -> Parsed:  # noqa: PLR0912
    """The rows of both tables, one for each pair of ranks.

    Columns: ``way`` (``send`` or ``recv``), ``rank``, ``peer``, ``host``, ``peer_host``,
    ``bandwidth`` [MB/s], the mean of the repetitions as ``rank`` measured it.

    Facts: ``ranks``, ``message`` [B], ``repetitions``, ``window`` (messages in flight).

    :raises ParseError: no first line.
    """
    lines, problems = body(text)
    at, start = begun(lines, _START, (), "no first line of mpiGraph")
    facts: dict[str, int] = {}
    stated: dict[tuple[str, str], Line] = {}
    rows: list[Row] = []
    loose: list[Line] = []
    way, hosts, place, ended = "", [""], 0, 0
    for number, said in lines[at + 1 :]:
        if setting := _SETTING.fullmatch(said):
            facts[_FACTS.get(setting[1], setting[1].lower())] = int(setting[2])
        elif mean := _STATED.fullmatch(said):
            stated[mean[1], mean[2]] = (number, mean[3])
        elif head := _HEAD.fullmatch(said):
            way, hosts, place = head[1], head[2].split("\t"), 0
        elif way and place < len(hosts) and (row := _ROW.fullmatch(said)):
            rows += _pairs((number, row[2]), way, hosts, place, problems)
            if row[1] != hosts[place]:
                problems.append(f"line {number}: a row of {quote(row[1])}, not of {hosts[place]}")
            place += 1
        elif said == _END:
            ended += 1
        elif said and not _PROGRESS.fullmatch(said):
            loose.append((number, said))
            if not ended:
                problems.append(f"line {number}: not a line of {PROGRAM}: {quote(said)}")
    ranks = facts.get("ranks", 0)
    complete = ended == 1 and len(rows) == 2 * ranks * (ranks - 1) > 0
    if ended != 1:
        problems.append(f"{ended} runs came to their end, not 1")
    elif not complete:
        problems.append(f"{len(rows)} pairs of {ranks} ranks were measured, both ways together")
    for way in ("Send", "Recv") if complete else ():
        found = [float(row["bandwidth"]) / MIB_PER_S for row in rows if row["way"] == way.lower()]
        mean_time = sum(1 / rate for rate in found if rate) / max(1, len(found))
        for name, its in (("max", max(found)), ("avg", 1 / mean_time if mean_time else 0.0)):
            line, token = stated.get((way, name), (0, "nothing"))
            told = cells((line, token), (_RATE,), problems)
            # The table has three digits.
            if told and abs(float(told[0]["bandwidth"]) / MIB_PER_S - its) > 1e-3 + 1e-3 * its:
                problems.append(f"line {line}: {way} {name} is {token}, the table gives {its:g}")
    return Parsed(
        "mpigraph", PROGRAM, start[1], complete, tuple(rows), units((*_PLACE, _RATE)),
        capped(problems, loose), {**facts, **read_as(start[1], KNOWN)},
    )  # fmt: skip


def _pairs(line: Line, way: str, hosts: list[str], rank: int, problems: list[str]) -> list[Row]:
    """The rates of one rank with all others; its own is 0."""
    number, tokens = line[0], line[1].split("\t")
    if len(tokens) != len(hosts) or tokens[rank] != "0.000":
        problems.append(f"line {number}: not {len(hosts)} rates, that of the rank itself 0")
        return []
    names = [host.rpartition(":")[0] or host for host in hosts]
    found: list[Row] = []
    for peer, token in enumerate(tokens):
        if peer != rank:
            place = {"way": way.lower(), "host": names[rank], "peer_host": names[peer]}
            rates = cells((number, token), (_RATE,), problems)
            found += [{**place, "rank": rank, "peer": peer, **rate} for rate in rates]
    return found
