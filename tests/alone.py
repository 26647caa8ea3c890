"""Which tests run at the same time. A test marked `alone` runs while no other worker runs a test.

The marker is for tests that judge a time or a rate: the load of another worker would change their
numbers.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

HERE = Path(__file__).parent
#: Directories that every worker can open. They serve as locks, and nothing is written to them.
DOOR, ROOM = HERE, HERE / "data"


#: Files whose tests share one measurement, which one worker makes. (pytest-xdist 3.8 has a marker
#: for this, xdist_group, but it has no effect with pytest 9.2.)
TOGETHER = (
    "test_fault_matrix.py",
    "test_gitlab_history.py",
    "test_gpu_fault_matrix.py",
    "test_job_scripts.py",
    "test_report_export.py",
    "test_report_page.py",
    "test_site.py",
    "test_steering_runs.py",
    "test_validation_page.py",
)


class Schedule(LoadScopeScheduling):
    """Hands out single tests to the workers, but all tests of a file in TOGETHER to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", maxsplit=1)[0]
        return file if Path(file).name in TOGETHER else nodeid


@contextmanager
def _open(path: Path) -> Iterator[int]:
    number = os.open(path, os.O_RDONLY)
    try:
        yield number
    finally:
        os.close(number)  # this also releases the lock


@contextmanager
def turn(alone: bool) -> Iterator[None]:
    """Waits until a test may run: `alone`, or at the same time as other tests."""
    with _open(ROOM) as room:
        # A test that waits for the room holds the lock of the door, so no other test enters first.
        with _open(DOOR) as door:
            fcntl.flock(door, fcntl.LOCK_EX)
            fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
