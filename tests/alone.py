"""Who runs beside whom: a test marked `alone` has the machine to itself, on any number of workers.

Tests that judge a time or a rate are marked so: what another worker does would be in their numbers.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

HERE = Path(__file__).parent
#: Directories that every worker has, as locks: nothing is written.
DOOR, ROOM = HERE, HERE / "data"


#: Files whose tests look at one measurement, which one worker makes. (pytest-xdist 3.8 has a marker
#: for this, xdist_group, which does nothing with pytest 9.2.)
TOGETHER = ("test_fault_matrix.py", "test_gitlab_history.py", "test_job_scripts.py")


class Schedule(LoadScopeScheduling):
    """Hands out tests one by one to the workers, and those of a file in TOGETHER to one of them."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", maxsplit=1)[0]
        return file if Path(file).name in TOGETHER else nodeid


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
