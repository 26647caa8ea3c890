"""Outputs of programs as JSON: ``assay parse``."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from assay import files
from assay.exits import Exit
from assay.parse import Parsed, ParseError, reading, registry, ucx_log
from assay.prove import transports


def read(name: str, last_size: int | None = None) -> Parsed:
    """An output, with its path as far as a log in it shows it; ``-`` is the standard input.

    :raises ParseError: the file cannot be read, or no parser reads it.
    """
    try:
        if name == "-":
            raw = sys.stdin.buffer.read(reading.MOST + 1)
        else:
            raw = files.read_bytes(Path(name), reading.MOST)
    except OSError as error:
        raise ParseError(error.strerror or str(error)) from None
    return of_text(reading.of_bytes(raw), last_size)


def of_text(text: str, last_size: int | None = None) -> Parsed:
    """As :func:`read`, of a text."""
    try:
        parsed = registry.parse_output(text, last_size=last_size)
    except ParseError as error:
        log = ucx_log.parse_ucx_log(text)
        if error.why != "unknown program" or not log.processes:
            raise
        version = next((version for version, _ in log.versions.values()), None)
        why = "a log of UCX without the output of a program"
        parsed = Parsed("ucx-log", "ucx", version, False, (), {}, (why,))
    return with_path(parsed, text)


def with_path(parsed: Parsed, text: str) -> Parsed:
    """Adds what the log of UCX in an output says of the path, as the fact ``path``.

    ``means`` is the kind of proof, as in :class:`assay.parse.ucx_log.Carried`. ``lanes`` has for
    each lane its largest share of any one size, ``by_size`` the lanes of each size [B], ``ucx`` the
    versions. An output without a log of UCX stays as it is. Each error of UCX is a problem, unless
    the parser has reported it.
    """
    log = ucx_log.parse_ucx_log(text)
    known = "\n".join(parsed.problems)
    errors = tuple(f"UCX ERROR: {error}" for error in log.errors if error not in known)
    errors += tuple(transports.bridges(log))
    if not log.processes:
        return replace(parsed, problems=parsed.problems + errors)
    one_size = transports.POINT_TO_POINT.match(parsed.program) is not None
    sizes = [int(row["size"]) for row in parsed.rows if one_size and "size" in row]
    carried = ucx_log.carriers(log, sizes)
    path = {
        "means": carried.means,
        "lanes": dict(carried.lanes),
        "by_size": {str(size): dict(lanes) for size, lanes in carried.by_size.items()},
        "ucx": sorted({version for version, _ in log.versions.values()}),
    }
    return replace(parsed, facts={**parsed.facts, "path": path}, problems=parsed.problems + errors)


def ways_of(parsed: Parsed) -> list[str]:
    """The lanes of UCX, or the ways of NCCL, that a log in the output shows."""
    said = parsed.facts.get("path") or {}
    pairs = said.get("pairs", {}).values()
    return sorted(said.get("lanes") or {way for ways in pairs for way in ways})


def parse(args: argparse.Namespace) -> int:
    """Print a JSON object for each output, on its own line; of a folder for all in it."""
    ends = set()
    found = (sorted(p.rglob("*")) if p.is_dir() else [p] for p in map(Path, args.files))
    for name in (str(file) for each in found for file in each if not file.is_dir()):
        said: dict[str, Any] = dict.fromkeys(("family", "program", "version"))
        try:
            parsed = read(name, args.last_size)
            said, end = parsed.as_dict(), Exit.PASS if parsed.sound else Exit.FAIL
        except ParseError as problem:
            said.update(complete=False, rows=[], units={}, problems=[str(problem)], facts={})
            end = Exit.UNKNOWN
        # JSON cannot represent NaN and infinities, so null is in their place.
        text = json.dumps({"file": name, **said})
        print(json.dumps(json.loads(text, parse_constant=lambda _: None)), flush=True)
        ends.add(end)
    return next((end for end in (Exit.FAIL, Exit.UNKNOWN, Exit.PASS) if end in ends), Exit.UNKNOWN)
