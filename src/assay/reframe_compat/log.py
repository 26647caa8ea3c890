"""Reads ReFrame's log without ReFrame; only the log tells why a case was skipped."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from assay import files

_STATUS = re.compile(
    r"\[ *(?P<word>SKIP|FAIL|OK) *\] \(\s*\d+/\d+\) .*/(?P<hash>[0-9a-f]+) @(?P<where>\S+)"
    r"(?: \[(?P<why>.*)\])?\s*$"
)

_STOPPED = re.compile(r"run session stopped: (?:force exit error: )?(.*)")

#: A case in ReFrame's log: (hash, ``system:partition+environ``).
Key = tuple[str, str]


@dataclass(frozen=True)
class Log:
    """How cases ended, according to ReFrame's log.

    :ivar skipped: the reason for each skipped case. The run report does not contain the reasons.
    :ivar failed: the cases that failed at least once.
    :ivar passed: the cases that passed at least once, which means that their last launch passed.
    :ivar stopped: why ReFrame ended before all cases had; empty if it did not say so.
    """

    skipped: Mapping[Key, str] = field(default_factory=dict)
    failed: frozenset[Key] = frozenset()
    passed: frozenset[Key] = frozenset()
    stopped: str = ""


def read_reframe_log(path: Path) -> Log | None:
    """Read a log of ReFrame; None if it cannot be read."""
    try:
        text = files.read_bytes(path, files.MOST_OF_JSON).decode("utf-8", errors="replace")
    except (OSError, ValueError):
        return None
    skipped: dict[Key, str] = {}
    ended: dict[str, set[Key]] = {"FAIL": set(), "OK": set()}
    for match in filter(None, map(_STATUS.search, files.clean(text).splitlines())):
        key = match["hash"], match["where"]
        if match["word"] in ended:
            ended[match["word"]].add(key)
        elif match["why"] is not None:
            skipped[key] = match["why"]
    stopped = "".join(_STOPPED.findall(text)[-1:])
    return Log(skipped, frozenset(ended["FAIL"]), frozenset(ended["OK"]), stopped)
