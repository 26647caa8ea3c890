"""ReFrame's log, the only place where it writes why a case was skipped. Read without ReFrame."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_STATUS = re.compile(
    r"\[ *(?P<word>SKIP|FAIL|OK) *\] \(\s*\d+/\d+\) .*/(?P<hash>[0-9a-f]+) @(?P<where>\S+)"
    r"(?: \[(?P<why>.*)\])?\s*$"
)

#: What a terminal is told to colour text.
COLOUR = re.compile(r"\x1b\[[0-9;]*m")

#: A case in ReFrame's log: (hash, ``system:partition+environ``).
Key = tuple[str, str]


@dataclass(frozen=True)
class Log:
    """How cases ended, as ReFrame's log has it.

    :ivar skipped: the reason of each that was skipped; the run report leaves them out.
    :ivar failed: those that failed at least once.
    :ivar passed: those that passed at least once, so the last launch of them.
    """

    skipped: Mapping[Key, str] = field(default_factory=dict)
    failed: frozenset[Key] = frozenset()
    passed: frozenset[Key] = frozenset()


def read(path: Path) -> Log | None:
    """A log of ReFrame's; None where it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return None
    skipped: dict[Key, str] = {}
    ended: dict[str, set[Key]] = {"FAIL": set(), "OK": set()}
    for match in filter(None, map(_STATUS.search, COLOUR.sub("", text).splitlines())):
        key = match["hash"], match["where"]
        if match["word"] in ended:
            ended[match["word"]].add(key)
        elif match["why"] is not None:
            skipped[key] = match["why"]
    return Log(skipped, frozenset(ended["FAIL"]), frozenset(ended["OK"]))
