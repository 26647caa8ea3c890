"""The deadline of a run: after it, no case is begun and running cases are cancelled.

``ASSAY_DEADLINE`` sets it, for example ``8h``. The time counts from when the site is loaded, which
is when ReFrame is started.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, field

VARIABLE = "ASSAY_DEADLINE"

#: Start of the reason for a case that was cancelled or not begun because of the deadline.
REACHED = "deadline of the run"

_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


@dataclass
class Deadline:
    """How long [s] a run may take from `begin`, a reading of the monotonic clock."""

    words: str
    seconds: float
    begin: float = field(default_factory=time.monotonic)
    struck: str = ""


#: The deadline of this process; None for a run without a deadline.
current: Deadline | None = None


def start_deadline() -> None:
    """Starts the clock if ``ASSAY_DEADLINE`` sets a deadline, such as ``90m`` or ``1h30m``.

    :raises ValueError: it is not a duration, or it is zero.
    """
    global current  # noqa: PLW0603 - one process is one run
    words = os.environ.get(VARIABLE, "")
    if words and not re.fullmatch(r"(?:\d+[dhms])+", words):
        said = "is not a duration; write it like 90m, 2h or 1h30m"
        raise ValueError(f"{VARIABLE}: {words!r} {said}")
    seconds = sum(int(n) * _SECONDS[unit] for n, unit in re.findall(r"(\d+)([dhms])", words))
    if words and not seconds:
        raise ValueError(f"{VARIABLE}: {words!r} leaves no time for a run")
    current = Deadline(words, seconds) if words else None


def reached() -> str:
    """Why no case is begun any more and running cases are cancelled; empty while time is left."""
    if current is None or time.monotonic() - current.begin < current.seconds:
        return ""
    current.struck = f"{REACHED} ({current.words}) was reached"
    return current.struck


def struck() -> str:
    """Why something was left out; empty if nothing was left out."""
    return current.struck if current else ""
