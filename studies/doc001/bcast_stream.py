"""bcast_stream, our own broadcast of frames: ``bcast_stream.c``, which has the format.

Each row is a round: a number of ranks, one way to repair lost frames, one error rate, one size of
frames. The rows must account for every frame of every worker, and the program must have dropped
about as many frames as its error rate says.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from assay.parse.reading import (
    CRASH,
    Parsed,
    ParseError,
    Row,
    Value,
    integer,
    real,
    split,
    without_warnings,
)

FAMILY = "bcast-stream"
PROGRAM = "bcast_stream"
VERSIONS = ("1",)

#: Ways to repair a lost frame: a read of the source's backup buffer, or a request to send it again.
REPAIRS = ("nack", "rma")

#: Units of the columns, in the order of the output; ``repair`` is a word.
UNITS: Mapping[str, str] = {
    "ranks": "1",
    "error_rate": "1",
    "frame_size": "B",
    "frames": "1",
    "alone": "1",
    "time": "s",
    "rate": "1/s",
    "bandwidth": "MB/s",
    "latency": "us",
    "dropped": "1",
    "retrieved": "1",
    "lost": "1",
    "wrong": "1",
    "verified": "1",
    "round_trip": "us",
}
_REALS = ("error_rate", "time", "rate", "bandwidth", "latency")
_COLUMNS = (
    "ranks repair error_rate size frames alone time rate bandwidth latency dropped retrieved lost "
    "wrong verified"
)

#: How many standard deviations the dropped frames may be from what the error rate says.
_SPREAD = 6.0

_TITLE = re.compile(r"# assay bcast_stream (\S+)")
_SETTINGS = re.compile(
    r"# ranks (\d{1,9}), window (\d{1,9}), backup slots (\d{1,9}), buffers (host|cuda)", re.ASCII
)
_ROUND_TRIP = re.compile(r"# round trip of (\d{1,9}) ranks (\S+) us", re.ASCII)
_END = re.compile(r"# end, sum [0-9a-f]{16}")
_REFUSAL = re.compile(r"bcast_stream: (\S.*)")


def recognise(text: str) -> bool:
    """Whether the text has the title of the program, or one of its refusals."""
    return any(
        _TITLE.fullmatch(line.rstrip()) or _REFUSAL.fullmatch(line.rstrip())
        for line in text.split("\n")
    )


def parse(text: str) -> Parsed:
    """The rounds of one run.

    Columns: those of :data:`UNITS`, and ``repair``, one of :data:`REPAIRS`. ``latency`` is the time
    of a frame alone, until all workers have confirmed it. ``round_trip`` is the longest one between
    the source and a worker, of 1 B. ``dropped``, ``retrieved``, ``lost``, ``wrong`` and
    ``verified`` count frames of all workers, in the stream and alone.

    Facts: ``ranks``, ``window``, ``backup_slots``, ``buffers`` (``host``, ``cuda``), ``validates``.

    :raises ParseError: no title, an unknown version, a refusal, or a line that is no row.
    """
    lines = split(text)
    number, version = _title(lines)
    rows: list[Row] = []
    problems: list[str] = []
    facts: dict[str, object] = {"validates": True}
    trips: dict[int, float] = {}
    headed = ended = False
    for at, line in without_warnings(lines, number):
        if settings := _SETTINGS.fullmatch(line):
            facts.update(zip(("ranks", "window", "backup_slots"), map(int, settings.groups())))
            facts["buffers"] = settings[4]
        elif trip := _ROUND_TRIP.fullmatch(line):
            trips[int(trip[1])] = real(trip[2], at, line)
            headed = False
        elif line == f"# {_COLUMNS}":
            headed = True
        elif _END.fullmatch(line):
            ended = True
        elif CRASH.search(line) or _REFUSAL.fullmatch(line):
            problems.append(f"line {at}: {line.strip()[:120]!r}")
        elif line and not ended and headed and line[0].isdigit():
            rows.append(_row(at, line, trips))
            problems += [f"line {at}: {said}" for said in _doubts(rows[-1])]
        elif line:
            problems.append(f"line {at}: not of bcast_stream: {line.strip()[:120]!r}")
    complete = ended and bool(rows) and "buffers" in facts
    return Parsed(
        FAMILY, PROGRAM, version, complete, tuple(rows), UNITS, tuple(problems), facts
    )  # fmt: skip


def _title(lines: Sequence[str]) -> tuple[int, str]:
    """Number of the title's line, and the version in it."""
    titles = [(n, m) for n, line in enumerate(lines, 1) if (m := _TITLE.fullmatch(line))]
    if not titles:
        for number, line in enumerate(lines, 1):
            if _REFUSAL.fullmatch(line):
                raise ParseError("no result, the program refused", number, line)
        raise ParseError("no title of bcast_stream")
    if len(titles) > 1:
        raise ParseError(f"{len(titles)} runs in one text", titles[1][0])
    number, title = titles[0]
    if title[1] not in VERSIONS:
        raise ParseError(f"unknown version {title[1]!r}", number)
    return number, title[1]


def _row(number: int, line: str, trips: Mapping[int, float]) -> Row:
    cells, names = line.split(), _COLUMNS.split()
    if len(cells) != len(names):
        raise ParseError(f"{len(cells)} values for {len(names)} columns", number, line)
    row: dict[str, Value] = {}
    for name, cell in zip(names, cells):
        column = "frame_size" if name == "size" else name
        if name == "repair":
            if cell not in REPAIRS:
                raise ParseError(f"unknown way to repair {cell!r}", number, line)
            row[column] = cell
        else:
            row[column] = (real if name in _REALS else integer)(cell, number, line)
    if row["ranks"] not in trips:
        raise ParseError(f"no round trip of {row['ranks']} ranks stands before it", number, line)
    row["round_trip"] = trips[int(row["ranks"])]
    return row


def _doubts(row: Row) -> Sequence[str]:
    """What is wrong with the numbers of a round."""
    at = {name: float(value) for name, value in row.items() if name != "repair"}
    measured = [at[name] for name in ("time", "rate", "latency", "round_trip")]
    # The bandwidth of a slow stream of short frames is printed as 0.00.
    if not all(math.isfinite(value) and value > 0 for value in measured) or not (
        0 <= at["bandwidth"] < math.inf
    ):
        return ["a value is not a measurement"]
    doubts = []
    workers = at["ranks"] - 1
    sent = (at["frames"] + at["alone"]) * workers
    if at["verified"] + at["lost"] + at["wrong"] != sent:
        doubts.append(
            f"{sent:.0f} frames went to the workers, and {at['verified']:.0f} verified, "
            f"{at['lost']:.0f} lost and {at['wrong']:.0f} wrong ones are accounted for"
        )
    if at["retrieved"] + at["lost"] != at["dropped"]:
        doubts.append(
            f"{at['dropped']:.0f} frames were dropped, {at['retrieved']:.0f} retrieved and "
            f"{at['lost']:.0f} lost"
        )
    if at["lost"]:
        doubts.append(f"{at['lost']:.0f} frames were lost for good")
    if at["wrong"]:
        doubts.append(f"{at['wrong']:.0f} frames had a wrong payload")
    rate = min(max(at["error_rate"], 0.0), 1.0)
    spread = _SPREAD * math.sqrt(sent * rate * (1 - rate)) + (1 if rate else 0)
    if abs(at["dropped"] - rate * sent) > spread:
        doubts.append(
            f"{at['dropped']:.0f} of {sent:.0f} frames were dropped, not {rate:g} of them"
        )
    # The time is printed to 1 us, rate and bandwidth to two decimals.
    rounded = 0.6e-6 * at["rate"] + 0.0051 * at["time"] + 0.001 * at["frames"]
    if abs(at["rate"] * at["time"] - at["frames"]) > rounded:
        doubts.append("rate, time and number of frames contradict each other")
    megabytes = at["frame_size"] / 1e6
    if abs(at["bandwidth"] - at["rate"] * megabytes) > 0.0051 * (1 + megabytes):
        doubts.append("bandwidth, rate and size of the frames contradict each other")
    return doubts
