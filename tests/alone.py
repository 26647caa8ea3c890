"""Who runs beside whom: a test marked `alone` has the machine to itself, on any number of workers.

Tests that judge a time or a rate are marked so: what another worker does would be in their numbers.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
#: Directories that every worker has, as locks: nothing is written.
DOOR, ROOM = HERE, HERE / "data"


@contextmanager
def _open(path: Path) -> Iterator[int]:
    number = os.open(path, os.O_RDONLY)
    try:
        yield number
    finally:
        os.close(number)  # which unlocks it


@contextmanager
def turn(alone: bool) -> Iterator[None]:
    """Waits until a test may run, `alone` or beside others."""
    with _open(ROOM) as room:
        # Whoever waits for the room stands in the door: no other test goes in before.
        with _open(DOOR) as door:
            fcntl.flock(door, fcntl.LOCK_EX)
            fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
