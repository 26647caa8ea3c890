"""fio: the JSON report (``--output-format=json``) of version 3, checked against 3.33.

fio prints the report when all jobs have ended, and also when a signal ended them early: each job
then says error 0. A test therefore compares the time of a job with the time that it asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import field

from assay.parse import Parsed, ParseError, Row, Value
from assay.parse.reading import CRASH, only, recogniser, split, without_warnings
from assay.parse.tables import Identity, capped, contradictions

KNOWN = "3."

#: An error that fio reports outside of the report.
_ERROR = re.compile(r"fio: .*(?:error|ENOSPC|terminating on signal)")
_VERSION = re.compile(r'\s*(?:\{\s*)?"fio version"\s*:\s*"fio-([^"\s]+)".*')
_LATENCY = ("fastest", "mean", "median", "p99", "slowest")
_UNITS = {
    **dict.fromkeys(("depth", "operations"), "1"),
    **dict.fromkeys(("moved", "block"), "B"),
    **dict.fromkeys(_LATENCY, "us"),
    "time": "s",
    "rate": "op/s",
    "bandwidth": "KiB/s",
}
_IDENTITIES = (
    Identity("1 <= operations", "no operation moved {moved} B"),
    Identity("moved = operations * block", "{operations} times {block} B are not {moved} B"),
    # The time is in whole milliseconds.
    Identity("rate * time = operations", share=1e-3),
    Identity("bandwidth * 1024 * time = moved", share=1e-3),
    # A percentile is the middle of a bin, which is 1/64 of its value wide (stat.h).
    Identity("fastest <= median <= p99 <= slowest", share=1 / 64),
    Identity("fastest <= mean <= slowest"),
    # Little's law: so many are on their way at once. The time may be cut by a millisecond, or two.
    Identity("mean * 1e-6 * operations <= depth * (time + 2e-3)", share=0.02),
)

#: Options by which fio measures no latency of completion.
_UNTIMED = ("gtod_reduce", "disable_clat", "disable_lat")

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Real = Annotated[float, msgspec.Meta(ge=0)]


class _Latency(msgspec.Struct):
    min: _Count
    max: _Count
    mean: _Real
    percentile: dict[str, _Count] = {}


class _Direction(msgspec.Struct):
    io_bytes: _Count
    bw_bytes: _Count
    iops: _Real
    runtime: _Count
    total_ios: _Count
    short_ios: _Count
    drop_ios: _Count
    clat_ns: _Latency


class _Job(msgspec.Struct):
    jobname: str
    error: int
    options: dict[str, str] = field(name="job options")
    read: _Direction
    write: _Direction
    total_err: int = 0


class _Report(msgspec.Struct):
    jobs: list[_Job]
    options: dict[str, str] = field(name="global options", default={})


recognise = recogniser(_VERSION)


def parse_fio(text: str) -> Parsed:
    """Read the report of one run of ``fio``.

    There is one row for each job and direction that moved bytes: ``job``, ``operation`` (``write``
    or ``read``), ``moved`` [B], ``operations``, ``block`` [B], ``depth``, the number of operations
    on their way at once, ``rate`` [op/s], ``bandwidth`` [KiB/s], ``time`` [s], and the latency of
    completion: ``fastest``, ``mean``, ``median``, ``p99``, ``slowest`` [us]; not these if fio was
    told to measure none (``gtod_reduce``, ``disable_clat``).

    ``facts``: ``options``, those of each job as the report repeats them, with the global ones.

    :raises ParseError: no version, several of them, or an unknown one; or a key of the report is
        missing or has another type.
    """
    lines = list(without_warnings(split(text)))
    plain = [line for _, line in lines]
    at, version = only(plain, _VERSION, "version of fio")
    if not version[1].startswith(KNOWN):
        raise ParseError(f"unknown version {version[1]}; known is {KNOWN}x", *lines[at - 1])
    begin = max((n for n, line in enumerate(plain[:at]) if line == "{"), default=at - 1)
    end = next((n for n, line in enumerate(plain) if n >= at and line == "}"), len(plain))
    if plain[at - 1].startswith("{"):  # another tool wrote the whole report into a line
        begin = end = at - 1
    problems = [
        f"line {number}: {line[:200]}"
        for number, line in lines[:begin] + lines[end + 1 :]
        if _ERROR.match(line) or CRASH.search(line)
    ]
    rows: list[Row] = []
    options: dict[str, dict[str, str]] = {}
    complete = False
    try:
        report = msgspec.json.decode("\n".join(plain[begin : end + 1]), type=_Report)
    except msgspec.ValidationError as error:
        raise ParseError(f"not a report of fio 3: {error}") from None
    except (msgspec.DecodeError, RecursionError):
        problems.append("the report is cut short or damaged")
    else:
        for job in report.jobs:
            options[job.jobname] = {**report.options, **job.options}
            problems += _errors(job)
            rows += _rows(job, options[job.jobname], problems)
        complete = bool(rows)
    if any("median" not in row for row in rows):
        rows = [{name: row[name] for name in row if name not in _LATENCY} for row in rows]
    has = {*rows[0]} if rows else {*_UNITS}
    return Parsed(
        "fio", "fio", version[1], complete, tuple(rows),
        {name: unit for name, unit in _UNITS.items() if name in has},
        capped(problems), {"options": options},
    )  # fmt: skip


def _errors(job: _Job) -> Iterator[str]:
    if job.error:
        yield f"job {job.jobname}: error {job.error}"
    if job.total_err:
        yield f"job {job.jobname}: {job.total_err} errors were passed over"
    for direction in (job.read, job.write):
        if lost := direction.short_ios + direction.drop_ios:
            yield f"job {job.jobname}: {lost} operations were cut short or dropped"


def _rows(job: _Job, options: dict[str, str], problems: list[str]) -> Iterator[Row]:
    for operation, found in (("write", job.write), ("read", job.read)):
        if not found.io_bytes:
            continue
        where = f"job {job.jobname}, {operation}: "
        latency = found.clat_ns
        median, p99 = (latency.percentile.get(f"{each}.000000") for each in (50, 99))
        block, depth = _size(options.get("bs", "4k")), _size(options.get("iodepth", "1"))
        told = any(options.get(name, "0") != "0" for name in _UNTIMED)
        if (not told and (median is None or p99 is None)) or block is None or depth is None:
            problems.append(where + "no percentiles, or bs or iodepth is not one number")
            continue
        row: dict[str, Value] = {
            "job": job.jobname,
            "operation": operation,
            "moved": found.io_bytes,
            "operations": found.total_ios,
            "block": block,
            "depth": depth,
            "rate": found.iops,
            "bandwidth": found.bw_bytes / 1024,
            "time": found.runtime / 1e3,
        }
        if median is not None and p99 is not None and not told:
            times = (latency.min, latency.mean, median, p99, latency.max)
            row |= {name: value / 1e3 for name, value in zip(_LATENCY, times)}
        said = contradictions(_IDENTITIES, row, {"time": "0.000", "rate": "0.000000"})
        problems += [where + each for each in said]
        yield row


def _size(text: str) -> int | None:
    """Bytes of a size such as ``4k``, in powers of 1024; None if it is not one number."""
    said = re.fullmatch(r"(\d{1,15})([kmg]?)", text.lower(), re.ASCII)
    return int(said[1]) << " kmg".index(said[2] or " ") * 10 if said else None
