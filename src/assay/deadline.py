"""The deadline of a run: what is not begun by then is not begun, what runs is cancelled.

A site names it (the extra ``deadline`` of a partition, for example ``8h``), ``ASSAY_DEADLINE``
overrides that. It is counted from when the site is loaded, which is when ReFrame is started.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

VARIABLE = "ASSAY_DEADLINE"

#: How the reason of a case begins that was cancelled, or not begun, because of it.
REACHED = "deadline of the run"

_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


@dataclass
class Deadline:
    """How long a run may take.

    :ivar seconds: counted from `begin`, a reading of the monotonic clock.
    :ivar struck: whether somebody was told that it is reached, and so left something out.
    """

    words: str
    seconds: float
    begin: float = field(default_factory=time.monotonic)
    struck: bool = False

    def __str__(self) -> str:
        return f"{REACHED} ({self.words}) was reached"


#: That of this process; None for a run that may take as long as it wants.
current: Deadline | None = None


def parse(words: str) -> Deadline:
    """A deadline such as ``90m`` or ``1h30m``.

    :raises ValueError: the words are not a duration, or it is zero.
    """
    if not re.fullmatch(r"(?:\d+[dhms])+", words):
        raise ValueError(f"{words!r} is not a duration; write it like 90m, 2h or 1h30m")
    seconds = sum(int(n) * _SECONDS[unit] for n, unit in re.findall(r"(\d+)([dhms])", words))
    if not seconds:
        raise ValueError(f"{words!r} leaves no time for a run")
    return Deadline(words, seconds)


def begin(of_site: Iterable[str]) -> None:
    """Starts the clock, where ``ASSAY_DEADLINE`` or a partition of the site names a deadline.

    :param of_site: what the partitions say; the run is one, so the shortest holds.
    :raises ValueError: one is not a duration; the message says who named it.
    """
    global current  # noqa: PLW0603 - one process is one run
    asked = os.environ.get(VARIABLE)
    who, named = (VARIABLE, [asked]) if asked else ("extras: deadline", list(of_site))
    try:
        current = min(map(parse, named), key=lambda named: named.seconds, default=None)
    except ValueError as error:
        raise ValueError(f"{who}: {error}") from None


def reached() -> str:
    """Why nothing more is begun, and what runs is cancelled; empty while there is time left."""
    if current is None or time.monotonic() - current.begin < current.seconds:
        return ""
    current.struck = True
    return str(current)


def struck() -> str:
    """Why something was left out; empty where nothing was."""
    return str(current) if current and current.struck else ""
